"""The order in which files arrived in a folder, and a cursor that misses none of them (K11).

Law 1: the cursor says which files were given, never up to which time. A file is known by its name,
       its inode and the time at which the file system noted its last change (`st_ctime`), so a
       clock that was ahead, or that is set back, hides nothing.
Law 2: in doubt a file is given again: an event that is published again under its message id is no
       new event.
Law 3: a cursor stays small, however many files there are: two of them fit into one state.

How it stays small: the newest 1500 files that were given are remembered one by one, by digest. The
older ones are remembered in stretches, in the order of arrival: from when, to when, and one digest
over all files between. If the files of a stretch have changed (one came with an old time, or one
was removed), all files in it are given again. New files are given first, so that they never wait
for such a repetition.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from struct import Struct, error
from typing import Any, Final, NamedTuple

from duly.errors import Refused

PAGE_MAX: Final = 100
GIVEN_MAX: Final = 1500  # files that are remembered one by one
STRETCH_FILES_MIN: Final = 100
STRETCHES_MAX: Final = 250
NAMED_MAX: Final = 8  # stretches that end between two files of one moment, and so need names
DIGEST_BYTES: Final = 8
TEXT_CHARS_MAX: Final = 256 * 1024  # more than any cursor has; a longer text is not even read
PACKED: Final = Struct(f">qq{DIGEST_BYTES}s")

# The errors that a text which is no cursor can lead to; a script may pass anything.
UNREADABLE: Final = (ValueError, TypeError, KeyError, OverflowError, RecursionError, error)


class Arrival(NamedTuple):
    """A file as it was seen: the time of its arrival or last change, its name, its inode."""

    at_ns: int
    name: str
    inode: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Files that were all given, from one moment to another, and one digest over them.

    It has names only where a file of the same moment is not part of it.
    """

    first_ns: int
    last_ns: int
    check: bytes
    names: tuple[str, str] | None = None

    def within(self, present: Sequence[Arrival]) -> Sequence[Arrival]:
        """List which of these files, sorted, lie in it now."""
        if self.names is None:
            begin = bisect_left(present, self.first_ns, key=_moment)
            return present[begin : bisect_right(present, self.last_ns, key=_moment)]
        first, last = self.names
        begin = bisect_left(present, (self.first_ns, first), key=_place)
        return present[begin : bisect_right(present, (self.last_ns, last), key=_place)]


@dataclass(frozen=True, slots=True)
class Floor:
    """A cursor of the first version: every file up to this one was given, and these after it."""

    last: tuple[int, str]
    seen: frozenset[str]

    def has(self, arrival: Arrival) -> bool:
        """Tell whether a file was given by then."""
        found = sha256(f"{arrival.at_ns}:{arrival.name}".encode()).digest()[:DIGEST_BYTES]
        digest = b64encode(found, b"-_").decode().rstrip("=")
        return _place(arrival) <= self.last or digest in self.seen


@dataclass(frozen=True, slots=True)
class Cursor:
    """What was given: the newest one by one, the older ones in stretches."""

    given: frozenset[bytes] = frozenset()
    stretches: tuple[Stretch, ...] = ()
    top_ns: int = 0  # the newest that was given; it decides only the order
    floor: Floor | None = None

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """Read a cursor that a search returned before; None is the beginning."""
        if text is None:
            return cls()
        try:
            if len(text) > TEXT_CHARS_MAX:
                raise ValueError(len(text))
            return _read(json.loads(text))
        except UNREADABLE as problem:
            raise Refused(
                "`after` is no cursor of this search. Pass last_cursor of the page before, or"
                " leave it out to begin again."
            ) from problem

    def write(self) -> str:
        """Write the cursor as the text that `read` reads."""
        if self.floor is not None:  # nothing was found since
            return json.dumps([*self.floor.last, self.top_ns, sorted(self.floor.seen)])
        packed = b"".join(
            PACKED.pack(each.first_ns, each.last_ns, each.check) for each in self.stretches
        )
        named = {str(at): each.names for at, each in enumerate(self.stretches) if each.names}
        parts = {
            "top_ns": self.top_ns,
            "given": b64encode(b"".join(sorted(self.given))).decode(),
            "stretches": b64encode(packed).decode(),
            **({"names": named} if named else {}),
        }
        return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)

    def compare(self, present: Iterable[Arrival]) -> Listing:
        """Compare what is there now with what was given."""
        ordered = sorted(present)
        digests = {each: _digest(each) for each in ordered}
        known = {each for each in ordered if digests[each] in self.given}
        if self.floor is not None:
            known.update(filter(self.floor.has, ordered))
        for stretch in self.stretches:
            within = stretch.within(ordered)
            if _check(digests[each] for each in within) == stretch.check:
                known.update(within)
        return Listing(self, ordered, digests, known)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is there now, in the order of arrival, and which of it was given."""

    cursor: Cursor
    present: list[Arrival]
    digests: dict[Arrival, bytes]
    known: set[Arrival]

    @property
    def unseen(self) -> list[Arrival]:
        """The files to give: those newer than all that were given, then late ones."""
        left = [each for each in self.present if each not in self.known]
        return sorted(left, key=lambda each: (each.at_ns < self.cursor.top_ns, each))

    def move(self, given: Iterable[Arrival]) -> Cursor:
        """Return the cursor after these files were given too.

        An empty folder changes nothing: most likely its disk is not mounted.
        """
        if not self.present:
            return self.cursor
        known = self.known.union(given)
        newest = [each for each in self.present if each in known][-GIVEN_MAX:]
        if not newest:
            return Cursor(top_ns=self.cursor.top_ns)
        return Cursor(
            frozenset(self.digests[each] for each in newest),
            tuple(self._stretches(known, self.present.index(newest[0]))),
            newest[-1].at_ns,
        )

    def _stretches(self, known: set[Arrival], end: int) -> list[Stretch]:
        """Cut the files given before a place into stretches that contain no other file."""
        size = max(STRETCH_FILES_MIN, -(-end // (STRETCHES_MAX // 2)))
        made: list[tuple[int, Stretch]] = []
        for is_known, run in groupby(range(end), lambda at: self.present[at] in known):
            places = list(run)
            # Late files are given oldest first. The files before the first late one are kept, and
            # they grow with every page, so the search comes to an end.
            weight = 0 if places[0] else end
            while is_known and places:
                # Files of one moment stay together, so that moments are enough to find them.
                last_ns = self.present[places[min(size, len(places)) - 1]].at_ns
                stop = bisect_right(places, last_ns, key=lambda at: self.present[at].at_ns)
                made.append((weight + stop, self._stretch(places[0], places[stop - 1])))
                places = places[stop:]
        return _largest(made)

    def _stretch(self, first: int, last: int) -> Stretch:
        files = self.present[first : last + 1]
        beside = [*self.present[max(first - 1, 0) : first], *self.present[last + 1 : last + 2]]
        is_split = any(each.at_ns in (files[0].at_ns, files[-1].at_ns) for each in beside)
        check = _check(self.digests[each] for each in files)
        names = (files[0].name, files[-1].name) if is_split else None
        return Stretch(files[0].at_ns, files[-1].at_ns, check, names)


def _largest(made: list[tuple[int, Stretch]]) -> list[Stretch]:
    """Drop stretches beyond the limit, the smallest first; their files are given again."""
    by_size = sorted(made, key=lambda each: -each[0])
    named = [each for _, each in by_size if each.names is not None][:NAMED_MAX]
    kept = [each for _, each in by_size if each.names is None or each in named][:STRETCHES_MAX]
    return sorted(kept, key=lambda each: (each.first_ns, each.names or ("", "")))


def _read(parts: Any) -> Cursor:
    if isinstance(parts, list):
        at_ns, name, top_ns, seen = parts
        last = int(at_ns), str(name)
        return Cursor(top_ns=int(top_ns), floor=Floor(last, frozenset(map(str, seen))))
    given, packed = (b64decode(parts[each], validate=True) for each in ("given", "stretches"))
    if len(given) % DIGEST_BYTES:
        raise ValueError(len(given))
    digests = (given[at : at + DIGEST_BYTES] for at in range(0, len(given), DIGEST_BYTES))
    named = dict(parts.get("names", {})).items()
    names = {int(at): (str(first), str(last)) for at, (first, last) in named}
    stretches = tuple(
        Stretch(first_ns, last_ns, check, names.get(at))
        for at, (first_ns, last_ns, check) in enumerate(PACKED.iter_unpack(packed))
    )
    return Cursor(frozenset(digests), stretches, int(parts["top_ns"]))


def _moment(arrival: Arrival) -> int:
    return arrival.at_ns


def _place(arrival: Arrival) -> tuple[int, str]:
    return arrival.at_ns, arrival.name


def _digest(arrival: Arrival) -> bytes:
    text = f"{arrival.at_ns}:{arrival.inode}:{arrival.name}"
    return sha256(text.encode()).digest()[:DIGEST_BYTES]


def _check(digests: Iterable[bytes]) -> bytes:
    return sha256(b"".join(digests)).digest()[:DIGEST_BYTES]
