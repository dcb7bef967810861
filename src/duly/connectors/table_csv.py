"""Rows in CSV files, one file per table, which people may open and edit too.

Law 1: the content of a file stays as it is, byte for byte. A new row is added at the end, and
       nothing else is touched: not the quoting, not the line ends. Which call made it is kept
       beside the file (`table_keys.py`), unless the file has a column `duly_key` or is to get one
       (`key_column`).
Law 2: the new text is parsed before it replaces the old one. If it does not contain the rows of the
       old one and this row, the file is refused and left alone.
Law 3: a file is replaced whole, under a lock that every writer of ours takes. A person takes none,
       so the file is checked once more right before; if a person saved it meanwhile, the writer
       starts again. Between that check and the replacement lie microseconds that no file system
       lets us close.
Law 4: a text never becomes a formula (K12). One that begins like a formula is written with an
       apostrophe before it, as people do, and read without it.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import Final

from duly.connectors import table_keys
from duly.connectors.folder import (
    Folder,
    definite,
    move_file,
    open_ended,
    read_file,
    status_of,
    write_file,
)
from duly.connectors.row import PAGE_MAX, Row, Value, already_there, refuse_unknown_columns
from duly.connectors.table_keys import Keys
from duly.errors import NotSent, Refused
from duly.rules.cell import guard_cell, unguard_cell
from duly.rules.value import Json

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
ROWS_MAX: Final = 100_000
TRIES_MAX: Final = 5  # how often a person may save the file in the middle of one call
LOCK_TRIES_MAX: Final = 100
LOCK_WAIT_S: Final = 0.05
KEY_COLUMN: Final = "duly_key"
LOCK: Final = ".duly.lock"
BYTE_ORDER_MARK: Final = "\ufeff"
LINE_END: Final = re.compile(r"\r\n|\n|\r")
QUOTED: Final = re.compile(r'"[^"]*"')
LARGER: Final = 'Keep it in a database: Table(url="sqlite:///rows.db").'


@dataclass(frozen=True, slots=True)
class CsvSheet:
    """A CSV file as it was read: its text, its dialect, and its rows."""

    text: str
    delimiter: str
    line_end: str
    header: list[str]
    header_lines: int
    records: list[list[str]]

    @classmethod
    def read(cls, data: bytes, what: str) -> CsvSheet:
        """Read a file, or refuse it and say what is wrong with it."""
        if len(data) > FILE_BYTES_MAX:
            raise Refused(f"{what} has more than {FILE_BYTES_MAX} bytes. {LARGER}")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Refused(f'{what} is not UTF-8. Save it as "CSV UTF-8".') from error
        return cls.parse(text, what)

    @classmethod
    def parse(cls, text: str, what: str) -> CsvSheet:
        """Parse a text in the dialect it is written in."""
        body = text.removeprefix(BYTE_ORDER_MARK)
        delimiter, line_end = _habits(body)
        reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            header_lines = reader.line_num
            records = [record for record in reader if record]
        except csv.Error as error:
            raise Refused(f"{what}, line {reader.line_num}: {error}. Correct it there.") from error
        if len(set(header)) < len(header) or (records and not header):
            raise Refused(f"{what} has no header, or a column twice. Correct its first line.")
        if len(records) > ROWS_MAX:
            raise Refused(f"{what} has more than {ROWS_MAX} rows. {LARGER}")
        return cls(text, delimiter, line_end, header, header_lines, records)

    def values(self, record: list[str]) -> dict[str, str]:
        """Read a record by the header; missing cells are empty."""
        filled = [*map(unguard_cell, record), *[""] * len(self.header)]
        return dict(zip(self.header, filled, strict=False))

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield every row with its number, which counts from 1."""
        for number, record in enumerate(self.records, 1):
            yield number, self.values(record)

    def number_of(self, column: str, value: str) -> int | None:
        """Find the first row with this value in a column."""
        found = (number for number, values in self.rows() if values.get(column) == value)
        return next(found, None)

    def add(self, row: Mapping[str, Value], key: str | None, what: str) -> str:
        """Return the whole text with one row more, or refuse where that cannot be done safely.

        With a key the row carries it in a column of its own.
        """
        header = self.header or list(row)
        text = self.text
        if key is not None and KEY_COLUMN not in header:
            header = [*header, KEY_COLUMN]
        if header != self.header:
            text = self._with_header(header)
        if not text.endswith(("\n", "\r")):
            text += self.line_end
        cells = {name: _guard(each) for name, each in row.items()}
        if key is not None:
            cells[KEY_COLUMN] = key
        record = [cells.get(column, "") for column in header]
        text += _line(record, self.delimiter) + self.line_end
        new = CsvSheet.parse(text, what)
        if (new.header, new.records) != (header, [*self.records, record]):
            raise Refused(f"{what} is written in a way that no row can be added to. Save it anew.")
        return text

    def _with_header(self, header: list[str]) -> str:
        lines = list(io.StringIO(self.text, newline=""))
        old = "".join(lines[: self.header_lines])
        kept = old.rstrip("\r\n")
        end = old[len(kept) :] or self.line_end
        more = header if not self.header else header[-1:]
        added = _line(more, self.delimiter)
        new = f"{kept}{self.delimiter}{added}" if self.header else f"{kept}{added}"
        return new + end + "".join(lines[self.header_lines :])


class CsvRows:
    """The tables of one folder."""

    def __init__(self, folder: Folder, *, has_key_column: bool = False) -> None:
        self._folder = folder
        self._has_key_column = has_key_column
        # Made now, so that its absence later means a disk that is not mounted. It is not made in
        # an empty folder, which may be the mount point of such a disk (L5).
        with suppress(OSError):
            if not folder.is_bare():
                with folder.open(table_keys.FOLDER, create=True):
                    pass

    def page(self, table: str, after: int, where: Mapping[str, Value]) -> list[Row]:
        """List the rows after a number, at most one more than a page."""
        sheet = self._load(table)
        if sheet.header:
            refuse_unknown_columns(table, where, _shown(sheet.header))
        wanted = {column: write_value(value) for column, value in where.items()}
        found: list[Row] = []
        for number, values in sheet.rows():
            if number > after and wanted.items() <= values.items():
                found.append((number, _visible(values)))
            if len(found) > PAGE_MAX:
                break
        return found

    def last(self, table: str) -> int:
        """Return the number of the last row, or 0."""
        return len(self._load(table).records)

    def find(self, table: str, column: str | None, value: str | int) -> Row | None:
        """Find a row by its value in a column, or, without one, by its number."""
        sheet = self._load(table)
        number = _as_number(value) if column is None else sheet.number_of(column, str(value))
        if number is None or not 1 <= number <= len(sheet.records):
            return None
        return number, _visible(sheet.values(sheet.records[number - 1]))

    def insert(self, table: str, row: Mapping[str, Value], key: str, unique: str | None) -> int:
        """Add a row, or find the one this key made, and return its number."""
        what = f"{table}.csv"
        with ExitStack() as stack:
            with definite(what):
                here = stack.enter_context(self._folder.open())
                self._folder.check(here, what, what)
                stack.enter_context(_locked(here, what))
                own = stack.enter_context(self._folder.open(table_keys.FOLDER, create=True))
                wish = Wish(table, row, key, unique, self._has_key_column)
                number, draft = _draft(here, own, wish)
            if draft is not None:
                move_file(draft, own, what, here, what)
            with open_ended(what):
                os.fsync(here)
                os.fsync(own)
        return number

    def number_of(self, table: str, key: str) -> int | None:
        """Find the row that this key made, safe from a power cut, and return its number."""
        what = f"{table}.csv"
        with definite(what), ExitStack() as stack:
            here = stack.enter_context(self._folder.open())
            # The process that holds the lock may be about to move a draft.
            stack.enter_context(_locked(here, what))
            number = _read(here, what, what).number_of(KEY_COLUMN, key)
            with suppress(FileNotFoundError), self._folder.open(table_keys.FOLDER) as own:
                if number is None:
                    number = Keys.read(own, table).number_of(own, key)
                os.fsync(own)
            os.fsync(here)
            return number

    def is_lost(self, table: str) -> bool:
        """Tell whether the record of earlier calls is gone, so that none can be denied (L5)."""
        what = f"{table}.csv"
        with definite(what), self._folder.open() as here:
            try:
                with self._folder.open(table_keys.FOLDER):
                    return False
            except FileNotFoundError:
                return KEY_COLUMN not in _read(here, what, what).header

    def _load(self, table: str) -> CsvSheet:
        what = f"{table}.csv"
        with definite(what), self._folder.open() as here:
            self._folder.check(here, what, what)
            return _read(here, what, what)


def write_value(value: Value) -> str:
    """Write a value as people write it into a cell."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _guard(value: Value) -> str:
    """Write a value; a text that a spreadsheet program would compute stays a text (law 4)."""
    text = write_value(value)
    return guard_cell(text) if isinstance(value, str) else text


def _habits(body: str) -> tuple[str, str]:
    """Find the delimiter and the line end of the first line."""
    ending = LINE_END.search(body)
    first = QUOTED.sub("", body[: ending.start()] if ending else body)
    delimiter = max(",;\t", key=first.count)  # A comma, if none of them is there.
    return delimiter, ending[0] if ending else "\n"


def _line(record: list[str], delimiter: str) -> str:
    return delimiter.join(_cell(each, delimiter) for each in record)


def _cell(text: str, delimiter: str) -> str:
    if text == text.strip() and not any(each in text for each in (delimiter, '"', "\n", "\r")):
        return text
    return '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Wish:
    """One row that is to be in a table, and the key of the call that wants it."""

    table: str
    row: Mapping[str, Value]
    key: str
    unique: str | None
    has_key_column: bool


def _draft(here: int, own: int, wish: Wish) -> tuple[int, str | None]:
    """Write the new file beside the old one; None if this key has its row already."""
    table, key = wish.table, wish.key
    what = f"{table}.csv"
    keys = Keys.read(own, table)
    keys.settle(own)
    for _ in range(TRIES_MAX):
        before = _stamp(here, what)
        sheet = _read(here, what, what)
        found = sheet.number_of(KEY_COLUMN, key)
        number = keys.rows.get(key) if found is None else found
        if number is not None:
            return number, None
        _check_row(sheet, table, wish.row, wish.unique)
        is_column = wish.has_key_column or KEY_COLUMN in sheet.header
        text = sheet.add(wish.row, key if is_column else None, what)
        draft, number = keys.draft, len(sheet.records) + 1
        write_file(own, draft, text.encode(), status_of(here, what))
        os.fsync(own)
        if not is_column:
            keys.note(own, key, number)
        if _stamp(here, what) == before:
            return number, draft
        keys.settle(own)
    raise NotSent(f"{what}: another program saves it again and again. Close it there.")


def _check_row(sheet: CsvSheet, table: str, row: Mapping[str, Value], unique: str | None) -> None:
    if sheet.header:
        refuse_unknown_columns(table, row, _shown(sheet.header))
    if len(sheet.records) >= ROWS_MAX:
        raise Refused(f"{table}.csv has {ROWS_MAX} rows, which is all it can hold. {LARGER}")
    if unique is not None:
        number = sheet.number_of(unique, write_value(row[unique]))
        if number is not None:
            raise already_there(table, unique, row[unique], number)


def _read(here: int, name: str, what: str) -> CsvSheet:
    found = read_file(here, name, FILE_BYTES_MAX)
    return CsvSheet.read(b"" if found is None else found[0], what)


def _shown(header: list[str]) -> list[str]:
    return [column for column in header if column != KEY_COLUMN]


def _visible(values: Mapping[str, str]) -> dict[str, Json]:
    return {column: values[column] for column in values if column != KEY_COLUMN}


def _as_number(value: str | int) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 16 else None


def _stamp(here: int, name: str) -> tuple[int, ...] | None:
    """Return values that differ when the file was changed."""
    try:
        status = os.stat(name, dir_fd=here, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@contextmanager
def _locked(here: int, what: str) -> Iterator[None]:
    """Hold the lock of the folder; it is free again when the process ends, however it ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(LOCK, flags, 0o666, dir_fd=here), "rb") as lock:
        for _ in range(LOCK_TRIES_MAX):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                Event().wait(LOCK_WAIT_S)
        else:
            raise NotSent(f"{what}: another program holds {LOCK}. Wait until it is done.")
        yield
