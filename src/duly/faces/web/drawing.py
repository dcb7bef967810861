"""What a template draws or lays out: the strip of a day, a diff line by line, lines of a source.

Law: it is given facts and returns facts: numbers, words, lines. A template writes the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from duly.faces import qr

STRIP_HEIGHT: Final = 20
BAR_WIDTH: Final = 5
AROUND: Final = 4  # lines of the source shown before and after the one that failed
LOOKS: Final = ("diff", "verify", "proposal")  # offers that change nothing
FIRST: Final = "resume"  # while a workflow is paused nothing else helps it on
LAST: Final = ("skip", "abandon", "pause")  # shown after the offers that help something on
KINDS: Final = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour of a strip."""

    x: int
    y: int
    height: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line of a text with its number; `is_meant` marks the one that is spoken of."""

    number: int
    text: str
    is_meant: bool = False


def bars(hours: Sequence[int]) -> list[Bar]:
    """Make the bars of a strip; an hour in which nothing happened has a line of one pixel."""
    most = max(hours, default=0) or 1
    heights = [max(1, round(STRIP_HEIGHT * each / most)) for each in hours]
    return [
        Bar(place * (BAR_WIDTH + 1), STRIP_HEIGHT - height, height)
        for place, height in enumerate(heights)
    ]


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Name for each line of a unified diff whether it was added, removed, or stays."""
    lines = text.splitlines()
    heads = [("head", each) for each in lines[:2]]
    return heads + [(KINDS.get(each[:1], "same"), each) for each in lines[2:]]


def around(source: str, line: int) -> list[Numbered]:
    """Return the lines around the one that failed."""
    lines = source.splitlines()
    first = max(0, line - 1 - AROUND)
    return [
        Numbered(number, text, is_meant=number == line)
        for number, text in enumerate(lines[first : line + AROUND], first + 1)
    ]


def numbered(source: str, meant: Collection[int] = ()) -> list[Numbered]:
    """Number the lines of a source, and mark those that are spoken of."""
    return [
        Numbered(number, text, is_meant=number in meant)
        for number, text in enumerate(source.splitlines(), 1)
    ]


def qr_path(text: str) -> tuple[int, str]:
    """Return the width of the QR code of a text with its quiet zone, and its path of squares."""
    rows = qr.encode(text)
    dark = (
        f"M{x + qr.QUIET} {y + qr.QUIET}h1v1h-1z"
        for y, row in enumerate(rows)
        for x, is_dark in enumerate(row)
        if is_dark
    )
    return len(rows) + 2 * qr.QUIET, "".join(dark)


def href(name: str, value: object) -> str:
    """Return the place of what a fact names, if it names something; else nothing."""
    text = value if isinstance(value, str) else ""
    if name == "workflow" and text:
        return f"/w/{text}"
    for begins, place in (("run_", "/runs/"), ("mutation_", "/m/")):
        if text.startswith(begins):
            return f"{place}{text}"
    return ""


def mutation_of(offers: Sequence[Mapping[str, Any]]) -> str:
    """Return the change that offers are about, if they are about one."""
    return next(
        (str(each["args"]["mutation"]) for each in offers if "mutation" in each["args"]), ""
    )


def offered(
    offers: Sequence[Mapping[str, Any]], may: Callable[[str], bool], back: str
) -> list[Mapping[str, Any]]:
    """Keep the offers that a page can show: those its viewer may use, and links to look."""
    kept = [
        each
        for each in offers
        if each["verb"] in LOOKS
        or (may(f"/act/{each['verb']}") and (each["verb"] != "deploy" or back.startswith("w/")))
    ]
    return sorted(kept, key=lambda each: (each["verb"] in LAST, each["verb"] != FIRST))


def titles_of(reason: Mapping[str, Any], titles: Sequence[str]) -> Sequence[str]:
    """Return the titles of the inputs something is about, or of the one that may be the cause."""
    suspect = reason["facts"].get("suspect")
    return titles or ([suspect] if suspect else ())


def title_of(offers: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> str:
    """Return the title of the one input that offers would skip; of several only ids are sure."""
    skips = [each for each in offers if each["verb"] == "skip"]
    return titles[0] if len(skips) == len(titles) == 1 else ""
