"""Verbs as command lines: what can be done next, and examples (U6).

Law 1  A command can be pasted as it stands: what an id contains is quoted, and what a terminal
       would obey is spelled out. What a person has to choose is left open, in capitals.
Law 2  Which words are arguments and which are options is said by the verb's signature alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from duly.api.registry import VERBS, Parameter, Verb
from duly.faces.cli.offer import quote
from duly.faces.cli.table import ROWS, Row, command_of, row_of
from duly.faces.cli.view import View
from duly.fact import Offer
from duly.words.done import DOES, Done

# What a verb may be given and is an argument all the same.
OPEN: Final = ("workflow", "producer", "version", "begins", "text")


def is_argument(parameter: Parameter) -> bool:
    """Tell whether it is an argument; everything else is an option."""
    if parameter.is_keyword:
        return False
    return parameter.is_required or parameter.name in OPEN


def spell(
    verb: Verb, args: Mapping[str, Any], asks: Iterable[str] = (), view: View | None = None
) -> str:
    """Write a verb with its arguments as a command line; what `asks` names is left open.

    With a view, ids are as short as it writes them.
    """
    row = row_of(verb.name)
    arguments: list[str] = []
    options: list[str] = []
    for each in verb.parameters:
        if each.name in row.left_out:
            continue
        if each.name in asks:
            word = "FILE" if each.name == "source" else each.name.upper()
        elif each.name in args and not _is_default(each.name, args, row):
            word = _word(args[each.name])
            if view is not None and each.names:
                word = view.named(word) if each.names[1:] else view.id(word)
        else:
            continue
        if is_argument(each):
            arguments.append(word)
        elif each.kind is bool:
            options += [f"--{each.name.replace('_', '-')}"] if args.get(each.name) else []
        else:
            options += [f"--{each.name.replace('_', '-')}", word]
    # Behind two dashes nothing is taken for an option, also no id that begins with a dash.
    is_odd = any(each.startswith("-") for each in arguments)
    given = [*options, "--", *arguments] if is_odd else [*arguments, *options]
    return " ".join(["duly", command_of(verb.name), *map(quote, given)])


def _is_default(name: str, args: Mapping[str, Any], row: Row) -> bool:
    return name in row.defaults and args[name] == row.defaults[name]


def _word(value: Any) -> str:
    if isinstance(value, Mapping) and "language" in value:
        return str(value["name"])  # a source is named by its file
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def spell_done(done: Done, view: View | None = None) -> str:
    """Write what was done, and the command that is offered next."""
    told = done.sentence
    return told if done.next is None else f"{told} {_spell_next(done.next, view)}"


def _spell_next(offer: Offer, view: View | None) -> str:
    return f"`{spell(VERBS[offer.verb], offer.args, offer.asks, view)}` {DOES[offer.does]}."


# -- Examples -----------------------------------------------------------------------------------


def example(command: str) -> str:
    """Write the example of a command that is more than its verb, as its row has it."""
    return _block(ROWS[command].example)


def example_of(verb: Verb) -> str:
    """Write the example of a verb: what its method declares, spelled as a command."""
    return _block(row_of(verb.name).example or spell(verb, verb.example))


def _block(line: str) -> str:
    return f"\b\nExample:\n  {line}" if line else ""


class Spelled(click.Command):
    """A command that is more than its verb; its help shows the verb's example all the same."""

    def __init__(self, *args: Any, verb: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._verb = verb

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Spell the example when help is asked for, and not before."""
        self.epilog = example_of(VERBS[self._verb])
        super().format_epilog(ctx, formatter)
