"""`duly try`: what a source would do now, with real reads; its changes are shown, not made (W5).

Law: what the script claims and what the host observed are never mixed (L11); nothing is stored and
nothing is sent.
"""

from __future__ import annotations

from typing import Any, cast

import click

from duly.api.text import visible
from duly.faces.cli.base import (
    EXIT_FAILED,
    Face,
    echo_json,
    hint,
    json_option,
    pass_face,
    say,
)
from duly.words.finding import say_finding

Record = dict[str, Any]


@click.command("try")
@click.argument("file")
@click.option(
    "--event",
    "events",
    nargs=2,
    multiple=True,
    metavar="TOPIC JSON",
    help="An event to give to a topic: its payload, or {title, message_id, payload}.",
)
@click.option(
    "--result",
    "results",
    nargs=2,
    multiple=True,
    metavar="TOOL JSON",
    help="What a change would answer, so that what follows it is tried too.",
)
@click.option("--grant", is_flag=True, help="Allow the reads it uses, for this trial.")
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="What it is written in, where no ending says so (`-`).",
)
@json_option
@pass_face
def try_(
    face: Face,
    file: str,
    events: tuple[tuple[str, str], ...],
    results: tuple[tuple[str, str], ...],
    grant: bool,
    language: str | None,
) -> None:
    """See what a source would do now. Reads are real; nothing is sent, nothing is stored.

    \b
    Examples:
      duly try workflows/welcome.py --grant
      duly try shop.py --event order.placed '{"title": "Order 7", "payload": {"id": 7}}'
    """
    from duly.api.aside import read_source

    most_bytes = face.project.config.policy.limits.source_bytes
    source = read_source(file, language=language, most_bytes=most_bytes)
    trial = face.call(
        "try_",
        source={"language": str(source.language), "text": source.text, "name": source.name},
        events=[_event(topic, text) for topic, text in events],
        results={tool: _json(text, f"--result {tool}") for tool, text in results},
        grant=grant,
    )
    told = cast("Record", trial)
    if face.is_json:
        echo_json(trial)
    else:
        _show(told)
    if told["problems"]:
        raise click.exceptions.Exit(EXIT_FAILED)


def _event(topic: str, text: str) -> Record:
    """Read one event; a payload alone gets a title that says what it is for."""
    value = _json(text, f"--event {topic}")
    if (
        isinstance(value, dict)
        and "title" in value
        and {*value}
        <= {
            "title",
            "message_id",
            "payload",
        }
    ):
        return {"topic": topic, **value}
    return {"topic": topic, "title": f"A trial of {topic}", "payload": value}


def _json(text: str, option: str) -> Any:
    from duly.api.value import decode
    from duly.errors import Invalid

    try:
        return decode(text, option)
    except Invalid as error:
        raise click.UsageError(f"{option}: {error}") from None


def _show(trial: Record) -> None:
    for finding in trial["findings"]:
        say(say_finding(finding))
    for each in trial["runs"]:
        taken = f" took {', '.join(each['inputs'])}" if each["inputs"] else ""
        say(f"{each['kind']} {each['handler']} ran{taken}")
        for line in each["logs"]:
            say(f"log: {line}", indent=4)
    for each in trial["published"]:
        say(f"would publish {each['topic']} {each['message_id']}: {each['title']}", indent=2)
    for each in trial["changes"]:
        _show_change(each)
    for each in trial["problems"]:
        line = f" (line {each['line']})" if each["line"] else ""
        say(f"{each['handler']} would fail{line}: {each['sentence']}", style="red")
    say(trial["summary"]["text"], style="bold")
    if trial["missing"]:
        missing = ", ".join(trial["missing"])
        hint(f"Not granted yet: {missing}. Try it with --grant; `duly deploy --grant` keeps it.")


def _show_change(change: Record) -> None:
    from duly.api.value import encode

    observed = change["observed"]
    args = encode(observed["args"], limit_bytes=16 * 1024 * 1024)
    click.echo()
    say("would change:")
    claimed = change["claimed"]
    words = "no title given" if claimed is None else f'the script calls it "{claimed}"'
    say(f"claimed:   {words}", indent=2)
    say(f"observed:  {observed['tool']} {args}", indent=2)
    if change["inputs"]:
        say(f"because of {', '.join(visible(each) for each in change['inputs'])}", indent=2)
    if change["needs_approval"]:
        say("A person would be asked first.", indent=2)
    if not change["is_followed"]:
        say(
            "Not tried further: the result of this call is unknown "
            f"(--result {observed['tool']} JSON).",
            indent=2,
        )
