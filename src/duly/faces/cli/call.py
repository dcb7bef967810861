"""A call on paper: what the host observed beside what the script claims, and what can be done.

Law 1  What the script claims and what the host observed stand in two columns, each under its name
       (L11).
Law 2  A person who is about to decide sees every character of the observed call (G9); a list cuts.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import click

from duly.api.registry import VERBS
from duly.api.text import cut, visible, visible_json
from duly.api.value import Json, has_lines
from duly.faces.cli.base import paper, say, show, table
from duly.faces.cli.spelling import spell
from duly.faces.cli.view import View
from duly.words.phrase import in_quotes

CALL_CHARS_MAX: Final = 300  # of a call or a payload in a list; `--json` has all of it
NO_TITLE: Final = "no title given"
COLUMNS: Final = ("observed", "claimed")


def value(given: Json) -> str:
    """Write any value on one line."""
    if given is None:
        return "–"
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def call(observed: Mapping[str, Any]) -> str:
    """Write a call as it was observed, cut to what a list has room for."""
    args = observed["args"]
    told = (
        ", ".join(f"{name}={json.dumps(each, ensure_ascii=False)}" for name, each in args.items())
        if isinstance(args, dict)
        else value(args)
    )
    return cut(f"{observed['tool']}({told})", CALL_CHARS_MAX)


def claim(claimed: str | None) -> str:
    """Write what the script calls a change, in quotation marks: the words are the script's."""
    return NO_TITLE if claimed is None else in_quotes(claimed)


def change(observed: Mapping[str, Any] | None, claimed: str | None, *, indent: int) -> None:
    """Write what was observed and what is claimed, in two columns (L11)."""
    if observed is not None:
        table([(call(observed), claim(claimed))], COLUMNS, is_even=True, indent=indent)


def place(script: Mapping[str, Any] | None, view: View) -> None:
    """Write where a script failed, and what it printed last (U7)."""
    if script is None:
        return
    line = "" if script["line"] is None else f", line {script['line']}"
    say(f"failed in {script['handler']}.{script['step']}{line}", indent=2)
    lines = script["logs"] if view.is_full else script["logs"][-view.offers_max :]
    for text in lines:
        say(f"log: {text}", indent=4)


def offers(offered: Sequence[Mapping[str, Any]], view: View, *, indent: int) -> None:
    """Write what can be done as commands to paste; a line is not broken.

    What comes of it stands beside a command where it fits, else below it; as a comment, so that it
    can be pasted as well.
    """
    from rich.cells import cell_len

    width = paper().width
    for each in offered[: view.offers_max]:
        typed = spell(VERBS[each["verb"]], each["args"], each["asks"], view)
        line, does = " " * indent + typed, f"# {visible(each['text'])}"
        fits = cell_len(f"{line}  {does}") <= width
        click.echo(f"{line}  {does}" if fits else line)
        if not fits:
            say(does, indent=indent + 2)


def side_by_side(claimed: str | None, observed: Mapping[str, Any]) -> None:
    """Show what the script claims and what the host observed, side by side and whole (L11)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    args = observed["args"]
    parts = [visible(observed["tool"])]
    if isinstance(args, dict):
        parts += [_argument(name, each) for name, each in args.items()]
    else:
        parts.append(_pretty(args))
    made = Table(box=box.ROUNDED, expand=True)
    made.add_column("claimed by the script", ratio=1, overflow="fold")
    made.add_column("observed by the host", ratio=1, overflow="fold")
    made.add_row(Text(visible(claim(claimed))), Text("\n".join(parts)))
    show(made)


def _argument(name: str, given: Json) -> str:
    """Write one argument as JSON, so that what is spelled out cannot pass for what was written.

    A text of several lines keeps them, each marked as a line of it; also inside an object or a
    list, whose parts are then written one by one.
    """
    shown = visible(name)
    if not has_lines(given):
        return f"{shown} = {_pretty(given)}"
    if isinstance(given, str):
        lines = (f"  | {_pretty(line)[1:-1]}" for line in given.split("\n"))
        return "\n".join([f"{shown} =", *lines])
    whole = cast("dict[str, Json] | list[Json]", given)
    entries = whole.items() if isinstance(whole, dict) else enumerate(whole)
    parts = (_argument(_pretty(key), each) for key, each in entries)
    return "\n".join([f"{shown} =", *(textwrap.indent(part, "  ") for part in parts)])


def _pretty(given: Json) -> str:
    return visible_json(json.dumps(given, ensure_ascii=False, indent=2))
