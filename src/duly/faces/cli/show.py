"""What a verb answered, in a terminal: a sentence, entries or a table.

Law 1  The type of the result chooses how it looks (`layout.py`); what is said after an act stands
       in `words/done.py`.
Law 2  A result of a type that no layout knows is shown by its fields, so that no verb is left out
       (U6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, TypeAlias, get_args, get_origin

from duly.api.registry import VERBS
from duly.api.value import Json
from duly.faces.cli.base import say, table
from duly.faces.cli.call import value
from duly.faces.cli.entry import fields
from duly.faces.cli.layout import LAYOUTS, Layout, text
from duly.faces.cli.spelling import spell_done
from duly.faces.cli.view import View
from duly.words.done import tell_done, tell_nothing

Args: TypeAlias = Mapping[str, Any]

PLAIN: View = View()


def shown(verb: str, answer: Json, args: Args, view: View = PLAIN) -> None:
    """Show what a verb answered."""
    kind = kind_of(verb)
    layout = LAYOUTS.get(kind)
    is_question = verb not in VERBS or VERBS[verb].is_question
    given = {name: _named(each, view) for name, each in args.items()}
    if not answer and (isinstance(answer, list) or (is_question and answer == "")):
        say(spell_done(tell_nothing(verb, kind), view))
    elif isinstance(answer, list):
        _show_all(answer, layout, view)
    elif layout is not None and isinstance(answer, dict):
        layout.show_one(answer, view)
    elif not is_question:
        say(spell_done(tell_done(verb, _named(answer, view), given), view))
    elif isinstance(answer, dict):
        fields(answer)
    elif isinstance(answer, str) and "\n" in answer:
        text(answer)
    else:
        say(value(answer))


def kind_of(verb: str) -> str:
    """Return the name of the record that a verb returns, or several of; "" for a plain value."""
    returns = VERBS[verb].returns if verb in VERBS else None
    if get_origin(returns) is tuple:
        returns = get_args(returns)[0]
    return returns.__name__ if isinstance(returns, type) and is_dataclass(returns) else ""


def _show_all(answer: list[Json], layout: Layout | None, view: View) -> None:
    if layout is not None:
        layout.show_all(answer, view)
    elif all(isinstance(each, dict) for each in answer):
        names = list(dict.fromkeys(name for each in answer for name in _names(each)))
        rows = (
            [value(each.get(name)) for name in names] for each in answer if isinstance(each, dict)
        )
        table(rows, [each.replace("_", " ") for each in names])
    else:
        for each in answer:
            say(value(each))


def _names(record: Json) -> list[str]:
    return list(record) if isinstance(record, dict) else []


def _named(given: Any, view: View) -> Any:
    return view.named(given) if isinstance(given, str) else given
