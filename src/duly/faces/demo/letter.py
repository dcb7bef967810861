"""Sample mails: from one seed always the same ones, with all that mails have in them.

Law: nobody real writes or is written to. Senders are roles, and every address ends in a domain
that belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from duly.testing.dice import Dice

FIRST: Final = datetime(2027, 1, 4, 8, 0, tzinfo=UTC)
EVERY: Final = timedelta(minutes=7)
TO: Final = "office@desk.example"
NUMBERS: Final = 9000

SENDERS: Final = (
    "billing@shop.example",
    "Front Desk <desk@hotel.example>",
    "Støtte <support@post.example>",
    '"Orders, Inc." <orders@shop.example>',
    "受付 <front@office.example>",
    "no-reply@tickets.example",
    "The Library <desk@library.example>",
)
SUBJECTS: Final = (
    "Invoice {number} is due",
    'Re: "urgent", really: order {number}',
    "Größenänderung für Auftrag {number}",
    "=SUM(A1:A{number})",
    "ご注文 {number} の確認",
    "Your parcel {number} is on its way 📦",
    "",
    "Facture nº {number}, payée; merci",
    "Ticket {number}: can't log in <script>",
    "Three  blanks   in {number}, and a subject that goes on for much longer than a line is wide",
)
TEXTS: Final = (
    "Please find the details attached.\n",
    "Is this still open? A short answer is enough.\n",
    "Vielen Dank für Ihre Nachricht.\n",
    "Everything is as ordered, nothing to do.\n",
)


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail as a file: its name, which is its id, and its bytes."""

    name: str
    data: bytes


class Deck:
    """Cards in an order of chance: each is drawn once before one is drawn again."""

    def __init__(self, cards: Sequence[str], dice: Dice) -> None:
        self._cards = cards
        self._dice = dice
        self._left: list[str] = []

    def draw(self) -> str:
        """Draw one, so that few mails are varied too."""
        self._left = self._left or list(self._cards)
        return self._left.pop(self._dice.randrange(len(self._left)))


def write_letters(count: int, seed: int) -> list[Letter]:
    """Write so many mails; the first ones are those of any larger number."""
    dice = Dice(seed)
    senders, subjects = Deck(SENDERS, dice), Deck(SUBJECTS, dice)
    return [_write(each, senders.draw(), subjects.draw(), dice) for each in range(1, count + 1)]


def _write(number: int, sender: str, subject: str, dice: Dice) -> Letter:
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = TO
    if subject:
        mail["Subject"] = subject.format(number=1000 + dice.randrange(NUMBERS))
    mail["Date"] = format_datetime(FIRST + number * EVERY)
    mail["Message-ID"] = f"<{number}.{dice.randrange(2**32):08x}@desk.example>"
    mail.set_content(dice.choose(TEXTS))
    return Letter(f"{number:03}.eml", mail.as_bytes())
