"""In what order files arrived in a folder, and a cursor that misses none of them.

Law 1: a file that becomes visible is given, once, to whoever keeps the cursor: also if many came in
       the same moment, and if it carries an old date of its own. What counts is the time at which
       the file system itself noted the change (`st_ctime`), which no copy and no sender can set.
Law 2: a file that appears up to five minutes behind one already given is given all the same: the
       cursor remembers which of the newest were given, not only how far it came.
Law 3: in doubt a file is given twice rather than never; an event published again is no new event.

What this cannot see: an arrival while the machine's clock was set back by more than five minutes;
a whole folder moved over another; of more than 2000 files within five minutes, late ones.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple

from duly.errors import Refused

PAGE_MAX: Final = 100
WINDOW_NS: Final = 300 * 1_000_000_000
SEEN_MAX: Final = 2000
DIGEST_BYTES: Final = 8


class Arrival(NamedTuple):
    """A file as it was seen: when it came here or last changed, and its name."""

    at_ns: int
    name: str


BEGINNING: Final = Arrival(0, "")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far somebody has looked: all up to `floor`, and after it exactly what is in `seen`."""

    floor: Arrival = BEGINNING
    top_ns: int = 0
    seen: frozenset[str] = frozenset()

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """Read a cursor that was given out before; none is the beginning."""
        if text is None:
            return cls()
        try:
            at_ns, name, top_ns, seen = json.loads(text)
            return cls(Arrival(int(at_ns), str(name)), int(top_ns), frozenset(map(str, seen)))
        except (ValueError, TypeError) as error:
            raise Refused(
                "`after` is no cursor of this search. Pass last_cursor of the page before, or"
                " leave it out to begin again."
            ) from error

    def write(self) -> str:
        """Write the cursor as the text that `read` reads."""
        parts = [*self.floor, self.top_ns, sorted(self.seen)]
        return json.dumps(parts, separators=(",", ":"))

    def unseen(self, present: Iterable[Arrival]) -> list[Arrival]:
        """List what was not given yet, in the order of arrival."""
        return sorted(
            each for each in present if each > self.floor and _digest(each) not in self.seen
        )

    def move(self, present: Iterable[Arrival], given: Sequence[Arrival]) -> Cursor:
        """Answer where the cursor stands when these, the first of the unseen, were given."""
        now_seen = self.seen.union(map(_digest, given))
        top_ns = max([self.top_ns, *(each.at_ns for each in given)])
        here = sorted(each for each in present if each > self.floor)
        kept = [each for each in here if _digest(each) in now_seen]
        floor = Arrival(top_ns - WINDOW_NS, "")
        if len(kept) > SEEN_MAX:
            floor = max(floor, kept[-SEEN_MAX - 1])
        left = next((each for each in here if _digest(each) not in now_seen), None)
        if left is not None:
            floor = min(floor, Arrival(left.at_ns, ""))  # Nothing still to be given falls behind.
        floor = max(floor, self.floor)
        return Cursor(floor, top_ns, frozenset(_digest(each) for each in kept if each > floor))


def _digest(arrival: Arrival) -> str:
    found = sha256(f"{arrival.at_ns}:{arrival.name}".encode()).digest()[:DIGEST_BYTES]
    return urlsafe_b64encode(found).decode().rstrip("=")
