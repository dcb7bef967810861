"""A user's own workflow through one crash after another: what a face needs for that."""

from __future__ import annotations

from collections.abc import Sequence

from duly.connectors.base import Connector as Connector
from duly.connectors.clock import Clock
from duly.host import Host
from duly.rules import schedule
from duly.testing.crash_test import CrashTest as CrashTest
from duly.testing.crash_test import CrashTestReport as CrashTestReport
from duly.testing.crash_test import Props as Props


def list_connectors(host: Host) -> Sequence[Connector]:
    """List the connectors of a host; the clock of a simulation is its own, and virtual."""
    return [each for each in host.connectors if not isinstance(each, Clock)]


def read_length(text: str, path: str) -> float:
    """Read a length of time such as `5m`; return seconds."""
    interval_ms = schedule.parse({"interval": text}, path=path).interval_ms
    assert interval_ms is not None
    return interval_ms / 1000
