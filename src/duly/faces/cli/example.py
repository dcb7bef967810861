"""`duly example`: workflows of daily life, played here against doubles of their services.

Law 1  No account and no setting is needed, and nothing is left behind.
Law 2  It leaves with 0 only if the doubles and the ledger agree on what was done.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

import click

from duly.errors import NotFound
from duly.faces.cli.base import (
    EXIT_FAILED,
    Face,
    echo_json,
    json_option,
    pass_face,
    run,
    say,
)
from duly.faces.cli.call import claim
from duly.faces.cli.progress import progress_bar, working
from duly.words.phrase import in_quotes

if TYPE_CHECKING:
    from duly.api.example import DailyExample, PlayedExample

DISAGREES: Final = "The services and the ledger do not agree, or something is still open."


@click.command()
@click.argument("name", required=False)
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    default="python",
    show_default=True,
    help="The language in which it runs or is shown.",
)
@click.option("--source", "is_source", is_flag=True, help="Print the workflow instead.")
@click.option(
    "--crashes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Crash it at so many points instead, and count its changes.",
)
@json_option
@pass_face
def example(
    face: Face, name: str | None, language: str, is_source: bool, crashes: int | None
) -> None:
    """Run an example workflow on this machine; without NAME, list them all.

    It starts doubles of the services on this machine, puts a few inputs into them, and runs the
    workflow in a host of its own until nothing is due. No account is needed.

    \b
    Examples:
      duly example
      duly example mail-triage
      duly example mail-triage --language javascript --crashes 100
    """
    from duly.api.example import DAILY, Language, play_example
    from duly.api.value import nearest

    if name is None:
        _list(face)
        return
    if name not in DAILY:
        raise NotFound(code="no_example", subject=name, facts=nearest(name, [*DAILY]))
    chosen = DAILY[name]
    wanted = Language(language)
    if is_source:
        click.echo(chosen.source(wanted).text, nl=False)
        return
    # Crashes are what is tried here; the log of each would hide what came of them.
    logging.disable(logging.CRITICAL)
    try:
        if crashes is not None:
            _crash(face, name, wanted, crashes)
            return
        with working("Running it against doubles of its services …"):
            played = run(play_example(chosen, wanted))
    finally:
        logging.disable(logging.NOTSET)
    if face.is_json:
        echo_json(cast("Any", {**asdict(played), "is_agreed": played.is_agreed}))
    else:
        _tell(chosen, played)
    if not played.is_agreed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _list(face: Face) -> None:
    from duly.api.example import BOTH, DAILY

    if face.is_json:
        rows = [
            {"name": name, "languages": [*BOTH], "says": each.says} for name, each in DAILY.items()
        ]
        echo_json(cast("Any", rows))
        return
    width = max(len(name) for name in DAILY)
    for name, each in DAILY.items():
        click.echo(f"{name:{width}}  {each.says}")
    click.echo(f"\nPlay one: duly example {next(iter(DAILY))}")


def _crash(face: Face, name: str, language: Any, crashes: int) -> None:
    from duly.api.example import DAILY, crash_example
    from duly.api.simulate import Props
    from duly.faces.cli.simulate import show_report

    with progress_bar("crashes") as progress:
        told = crash_example(DAILY[name], language, crashes_max=crashes, progress=progress)
    if face.is_json:
        echo_json(cast("Any", asdict(told)))
    else:
        show_report(told, f"duly example {name} --language {language} --crashes {crashes}", Props())
    if told.troubles or told.mismatches:
        raise click.exceptions.Exit(EXIT_FAILED)


def _tell(chosen: DailyExample, played: PlayedExample) -> None:
    inputs, outputs = cast("Any", played.inputs), cast("Any", played.outputs)
    say(chosen.says)
    for name, url in played.places.items():
        say(f"{name} is a double at {url}", indent=2)
    _head("What came in")
    for each in inputs:
        say(each["title"], indent=2)
    _head("What was done")
    for each in outputs:
        if each["observed"] is not None:
            say(f"{each['observed']['tool']}: {claim(each['claimed'])}", indent=2)
            for title in each["inputs"]:
                say(f"because of {in_quotes(title)}", indent=4)
    _head("What the services have now")
    for thing in played.made:
        say(f"{thing.service}, {thing.noun}: {' / '.join(thing.text.splitlines())}", indent=2)
    count = f"{played.applied} change{'s' * (played.applied != 1)}"
    came = f"{len(inputs)} input{'s' * (len(inputs) != 1)}"
    click.echo()
    if played.is_agreed:
        say(f"{came}, {count}: each was made once, and the services agree.", style="bold")
    else:
        counted = f"The ledger says {played.applied}, the services counted {played.changes}."
        say(f"{DISAGREES} {counted} {played.open} open.", style="red")
    say(f"Read the workflow: duly example {chosen.name} --source")


def _head(text: str) -> None:
    click.echo()
    say(text, style="bold")
