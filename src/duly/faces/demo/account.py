"""The account of a demo: what the table file says beside what the ledger says, mail by mail.

Law: nobody is believed. Both sides are read where they are kept, and every mail on which they do
not agree is named, whoever is to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from duly.faces.demo.scene import Row
from duly.rules.value import Json
from duly.rules.word import Known, MutationStatus

FINAL = frozenset({MutationStatus.APPLIED, MutationStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger says of one call: whose mail it was for, and what became of it."""

    id: str
    mail: str
    key: str
    status: MutationStatus
    attempt: int
    row: int | None
    known: Known | None = None


def read_ledger(answer: Json) -> list[Entry]:
    """Read what a host answered when it was asked for mutations."""
    assert isinstance(answer, list)
    return [read_entry(each) for each in answer]


def read_entry(answer: Json) -> Entry:
    """Read one row of the ledger."""
    assert isinstance(answer, dict)
    args, result = answer["args"], answer["result"]
    assert isinstance(args, dict)
    row = args["row"]
    assert isinstance(row, dict)
    number = result.get("row") if isinstance(result, dict) else None
    known = answer.get("known")
    return Entry(
        id=str(answer["id"]),
        mail=str(row["mail"]),
        key=str(answer["key"]),
        status=MutationStatus(str(answer["status"])),
        attempt=int(str(answer["attempt"])),
        row=number if isinstance(number, int) else None,
        known=Known(str(known["how"])) if isinstance(known, dict) else None,
    )


def compare(mails: Sequence[str], rows: Sequence[Row], ledger: Sequence[Entry]) -> list[str]:
    """Say of which mails table and ledger do not agree; of none, if all is well."""
    found: list[str] = []
    for mail in mails:
        its_rows = [each for each in rows if each.mail == mail]
        its_calls = [each for each in ledger if each.mail == mail]
        applied = [each for each in its_calls if each.status is MutationStatus.APPLIED]
        if (len(its_rows), len(applied)) != (1, 1):
            found.append(f"{mail}: {_rows(its_rows)}, and {len(applied)} applied in the ledger")
        elif its_rows[0].key != applied[0].key:
            found.append(f"{mail}: row {its_rows[0].number} bears the key of another call")
        open_calls = Counter(each.status.value for each in its_calls if each.status not in FINAL)
        found += [f"{mail}: {count} {word} in the ledger" for word, count in open_calls.items()]
    strange = sorted({each.mail for each in rows} - set(mails))
    return found + [f"{mail}: a row for it, and no such mail" for mail in strange]


def compare_settled(entry: Entry, row: Row | None) -> list[str]:
    """Say whether the ledger settled a call as it was: `row` is what it had made at the crash."""
    happened = MutationStatus.FAILED if row is None else MutationStatus.APPLIED
    if entry.status is happened:
        return []
    then = "was not there" if row is None else "was there"
    now = f"the ledger says {entry.status} of {entry.id}"
    return [f"{entry.mail}: its row {then} when the host died, and {now}"]


def _rows(rows: Sequence[Row]) -> str:
    if not rows:
        return "no row"
    numbers = " and ".join(str(each.number) for each in rows)
    return f"{'row' if len(rows) == 1 else 'rows'} {numbers}"
