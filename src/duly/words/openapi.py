"""What of a description was left out, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from duly.rules.openapi import LeftOut, Omission
from duly.rules.shown import visible

OMITTED_MAX: Final = 20  # that are named
REASONS: Final[Mapping[str, str]] = {
    LeftOut.HEADER: "it needs the header {what}, which an operation cannot have",
    LeftOut.COOKIE: "it needs the cookie {what}",
    LeftOut.BODY_TYPE: "its body is {what}, and neither JSON nor a form",
    LeftOut.ELSEWHERE: "it refers to {what}, which is not in the file",
    LeftOut.TOO_DEEP: "its references go on and on: {what}",
    LeftOut.TOO_MANY: "there are more than {what}",
    LeftOut.METHOD: "there is no such operation",
    LeftOut.NO_NAME: "a script could not call {what}",
    LeftOut.MALFORMED: "the description is broken there: {what}",
    LeftOut.REFUSED: "{what}",
    LeftOut.AUTH: "an http connector cannot sign in by {what}",
}


def say_omission(omission: Omission) -> str:
    """Say what was left out, and why."""
    why = REASONS[omission.why].replace("{what}", visible(omission.what or "something"))
    return f"{visible(omission.subject)}: {why}"


def say_omitted(name: str, omitted: Sequence[Mapping[str, Any]]) -> str:
    """Say that a connection was added, and what of its description was left out."""
    told = [say_omission(Omission(each["subject"], each["why"], each["what"])) for each in omitted]
    more = f"; {len(told) - OMITTED_MAX} more" if len(told) > OMITTED_MAX else ""
    return f"{name} was added. Left out: {'; '.join(told[:OMITTED_MAX])}{more}."
