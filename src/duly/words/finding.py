"""What is wrong with a source on one line, as editors and people read it (W5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.words.error import say_problem

# The words of linters for the two severities.
SEVERITIES: Final[Mapping[str, str]] = {"refuses": "error", "warns": "warning"}


def say_kind(finding: Mapping[str, Any]) -> str:
    """Say how bad it is, and by which rule: “error: syntax”."""
    severity = finding.get("severity", "refuses")  # a problem that loading proved has none
    return f"{SEVERITIES.get(severity, severity)}: {finding['rule']}"


def say_place(finding: Mapping[str, Any]) -> str:
    """Say where it is; what is about the whole file is on its first line."""
    return f"{finding['file']}:{finding['line'] or 1}:{finding['column'] or 1}"


def say_told(finding: Mapping[str, Any]) -> str:
    """Say what is wrong and what to do; a place that is known is said before."""
    sentence = finding["sentence"]
    if finding["line"] and "code" in finding:
        sentence, _ = say_problem(finding["code"], "", finding["facts"])
    return f"{sentence} {finding['suggestion']}"


def say_finding(finding: Mapping[str, Any]) -> str:
    """Say it on one line: place, severity, rule, sentence."""
    return f"{say_place(finding)}: {say_kind(finding)}: {say_told(finding)}"
