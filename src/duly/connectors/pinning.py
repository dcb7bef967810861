"""What a connector is whose tools another program describes, and a person has to agree to (M7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from duly.connectors.base import Connector
from duly.rules.pin import OfferedTool


@dataclass(frozen=True, slots=True)
class OfferedList:
    """What a server offers now, beside what a person agreed to; `hash` is what they agree to.

    `is_stale` says that scripts see what was agreed to before: the host has to be started again.
    """

    connector: str
    hash: str
    tools: tuple[OfferedTool, ...]
    is_stale: bool = False


class PinningConnector(Connector):
    """A connector that uses only what a person agreed to; the host ends what it has started."""

    async def _offer(self) -> OfferedList:
        """Ask the server what it offers."""
        raise NotImplementedError

    async def _agree(self, seen: str) -> OfferedList:
        """Keep what was seen, if the server still offers exactly that."""
        raise NotImplementedError

    async def _close_down(self) -> None:
        """End what was started."""


def find_pinning(connectors: Iterable[Connector]) -> dict[str, PinningConnector]:
    """Return the connectors whose tools a person has to agree to, by name."""
    return {each.name: each for each in connectors if isinstance(each, PinningConnector)}
