"""What a version would have done otherwise than it was done, in one sentence each (F3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.rules.replay import Difference, OutsideChange
from duly.rules.value import Json, canonical
from duly.words.noun import say_number
from duly.words.phrase import capital, name_all

SHOWN_CHARS: Final = 120  # of each argument a sentence names
LEAD_CHARS: Final = 20  # of what is equal, shown before the first place where two texts differ


def say_replay(tried: int, differing: int) -> str:
    """Say what a comparison with past runs showed; the differences are listed below."""
    if not tried:
        return "There is no past run to compare with yet: nothing is proven."
    runs = say_number(tried, "past run")
    if not differing:
        return f"{runs} tried; each would have made the same change."
    return f"{runs} tried; {differing} would have been otherwise or cannot be told:"


def say_difference(difference: Difference) -> str:
    """Say what a past run did and what it would do now, or why that cannot be told."""
    problem, inputs = difference.problem, difference.inputs
    about = f"For {name_all(inputs) if inputs else 'no event'} it"
    if problem is not None:
        return f"{about} cannot be told: {problem}" if inputs else capital(problem)
    was, now = _say_both(difference.before, difference.after)
    return f"{about} {was}; now it would {now}."


def _say_both(before: OutsideChange | None, after: OutsideChange | None) -> tuple[str, str]:
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
