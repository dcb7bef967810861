"""What every command stands on: the project, the way to a host, paper to write on, and errors.

Law 1  Text from outside is made visible before it reaches a terminal: a title, a log line or an
       argument can write no escape codes and hide no character (L11, G9).
Law 2  Answers go to stdout; hints and errors go to stderr, each as one sentence with what to do.
Law 3  Nothing heavy is imported before a command needs it.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from duly.api.text import visible, visible_json
from duly.errors import DulyError, RequestRefused
from duly.faces.cli.table import command_of, row_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from duly.api.project import Project
    from duly.api.session import Session
    from duly.api.value import Json
    from duly.faces.cli.view import View

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = 80  # where the width of the terminal is not known
COLUMNS_MAX: Final = 120  # longer lines are hard to read
LOOK_S_MAX: Final = 0.5  # the command waits no longer for a host that need not be there
FULL: Final = "Show all there is to see, and not only the most important."
EXIT_FAILED: Final = 1
EXIT_UNPROVEN: Final = 3  # nothing went wrong, and nothing was shown to be right
EXIT_STOPPED: Final = 130
OTHER_SETTINGS: Final = (
    "The running host was started with other settings than duly.toml has now; "
    "restart it to use them."
)
NO_PROJECT: Final = "There is no project here yet: `duly init` makes one."
STILL: Final = "No host is running: nothing follows until `duly serve` (or `duly drain`, once)."


@dataclass(slots=True)
class Face:
    """One call of the command line: what was said before the command, and what it needs.

    `asked` is what the last verb was given, so that an error can name it; `is_quiet` is for a
    command that tells what a session would hint at in another way, or not at all.
    """

    given: str | None = None
    is_debug: bool = False
    is_json: bool = False
    is_full: bool = False
    is_quiet: bool = False
    asked: dict[str, Any] = field(default_factory=dict)
    _project: list[Project] = field(default_factory=list)
    _told: set[str] = field(default_factory=set)

    @property
    def project(self) -> Project:
        """The project, found when it is first asked for."""
        if not self._project:
            import os
            from pathlib import Path

            from duly.api.project import find_project

            try:
                here = Path.cwd()
            except FileNotFoundError:
                raise RequestRefused(code="folder_gone") from None
            self._project.append(find_project(self.given, os.environ, here))
        return self._project[0]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Connect to the running host, or open the store for this one command."""
        from duly.api.session import connect

        async with connect(self.project) as session:
            if session.host is not None and session.host.has_other_settings(self.project):
                self._tell_once(OTHER_SETTINGS)
            try:
                yield session
            finally:
                # A question makes no store: the user is in another folder than they think.
                is_nowhere = self.project.file is None and not self.project.has_store
                if session.host is None and is_nowhere:
                    self._tell_once(NO_PROJECT)

    async def view(self, session: Session, answer: Json) -> View:
        """Find out how an answer is shown: how short its ids can be, and in which zone."""
        from duly.faces.cli.view import View, list_ids

        ids: dict[str, str] = {}
        found: list[Json] = [*list_ids(answer)]
        # A host of another version may not know; then ids are shown in full.
        with suppress(DulyError):
            short = await session.call("short_ids", ids=found) if found else {}
            assert isinstance(short, dict), short
            ids = {name: str(each) for name, each in short.items()}
        return View(self.is_full, self.project.config.policy.timezone, ids)

    async def look(self) -> None:
        """Look whether a running host has other settings, for a command that needs none."""
        with suppress(DulyError, TimeoutError):
            async with asyncio.timeout(LOOK_S_MAX), self.session():
                self.is_quiet = True  # of what else there would be to tell

    def _tell_once(self, text: str) -> None:
        if not self.is_quiet and text not in self._told:
            hint(text)
            self._told.add(text)

    def call(self, verb: str, /, **args: Json) -> Json:
        """Call one verb; after an act say if there is no host that would go on."""
        return self._call(verb, args, is_seen=False)[0]

    def ask(self, verb: str, /, **args: Json) -> tuple[Json, View]:
        """Call one verb, and find out how its answer is shown."""
        return self._call(verb, args, is_seen=not self.is_json)

    def _call(self, verb: str, args: dict[str, Json], *, is_seen: bool) -> tuple[Json, View]:
        self.asked = args

        async def calling() -> tuple[Json, View, bool]:
            async with self.session() as session:
                answer = await session.call(verb, **args)
                # What was given may be an id as well, and stands in what is said of it.
                view = await self.view(session, [answer, *args.values()] if is_seen else None)
                return answer, view, session.host is not None

        try:
            answer, view, is_running = run(calling())
        except KeyboardInterrupt:
            tell_stopped(verb)
            raise
        if not is_running and row_of(verb).is_moving and answer is not False:
            # After the answer, which the reader wants first.
            click.get_current_context().call_on_close(lambda: hint(STILL))
        return answer, view


def tell_stopped(verb: str) -> None:
    """Say of an act whose caller stopped waiting that it may have been done."""
    from duly.api.registry import VERBS

    if not VERBS[verb].is_question:
        look = f"`duly {command_of(VERBS[verb].recorded_in)}`"
        hint(f"Stopped. Whether {verb} was done is not known: look at {look} before you try again.")


pass_face = click.make_pass_decorator(Face, ensure=True)


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end."""
    return asyncio.run(coroutine)


# -- Options every command may have -------------------------------------------------------------


def json_option(command: F) -> F:
    """Give a command `--json`."""
    return _told("--json", "is_json", is_flag=True, help="Print the result as JSON.")(command)


def full_option(command: F) -> F:
    """Give a command `--full`."""
    return _told("--full", "is_full", is_flag=True, help=FULL)(command)


def yes_option(command: F) -> F:
    """Give a command `--yes`."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask whether you are sure.")(
        command
    )


def keeper(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Make what keeps an option in the face, instead of giving it to the command."""

    def keep(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(Face), name, value)

    return keep


def _told(option: str, name: str, **settings: Any) -> Callable[[F], F]:
    return click.option(option, name, expose_value=False, callback=keeper(name), **settings)


# -- Paper --------------------------------------------------------------------------------------


def is_terminal() -> bool:
    """Tell whether a person sits at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def is_typed() -> bool:
    """Tell whether a person types what comes in, wherever the answer goes."""
    return sys.stdin.isatty()


def paper() -> Console:
    """Make paper to write on: as wide as the terminal, colours only there and without NO_COLOR."""
    from rich.console import Console

    width = COLUMNS
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size((COLUMNS, 24)).columns, COLUMNS_MAX)
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def show(what: RenderableType) -> None:
    """Write something rich, without trailing blanks."""
    console = paper()
    with console.capture() as caught:
        console.print(what)
    lines = caught.get().split("\n")
    click.echo("\n".join(line.rstrip() for line in lines), nl=False)


def say(text: str, *, indent: int = 0, style: str = "") -> None:
    """Write a sentence, made visible, and broken where the line ends."""
    from rich.padding import Padding
    from rich.text import Text

    show(Padding(Text(visible(text), style=style), (0, 0, 0, indent)))


def hint(text: str) -> None:
    """Write a sentence for the person, beside the answer."""
    click.echo(visible(text), err=True)


def echo_json(value: Json) -> None:
    """Write JSON; what a terminal would obey is spelled as JSON spells it."""
    click.echo(_json(value, indent=2))


def echo_json_line(value: Json) -> None:
    """Write JSON on one line, for what is followed."""
    click.echo(_json(value, indent=None))


def _json(value: Json, *, indent: int | None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # A program that reads this must not get a question mark for what was there.
        return json.dumps(value, indent=indent)
    return visible_json(text)


def table(
    rows: Iterable[Sequence[object]],
    columns: Sequence[str],
    *,
    cut: Sequence[int] = (),
    is_even: bool = False,
    indent: int = 0,
) -> None:
    """Write rows below their names, if they have any; what is too wide goes on in the next line.

    With `cut` each row is one line: these columns share what the others leave, and end with an
    ellipsis. With `is_even` all columns are equally wide.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    made = Table(
        box=None,
        pad_edge=False,
        show_header=any(columns),
        header_style="bold",
        padding=(0, 2, 0, 0),
        expand=bool(cut) or is_even,
    )
    for place, name in enumerate(columns):
        made.add_column(
            Text(visible(name)),
            overflow="ellipsis" if cut else "fold",
            no_wrap=bool(cut),
            ratio=1 if is_even or place in cut else None,
        )
    for row in rows:
        made.add_row(*(Text(visible("" if each is None else each)) for each in row))
    show(Padding(made, (0, 0, 0, indent)))


def confirm(question: str, *, is_yes: bool) -> None:
    """Ask a person; without a terminal nothing is decided in their name."""
    if is_yes:
        return
    if not is_terminal():
        raise click.UsageError(
            "This asks for your yes, and there is no terminal to give it at. Add --yes."
        )
    if not click.confirm(visible(question), default=False, err=True):
        raise Declined


class Declined(DulyError):
    """Nothing was done."""
