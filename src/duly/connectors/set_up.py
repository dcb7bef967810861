"""What a connector is whose set-up can be tried without a change outside.

Law: a check changes nothing outside. What it has to try by a change it takes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duly.connectors.base import Connector


@dataclass(frozen=True, slots=True)
class SetUpFault:
    """What does not work in the set-up of a connection; `tool` is empty if nothing of it does."""

    tool: str
    message: str


class CheckedConnector(Connector):
    """A connector that can tell before its first call whether its set-up works."""

    async def _check(self) -> tuple[SetUpFault, ...]:
        """Try what every call needs; return what does not work."""
        raise NotImplementedError


def find_checked(connectors: Iterable[Connector]) -> dict[str, CheckedConnector]:
    """Return the connectors whose set-up can be tried, by name."""
    return {each.name: each for each in connectors if isinstance(each, CheckedConnector)}
