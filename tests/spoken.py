"""What a person would read of what a host returned, and what they would do about it."""

from __future__ import annotations

from typing import Any, Protocol

from duly.fact import Offer, Reason
from duly.host import Host
from duly.rules.reason import read_kept
from duly.words import Clock, alert, say


class HasReason(Protocol):
    """Anything with a reason."""

    @property
    def reason(self) -> Reason | None:
        """Why it is so."""


def short(host: Any, record: HasReason) -> str:
    """Say the reason of a record in one short sentence."""
    assert record.reason is not None
    return say(record.reason, host.now)


def long(host: Any, record: HasReason) -> str:
    """Say the reason of a record at length."""
    assert record.reason is not None
    return say(record.reason, host.now, long=True)


async def carry_out(host: Host, offer: Offer, **chosen: Any) -> Any:
    """Do what is offered, with what a person chooses."""
    assert set(chosen) == set(offer.asks)
    owner: Any = host.bus if offer.verb.startswith("bus.") else host
    return await getattr(owner, offer.verb.removeprefix("bus."))(**offer.args, **chosen)


def given(offer: Offer) -> tuple[str, tuple[Any, ...]]:
    """Name the verb of an offer and what it is given."""
    return offer.verb, tuple(offer.args.values())


def told(row: Any) -> str:
    """Say what a stored run keeps of what a person was told."""
    return "" if row.escalated is None else alert(read_kept(row.escalated), Clock(0))
