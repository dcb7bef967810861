"""What another version would have changed outside, given what past runs were given (F3).

Law 1  Two changes are the same when tool and arguments are. The order of the keys and the title
       decide nothing (L11).
Law 2  A change that cannot be compared is reported as such. It never counts as the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from duly.rules.value import Json, canonical, digest

SHOWN_CHARS: Final = 120  # of each argument a sentence names
LEAD_CHARS: Final = 20  # of what is equal, shown before the first place where two texts differ


@dataclass(frozen=True, slots=True)
class OutsideChange:
    """A change outside: the tool, and the arguments under the tool's own names."""

    tool: str
    args: Mapping[str, Json]

    @property
    def digest(self) -> str:
        """Name the change by its content."""
        return digest([self.tool, dict(self.args)])


@dataclass(frozen=True, slots=True)
class Difference:
    """One past run the version does not repeat, or of which that cannot be told.

    `inputs` are the titles of the events it worked on; a change that is None was none at all.
    """

    run: str
    inputs: tuple[str, ...]
    before: OutsideChange | None = None
    after: OutsideChange | None = None
    problem: str | None = None

    @property
    def sentence(self) -> str:
        """Say it to a person."""
        about = f"For {_name(self.inputs)} it"
        if self.problem is not None and not self.inputs:
            return f"{self.problem[:1].upper()}{self.problem[1:]}"
        if self.problem is not None:
            return f"{about} cannot be told: {self.problem}"
        was, now = _tell(self.before, self.after)
        return f"{about} {was}; now it would {now}."


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of trying a version on past runs: how many, and where it differs."""

    tried: int
    differences: tuple[Difference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Tell whether every run that was tried is known to make the same change."""
        return not self.differences


def compare(
    run: str, inputs: tuple[str, ...], before: OutsideChange | None, after: OutsideChange | None
) -> Difference | None:
    """Compare what a run changed with what it would change now; None: that is the same."""
    if before is None or after is None:
        return None if before is after else Difference(run, inputs, before, after)
    if before.digest == after.digest:
        return None
    return Difference(run, inputs, before, after)


# -- Words --------------------------------------------------------------------------------------


def _name(inputs: tuple[str, ...]) -> str:
    """Name the inputs: a person wants to recognise them, not to read them all."""
    if not inputs:
        return "no event"
    more = len(inputs) - 1
    return f"“{inputs[0]}”" + (f" and {more} more" if more else "")


def _tell(before: OutsideChange | None, after: OutsideChange | None) -> tuple[str, str]:
    if before is None:
        return "changed nothing", "change nothing" if after is None else f"call {_show(after)}"
    if after is None:
        return f"called {_show(before)}", "change nothing"
    if before.tool != after.tool:
        return f"called {_show(before)}", f"call {_show(after)}"
    was, now = _apart(before.args, after.args)
    return f"called {before.tool} with {was}", f"call it with {now}"


def _show(change: OutsideChange) -> str:
    args = ", ".join(f"{name} {_cut(_text(value))}" for name, value in change.args.items())
    return f"{change.tool} with {args}" if args else change.tool


def _apart(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[str, str]:
    """Show the arguments that differ, and of each the place where it does."""
    was, now = [], []
    for name in dict.fromkeys((*before, *after)):
        old = _text(before[name]) if name in before else None
        new = _text(after[name]) if name in after else None
        if old != new:
            start = max(0, _first_apart(old or "", new or "") - LEAD_CHARS)
            was.append(f"no {name}" if old is None else f"{name} {_cut(old, start)}")
            now.append(f"no {name}" if new is None else f"{name} {_cut(new, start)}")
    return ", ".join(was), ", ".join(now)


def _first_apart(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    shorter = min(len(one), len(other))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)


def _cut(text: str, start: int = 0) -> str:
    head = "…" if start else ""
    tail = "…" if len(text) > start + SHOWN_CHARS else ""
    return f"{head}{text[start : start + SHOWN_CHARS]}{tail}"


def _text(value: Json) -> str:
    return canonical(value).decode()
