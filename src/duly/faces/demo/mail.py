"""Sample mails: the same for the same seed, with all that real mails have in them.

Law: nothing in them is real. Senders are roles, and every address ends in a reserved domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from duly.testing.dice import Dice

FIRST: Final = datetime(2027, 1, 4, 8, 0, tzinfo=UTC)
EVERY: Final = timedelta(minutes=7)
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


def write_mails(count: int, seed: int) -> dict[str, bytes]:
    """Write so many mails, by the names of their files; a larger number begins with the same."""
    dice, mails = Dice(seed), {}
    senders, subjects = _draw(SENDERS, dice), _draw(SUBJECTS, dice)
    for number in range(1, count + 1):
        mail = EmailMessage(policy=SMTP)
        mail["From"] = next(senders)
        mail["To"] = "office@desk.example"
        if subject := next(subjects):
            mail["Subject"] = subject.format(number=1000 + dice.randrange(NUMBERS))
        mail["Date"] = format_datetime(FIRST + number * EVERY)
        mail["Message-ID"] = f"<{number}.{dice.randrange(2**32):08x}@desk.example>"
        mail.set_content(dice.choose(TEXTS))
        mails[f"{number:03}.eml"] = mail.as_bytes()
    return mails


def _draw(cards: Sequence[str], dice: Dice) -> Iterator[str]:
    """Draw each card once before any is drawn again, so that few mails are varied too."""
    while True:
        left = list(cards)
        while left:
            yield left.pop(dice.randrange(len(left)))
