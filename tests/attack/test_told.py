"""What Duly tells wrongly today: every test here is red, and says why.

Each is to turn green with a fix of its own, and then moves to the room whose rule it proves.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from duly.api.registry import VERBS
from duly.faces.cli.failure import command_of
from duly.faces.cli.spelling import spell
from duly.fact import Offer
from tests.faces import cli_stand
from tests.faces.cli_stand import call


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a past."""
    folder = tmp_path_factory.mktemp("lived") / "project"
    cli_stand.prepare(folder)
    return folder


@pytest.fixture
def folder(lived: Path, tmp_path: Path) -> Path:
    return cli_stand.copy(lived, tmp_path / "project")


def facts(folder: Path) -> dict[str, str]:
    known: dict[str, str] = json.loads((folder / "facts.json").read_text())
    return known


# -- What a person reads ------------------------------------------------------------------------


def test_no_name_of_a_column_acts_on_the_terminal(tmp_path: Path) -> None:
    """G9, L11: red, because `table` makes the rows visible and not the names above them."""
    told = call(cli_stand.make(tmp_path / "p"), "sql", "select 1 as '\x1b]0;title\x07'")
    assert told.exit_code == 0
    assert "\x1b" not in told.output


def test_an_offer_is_written_in_one_way() -> None:
    """U6: red, because an error spells its offer by a table of its own, which knows two options.

    The commands it prints for these offers are not taken by the command line.
    """
    for each in (
        Offer("skip", {"workflow": "a", "topic": "t", "message_id": "1"}, "skip"),
        Offer("grant", {"workflow": "a", "capability": "x", "mutations_per_day": 3}, "grant"),
        Offer("certificate", {"id": "1", "workflow": "a"}, "see"),
    ):
        assert command_of(each) == spell(VERBS[each.verb], each.args, each.asks)


def test_verify_names_the_rows_that_were_changed(folder: Path) -> None:
    """L15: red, because the command line prints “The store is not sound:” and nothing behind it."""
    known = facts(folder)
    with apsw.Connection(str(folder / "duly.db")) as connection:
        connection.execute("update mutation set key = 'x' where id = ?", (known["proposed"],))
    told = call(folder, "verify")
    assert told.exit_code == 1
    assert known["proposed"] in told.output
