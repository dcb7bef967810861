"""Writes into a duly.toml that a person wrote: one table or one key, and not a byte besides.

Law 1  All that is not changed stays as it is, byte for byte: comments, order, line ends, spelling.
Law 2  After each change the file is read again. If it does not say what it said before, with the
       change and nothing else, the change is refused, and the person is shown what to write.
Law 3  The file is replaced whole or not at all, and only if nothing changed it meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, TypeAlias

from duly.errors import ConfigError
from duly.rules.toml_text import write_key
from duly.rules.toml_text import write_value as write_value

TablePath: TypeAlias = tuple[str, ...]

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
HEADER: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")
QUOTES: Final = ('"""', "'''", '"', "'")


def change_file(file: Path, change: Callable[[str], str]) -> None:
    """Change a file of settings in one step; one that is not there is made."""
    place = file.resolve()
    with _alone(place.parent):
        before = _read(place)
        text = "" if before is None else _decode(before, place)
        after = change(text).encode()
        if after == (before or b""):
            return
        draft = place.with_name(f".{place.name}.new")
        _write(draft, after, mode=0o644 if before is None else place.stat().st_mode & 0o777)
        if _read(place) != before:
            draft.unlink()
            raise ConfigError(code="settings_changed", subject=str(file))
        draft.replace(place)


def put_table(text: str, path: TablePath, values: Mapping[str, Any], *, note: str = "") -> str:
    """Write a table at the end of the file, or in place of the one that has this name."""
    lines = _split(text)
    end = _newline(text)
    block = [f"{line}{end}" for line in _block(path, values, note)]
    if (place := _find(text, path)) is None:
        if lines and not lines[-1].endswith(("\n", "\r")):
            lines[-1] += end
        after = "".join([*lines, *([end] if lines else []), *block])
    else:
        first, last = place
        after = "".join([*lines[:first], *block, *lines[last:]])
    return _checked(text, after, path, dict(values))


def put_key(text: str, path: TablePath, name: str, value: Any) -> str:
    """Write one key of a table that is there: in place of its line, or below the table's name."""
    place = _find(text, path)
    if place is None:
        return put_table(text, path, {name: value})
    lines = _split(text)
    line = f"{write_key(name)} = {write_value(value)}{_newline(text)}"
    own = re.compile(rf"\s*{re.escape(write_key(name))}\s*=")
    found = [each for each in range(place[0] + 1, place[1]) if own.match(lines[each])]
    lines[found[0] if found else place[0]] = line if found else lines[place[0]] + line
    table = _at(tomllib.loads(text), path)
    return _checked(text, "".join(lines), path, {**table, name: value}, is_whole=True)


def remove_tables(text: str, paths: Sequence[TablePath]) -> str:
    """Take tables out, from their names to the next ones."""
    for path in paths:
        if (place := _find(text, path)) is not None:
            lines = _split(text)
            text = "".join([*lines[: place[0]], *lines[place[1] :]])
    return text


def is_as_written(text: str, path: TablePath, values: Mapping[str, Any], *, note: str) -> bool:
    """Tell whether a table stands there as `put_table` wrote it, without a word of a person."""
    place = _find(text, path)
    if place is None:
        return False
    lines = [each.rstrip("\r\n") for each in _split(text)[slice(*place)]]
    return lines == _block(path, values, note)


def _block(path: TablePath, values: Mapping[str, Any], note: str) -> list[str]:
    made = [f"[{'.'.join(map(write_key, path))}]"]
    made += [f"# {note}"] if note else []
    return [*made, *(f"{write_key(name)} = {write_value(each)}" for name, each in values.items())]


# -- Finding tables -----------------------------------------------------------------------------


def _find(text: str, path: TablePath) -> tuple[int, int] | None:
    """Find the lines of a table: its name, and where what stands before the next one begins."""
    headers = list(_headers(text))
    for place, (line, found) in enumerate(headers):
        if found == path:
            lines = _split(text)
            last = headers[place + 1][0] if place + 1 < len(headers) else len(lines)
            # Comments right above the next table belong to it.
            while last > line + 1 and lines[last - 1].lstrip()[:1] in ("", "#"):
                last -= 1
            return line, last
    return None


def _headers(text: str) -> Iterator[tuple[int, TablePath | None]]:
    """Name the tables of a file by their lines; what stands in a text or a list is none."""
    quote, depth = "", 0
    for number, line in enumerate(_split(text)):
        if not quote and depth == 0 and line.lstrip().startswith("["):
            yield number, _read_header(line)
            continue
        quote, depth = _skip(line, quote, depth)


def _read_header(line: str) -> TablePath | None:
    """Read the name of a table; None of a list of tables, and of what cannot be read."""
    if HEADER.match(line.rstrip("\r\n")) is None:
        return None
    try:
        table: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = []
    while isinstance(table, dict) and table:
        ((name, table),) = table.items()
        path.append(name)
    return tuple(path)


def _skip(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Read one line: return the quotation marks that are open behind it, and the brackets."""
    at = 0
    while at < len(line):
        rest = line[at:]
        if quote:
            if quote in ('"', '"""') and rest[0] == "\\":
                at += 2
            elif rest.startswith(quote):
                at, quote = at + len(quote), ""
            else:
                at += 1
            continue
        if rest[0] == "#":
            break
        opened = next((each for each in QUOTES if rest.startswith(each)), "")
        if opened:
            at, quote = at + len(opened), opened
            continue
        depth += (rest[0] in "[{") - (rest[0] in "]}")
        at += 1
    return quote if len(quote) == 3 else "", depth


def _checked(
    before: str, after: str, path: TablePath, values: dict[str, Any], *, is_whole: bool = False
) -> str:
    """Return a changed text if it says what it should, and nothing else (law 2)."""
    try:
        wanted = deepcopy(tomllib.loads(before))
        table = wanted
        for name in path:
            table = table.setdefault(name, {})
        kept = {} if is_whole else {k: v for k, v in table.items() if isinstance(v, dict)}
        table.clear()
        table.update({**kept, **values})
        is_so = tomllib.loads(after) == wanted
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        is_so = False
    if not is_so:
        shown = ".".join(map(write_key, path))
        raise ConfigError(code="settings_by_hand", subject=f"[{shown}]")
    return after


def _at(table: Mapping[str, Any], path: TablePath) -> dict[str, Any]:
    for name in path:
        table = table.get(name, {})
    return dict(table)


# -- The file -----------------------------------------------------------------------------------


def _split(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process change settings of a folder at a time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(place: Path) -> bytes | None:
    try:
        with place.open("rb") as file:
            found = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(found) > FILE_BYTES_MAX:
        facts = {"limit": FILE_BYTES_MAX, "unit": "bytes"}
        raise ConfigError(code="too_long", subject=str(place), facts=facts)
    return found


def _decode(data: bytes, place: Path) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        facts = {"cause": error.reason}
        raise ConfigError(code="unreadable", subject=str(place), facts=facts) from None


def _write(draft: Path, data: bytes, *, mode: int) -> None:
    """Write a file whole, on the disk before it takes the place of another."""
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
