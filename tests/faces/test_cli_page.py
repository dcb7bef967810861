"""docs/command-line.md says what the commands say."""

from __future__ import annotations

from duly.api.registry import VERBS
from duly.faces.cli import commands
from tests.faces.command_page import PAGE, render


def test_the_page_is_what_the_commands_say() -> None:
    """U6: a changed command changes the page; `python -m tests.faces.command_page --write`."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_the_page_has_every_command_and_the_fields_of_every_question() -> None:
    """U6: a developer who writes a program finds what it can read."""
    page = render()
    for name in commands():
        assert f"### duly {name}\n" in page
    answered = page.count("\nJSON: ")
    assert answered >= sum(each.is_question for each in VERBS.values())
