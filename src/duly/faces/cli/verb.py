"""One command for every verb, made from the table of verbs (U6).

Law 1  What a verb needs is an argument, what it may be given is an option; a workflow it may be
       given is an argument too, and so is a producer. Who acts is the user.
Law 2  A file is read here, by the user who named it, and never by the host.
Law 3  Followed lists print only what is new or changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import click

from duly.api.registry import Parameter, Verb, WholePath
from duly.api.value import Json
from duly.api.word import SUFFIXES, Source
from duly.faces.cli.base import (
    EXIT_FAILED,
    FULL,
    Face,
    echo_json,
    echo_json_line,
    keeper,
    run,
    say,
)
from duly.faces.cli.completion import complete_id, complete_nothing, complete_workflow
from duly.faces.cli.foreign import tell_before_grant
from duly.faces.cli.layout import LAYOUTS
from duly.faces.cli.only import find_only
from duly.faces.cli.progress import working
from duly.faces.cli.show import kind_of, shown
from duly.faces.cli.spelling import example_of, is_argument
from duly.faces.cli.table import command_of, row_of
from duly.faces.cli.view import View

FILE_BYTES_MAX: Final = 8 * 1024 * 1024  # no host takes more in one request

# What an option is for, by its name; `{verb}.{name}` says it better for one verb.
OPTIONS: Final[Mapping[str, str]] = {
    "redirect": "An address on 127.0.0.1 at which you listen.",
    "begin_oauth.capabilities": "What else it may do, as a list in JSON.",
    "device": "Sign in on another device, where the provider offers it.",
    "given": "The whole address at which the browser ended.",
    "limit": "How many at most, 1 to 1000.",
    "times": "How many of each producer, 1 to 100.",
    "before": "Continue a list: the id, seq or key of its last entry.",
    "after": "Continue a list: the name, seq or key of its last entry.",
    "status": "Only those with this status.",
    "topic": "Only those of this topic.",
    "handler": "Only those of this handler.",
    "first_day": "Only what came on this day or later: 2026-05-31.",
    "last_day": "Only what came on this day or earlier: 2026-05-31.",
    "title": "What the event is, for people.",
    "message_id": "What makes the event the same one if it is published again.",
    "payload": "The event's payload.",
    "grant": "Allow every capability the source uses.",
    "strict": "Let warnings refuse it too.",
    "mutations_per_day": "How many changes a day it allows.",
    "asks": 'When you are asked first: {"mail.send": "always"}, or "first:5"; {} takes it back.',
    "where": 'Globs over arguments: {"to": "*@acme.com"}.',
    "source": "In whose name the event is emitted.",
    "correlation_id": "What belongs together has the same one.",
    "event_id": "Only those of this event.",
    "result": "What the service returned, if it happened.",
    "scope": "What it may do: read, agent, decide or admin.",
    "days": "How many days it lasts; without it, until it is revoked.",
    "headers": "The headers that prove it, in small letters.",
    "note": "Why, for the person who decides.",
    "reason": "Why not.",
    "seen": "What the answer before said; a change since then returns at once.",
    "seconds": "How long at most, 1 to 45.",
    "replay": "Let it do things again, because something has another name now.",
    "export.workflow": "Only this workflow; without it all of them.",
    "hand_over": "Pause it here for good, so that another store can import it.",
    "copy": "Import a file that was not handed over.",
    "key": "The key of its address, in place of a signature.",
    "unread": "Count posts that were refused before they were read, for this reason.",
    "posts": "How many such posts.",
    "workflow": "Only of this workflow.",
    "kind": "Only ids of this kind.",
    "wait.id": "A run, a mutation or a workflow; without it, all that waits for you.",
    "other_account": "Let another account than before sign in.",
    "prove.args": "The arguments of the call, in place of those that are shown.",
    "add_connection.settings": "Its settings, as an object in JSON.",
    "add_connection.secrets": "Its secrets, as an object in JSON.",
    "once": "A word of your own: the same one sent again adds nothing.",
}
Given: TypeAlias = dict[str, Any]


# -- Kinds of arguments -------------------------------------------------------------------------


class JsonType(click.ParamType[Json]):
    """JSON as it stands, `@file`, or `-` for stdin."""

    name = "JSON|@FILE|-"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        """Read it, or say where it is not JSON."""
        if not isinstance(value, str):
            answer: Json = value
            return answer
        try:
            text = value
            if value == "-":
                text = read_text(sys.stdin.buffer, "stdin")
            elif value.startswith("@"):
                with Path(value[1:]).open("rb") as file:
                    text = read_text(file, value[1:])
            read: Json = json.loads(text, parse_constant=_refuse_constant)
        except OSError as error:
            self.fail(f"{value[1:]} cannot be read: {error.strerror}.", param, ctx)
        except RecursionError:
            self.fail("it is nested too deeply.", param, ctx)
        except ValueError as error:
            self.fail(f"this is not JSON: {error}. Text needs quotation marks.", param, ctx)
        return read


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def read_text(file: BinaryIO, name: str) -> str:
    """Read a text whole; one that is too long, or no text, is refused and never cut."""
    content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise click.UsageError(f"{name} is longer than {FILE_BYTES_MAX} bytes. Shorten it.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError(f"{name} is not UTF-8. Save it as UTF-8.") from None


class SourceType(click.ParamType[Json]):
    """A file whose ending says the language; it is read here."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        """Read the file as a source."""
        if isinstance(value, dict):
            return value
        path = Path(value)
        language = SUFFIXES.get(path.suffix)
        if language is None:
            known = " or ".join(SUFFIXES)
            self.fail(
                f"{path}: the end of the name does not say the language. Name it {known}.",
                param,
                ctx,
            )
        try:
            with path.open("rb") as file:
                text = read_text(file, str(path))
        except OSError as error:
            self.fail(f"{path} cannot be read: {error.strerror}.", param, ctx)
        whole = str(path.resolve())
        return {"language": str(language), "text": text, "name": path.name, "path": whole}


class PathType(click.ParamType[str]):
    """A file the host will write; the host works in another folder, so the path is made whole."""

    name = "PATH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Make the path absolute."""
        return str(Path(value).expanduser().absolute())


JSON: Final = JsonType()
SOURCE: Final = SourceType()
PATH: Final = PathType()
# What has no row crosses as JSON, and is typed as JSON.
TYPES: Final[Mapping[Any, Any]] = {
    str: click.STRING,
    int: click.INT,
    float: click.FLOAT,
    str | int: click.STRING,
    Source: SOURCE,
    WholePath: PATH,
}


# -- Making a command ---------------------------------------------------------------------------


def make(verb: Verb) -> click.Command:
    """Make the command of a verb."""

    def callback(**given: Any) -> None:
        face = click.get_current_context().ensure_object(Face)
        is_followed = given.pop("follow", False)
        args = {name: each for name, each in given.items() if each is not None}
        if is_left_open(verb) and verb.parameters[0].name not in args:
            args[verb.parameters[0].name] = find_only(face, verb.name)
        if verb.name == "grant":
            tell_before_grant(face, args["capability"])
        if is_followed:
            follow(face, verb, args)
        else:
            answer(face, verb, args)

    return click.Command(
        name=command_of(verb.name).split()[-1],
        params=[*parameters(verb), *common(verb)],
        callback=callback,
        help=verb.doc,
        short_help=short(verb),
        epilog=example_of(verb),
    )


def is_left_open(verb: Verb) -> bool:
    """Tell whether it is an act on one thing, which need not be named where only one waits."""
    required = [each for each in verb.parameters if each.is_required]
    return not verb.is_question and len(required) == 1 and bool(required[0].names)


def parameters(verb: Verb) -> list[click.Parameter]:
    """Make the arguments and options of a verb."""
    return [_parameter(verb, each) for each in verb.parameters]


def _parameter(verb: Verb, parameter: Parameter) -> click.Parameter:
    kind = click.Choice(parameter.words) if parameter.words else TYPES.get(parameter.kind, JSON)
    if is_argument(parameter):
        complete = complete_id(parameter.names)
        if not parameter.names:
            complete = complete_workflow if parameter.name == "workflow" else complete_nothing
        is_required = parameter.is_required and not is_left_open(verb)
        return click.Argument(
            [parameter.name], type=kind, required=is_required, shell_complete=complete
        )
    names = [f"--{parameter.name.replace('_', '-')}", parameter.name]
    told = OPTIONS.get(f"{verb.name}.{parameter.name}", OPTIONS.get(parameter.name, ""))
    if parameter.kind is bool:
        return click.Option(names, is_flag=True, default=False, help=told)
    defaults = row_of(verb.name).defaults
    default = defaults.get(parameter.name, parameter.default)
    if default not in (None, "", [], (), [0, ""], (0, "")):
        told = f"{told} [default: {default}]"
    if parameter.name in defaults:
        return click.Option(names, type=kind, default=default, help=told)
    return click.Option(names, type=kind, required=parameter.is_required, help=told)


def common(verb: Verb) -> list[click.Parameter]:
    """Make the options that commands have in common."""
    found: list[click.Parameter] = []
    if verb.is_followable:
        told = "Stay, and print what is new or changed; needs a running host."
        found.append(click.Option(["--follow", "-f"], is_flag=True, help=told))
    layout = LAYOUTS.get(kind_of(verb.name))
    if layout is not None and layout.is_short:
        found.append(_kept("--full", "is_full", is_flag=True, help=FULL))
    found.append(_kept("--json", "is_json", is_flag=True, help="Print the result as JSON."))
    return found


def _kept(option: str, name: str, **settings: Any) -> click.Option:
    return click.Option([option, name], expose_value=False, callback=keeper(name), **settings)


def short(verb: Verb) -> str:
    """Write what a list of commands says of a verb: its row's words, or its first sentence."""
    told = row_of(verb.name).short or verb.doc.split("\n\n")[0]
    return " ".join(told.split())


# -- Calling ------------------------------------------------------------------------------------


def answer(face: Face, verb: Verb, args: Given) -> None:
    """Call the verb once and show what it answers."""
    row = row_of(verb.name)
    with working(row.meanwhile) if row.meanwhile else nullcontext():
        told, view = face.ask(verb.name, **args)
    if face.is_json:
        echo_json(told)
    else:
        shown(verb.name, told, args, view)
        if row.is_explained:
            why: Any = face.call("why", **args)
            say(why["reason"]["detail"])
    if row.is_failed is not None and row.is_failed(told):
        raise click.exceptions.Exit(EXIT_FAILED)


def follow(
    face: Face, verb: Verb, args: Given, is_kept: Callable[[Any], bool] = lambda _: True
) -> None:
    """Show the answer, then what is new or changed, until the host or the person stops."""

    async def following() -> None:
        before: frozenset[str] | None = None
        async with face.session() as session:
            async for told in session.follow(verb.name, **args):
                entries = [*filter(is_kept, told)] if isinstance(told, list) else [told]
                fresh = [each for each in entries if before is None or _text(each) not in before]
                before = frozenset(map(_text, entries))
                # A list that begins with the newest is told as it happened.
                if any(each.name == "before" for each in verb.parameters):
                    fresh.reverse()
                view = await face.view(session, None if face.is_json else fresh)
                _tell(face, verb, args, fresh, view, is_list=isinstance(told, list))

    run(following())


def _tell(
    face: Face, verb: Verb, args: Given, fresh: list[Json], view: View, *, is_list: bool
) -> None:
    if face.is_json:
        for each in fresh:
            echo_json_line(each)
    elif is_list and fresh:
        shown(verb.name, fresh, args, view)
    else:
        for each in fresh:
            shown(verb.name, each, args, view)
    sys.stdout.flush()


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
