"""What is said when a command fails: one sentence, and what to do about it.

Law 1  The library's sentence is kept and its calls become commands; where it names nothing to act
       on, the command or the file is added from the table below.
Law 2  What nobody expected is one sentence as well; its details go to a file of the person's own.
"""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from duly.api.text import visible
from duly.errors import DulyError, NotDeployed, StoreDamaged, StoreNewer, StoreUnavailable
from duly.faces.cli.base import EXIT_FAILED, Face
from duly.faces.cli.offer import in_commands, quote

# What a sentence begins with or contains → what helps. A word in braces is what the verb was given
# under that name, or a part of the sentence; what was not given is left open, in capitals.
ADVICE: Final[tuple[tuple[str, str], ...]] = (
    (r"^There is no workflow", "`duly workflows` lists them."),
    (r"^There is no run ", "`duly runs` lists them."),
    (r"^There is no mutation ", "`duly mutations` lists them."),
    (r"^There is no handler", "`duly runs {workflow}` shows the handlers."),
    (r"^There is no secret", "`duly secret list` lists them."),
    (r"^There is no connector", "duly.toml lists them under [connectors]."),
    (
        r"^There is no delivery|only a dead delivery",
        "`duly bus deliveries --status dead` lists them.",
    ),
    (r"^There is no subscriber", "`duly bus deliveries` shows the subscribers."),
    (r"^There is no deferred", "`duly bus deferred` lists what is scheduled."),
    (r'" has no version "', "`duly versions {workflow}` lists them."),
    (r"^Version .* (active already|never active)", "`duly versions {workflow}` lists them."),
    (r'" has no topic "', "`duly events {workflow}` shows what its topics hold."),
    (r"^Topic .* has no event", "`duly events {workflow} --topic {topic}` lists them."),
    (r'" has no grant for "', "`duly actions {workflow}` shows who granted what."),
    (r"^No tool here needs|^where\.", "`duly tools` lists capabilities and arguments."),
    (r"is not what was shown", "`duly mutation {mutation}` shows it."),
    (r"waits for no answer", "`duly why {mutation}` says how it stands."),
    (r"while the workflow is paused", "`duly attention` shows how to resume it."),
    (r"is paused; resume it", "`duly resume {workflow}` does."),
    (r"has an open run|still busy", "`duly why {workflow}` says what it waits for."),
    (r"settle it first", "`duly attention` shows how."),
    (r"takes nothing from outside", "Then `duly deploy FILE`."),
    (r'^The source declares "(?P<other>[^"]*)"', "`duly what-if {other} FILE` is about that one."),
    (r"^limit is", "Say it with --limit."),
    (
        r"^publish\.(?P<field>title|payload|message_id) is (blank|longer than \d+ char)",
        "Give it with --{field}.",
    ),
    (r"^publish\.payload is longer", "The limit is payload_bytes in duly.toml, [policy.limits]."),
    (r"has a result", "Leave --result out."),
    (r"give a source of your own", "Say it with --source."),
    (
        r"^payload is .*; give an object",
        'Write it like this: `duly bus emit {topic} \'{{"text": "x"}}\'`.',
    ),
    (r"^The secret ", "Type it again: `duly secret set {connector} {name}`."),
    (r"retention_days", "It stands in duly.toml under [policy]."),
    (r"names no SQLite file", "It is `url` in duly.toml, or DULY_URL."),
    (r"another host holds", "`duly status` asks it how everything stands."),
)
# What a kind of error leaves a person to do, where nothing above fits.
BY_KIND: Final[tuple[tuple[type[DulyError], str], ...]] = (
    (StoreNewer, "`duly --version` says which one this is."),
    (StoreDamaged, "`duly doctor` says more; docs/operations.md says how to restore a backup."),
    (StoreUnavailable, "`duly doctor` looks at the disk."),
)
RULE_IDS: Final = re.compile(r" ?\([A-Z]\d+(?:[,–] ?[A-Z]\d+)*\)")
# Arguments of the library that are options here.
OPTIONS: Final[Mapping[str, str]] = {"mutations_per_day": "--mutations-per-day"}


class Failure(click.ClickException):
    """A command failed; the message is what the person is told."""

    exit_code = EXIT_FAILED


def tell(error: Exception, face: Face) -> Failure:
    """Say an error to the person who typed the command."""
    lines = list(_lines(error, face.asked))
    if face.is_debug:
        lines = [visible("".join(traceback.format_exception(error)), is_block=True), *lines]
    elif not isinstance(error, DulyError):
        lines.append(_keep(error))
        lines = [" ".join(lines)]
    return Failure("\n".join(lines))


def sentence(error: DulyError, asked: Mapping[str, Any]) -> str:
    """Write the sentence of an error with something to act on."""
    text = end(RULE_IDS.sub("", in_commands(visible(error)).strip()))
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    if "`duly " in text or "duly.toml" in text:
        return text
    advice = _advice(error, asked)
    return f"{text} {advice}" if advice else text


def end(text: str) -> str:
    """Let a sentence end."""
    return text if text.endswith((".", "?", "!", "`", "…")) else f"{text}."


def _advice(error: DulyError, asked: Mapping[str, Any]) -> str:
    for pattern, advice in ADVICE:
        if found := re.search(pattern, str(error)):
            return advice.format_map(_Given({**asked, **found.groupdict()}))
    return next((advice for kind, advice in BY_KIND if isinstance(error, kind)), "")


class _Given(dict[str, Any]):
    """What was given, as words to paste; what was not is left open."""

    def __getitem__(self, name: str) -> str:
        given = self.get(name)
        return quote(str(given)) if given else name.upper()


def _lines(error: Exception, asked: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(error, DulyError):
        kind = type(error).__name__
        yield end(visible(f"This is a fault of Duly or of a connector: {kind}: {error}"))
        return
    if isinstance(error, NotDeployed):
        yield from (visible(each) for each in error.findings)
    yield sentence(error, asked)


def _keep(error: Exception) -> str:
    """Write the details where only this person can read them, and say where that is."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="duly-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return "The details could not be written anywhere; `duly --debug` shows them."
    return f"The details are in {file.name}; please report them."
