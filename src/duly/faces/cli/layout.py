"""Which kind of answer looks how: the type of a verb's result chooses, and not its name (U6).

Law: a record without a row here is shown by its fields, and a list of them as a table, so that a
     new verb needs no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import click

from duly.api.text import visible
from duly.faces.cli import entry
from duly.faces.cli.base import say, table
from duly.faces.cli.call import claim, value
from duly.faces.cli.view import View
from duly.words.page import event_word
from duly.words.replay import say_replay
from duly.words.seal import say_changed, say_imported, say_once, say_sound, say_unseen

Answer: TypeAlias = Any
Entry: TypeAlias = Callable[[Answer, View], None]
Cells: TypeAlias = Callable[[Answer, View], Sequence[object]]


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: the heads of its columns, those that are times, and what a row has in each.

    In a table of one line each, what is too long is cut in the columns that `cut` names.
    """

    heads: Sequence[str]
    cells: Cells
    times: Sequence[str] = ()
    cut: Sequence[str] = ()

    def show(self, answer: Sequence[Answer], view: View) -> None:
        """Show rows below their heads; the zone of times is named there, once."""
        heads = [view.head(each) if each in self.times else each for each in self.heads]
        cut = [self.heads.index(each) for each in self.cut]
        table((self.cells(each, view) for each in answer), heads, cut=cut)


@dataclass(frozen=True, slots=True)
class Layout:
    """How records of one type are shown: alone, in a list, and in a list that is short.

    Without `alone` one of them is shown as it would be in a list. `is_spaced` leaves a line between
    two of them. `is_short` says that there is more to see with `--full`.
    """

    each: Entry | None = None
    alone: Entry | None = None
    columns: Columns | None = None
    is_spaced: bool = False
    is_short: bool = False

    def show_all(self, answer: Sequence[Answer], view: View) -> None:
        """Show a list: as a table if there is one, unless everything is wanted."""
        if self.columns is not None and (self.each is None or not view.is_full):
            self.columns.show(answer, view)
            return
        show = self.each
        assert show is not None
        for place, each in enumerate(answer):
            if place and self.is_spaced:
                say("")
            show(each, view)

    def show_one(self, answer: Answer, view: View) -> None:
        """Show one record alone."""
        show = self.alone or self.each
        if show is not None:
            show(answer, view)
        else:
            entry.fields(answer)


# -- Tables of one line each ----------------------------------------------------------------------


def _input(each: Answer, view: View) -> Sequence[object]:
    """Write an input on one line: of several things that came of it the first, and how many."""
    status = "stale" if each["stale"] else each["status"]
    if not each["outputs"]:
        return (status, each["title"], each["reason"]["text"], "")
    first, *more = each["outputs"]
    became = first["status"].replace("_", " ")
    further = f" (+{len(more)})" if more else ""
    return (
        status,
        each["title"],
        f"{became}{further}: {entry.call_of(first)}",
        claim(first["claimed"]),
    )


def _output(each: Answer, view: View) -> Sequence[object]:
    status = each["status"].replace("_", " ")
    inputs = each["inputs"]
    cause = f"{inputs[0]}{f' (+{len(inputs) - 1})' if inputs[1:] else ''}" if inputs else ""
    # An event has no id of its own; its topic says where it was published.
    name = view.id(each["id"]) if each["observed"] else ""
    return (name, status, entry.call_of(each), claim(each["claimed"]), cause)


# -- Whole answers ------------------------------------------------------------------------------


def verified(answer: Answer, view: View) -> None:
    """Show whether the store is sound."""
    say(say_sound(answer["ok"]))
    for each in answer["problems"]:
        say(each, indent=2)
    for each in answer["changed"]:
        say(say_changed(each["id"], each["flaw"], each["parts"]), indent=2)
    if answer.get("imported"):
        say(say_imported(answer["imported"]))
    say(say_unseen(answer["unseen"]))


def certified(answer: Answer, view: View) -> None:
    """Show what is known of a change being made once; first whether it is proof."""
    changed = list_changed(answer)
    say(say_once(bool(changed), answer["applied"], answer["open"]))
    for each in changed:
        say(say_changed(each["id"], each["seal"]["flaw"], each["seal"]["parts"]), indent=2)
    if imported := sum(each["seal"].get("is_imported", False) for each in answer["changes"]):
        say(say_imported(imported))
    entry.fields({name: each for name, each in answer.items() if name != "unseen"})
    say(say_unseen(answer["unseen"]))


def _of(count: int, most: int | None) -> str:
    return str(count) if most is None else f"{count} of {most}"


def _tokens(each: Answer) -> str:
    return str(each["tokens_in"] + each["tokens_out"])


def list_changed(certificate: Answer) -> list[Answer]:
    """List the changes of a certificate whose seal does not fit."""
    return [each for each in certificate["changes"] if not each["seal"]["is_whole"]]


def found(answer: Answer, view: View) -> None:
    """Show what a search found, and how to go on."""
    keys = ("workflow", "topic", "message_id", "status", "title")
    told = ({**each, "status": event_word(each, each["status"])} for each in answer["hits"])
    table(([each[key] for key in keys] for each in told), keys)
    if answer["after"]:
        say(f"There may be more: add --after {answer['after']}")


def queried(answer: Answer, view: View) -> None:
    """Show what a SELECT returned."""
    table(([value(each) for each in row] for row in answer["rows"]), answer["columns"])
    say("There are more rows than the limit." if answer["is_cut"] else "")


def replay(answer: Answer, view: View) -> None:
    """Show where a version would have done otherwise."""
    say(say_replay(answer["tried"], len(answer["differences"])))
    for each in answer["differences"]:
        say(each["text"], indent=2)


def granted(answer: Answer, view: View) -> None:
    """Show what was granted, and whether a person is asked before each change that it allows."""
    most = answer["mutations_per_day"]
    limits = [] if most is None else [f"{most} changes a day"]
    limits += [f"{name}={glob}" for name, glob in answer["where"].items()]
    only = f", only {', '.join(limits)}" if limits else ""
    at = view.at(answer["granted_at"])
    say(f"{answer['capability']}{only}: granted by {answer['granted_by']}, {at}")
    for each in answer["asks"]:
        say(f"{each['tool']}: {each['text']}", indent=2)


def text(answer: str) -> None:
    """Show a text of several lines as it is; its lines are not broken."""
    click.echo(visible(answer, is_block=True))


# -- By type --------------------------------------------------------------------------------------

LAYOUTS: Final[Mapping[str, Layout]] = {
    "Workflow": Layout(entry.workflow, is_spaced=True),
    "Attention": Layout(entry.attention, is_spaced=True, is_short=True),
    "Why": Layout(entry.why, is_short=True),
    "Input": Layout(
        entry.came_in,
        columns=Columns(
            ("status", "input", "observed", "claimed"),
            _input,
            cut=("input", "observed", "claimed"),
        ),
        is_short=True,
    ),
    "Output": Layout(
        entry.came_out,
        columns=Columns(
            ("id", "status", "observed", "claimed", "because of"),
            _output,
            cut=("observed", "claimed", "because of"),
        ),
        is_short=True,
    ),
    "Run": Layout(entry.run),
    "Mutation": Layout(entry.mutation, entry.whole_mutation),
    "Approval": Layout(entry.approval, is_spaced=True),
    "Granted": Layout(granted),
    "LogLine": Layout(
        columns=Columns(
            ("at", "from", "said"),
            lambda each, view: (view.cell(each["at"]), each["source"], each["text"]),
            times=("at",),
        )
    ),
    "Journaled": Layout(entry.journaled),
    "Deferred": Layout(entry.deferred),
    "Verified": Layout(alone=verified),
    "Certificate": Layout(alone=certified),
    "Replay": Layout(alone=replay),
    "Hits": Layout(alone=found),
    "Rows": Layout(alone=queried),
    "Event": Layout(
        columns=Columns(
            ("seq", "topic", "message id", "status", "title"),
            lambda each, _: (
                each["seq"],
                each["topic"],
                each["message_id"],
                event_word(each, each["status"]),
                each["title"],
            ),
        )
    ),
    "Version": Layout(
        columns=Columns(
            ("version", "active", "author", "by way of", "from", "made", "findings"),
            lambda each, view: (
                each["version"],
                "active" if each["active"] else "",
                each["author"],
                each["origin"],
                each["parent"],
                view.cell(each["created_at"]),
                len(each["findings"]),
            ),
            times=("made",),
        )
    ),
    "Action": Layout(
        columns=Columns(
            ("at", "who", "what", "workflow", "on"),
            lambda each, view: (
                view.cell(each["at"]),
                each["by"],
                each["verb"],
                each["workflow"],
                view.named(each["target"] or ""),
            ),
            times=("at",),
        )
    ),
    "ModelUse": Layout(
        columns=Columns(
            ("day", "account", "model", "calls", "tokens", "reserved", "cost"),
            lambda each, view: (
                *(each["day"][:10], each["account"], each["model"]),
                *(_of(each["calls"], each["calls_max"]), _tokens(each)),
                *(str(each["reserved"]), f"{each['cost']:g}"),
            ),
        )
    ),
    "ShownQuestion": Layout(
        columns=Columns(
            ("asked", "account", "model", "for", "status", "tokens", "question", "answer"),
            lambda each, view: (
                *(view.cell(each["asked_at"]), each["account"], each["model"], each["purpose"]),
                *(each["fault"] or each["status"], _tokens(each)),
                *(each["question"][:40], (each["answer"] or "–")[:40]),
            ),
            times=("asked",),
        )
    ),
    "Allowance": Layout(
        columns=Columns(
            ("allowance", "workflow", "tool", "used", "until", "by", "ended"),
            lambda each, view: (
                *(view.id(each["id"]), each["workflow"], each["tool"]),
                *(f"{each['used']} of {each['calls']}", view.cell(each["until"])),
                *(each["given_by"], each["ended"] or "–"),
            ),
            times=("until",),
        )
    ),
    "Approved": Layout(
        columns=Columns(
            ("mutation", "refused"),
            lambda each, view: (view.id(each["mutation"]), each["refused"] or "–"),
        )
    ),
    "Identity": Layout(
        columns=Columns(
            ("id", "workflow", "status", "made"),
            lambda each, view: (
                *(each["short"], each["workflow"], each["status"], view.cell(each["at"])),
            ),
            times=("made",),
        )
    ),
    "Delivery": Layout(
        columns=Columns(
            ("event", "subscriber", "status", "attempts", "why"),
            lambda each, _: (
                each["event_id"],
                each["subscriber_id"],
                each["status"],
                each["attempts"],
                each["error"] or (each["reason"] and each["reason"]["text"]),
            ),
        )
    ),
}
