"""`duly simulate`: the user's own workflow through one crash after another, on a virtual clock.

Law 1  No change reaches the real outside; reads are given in a file, or asked once.
Law 2  What is said can be repeated: how many crashes were tried and that every change was made
       exactly once, or the first scenario that differs and how to repeat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from duly.errors import Invalid, StoreInUse
from duly.faces.cli.base import (
    EXIT_FAILED,
    EXIT_UNPROVEN,
    Face,
    echo_json,
    hint,
    json_option,
    pass_face,
    run,
    say,
)
from duly.faces.cli.offer import quote
from duly.faces.cli.progress import progress_bar

if TYPE_CHECKING:
    from duly.api.simulate import Connector, CrashTestReport, Props

CHANGES_SHOWN_MAX: Final = 20
MISMATCHES_SHOWN_MAX: Final = 5
GIVEN_BYTES_MAX: Final = 16 * 1024 * 1024
GIVEN: Final = ("events", "answers")
SECRETS_STAY: Final = (
    "A host is running, so secrets stay with it: a read that needs one fails here."
)


@click.command()
@click.argument("file")
@click.option(
    "--events",
    metavar="FILE",
    help='JSON: {"events": [{topic, title, …}], "answers": {tool: answer}}, or a list of events.',
)
@click.option(
    "--crashes",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="How many to try, if there are more.",
)
@click.option("--only", type=click.IntRange(min=1), metavar="N", help="Repeat one scenario.")
@click.option("--for", "length", default="5m", show_default=True, help="How long it is watched.")
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="What it is written in, where no ending says so (`-`).",
)
@json_option
@pass_face
def simulate(
    face: Face,
    file: str,
    events: str | None,
    crashes: int,
    only: int | None,
    length: str,
    language: str | None,
) -> None:
    """Crash a workflow at every point and count its changes; nothing real is changed.

    It runs once without a fault; then again for every call that changes something, with a
    crash before it, after it, and with its answer lost, and for every write of the store, with a
    crash after it. The changes must be the same each time, each made once. Exit code 3: it changes
    nothing outside, so nothing was proven.

    \b
    Example: duly simulate workflows/welcome.py --crashes 20
    """
    from duly.api.aside import read_source
    from duly.api.simulate import CrashTest, read_length

    project = face.project
    policy = project.config.policy
    source = read_source(file, language=language, most_bytes=policy.limits.source_bytes)
    props = _read_given(events)
    length_s = read_length(length, "--for")
    connectors = run(_connectors(face))
    with (
        CrashTest(
            source,
            connectors,
            policy=policy,
            sandbox=project.config.sandbox,
            props=props,
            length_s=length_s,
        ) as test,
        progress_bar("crashes") as progress,
    ):
        told = test.run(crashes_max=crashes, only=only, progress=progress)
    if face.is_json:
        echo_json(cast("Any", asdict(told)))
    else:
        show_report(told, _again(face, file, events, length, language), props)
    if told.troubles or told.mismatches:
        raise click.exceptions.Exit(EXIT_FAILED)
    if not told.changes:
        raise click.exceptions.Exit(EXIT_UNPROVEN)


async def _connectors(face: Face) -> Sequence[Connector]:
    """Build the project's connectors; where the store is free they get their secrets from it."""
    from duly.api.build import build_host
    from duly.api.simulate import list_connectors

    project = face.project
    host = build_host(project, with_extensions=False)
    if project.has_store:
        try:
            async with host:
                pass
        except StoreInUse:
            if await _has_secrets(face):
                hint(SECRETS_STAY)
    return list_connectors(host)


async def _has_secrets(face: Face) -> bool:
    """Ask the running host whether a connector of the project has a secret; a mute one may."""
    async with face.session() as session:
        if session.host is None:
            return True
        secrets = cast("list[dict[str, Any]]", await session.call("secrets"))
        return any(each["connector"] in face.project.config.connectors for each in secrets)


def _read_given(path: str | None) -> Props:
    from duly.api.simulate import Props
    from duly.api.value import decode

    if path is None:
        return Props()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        facts = {"cause": getattr(error, "strerror", None) or str(error)}
        raise Invalid(code="unreadable", subject=path, facts=facts) from None
    given = decode(text, path)
    if isinstance(given, list):
        given = {"events": given}
    if not isinstance(given, dict) or not {*given} <= {*GIVEN}:
        raise Invalid(code="wrong_value", subject=path, facts={"wanted": "sample"})
    events, answers = given.get("events", []), given.get("answers", {})
    if not isinstance(events, list) or not isinstance(answers, dict):
        raise Invalid(code="wrong_value", subject=path, facts={"wanted": "sample"})
    return Props(tuple(cast("Any", events)), answers)


# -- What is told ---------------------------------------------------------------------------------


def _again(face: Face, file: str, events: str | None, length: str, language: str | None) -> str:
    """Write the command that runs the same scenarios again: all that was given, but how many."""
    options = {"--events": events, "--for": length, "--language": language}
    words = ["duly", *(["--project", face.given] if face.given else []), "simulate", file]
    for name, value in options.items():
        words += [name, value] if value is not None else []
    return " ".join(map(quote, words))


def show_report(told: CrashTestReport, again: str, props: Props) -> None:
    """Show what came of a crash test."""
    from duly.api.value import encode

    count = len(told.changes)
    if count:
        say(f"Without a fault it makes {count} change{'s' * (count != 1)}:")
    elif not told.troubles:
        say(_NOTHING)
    for each in told.changes[:CHANGES_SHOWN_MAX]:
        args = encode(dict(each.args), limit_bytes=GIVEN_BYTES_MAX)
        say(f"{each.tool} {args}", indent=2)
    if count > CHANGES_SHOWN_MAX:
        say(f"and {count - CHANGES_SHOWN_MAX} more", indent=2)
    if told.troubles:
        say("It does not come to its end even without a fault, so no crash was tried:")
        for sentence in told.troubles:
            say(sentence, indent=2)
        if told.changes and not props.answers:
            hint('If it needs what a tool answers, say so with --events: {"answers": {tool: …}}.')
        return
    for mismatch in told.mismatches[:MISMATCHES_SHOWN_MAX]:
        say(f"Scenario {mismatch.number}, {mismatch.where}:", style="red")
        for sentence in mismatch.differences:
            say(sentence, indent=2)
        click.echo(f"  Repeat it: {again} --only {mismatch.number}")
    say(_sum_up(told), style="bold")


_NOTHING: Final = "It changes nothing outside: give it events with --events, or look at its reads."


def _sum_up(told: CrashTestReport) -> str:
    tried = f"{told.crashes} crash{'es' * (told.crashes != 1)} tried"
    if told.possible > told.crashes:
        tried += f" of {told.possible} possible"
    if not told.crashes:
        return "Nothing is proven: there was no change and no write of the store to crash."
    if told.missed:
        tried += f" ({told.missed} more were not met on the way)"
    if told.mismatches:
        return f"{tried}; {len(told.mismatches)} ended differently."
    if not told.changes:
        return f"{tried}, but there was no change to make twice: nothing is proven."
    asked = ""
    if told.asked:
        asked = f" In {told.asked} of them a person had to say what had happened."
    return f"{tried}; every change was made exactly once.{asked}"
