"""Hosts and outsides that stand still longer than anybody waits, and go on as if nothing was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIGCONT, SIGSTOP
from typing import Any, Final

import pytest

from tests.engine.crash_window.script import INBOX
from tests.fire.connector import LAG_S, TIMEOUT_S
from tests.fire.process import Flow
from tests.fire.stand import Fire, until

NAME: Final = "mail to row"
LONG_S: Final = TIMEOUT_S + LAG_S + 0.2  # longer than a call may take and than it may land late

Light = Callable[..., Fire]


@contextmanager
def stopped(process_id: int) -> Iterator[None]:
    os.kill(process_id, SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, SIGCONT)


def ledger(seen: dict[str, Any]) -> list[str]:
    return [each["status"] for each in seen["mutations"]]


@pytest.mark.parametrize("tool", ["asked", "keyed", "silent"])
def test_an_answer_that_comes_while_the_host_is_stopped_is_one_effect(
    light: Light, tool: str
) -> None:
    """L4, L5: when it goes on, the answer and the end of its patience lie there together."""
    fire = light(Flow(NAME, tool))
    with fire.start() as host:
        host.ready()
        fire.outside.behave("held")
        host.publish(NAME, "m1")
        until(lambda: fire.outside.rows == ["m1"], "the effect")
        with stopped(host.id):
            fire.outside.ask("release")
            time.sleep(LONG_S)
        seen = fire.finish(host, {NAME: {"m1"}})
        fire.check(seen, {NAME: {"m1"}})
        assert ledger(seen) == ["applied"]
        host.close()


@pytest.mark.parametrize("tool", ["asked", "keyed", "silent"])
def test_an_effect_that_lands_while_the_host_is_stopped_is_found(light: Light, tool: str) -> None:
    """L5, L6: the line was dead already; what landed meanwhile is asked for, never made again."""
    fire = light(Flow(NAME, tool))
    with fire.start() as host:
        host.ready()
        fire.outside.behave("late")
        host.publish(NAME, "m1")
        until(lambda: fire.outside.ask("count")["calls"] > 0, "the call")
        with stopped(host.id):
            time.sleep(LONG_S)
        seen = fire.finish(host, {NAME: {"m1"}})
        fire.check(seen, {NAME: {"m1"}})
        host.close()


@pytest.mark.parametrize("tool", ["asked", "keyed", "silent"])
def test_an_outside_that_stands_still_is_waited_for(light: Light, tool: str) -> None:
    """L5, L8, H3: its silence is no answer; a call is unknown until it, or a person, says more."""
    fire = light(Flow(NAME, tool))
    unknown = {"needs_reconcile", "indeterminate"}
    with fire.start(asks=1000) as host:
        host.ready()
        with stopped(fire.outside.process.pid):
            assert host.publish(NAME, "m1") == {"acknowledged": "new"}
            until(lambda: bool(unknown & {*ledger(host.ask("look"))}), "the end of patience")
            assert host.publish(NAME, "m2") == {"acknowledged": "new"}
            seen = host.ask("look")
            statuses = {mail: each[0] for mail, each in seen["events"][NAME][INBOX].items()}
            assert statuses == {"m1": "reserved", "m2": "pending"}
            assert seen["open"] == {NAME: "paused:reconciliation"}
        seen = fire.finish(host, {NAME: {"m1", "m2"}})
        fire.check(seen, {NAME: {"m1", "m2"}})
        host.close()
