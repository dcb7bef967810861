"""What a database does for the `sql` connector, whichever it is.

Law 1: a change and the record of its key are one transaction. So a key makes its change once, and
       the record says for certain whether it was made (L5, L7).
Law 2: a record that is missing denies nothing if the table of records is gone, or may have been
       made later than the call was sent: the table before it may have known the call (L5). When it
       was made is told by the clock of the database. That of a server is another one than that of
       the host, which is believed with a margin. A first send that seems to come before the table,
       or within the margin, leaves a mark that it came to this table, so its record is believed,
       however the clocks differ.
Law 3: the table of records is committed before the first change begins. So a change that fails
       does not take it away again, and the next call finds it.
Law 4: what a database holds becomes JSON that a script can hold exactly, or is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from duly.connectors.base import Call
from duly.connectors.set_up import SetUpFault
from duly.connectors.sql_text import OWN, SqlText
from duly.errors import Refused
from duly.rules.failure import RECORD_LOST, WRONG_SET_UP
from duly.rules.value import INTEGER_MAX, Json

Bound: TypeAlias = str | int | float | bool | None
SqlRow: TypeAlias = dict[str, Json]

RESULT_BYTES_MAX: Final = 256 * 1024
READ_BYTES_MAX: Final = 4 * 1024 * 1024
FETCH_ROWS: Final = 50
RETURNED_ROWS_MAX: Final = 1_000  # of a change
# The first row of the table of calls: it says since when the table has been kept.
FIRST_KEY: Final = ""
# Between the clock of a host and that of a server: twice the difference that Duly warns of.
CLOCK_MARGIN_MS: Final = 10_000
KEY_CHARS: Final = 64
# Of a row that is taken back; no key of a call has a space in it, and each is as long.
TRIAL_KEY: Final = "duly check".ljust(KEY_CHARS, ".")
TRIAL_MS: Final = 2_000_000_000_000  # as large as a time of today
TRIAL_RESULT: Final = "kept." * 100
KEEPS_NOTHING: Final = "it does not keep what is written"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

SECTION: Final = re.compile(r"^-- ([a-z_]+)\n(?:-- .*\n)*((?:[^-\n].*\n)+)", re.MULTILINE)
STATEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    dict(SECTION.findall(Path(__file__).with_name("sql.sql").read_text()))
)
CREATE: Final = STATEMENTS["create_calls"].strip()
LOST: Final = (
    f"the table {OWN} is gone or was made after this call was first sent, so no record says whether"
    " it was made"
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much a read returns, and how long it takes."""

    rows: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class FoundRows:
    """What a read found; `has_more` says that there was more than its limits allow."""

    rows: list[SqlRow]
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class SqlChange:
    """One statement that changes, with its values and the call that it is made for."""

    text: SqlText
    values: Mapping[str, Bound]
    key: str
    tool: str
    sent_ms: int
    is_again: bool
    expect: int | None
    timeout_s: float

    @classmethod
    def of(
        cls, call: Call, text: SqlText, expect: int | None, values: Mapping[str, Bound], s: float
    ) -> SqlChange:
        """Spell the change that a call makes."""
        is_again = call.attempt > 1 or call.first_sent_at != call.sent_at
        sent_ms = sent_ms_of(call)
        return cls(text, values, call.key, call.tool, sent_ms, is_again, expect, s)


@dataclass(frozen=True, slots=True)
class SqlTrial:
    """A statement that is planned and not run, with values of the kinds that it is given."""

    name: str
    text: SqlText
    values: Mapping[str, Bound]
    is_read: bool


class SqlDatabase(Protocol):
    """What a database can be asked; every method blocks and runs in a thread."""

    def read(self, text: SqlText, values: Mapping[str, Bound], limits: ReadLimits) -> FoundRows:
        """Run a statement that cannot change anything."""

    def change(self, change: SqlChange) -> str:
        """Make a change once, and return its result as JSON text."""

    def find(self, key: str, sent_ms: int) -> str | bool | None:
        """Return the result of a call that was made, False if it was not, None if it is lost."""

    def check(self, trials: Sequence[SqlTrial]) -> tuple[SetUpFault, ...]:
        """Try what the set-up needs, and take all of it back; return what does not work."""

    def cut(self) -> None:
        """End the connection of a thread that waits for a server, from any other thread."""


def not_set_up(where: str, why: str) -> Refused:
    """Say what the owner of a database has to correct; nothing was changed."""
    return Refused(f"{where}: {why}.", code=WRONG_SET_UP)


def cannot_make(cause: object) -> str:
    """Say that the table of records is missing and cannot be made, and how it is made."""
    return f"the table {OWN} is not there and cannot be made ({cause}). Have it made by: {CREATE}"


def does_not_fit(cause: object) -> str:
    """Say that a table of the name of ours is another one, and how ours is made."""
    return (
        f"the table {OWN} is not as Duly needs it ({cause}). Rename it, and Duly makes its own, or"
        f" make it by: {CREATE}"
    )


def record_lost(where: str) -> Refused:
    """Refuse a call that may have been made before (law 2)."""
    return Refused(f"{where}: {LOST}.", code=RECORD_LOST)


def sent_ms_of(call: Call) -> int:
    """Return when the key of a call was first sent."""
    return round((call.first_sent_at - EPOCH) / timedelta(milliseconds=1))


def bind(text: SqlText, args: Mapping[str, Json]) -> dict[str, Bound]:
    """Return the values of the arguments; lists and objects as JSON text."""
    return {name: _bound(args.get(name)) for name in text.arguments}


def _bound(value: Json) -> Bound:
    if isinstance(value, str) and "\0" in value:
        raise Refused("A text has a zero in it, which no database takes.")
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return msgspec.json.encode(value).decode()


def check_columns(names: Sequence[str]) -> None:
    """Refuse two columns of one name: one would hide the other."""
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise Refused(f"Two columns are called {twice[0]!r}. Rename one with `as`.")


def take_rows(names: Sequence[str], found: Iterable[Sequence[object]], rows_max: int) -> FoundRows:
    """Take as many rows as the limits allow."""
    check_columns(names)
    rows: list[SqlRow] = []
    size = 0
    for each in found:
        if len(rows) == rows_max:
            return FoundRows(rows, has_more=True)
        row = {name: to_json(value, name) for name, value in zip(names, each, strict=True)}
        size += len(msgspec.json.encode(row))
        if size > READ_BYTES_MAX:
            if not rows:
                raise Refused(f"One row is larger than {READ_BYTES_MAX:,} bytes. Read less of it.")
            return FoundRows(rows, has_more=True)
        rows.append(row)
    return FoundRows(rows)


def take_returned(names: Sequence[str], found: Iterable[Sequence[object]]) -> list[SqlRow]:
    """Take all rows that a change returns, or refuse it: a part of them would pass for all."""
    taken = take_rows(names, found, RETURNED_ROWS_MAX)
    if taken.has_more:
        raise Refused(
            f"It returns more than {RETURNED_ROWS_MAX:,} rows or {READ_BYTES_MAX:,} bytes. Nothing"
            " was changed. Return less."
        )
    return taken.rows


def write_result(rows: list[SqlRow], count: int, expect: int | None) -> str:
    """Write down what a change came to, or refuse it before it is committed."""
    if expect is not None and count != expect:
        raise Refused(f"It would have changed {count} rows, not {expect}. Nothing was changed.")
    text = msgspec.json.encode({"count": count, "rows": rows}).decode()
    if len(text) > RESULT_BYTES_MAX:
        raise Refused(f"What it returns is larger than {RESULT_BYTES_MAX:,} bytes.")
    return text


def to_json(value: object, column: str) -> Json:
    """Return a value of a database as JSON (law 4)."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, list | tuple):
        return [to_json(each, column) for each in value]
    if isinstance(value, dict):
        return {str(name): to_json(each, column) for name, each in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        raise Refused(f"{column} holds bytes, which no script can be given. Leave it out.")
    return str(value)


def began_key(key: str) -> str:
    """Name the row that says that the first send of a call came to this table of records."""
    return f"began {key}"[:KEY_CHARS]


def lost(found: Any, sent_ms: int, *, has_own_clock: bool = True) -> bool:
    """Tell whether the record may have begun after a call was sent; `found` is its first row.

    A server `has_own_clock`; a file has that of the host.
    """
    margin_ms = CLOCK_MARGIN_MS if has_own_clock else 0
    return found is None or int(found[1]) + margin_ms > sent_ms
