"""The user's own workflow through every schedule with one crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.rules.source import Source
from duly.testing.simulate import simulate
from duly.testing.world import World

EXAMPLES = Path(__file__).parents[2] / "examples"


def furnish(world: World) -> None:
    world.mailbox(1)
    world.sheet()


@pytest.mark.parametrize(
    ("name", "language"), [("mail_to_table.py", "python"), ("mail_to_table.js", "javascript")]
)
def test_example_survives_every_crash(name: str, language: str) -> None:
    """L3, R7: the same rows and events as without a crash, in the real interpreter."""
    source = Source(language, (EXAMPLES / name).read_text(), name)  # type: ignore[arg-type]
    assert simulate(source, furnish, schedules_max=5) == ()


def test_source_that_cannot_be_deployed_is_one_sentence() -> None:
    """W5: what the check says is what is said here."""
    (said,) = simulate(Source("python", "flow = 1", "broken.py"), furnish)
    assert said.startswith("It cannot be deployed: ")


def test_what_needs_a_person_without_any_crash_is_said() -> None:
    """F3: a script that throws needs no crash to go wrong."""
    text = (EXAMPLES / "mail_to_table.py").read_text().replace("ctx.sheets.append_row", "ctx.nope")
    said = simulate(Source("python", text), furnish, schedules_max=1)
    assert any(each.startswith("Without any crash, a run of ") for each in said)
