"""The account of a demo: what the table file says beside what the ledger says, mail by mail.

Law: neither side is believed. Both are read where they are kept, and every mail on which they do
not agree is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from duly.api.value import Json
from duly.api.word import Known, MutationStatus
from duly.faces.demo.folder import Row


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the ledger, as the host shows it."""

    id: str
    key: str
    status: MutationStatus
    attempt: int
    args: dict[str, Any]
    result: dict[str, Any] | None = None
    known: dict[str, Any] | None = None

    @property
    def mail(self) -> str:
        """The mail whose row it was to write."""
        return str(self.args["row"]["mail"])

    @property
    def how(self) -> Known | None:
        """How its outcome became known (L12)."""
        return None if self.known is None else Known(self.known["how"])


def read_ledger(answer: Json) -> list[Entry]:
    """Read what a host returned for `mutations`."""
    return msgspec.convert(answer, list[Entry])


def compare(mails: Sequence[str], rows: Sequence[Row], ledger: Sequence[Entry]) -> list[str]:
    """Say of which mails table and ledger do not agree; of none, if all is well."""
    found: list[str] = []
    for mail in mails:
        its_rows = [each for each in rows if each.mail == mail]
        status = Counter(each.status.value for each in ledger if each.mail == mail)
        applied = [e.key for e in ledger if (e.mail, e.status) == (mail, MutationStatus.APPLIED)]
        if (len(its_rows), len(applied)) != (1, 1):
            numbers = " and ".join(str(each.number) for each in its_rows) or "no row"
            word = ("", "row ", "rows ")[min(len(its_rows), 2)]
            found.append(f"{mail}: {word}{numbers}, and {len(applied)} applied in the ledger")
        elif its_rows[0].key != applied[0]:
            found.append(f"{mail}: row {its_rows[0].number} bears the key of another call")
        unsettled = status.keys() - {MutationStatus.APPLIED, MutationStatus.FAILED}
        found += [f"{mail}: {status[word]} {word} in the ledger" for word in sorted(unsettled)]
    strange = sorted({each.mail for each in rows} - set(mails))
    return found + [f"{mail}: a row for it, and no such mail" for mail in strange]


def compare_settled(entry: Entry, row: Row | None) -> list[str]:
    """Say whether the ledger settled a call as it was: `row` is what it had made at the crash."""
    if entry.status is (MutationStatus.FAILED if row is None else MutationStatus.APPLIED):
        return []
    then = "was not there" if row is None else "was there"
    now = f"the ledger says {entry.status} of {entry.id}"
    return [f"{entry.mail}: its row {then} when the host died, and {now}"]
