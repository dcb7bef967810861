"""Slips: messages that ask one account of a person about one proposed call (G9, G11, A4).

Law 1  A slip is for one account, one call and one content of it, named by its hash. Its code is
       made for it alone; what is kept of the code is a digest.
Law 2  A press decides nothing by itself. It names a slip, and the slip names the call; what becomes
       of it is judged by `judge`, in the order of the table.
Law 3  An account is paired by a code that a person asked for, once, within ten minutes. It may
       decide about calls, and nothing more (G4).
Law 4  A message that cannot hold the whole call asks for no yes: every character of an observed
       call is seen before a person agrees to it.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from duly.errors import Invalid
from duly.rules.schedule import DAY_MS
from duly.rules.word import MutationStatus

CODE_BYTES: Final = 16
PAIR_BYTES: Final = 10
PAIR_MS: Final = 10 * 60_000  # how long a code pairs an account
SLIP_MS: Final = 7 * DAY_MS  # how long a slip is answered; then another one asks
NAME_CHARS_MAX: Final = 60
ACCOUNT_CHARS_MAX: Final = 254  # of an address of mail; the number of a chat is shorter
_CODE: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_PAIRING: Final = re.compile(r"(?:/start(?:@[A-Za-z0-9_]{1,64})?\s+)?([A-Za-z2-7]{16})", re.ASCII)
_PRESS: Final = re.compile(r"([yno])\.([A-Za-z0-9_-]{22})", re.ASCII)


class SlipStatus(StrEnum):
    """How far a slip is: about to be sent, sent, or over."""

    SENDING = "sending"
    ASKED = "asked"
    CLOSED = "closed"


class SlipChoice(StrEnum):
    """What a button says."""

    YES = "yes"
    NO = "no"
    OPEN = "open"


class PressCode(StrEnum):
    """What became of a press."""

    SENT = "sent"  # a yes that counts
    DECLINED = "declined"  # a no that counts
    WHERE = "where"  # a person wants to see it elsewhere
    STRANGER = "stranger"
    OLD = "old"
    CHANGED = "changed"
    DECIDED = "decided"
    REFUSED = "refused"  # the host has a reason of its own


class SlipEnd(StrEnum):
    """Why a slip asks no more."""

    APPROVED = "approved"
    REJECTED = "rejected"
    CHANGED = "changed"
    OLD = "old"
    UNPAIRED = "unpaired"
    OVER = "over"  # the call does not wait for a yes any more


@dataclass(frozen=True, slots=True)
class AskedStanding:
    """How a call stands that a slip asks about: what the ledger says of it now."""

    hash: str
    status: MutationStatus
    is_waiting: bool  # for a yes, and for nothing else
    approved_by: str | None
    known_by: str | None

    @property
    def decided_by(self) -> str | None:
        """Who said yes or no, if a person did."""
        return self.approved_by or self.known_by


def find_end(asked_hash: str, made_at: int, standing: AskedStanding, now_ms: int) -> SlipEnd | None:
    """Return why a slip asks no more; None while it does."""
    if standing.approved_by is not None:
        return SlipEnd.APPROVED
    if standing.status is MutationStatus.REJECTED:
        return SlipEnd.REJECTED
    if not standing.is_waiting:
        return SlipEnd.OVER
    if standing.hash != asked_hash:
        return SlipEnd.CHANGED
    return SlipEnd.OLD if is_old(made_at, now_ms) else None


def judge(end: SlipEnd | None) -> PressCode | None:
    """Return why a press on a slip changes nothing; None if it may count (law 2)."""
    return None if end is None else PRESSED[end]


PRESSED: Final = {
    SlipEnd.APPROVED: PressCode.DECIDED,
    SlipEnd.REJECTED: PressCode.DECIDED,
    SlipEnd.OVER: PressCode.DECIDED,
    SlipEnd.CHANGED: PressCode.CHANGED,
    SlipEnd.OLD: PressCode.OLD,
    SlipEnd.UNPAIRED: PressCode.STRANGER,
}


def is_old(made_at: int, now_ms: int) -> bool:
    """Tell whether a slip is too old to be answered; one of the future is, too."""
    return not made_at <= now_ms < made_at + SLIP_MS


def write_code(chance: bytes) -> str:
    """Write the code of a slip."""
    return base64.urlsafe_b64encode(chance).decode().rstrip("=")


def is_code(text: object) -> bool:
    """Tell whether a text could be the code of a slip."""
    return isinstance(text, str) and _CODE.fullmatch(text) is not None


def write_press(choice: SlipChoice, code: str) -> str:
    """Write what a button sends: at most 64 bytes."""
    return f"{choice[0]}.{code}"


def read_press(data: object) -> tuple[SlipChoice, str] | None:
    """Read what a button sent; None if no button of ours did."""
    found = _PRESS.fullmatch(data) if isinstance(data, str) else None
    if found is None:
        return None
    choice = next(each for each in SlipChoice if each[0] == found[1])
    return choice, found[2]


def write_pairing(chance: bytes) -> str:
    """Write a code that pairs: letters and digits that are easily told apart and typed."""
    return base64.b32encode(chance).decode().lower().rstrip("=")


def read_pairing(text: str) -> str:
    """Read a code as a person sent it, alone or behind /start."""
    found = _PAIRING.fullmatch(text.strip())
    return "" if found is None else found[1].lower()


def is_pairing(made_at: int, now_ms: int) -> bool:
    """Tell whether a code still pairs; one that was made later than now does not."""
    return made_at <= now_ms < made_at + PAIR_MS


def actor_of(kind: str, name: str, account: str) -> str:
    """Return whom a decision is written down under: the account, by name and by number (A6)."""
    return f"{kind}:{name}" if name == account else f"{kind}:{name} ({account})"


def check_name(name: object) -> str:
    """Return the name of a paired account, or refuse it."""
    is_text = isinstance(name, str) and name.strip() == name and name.isprintable()
    if not is_text or not 1 <= len(str(name)) <= NAME_CHARS_MAX:
        facts = {"least": 1, "most": NAME_CHARS_MAX, "of": "printable"}
        raise Invalid(code="wrong_length", path="name", facts=facts)
    return str(name)


def units_of(text: str) -> int:
    """Count a text as Telegram does: in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
