"""`duly example`: workflows of daily life against doubles, with and without crashes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from duly.api.example import BOTH, DAILY, Language, PlayedExample, crash_example, play_example
from duly.faces.cli import duly as main
from duly.testing.crash_test import CrashTestReport
from duly.testing.daily import SERVICES, DailyWorld
from tests.faces import example_text
from tests.faces.daily_made import MADE, expect_made

pytestmark = pytest.mark.anyio

ALL = [(name, language) for name in DAILY for language in BOTH]
CRASHES = 3  # of each; `duly example NAME --crashes 100` tries them all


@pytest.mark.parametrize(("name", "language"), ALL)
async def test_an_example_does_what_it_says_at_its_doubles(name: str, language: Language) -> None:
    """W5, U2: it passes the strict check, and the services have what it was to make, once."""
    expect_made(name, await play_example(DAILY[name], language))


@pytest.mark.parametrize(("at", "name"), [*enumerate(DAILY)])
def test_an_example_survives_a_crash(at: int, name: str) -> None:
    """C11, L5: at the first change; before it, after it, and with its answer lost.

    In one language each; `tests.proof.example` tries every point in both.
    """
    told = crash_example(DAILY[name], BOTH[at % 2], crashes_max=CRASHES)
    assert (told.crashes, told.troubles, told.mismatches) == (CRASHES, (), ())
    assert len(told.changes) == len(MADE[name])


def test_there_are_twelve_and_every_service_is_in_one() -> None:
    assert len(DAILY) >= 12
    assert DAILY.keys() == MADE.keys()
    assert {service for each in DAILY.values() for service in each.services} == SERVICES.keys()
    assert all(each.says.endswith(".") for each in DAILY.values())


def test_what_is_in_the_package_are_the_examples() -> None:
    assert example_text.kept(example_text.DAILY) == example_text.derive_daily()


def test_the_command_tells_what_came_in_and_what_was_done() -> None:
    """U6, U2: in plain sentences, and with 0 where the services agree."""
    done = CliRunner().invoke(main, ["example", "form-to-notion"])
    assert done.exit_code == 0, done.output
    for words in (
        "Each form that a web page sends becomes a page of a Notion database.",
        "What came in\n  Form 1 of Bob Berg\n  Form 2 of Eve Ems\n",
        "notion.create: “Keep Form 1 of Bob Berg”\n    because of “Form 1 of Bob Berg”\n",
        "Notion, page: Eve Ems\n",
        "2 inputs, 2 changes: each was made once, and the services agree.\n",
    ):
        assert words in done.output


def test_the_command_lists_the_examples_and_shows_a_source() -> None:
    """U6: also as JSON; a name that is not known is refused."""
    run = CliRunner().invoke
    assert "mail-triage " in run(main, ["example"]).output
    assert [each["name"] for each in json.loads(run(main, ["example", "--json"]).output)] == [
        *DAILY
    ]
    shown = run(main, ["example", "mail-triage", "--source", "--language", "javascript"])
    assert shown.output == DAILY["mail-triage"].source(Language.JAVASCRIPT).text
    assert run(main, ["example", "mail-triag"]).exit_code == 1


def test_the_command_crashes_an_example() -> None:
    """U6: the sentences are those of `duly simulate`."""
    done = CliRunner().invoke(main, ["example", "form-to-notion", "--crashes", "1"])
    assert done.exit_code == 0, done.output
    assert "1 crash tried of 21 possible; every change was made exactly once." in done.output


def test_a_double_that_did_more_than_the_ledger_says_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L3: what is counted at the services is compared."""
    count = DailyWorld.changes
    monkeypatch.setattr(DailyWorld, "changes", lambda world: count(world) + 1)
    done = CliRunner().invoke(main, ["example", "form-to-notion"])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "The ledger says 2, the services counted 3. 0 open." in said


def test_what_was_played_is_not_agreed_while_something_is_open() -> None:
    facts = {"inputs": (), "outputs": (), "made": (), "places": {}, "changes": 1, "applied": 1}
    assert PlayedExample(**facts, open=0).is_agreed  # type: ignore[arg-type]
    assert not PlayedExample(**facts, open=1).is_agreed  # type: ignore[arg-type]


def test_a_fault_of_ours_in_a_crash_test_is_a_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """U7: it was taken for an end, and a workflow that did nothing was called idle."""

    def fail(registry: object, tool: str) -> str:
        raise AssertionError(tool)

    monkeypatch.setattr("duly.connectors.registry.Registry.basis_now", fail)
    told: CrashTestReport = crash_example(DAILY["form-to-notion"], Language.PYTHON, crashes_max=1)
    assert "stopped 3 times in a row" in told.troubles[0]
