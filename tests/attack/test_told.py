"""What Duly tells wrongly today: every test here is red, and says why.

Each is to turn green with a fix of its own, and then moves to the room whose rule it proves.
"""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest

from duly.api.registry import VERBS
from duly.config import Policy
from duly.faces.cli.failure import command_of
from duly.faces.cli.spelling import spell
from duly.fact import Offer
from duly.testing import Stage
from tests.engine.stand import Play, flow, opened
from tests.error_sites import find_sites
from tests.faces import cli_stand
from tests.faces.cli_stand import call

ASKED = Policy(approvals={"*": "always"})


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


def test_every_offer_of_an_error_names_a_verb() -> None:
    """U6: red, because `status` is a command of one face: no program can carry it out."""
    offered = {each.verb for each in find_sites() if each.verb}
    assert offered - VERBS.keys() == set()


def test_verify_names_the_rows_that_were_changed(folder: Path) -> None:
    """L15: red, because the command line prints “The store is not sound:” and nothing behind it."""
    known = facts(folder)
    with apsw.Connection(str(folder / "duly.db")) as connection:
        connection.execute("update mutation set key = 'x' where id = ?", (known["proposed"],))
    told = call(folder, "verify")
    assert told.exit_code == 1
    assert known["proposed"] in told.output


# -- Certificates that lie (L15) ------------------------------------------------------------------


async def waiting(stage: Stage) -> Play:
    """Bring one change to where it waits for a yes."""
    play = await opened(stage, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


async def made(stage: Stage) -> Play:
    """Bring one change to its end."""
    play = await opened(stage)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


async def is_noticed(play: Play) -> tuple[bool, bool]:
    """Tell whether `verify` and the certificate of the one change see that something is wrong."""
    verified = await play.host.verify()
    (change,) = (await play.host.certificate((await play.row()).id)).changes
    return not verified.ok, not change.seal.is_whole


async def test_a_changed_call_that_waits_is_noticed(duly_world: Stage) -> None:
    """L11, L15: red, because of an open row only the seal is checked, not the call it covers."""
    play = await waiting(duly_world)
    play.tamper("""update mutation set args = '{"text":"pay eve"}'""")
    assert await is_noticed(play) == (True, True)


async def test_another_input_of_an_open_change_is_noticed(duly_world: Stage) -> None:
    """L15: red, because the sealed digest of the inputs is not compared with the inputs shown."""
    play = await waiting(duly_world)
    play.tamper("update event set message_id = 'forged'")
    assert await is_noticed(play) == (True, True)


async def test_another_input_of_an_ended_change_is_noticed(duly_world: Stage) -> None:
    """L15: red: where contents are marked as removed by retention, no input is compared.

    The certificate then names “forged” as the input that was handled once, under a whole seal.
    """
    play = await made(duly_world)
    play.tamper(
        "insert into payload select workflow_id, 0, title, body, digest from payload limit 1"
    )
    play.tamper("update reservation set content = 0")
    play.tamper("update event set message_id = 'forged'")
    assert await is_noticed(play) == (True, True)


async def test_what_came_late_is_sealed(duly_world: Stage) -> None:
    """L15: red, because `late`, which a certificate shows, is under no seal."""
    play = await made(duly_world)
    play.tamper("update mutation set late = 'it was made twice'")
    assert await is_noticed(play) == (True, True)
