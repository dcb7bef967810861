"""The `sql` connector under a host: a set-up that is wrong costs one yes, and no change is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.connectors.sql import Sql
from duly.rules.standing import Code
from duly.testing import Stage
from tests.connectors.books import FILE, OPERATIONS, TABLE, FileBooks
from tests.desk.situation import ASKED, run
from tests.engine.stand import CONSUMER, NAME, Play, consumer, flow
from verification.moves import Call

ADD = Call("books.add", (), {"id": 1, "customer": "Ada", "total": 1.0})


async def say_yes(play: Play) -> Any:
    """Approve what waits, let it run, and return why the workflow stands as it does then."""
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    return (await play.host.why(NAME)).reason


async def retry(play: Play) -> None:
    (newest, *_) = await play.host.runs(NAME)
    await play.host.retry(newest.id)
    await play.drain()


async def asked(stage: Stage, folder: Path) -> Play:
    sql = Sql(f"sqlite:///{folder / FILE}", operations=OPERATIONS, name="books")
    script = flow({CONSUMER: consumer(mutate=(ADD,))})
    return await run(stage, script, policy=ASKED, connectors=(sql,))


async def test_on_a_fresh_database_one_yes_makes_the_change(
    duly_world: Stage, tmp_path: Path
) -> None:
    """L7: nobody makes a table for Duly first."""
    books = FileBooks(tmp_path)
    play = await asked(duly_world, tmp_path)
    await say_yes(play)
    assert books.run("select id from invoice") == [(1,)]
    assert await play.statuses() == {"a": "consumed"}


async def test_after_the_owner_has_made_what_lacks_the_next_yes_makes_the_change(
    duly_world: Stage, tmp_path: Path
) -> None:
    """F4, L7: first the file is missing, then the user's own table; Duly retries neither alone."""
    (tmp_path / "beside.txt").touch()
    play = await asked(duly_world, tmp_path)
    reason = await say_yes(play)
    assert reason.code == Code.WRONG_SET_UP
    (row,) = await play.host.mutations()
    assert row.known is not None
    assert row.known.is_unsent
    changed = (await play.host.history(row.id)).moments[-1].reason
    assert (changed.facts["status"], changed.facts["for_owner"]) == ("failed:logic", True)
    await play.pass_by(3600)
    assert (await play.host.why(NAME)).reason.code == Code.WRONG_SET_UP
    assert "deploy" not in [each.verb for each in (await play.host.attention())[0].offers]
    books = FileBooks(tmp_path)
    books.run("alter table invoice rename to elsewhere")
    await retry(play)
    assert (await say_yes(play)).code == Code.CALL_REFUSED
    books.run(TABLE)
    await retry(play)
    await say_yes(play)
    assert books.run("select id from invoice") == [(1,)]
    assert await play.statuses() == {"a": "consumed"}


async def test_a_call_whose_record_is_lost_waits_for_a_person_and_is_made_once(
    duly_world: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5: a call that met a database in use, and whose record was never begun, is not sent again
    alone; after a person has looked it is made by their next yes."""
    monkeypatch.setattr("duly.connectors.table_sql.BUSY_MS", 1)
    books = FileBooks(tmp_path)
    play = await asked(duly_world, tmp_path)

    other = apsw.Connection(str(tmp_path / FILE))
    other.execute("begin exclusive")
    reason = await say_yes(play)
    assert reason.code == Code.UNREACHABLE
    other.execute("rollback")
    other.close()
    await play.pass_by(600)
    reason = await say_yes(play)
    assert reason.code == Code.RECORD_LOST
    await retry(play)
    await say_yes(play)
    assert books.run("select id from invoice") == [(1,)]
