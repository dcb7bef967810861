"""Where a person looks first: how everything stands, and why (U1, U7).

Law 1  Everything is on one screen: one headline, and a line for each workflow, what needs a person
       first. `--full` has the rest.
Law 2  A person who asks why without saying of what is told of everything that waits.
Law 3  Where no host works nothing is promised: then the headline says so first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import click

from duly.api.codec import to_json
from duly.api.registry import VERBS
from duly.api.session import RunningHost
from duly.api.text import visible
from duly.api.value import Json
from duly.api.word import Code, Standing
from duly.faces.cli.base import (
    Face,
    echo_json,
    full_option,
    json_option,
    paper,
    pass_face,
    run,
    say,
)
from duly.faces.cli.completion import complete_explained
from duly.faces.cli.spelling import example
from duly.faces.cli.view import View
from duly.words import say_next
from duly.words.noun import say_waiting
from duly.words.phrase import capital
from duly.words.standing import DUE_WITHOUT_HOST, UNCOMPARED

PAGE: Final = 1000
LINES_MAX: Final = 20  # with the headline and what to type that is one screen
NAME_CELLS_MAX: Final = 24
URGENCY: Final = tuple(Standing)
# What needs no sentence where a time or a count says more.
QUIET: Final = frozenset({Code.HELD_BACK, Code.LEFT_PENDING, Code.SCHEDULED, Code.IDLE})


@click.command(epilog=example("status"))
@click.option("--follow", "-f", "is_followed", is_flag=True, help="Stay, and print what changed.")
@full_option
@json_option
@pass_face
def status(face: Face, is_followed: bool) -> None:
    """See the state of everything, on one screen: first what needs you.

    Each workflow has one line: its state and why, when it goes on, and what waits. With --full you
    also see its schedule and what it did in the last 24 hours. Several hosts of one server are
    listed. With --json: host, hosts, workflows and attention, as the commands of these names print
    them.
    """
    if is_followed:
        from duly.faces.cli.verb import follow

        follow(face, VERBS["workflows"], {"limit": PAGE})
        return
    host, workflows, waiting, hosts = run(_look(face))
    if face.is_json:
        told = {"host": to_json(host), "hosts": hosts}
        echo_json({**told, "workflows": workflows, "attention": waiting})
        return
    view = View(face.is_full, face.project.config.policy.timezone)
    workflows.sort(key=lambda each: (URGENCY.index(Standing(each["standing"])), each["name"]))
    is_moving = (host is not None and host.serving) or any(each["serves"] for each in hosts)
    if not is_moving:
        workflows = [_stood(each) for each in workflows]
    say(_headline(host, workflows, waiting, view, is_moving=is_moving))
    _show_hosts(hosts)
    if face.is_full:
        _show_full(workflows, view)
    elif workflows:
        _show_lines(workflows, view)


def _headline(
    host: RunningHost | None,
    workflows: list[Any],
    waiting: list[Any],
    view: View,
    *,
    is_moving: bool,
) -> str:
    """Say in one line what needs a person, what goes on by itself, and whether a host works."""
    if not workflows and not waiting:
        none = (
            "There is no workflow yet. `duly deploy FILE` brings one; `duly init` a whole project."
        )
        return f"{none} {_say_host(host, view, is_moving=is_moving)}"
    more = ": `duly attention`." if waiting else "."
    needs = f"{capital(say_waiting(len(waiting)))}{more}"
    said = _say_host(host, view, is_moving=is_moving)
    return f"{needs} {said}" if is_moving else f"{said} {needs}"


def _show_lines(workflows: list[Any], view: View) -> None:
    """Show one line for each workflow, as many as a screen has."""
    from rich.cells import cell_len, set_cell_size  # a table of rich's is slow to import

    width = paper().width
    shown = workflows[:LINES_MAX]
    names = [_cut(visible(each["name"]), NAME_CELLS_MAX) for each in shown]
    name_cells = max(map(cell_len, names))
    standing_cells = max(len(each["standing"]) for each in shown)
    for each, name in zip(shown, names, strict=True):
        head = f"{each['standing']:{standing_cells}}  {set_cell_size(name, name_cells)}"
        click.echo(_cut(f"{head}  {visible(_line(each, view))}", width))
    left = len(workflows) - len(shown)
    more = f"{left} more: " if left else ""
    click.echo(f"{more}`duly status --full` shows all; `duly why NAME` explains one.")


def _cut(text: str, cells: int) -> str:
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= cells else f"{set_cell_size(text, cells - 1).rstrip()}…"


def _line(each: Any, view: View) -> str:
    """Say why a workflow stands so, when it goes on, and what waits there."""
    parts: list[str] = []
    reason = each["reason"]
    if reason["code"] not in QUIET:
        parts.append(reason["text"])
    if each["wakes_at"]:
        parts.append(f"wakes {view.clock.say(datetime.fromisoformat(each['wakes_at']))}")
    if each["next_check_at"]:
        parts.append(say_next(datetime.fromisoformat(each["next_check_at"]), view.clock).lower())
    pending = ", ".join(count["text"] for count in each["pending"])
    if pending:
        parts.append(f"{pending} pending")
    return "; ".join(parts or [reason["text"]])


def _show_full(workflows: list[Any], view: View) -> None:
    from duly.faces.cli import entry

    for each in workflows:
        say("")
        entry.workflow(each, view)


def _stood(each: dict[str, Any]) -> dict[str, Any]:
    """Take back what only a host at work can promise."""
    reason = each["reason"]
    if reason["code"] == Code.DUE:
        reason = {**reason, "text": DUE_WITHOUT_HOST}
    return {**each, "reason": reason, "next_check_at": None, "wakes_at": None}


def _show_hosts(hosts: list[Any]) -> None:
    """Show the hosts of a server, one on each line; the host of a file is alone."""
    for each in hosts:
        if each["lease_s"] is not None and (each["serves"] or not each["compared"]):
            count = each["workflows"]
            held = f"{count} workflow{'s' * (count != 1)}"
            late = "" if each["compared"] else UNCOMPARED
            click.echo(f"host {visible(each['name'] or each['id'])}: holds {held}{late}")


async def _look(face: Face) -> tuple[RunningHost | None, list[Any], list[Any], list[Any]]:
    async with face.session() as session:
        workflows: Any = await session.call("workflows", limit=PAGE)
        attention: Any = await session.call("attention", limit=PAGE)
        is_file = face.project.database is not None
        hosts: Any = [] if is_file else await session.call("hosts")
        return session.host, workflows, attention, hosts


def _say_host(host: RunningHost | None, view: View, *, is_moving: bool) -> str:
    """Say whether a host works, here or elsewhere on the same server."""
    if is_moving and (host is None or not host.serving):
        return "Other hosts of this server serve it."
    if host is None:
        return "No host is running: nothing moves until `duly serve` (or `duly drain`, once)."
    if not host.serving:
        return f"A host is open (process {host.pid}), but it is not serving: nothing moves."
    down = " Its page ended and is started again; the log of the host says why."
    said = f"The host runs since {view.clock.say(host.since)} (process {host.pid})."
    return said + down * host.page_down


# -- Why ------------------------------------------------------------------------------------------


@click.command(epilog=example("why"))
@click.argument("id", required=False, shell_complete=complete_explained)
@full_option
@json_option
@pass_face
def why(face: Face, id: str | None) -> None:  # noqa: A002  # the verb calls it so
    """Explain the state of a run, a mutation or a workflow.

    Without an ID: of the only workflow there is, or of everything that waits for you. With --json
    one answer for an ID, and a list without one.
    """
    from duly.faces.cli import entry

    if id is not None:
        told, view = face.ask("why", id=id)
        echo_json(told) if face.is_json else entry.why(told, view)
        return
    answers, view = run(_all_reasons(face))
    if face.is_json:
        echo_json(list(answers.values()))
        return
    for name, each in answers.items():
        if len(answers) > 1:
            say(name, style="bold")
        entry.why(each, view)
    if not answers:
        say(f"{capital(say_waiting(0))}. `duly why WORKFLOW` says why one of them stands so.")


async def _all_reasons(face: Face) -> tuple[dict[str, Json], View]:
    """Ask why of the only workflow, or of each that waits for a person."""
    async with face.session() as session:
        workflows: Any = await session.call("workflows", limit=PAGE)
        names = [each["name"] for each in workflows]
        if len(names) != 1:
            attention: Any = await session.call("attention", limit=PAGE)
            waiting = {each["workflow"] for each in attention}
            names = [each for each in names if each in waiting]
        found = {name: await session.call("why", id=name) for name in names}
        return found, await face.view(session, None if face.is_json else found)
