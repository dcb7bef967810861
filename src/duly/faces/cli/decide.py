"""Where a person decides: about one change (A4, L10), or that workflows go on (F7).

Law 1  A person sees before they decide: what the script claims and what the host observed are
       shown side by side first, and then the command asks (L11).
Law 2  What is approved is what was shown: its hash is fetched with it and sent back, so that
       a call that changed meanwhile is refused.
Law 3  The store is not held while a person thinks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

import click

from duly.api.machine import now
from duly.api.record import ANSWERS, SEVERAL_MAX
from duly.api.value import Json
from duly.api.word import MutationStatus
from duly.errors import DulyError, RequestRefused, see
from duly.faces.cli.base import (
    EXIT_FAILED,
    Face,
    confirm,
    echo_json,
    hint,
    json_option,
    pass_face,
    say,
    yes_option,
)
from duly.faces.cli.call import side_by_side
from duly.faces.cli.completion import complete_id, complete_workflow
from duly.faces.cli.entry import approval_facts
from duly.faces.cli.only import find_only
from duly.faces.cli.show import shown
from duly.faces.cli.spelling import Spelled
from duly.faces.cli.verb import JSON

PAGE = 1000
PAGES_MAX = 100  # a hundred thousand workflows: more than a host has
LENGTH: Final = re.compile(r"([0-9]{1,6})([smhd])")
SECONDS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LENGTH_MAX_S: Final = 3650 * 86400  # ten years: more than any host takes, and still a date


hash_option = click.option(
    "--hash", "seen", metavar="HASH", help="The hash you were shown; otherwise the one shown now."
)


@click.command(cls=Spelled, verb="approve")
@click.argument("mutation", required=False, shell_complete=complete_id(("mutation",)))
@hash_option
@yes_option
@json_option
@pass_face
def approve(face: Face, mutation: str | None, seen: str | None, yes: bool) -> None:
    """Let exactly the call that is shown be sent, once, when its workflow runs.

    Without an ID: the only call that waits.
    """
    mutation = mutation or find_only(face, "approve")
    row = _show(face, mutation)
    # Of a call that does not wait any more there is nothing to decide; the host says why.
    if row["status"] == MutationStatus.PROPOSED and (seen is None or seen == row["hash"]):
        _ask(face, "Send exactly this call, once?", is_yes=yes)
    _act(face, "approve", mutation=mutation, seen=seen or row["hash"])


@click.command(cls=Spelled, verb="approve_all")
@click.argument(
    "mutations",
    metavar="[MUTATION[=HASH]]...",
    nargs=-1,
    shell_complete=complete_id(("mutation",)),
)
@yes_option
@json_option
@pass_face
def approve_all(face: Face, mutations: tuple[str, ...], yes: bool) -> None:
    """Approve several waiting calls of one tool in one act, of any workflows.

    Without an ID: all calls that wait for a yes. Each is shown first, and decided by itself: the
    answer says which were refused, and why. =HASH names the hash that you were shown.
    """
    named = dict(each.partition("=")[::2] for each in mutations) or dict.fromkeys(
        _waiting(face), ""
    )
    if not named:
        if face.is_json:
            echo_json([])
        else:
            say("Nothing waits for a yes.")
        return
    calls: dict[str, Json] = {
        row["id"]: seen or row["hash"]
        for each, seen in named.items()
        for row in (_show(face, each),)
    }
    _ask(face, f"Send exactly these calls ({len(calls)}), each once?", is_yes=yes)
    _act(face, "approve_all", calls=calls)


@click.command(cls=Spelled, verb="allow")
@click.argument("mutation", shell_complete=complete_id(("mutation",)))
@click.argument("calls", type=int)
@click.argument("until")
@click.option("--where", type=JSON, help='Globs over arguments: {"to": "*@acme.com", "row": "*"}.')
@hash_option
@yes_option
@json_option
@pass_face
def allow(
    face: Face, mutation: str, calls: int, until: str, where: Json, seen: str | None, yes: bool
) -> None:
    """Approve a call, and with it the next CALLS of its tool that look like it.

    They need no further yes until UNTIL: a time such as 2026-05-01T18:00:00Z, or how long, such as
    30m, 8h or 7d. --where maps an argument to a glob, "*" is every value; every argument it does
    not name must be that of this call. It ends with the version of the workflow.
    """
    row = _show(face, mutation)
    if row["status"] == MutationStatus.PROPOSED and (seen is None or seen == row["hash"]):
        _ask(face, f"Send this call, and the next {calls} like it unasked?", is_yes=yes)
    given: dict[str, Json] = {} if where is None else {"where": where}
    shown = seen or row["hash"]
    _act(face, "allow", mutation=mutation, seen=shown, calls=calls, until=_end(until), **given)


@click.command(cls=Spelled, verb="reject")
@click.argument("mutation", required=False, shell_complete=complete_id(("mutation",)))
@click.option("--reason", help="Why; it is kept with the call.")
@hash_option
@yes_option
@json_option
@pass_face
def reject(
    face: Face, mutation: str | None, reason: str | None, seen: str | None, yes: bool
) -> None:
    """Decline a proposed call: nothing is sent, and its events end skipped.

    Without an ID: the only call that waits.
    """
    mutation = mutation or find_only(face, "reject")
    row = _show(face, mutation)
    if row["status"] == MutationStatus.PROPOSED:
        _ask(face, "Decline it, and skip what it was for?", is_yes=yes)
    given: dict[str, Json] = {} if reason is None else {"reason": reason}
    _act(face, "reject", mutation=mutation, seen=seen or row["hash"], **given)


@click.command(cls=Spelled, verb="settle")
@click.argument("words", nargs=-1, metavar="[MUTATION] ANSWER")
@click.option("--result", type=JSON, help="What the service returned, if it happened.")
@yes_option
@json_option
@pass_face
def settle(face: Face, words: Sequence[str], result: Json, yes: bool) -> None:
    """Say what became of a mutation where the host cannot find out.

    Without an ID: the only one that waits.

    \b
    happened        it was done; what follows goes on
    did_not_happen  it was not done; it is tried afresh
    try_again       ask the outside once more, or send again what can be sent twice
    skip            leave it open for good, and never send it again
    """
    mutation, answer = _read_answer(words)
    mutation = mutation or find_only(face, "settle")
    row = _show(face, mutation)
    # Of one that is still asked about the host says whether an answer is taken (L5).
    if row["status"] not in (MutationStatus.INDETERMINATE, MutationStatus.NEEDS_RECONCILE):
        raise RequestRefused(
            code="nothing_to_settle",
            subject=row["id"],
            facts={"status": row["status"]},
            next=see("why", id=row["id"]),
        )
    _ask(face, f"Settle it as {answer}? This is final.", is_yes=yes)
    given: dict[str, Json] = {"seen": row["attempt"]}
    if result is not None:
        given["result"] = result
    _act(face, "settle", mutation=mutation, answer=answer, **given)


@click.command(cls=Spelled, verb="resume")
@click.argument("workflow", required=False, shell_complete=complete_workflow)
@click.option("--all", "is_all", is_flag=True, help="Every workflow that is paused.")
@json_option
@pass_face
def resume(face: Face, workflow: str | None, is_all: bool) -> None:
    """Let runs of a workflow start again; after a restore, of every one with --all.

    With --all, one that is refused does not stop the others. With --json: the names of those that
    go on.
    """
    if (workflow is None) is not is_all:
        raise click.UsageError("Name one workflow, or say --all.")
    if workflow is not None:
        _act(face, "resume", workflow=workflow)
        return
    resumed: list[Json] = []
    refused: list[DulyError] = []
    names = _paused(face)
    for name in names:
        try:
            face.call("resume", workflow=name)
        except DulyError as error:
            refused.append(error)
            hint(str(error))
            continue
        resumed.append(name)
        if not face.is_json:
            shown("resume", None, {"workflow": name})
    if face.is_json:
        echo_json(resumed)
    elif not names:
        say("No workflow is paused.")
    if refused:
        raise click.exceptions.Exit(EXIT_FAILED)


def _read_answer(words: Sequence[str]) -> tuple[str, str]:
    """Read which mutation is settled, if one is named, and how."""
    *named, answer = words or ("",)
    known = [str(each) for each in ANSWERS]
    if answer not in known or named[1:]:
        raise click.UsageError(f"Say what became of it: {', '.join(known)}.")
    return (named[0] if named else ""), answer


def _waiting(face: Face) -> list[str]:
    """Name the calls that wait for a yes, the oldest first; as many as one act takes."""
    page: Any = face.call("approvals", limit=PAGE)
    return [each["mutation"] for each in reversed(page) if each["waits"] == "approval"][
        :SEVERAL_MAX
    ]


def _end(until: str) -> str:
    """Turn a length of time into the moment at which it is over; the host reads any other."""
    found = LENGTH.fullmatch(until)
    if found is None:
        return until
    seconds = min(int(found[1]) * SECONDS[found[2]], LENGTH_MAX_S)
    return (now() + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _paused(face: Face) -> list[str]:
    """Name every workflow that is paused, page by page."""
    paused: list[str] = []
    after: dict[str, Json] = {}
    for _ in range(PAGES_MAX):
        page: Any = face.call("workflows", limit=PAGE, **after)
        paused += [each["name"] for each in page if each["paused"]]
        if len(page) < PAGE:
            break
        after = {"after": page[-1]["name"]}
    return paused


def _show(face: Face, mutation: str) -> dict[str, Any]:
    """Show the call, unless the answer is to be JSON; return its row."""
    row = cast("dict[str, Any]", face.call("mutation", id=mutation))
    if not face.is_json:
        say(f"{row['workflow']}: {row['status']}", style="bold")
        side_by_side(row["title"], row)
        approvals: Any = face.call("approvals", workflow=row["workflow"], limit=PAGE)
        for each in (each for each in approvals if each["mutation"] == row["id"]):
            approval_facts(each)
            say(f"risk: {each['risk'] or 'not known here'}")
    return row


def _ask(face: Face, question: str, *, is_yes: bool) -> None:
    """Ask a person who has seen what it is about."""
    if face.is_json and not is_yes:
        raise click.UsageError("With --json nothing is shown before it is decided. Add --yes.")
    confirm(question, is_yes=is_yes)


def _act(face: Face, verb: str, **args: Json) -> None:
    told, view = face.ask(verb, **args)
    if face.is_json:
        echo_json(told)
    else:
        shown(verb, told, args, view)
