"""What a channel must be able to do to ask a person for a decision, and to hear the answer (G11).

Law 1  A channel carries a question to one account, and what was pressed back. It decides nothing,
       and knows neither the store nor the ledger.
Law 2  What is written into a message is made elsewhere; a channel adds the labels of its buttons.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from duly.connectors.bot import BotSign
from duly.rules.delivery import Event


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A question to one account: the text, the code of its slip, and whether it may be answered.

    One that may not leads to where the whole call is shown.
    """

    account: str
    mutation: str
    subject: str
    text: str
    code: str
    may_answer: bool


@dataclass(frozen=True, slots=True)
class ChannelLink:
    """What a host gives to a channel that asks.

    `ask` brings a call to the accounts that were not asked about it yet. `new_key` is another text
    each time.
    """

    find_secret: Callable[[str], str | None]
    list_accounts: Callable[[], Awaitable[tuple[str, ...]]]
    ask: Callable[[], Awaitable[None]]
    now_ms: Callable[[], int]
    new_key: Callable[[], str]


@runtime_checkable
class AskingChannel(Protocol):
    """A channel that asks accounts of a person, and hears what they answer.

    `problem` is why it does not work now, for people. `own_accounts` are accounts that the settings
    name; they need no pairing.
    """

    name: str
    kind: str
    problem: str | None
    own_accounts: tuple[str, ...]
    is_heard: bool  # presses come over the channel itself
    daily: int | None  # the minute of the day at which a line tells of it

    def bind(self, link: ChannelLink) -> None:
        """Take what the host gives; called once, before anything else."""

    def fits(self, text: str) -> bool:
        """Tell whether a message can hold a text."""

    async def heed(self, event: Event) -> bool:
        """Take an event of the bus that asks for a decision; False: it is only told."""

    async def ask(self, call: AskedCall) -> str:
        """Send a question; return the id of its message."""

    async def end(self, account: str, message: str, text: str) -> None:
        """Say in a message what was decided, and take its buttons away."""

    async def hear(self, offset: int | None) -> tuple[BotSign, ...]:
        """Wait for what was pressed or written; all before the offset is forgotten outside."""

    async def reply(self, sign: BotSign, text: str) -> None:
        """Answer a press or a message."""


def asks_for_yes(event: Event) -> bool:
    """Tell whether an event says that a call waits for a yes."""
    verbs = event.payload.get("verbs")
    return isinstance(verbs, list) and "approve" in verbs
