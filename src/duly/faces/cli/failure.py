"""What is said when a command fails: one sentence, and what to do about it.

Law 1  The sentence is the error's own, made in `words`. What to type comes from the error's offer;
       what only the command line knows, an option or a file, comes from the tables below, by code.
Law 2  An error that Duly did not expect is one sentence as well; its details go to a file of the
       person's own.
Law 3  Under `--json` an error is one JSON object on stderr: code, subject, facts, next, message.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any, Final

import click

from duly.api.codec import to_json
from duly.api.registry import VERBS
from duly.api.text import visible, visible_json
from duly.api.wire import write_error
from duly.errors import (
    DulyError,
    Invalid,
    NotDeployed,
    StoreDamaged,
    StoreNewer,
    StoreUnavailable,
)
from duly.faces.cli.base import EXIT_FAILED, Face
from duly.faces.cli.offer import quote
from duly.faces.cli.spelling import spell
from duly.words.finding import say_finding
from duly.words.phrase import end

# What helps, by code, where only the command line knows it; nothing where the sentence says all.
# A word in braces is a fact of the error, or what the verb was given under that name; what is
# neither is left open, in capitals.
ADVICE: Final[Mapping[str, str]] = {
    "distrusted": "`duly trust {folder}` trusts it; `duly --project FOLDER` names another.",
    "host_gone": "`duly status` says whether one runs now.",
    "host_of_another": "",
    "host_silent": "`duly doctor` says what it finds there.",
    "keeps_everything": "It stands in duly.toml under [policy].",
    "no_connector": "duly.toml lists them under [connectors].",
    "needs_host": "`duly serve` starts one.",
    "no_event": "`duly events {workflow} --topic {topic}` lists them.",
    "no_language": "The option is --language.",
    "no_settings": "`duly init {subject}` makes a project there.",
    "no_sqlite_file": "It is `url` in duly.toml, or DULY_URL.",
    "not_a_host": "`duly doctor` says what it finds there.",
    "not_trusted": "`duly trust --list` shows it.",
    "not_your_source": "The option is --source.",
    "short_secret": "Type it again: `duly secret set {connector} {name}`.",
}
# What a kind of error leaves a person to do, where nothing else fits.
BY_KIND: Final[tuple[tuple[type[DulyError], str], ...]] = (
    (StoreNewer, "`duly --version` says which one this is."),
    (StoreDamaged, "`duly doctor` says more; docs/operations.md says how to restore a backup."),
    (StoreUnavailable, "`duly doctor` looks at the disk."),
)
# What helps, by the place of a wrong value.
BY_PATH: Final[Mapping[str, str]] = {
    "limit": "The option is --limit.",
    "mutations_per_day": "The option is --mutations-per-day.",
    "payload": 'Write it like this: `duly bus emit {topic} \'{{"text": "x"}}\'`.',
    "publish.payload": "The option is --payload; duly.toml sets its limit, payload_bytes.",
    "publish.title": "The option is --title.",
    "result": "The option is --result.",
}


class Failure(click.ClickException):
    """A command failed; the message is what the person is told."""

    exit_code = EXIT_FAILED


def tell(error: Exception, face: Face) -> Failure:
    """Say an error to the person who typed the command, or to the program."""
    if face.is_json and isinstance(error, DulyError) and not face.is_debug:
        return Failure(visible_json(json.dumps({"error": write_error(error)})))
    lines = list(_lines(error, face.asked))
    if face.is_debug:
        lines = [visible("".join(traceback.format_exception(error)), is_block=True), *lines]
    elif (bug := _bug_of(error)) is not None:
        lines.append(_keep(bug))
        lines = [" ".join(lines)]
    return Failure("\n".join(lines))


def tell_usage(command: str, cause: str) -> str:
    """Write as JSON how a command was used wrongly."""
    error = Invalid(code="wrong_use", subject=command, facts={"cause": cause})
    return visible_json(json.dumps({"error": write_error(error)}))


def _bug_of(error: BaseException) -> BaseException | None:
    """Return what Duly did not expect; of a bug inside a running host only its log knows."""
    if not isinstance(error, DulyError):
        return error
    return error.__cause__ if error.code == "failed_inside" else None


def sentence(error: DulyError, asked: Mapping[str, Any]) -> str:
    """Write the sentence of an error with something to act on."""
    text = end(visible(error).strip())
    advice = _advice(error, asked)
    return f"{text} {advice}" if advice else text


def _advice(error: DulyError, asked: Mapping[str, Any]) -> str:
    if error.next is not None and error.next.verb in VERBS:  # a newer host may know others
        return f"Next: `{spell(VERBS[error.next.verb], error.next.args, error.next.asks)}`."
    if error.code in ADVICE:
        known = {**asked, **error.facts, "subject": error.subject}
        return ADVICE[error.code].format_map(_Given(known))
    if isinstance(error, Invalid):
        return BY_PATH.get(error.path, "").format_map(_Given(asked))
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
        yield from (visible(_line_of(each)) for each in error.findings)
    yield sentence(error, asked)


def _line_of(finding: object) -> str:
    """Write one finding; what a newer host found is shown as it came."""
    told: Any = to_json(finding)
    return say_finding({"file": "source", **told}) if is_dataclass(finding) else str(finding)


def _keep(error: BaseException) -> str:
    """Write the details where only this person can read them, and say where that is."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="duly-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return "The details could not be written anywhere; `duly --debug` shows them."
    return f"The details are in {file.name}; please report them."
