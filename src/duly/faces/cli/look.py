"""Where a person looks first: how everything stands, and why (U1, U7).

Law 1  What needs a person comes first, with what to type.
Law 2  Whoever asks why without saying of what is told of everything that waits.
Law 3  Where nobody works nothing is promised: without a host it is said first that this is how
       everything stood.
"""

from __future__ import annotations

from typing import Any, Final

import click

from duly.api.codec import to_json
from duly.api.registry import VERBS
from duly.api.session import RunningHost
from duly.api.value import Json
from duly.api.word import Code, Standing
from duly.faces.cli import show
from duly.faces.cli.base import Face, echo_json, json_option, pass_face, run, say
from duly.faces.cli.offer import quote
from duly.faces.cli.spelling import example

PAGE: Final = 1000
DUE: Final = "Something is due, and waits for a host"
URGENCY: Final = tuple(Standing)
HELPED: Final = (Standing.NEEDS_ATTENTION, Standing.STOPPED)  # which do not go on by themselves


@click.command(epilog=example("status"))
@click.option("--follow", "-f", "is_followed", is_flag=True, help="Go on, and print what changed.")
@json_option
@pass_face
def status(face: Face, is_followed: bool) -> None:
    """See how everything stands, on one screen: what needs you first.

    Of each workflow you see how it stands and why, its schedule, what it did in the last 24 hours,
    and what waits. With --json: host, workflows and attention, as the commands of these names
    answer them.
    """
    if is_followed:
        from duly.faces.cli.verb import follow

        follow(face, VERBS["workflows"], {"limit": PAGE})
        return
    host, workflows, waiting = run(_look(face))
    if face.is_json:
        echo_json({"host": to_json(host), "workflows": workflows, "attention": waiting})
        return
    workflows.sort(key=lambda each: (URGENCY.index(Standing(each["standing"])), each["name"]))
    is_moving = host is not None and host.serving
    if workflows and not is_moving:
        say(f"{_say_host(host)} This is how everything stood:")
        say("")
    for each in workflows:
        show.workflow(each if is_moving else _stood(each))
        if each["standing"] in HELPED:
            click.echo(f"    duly why {quote(each['name'])}")
    if not workflows:
        say("There is no workflow yet. `duly deploy FILE` brings one; `duly init` a whole project.")
    say("")
    _next(waiting)
    if is_moving or not workflows:
        say(_say_host(host))


def _stood(each: dict[str, Any]) -> dict[str, Any]:
    """Take back what only a host at work can promise."""
    reason = each["reason"]
    if reason["code"] == Code.DUE:
        reason = {**reason, "text": DUE}
    return {**each, "reason": reason, "next_check_at": None, "wakes_at": None}


async def _look(face: Face) -> tuple[RunningHost | None, list[Any], list[Any]]:
    async with face.session() as session:
        workflows: Any = await session.call("workflows", limit=PAGE)
        attention: Any = await session.call("attention", limit=PAGE)
        return session.host, workflows, attention


def _next(attention: list[Any]) -> None:
    """Say what waits for a person, and what to type."""
    if attention:
        count = len(attention)
        say(f"{count} {'thing waits' if count == 1 else 'things wait'} for you: `duly attention`.")
    else:
        say("Nothing waits for you.")


def _say_host(host: RunningHost | None) -> str:
    """Say whether somebody works."""
    if host is None:
        return "No host is running: nothing moves until `duly serve` (or `duly drain`, once)."
    if not host.serving:
        return f"A host is open (process {host.pid}), but it is not serving: nothing moves."
    return f"A host is running since {show.at(host.since.isoformat())} (process {host.pid})."


# -- Why ------------------------------------------------------------------------------------------


@click.command(epilog=example("why"))
@click.argument("id", required=False)
@json_option
@pass_face
def why(face: Face, id: str | None) -> None:  # noqa: A002  # the verb calls it so
    """Say why a run, a mutation or a workflow stands as it does.

    Without an ID: of the only workflow there is, or of everything that waits for you. With --json
    one answer for an ID, and a list without one.
    """
    if id is not None:
        told = face.call("why", id=id)
        echo_json(told) if face.is_json else show.why(told)
        return
    answers = run(_all_reasons(face))
    if face.is_json:
        echo_json(list(answers.values()))
        return
    for name, each in answers.items():
        if len(answers) > 1:
            say(name, style="bold")
        show.why(each)
    if not answers:
        say("Nothing waits for you. `duly why WORKFLOW` says why one of them rests.")


async def _all_reasons(face: Face) -> dict[str, Json]:
    """Ask why of the only workflow, or of each that waits for a person."""
    async with face.session() as session:
        workflows: Any = await session.call("workflows", limit=PAGE)
        names = [each["name"] for each in workflows]
        if len(names) != 1:
            attention: Any = await session.call("attention", limit=PAGE)
            waiting = {each["workflow"] for each in attention}
            names = [each for each in names if each in waiting]
        return {name: await session.call("why", id=name) for name in names}
