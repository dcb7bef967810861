"""The exam of forgetting: an input and all that came of it, in one transaction (H5, A6)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused
from duly.rules.forgetting import ERASED_ARGS
from duly.store.record import JournalEvent
from tests.store import post
from tests.store.attic import NOW, act, attic
from tests.store.exam import Again, Case, Refusal, Trial, World, exam
from tests.store.scene import WORKFLOW, Scene, opened

ERASED = "Erased on 1970-01-11 by ada"
MAIL, LETTER, ROW = 2, 3, 6  # the numbers of mail:1, letter:1 and row:1


def _forget(world: World, seq: int = MAIL, **more: Any) -> Any:
    return world.store.forget(WORKFLOW, seq, action=act("forget"), now=NOW, **more)


def _titles(world: World) -> dict[str, str]:
    rows = world.connection.execute(
        "select e.message_id, p.title from event e join payload p on p.workflow_id = e.workflow_id "
        "and p.content = e.content"
    )
    return {str(message_id): str(title) for message_id, title in rows}


async def _it_is_erased(world: World, answer: Any) -> None:
    assert (answer.workflow, answer.topic, answer.message_id) == ("mail", "mail", "mail:1")
    assert (answer.events, answer.runs, answer.mutations) == (3, 2, 1)
    titles = _titles(world)
    # The other input of the same change keeps what it says; what came of both is erased.
    assert [titles[each] for each in ("mail:1", "row:1", "told:1")] == [ERASED] * 3
    assert titles["letter:1"] == "letter:1, first"
    row = await world.store.get_mutation("mutation_1")
    assert (row.args, row.title, row.result, row.key != "") == (ERASED_ARGS, ERASED, None, True)
    actions = [each[2:6] for each in world.dump()["action"]]
    assert ("ada", "forget", WORKFLOW, "mail/mail:1") in actions
    statuses = dict(world.connection.execute("select message_id, status from event"))
    # An output that no handler reads must not be given to a consumer of tomorrow (W9).
    assert (statuses["mail:1"], statuses["told:1"]) == ("consumed", "skipped")


async def _open_again(world: World) -> None:
    """Let another run take up an event that came of it."""
    world.connection.execute("update event set status='pending', finished_at=null where seq = 6")


async def _run_again(world: World) -> None:
    world.connection.execute(
        "update run set open = 1, phase = 'prepared', status = 'failed:logic' where id in "
        "(select run_id from reservation where seq = 2)"
    )


async def _unknown(world: World) -> None:
    world.connection.execute("update mutation set status = 'indeterminate'")


async def _told(world: World, *, is_late: bool = False) -> None:
    """Announce something about the run, to a subscriber that is not told yet."""
    ((run_id,),) = world.connection.execute("select run_id from mutation").fetchall()
    payload = f'{{"run":"{run_id}","titles":["mail:1, first"]}}'
    await world.store.emit(JournalEvent("mail", "duly", payload), now=NOW)
    if is_late:
        await world.store.begin_delivery(100, post.BOTH, now=NOW)


FORGET = Case(
    verb="forget",
    arrange=attic,
    call=_forget,
    effect=_it_is_erased,
    again=Again.STALE,
    refusals=(
        Refusal("an event that is not there", NotFound, call=partial(_forget, seq=99)),
        Refusal(
            "what came of an input",
            RequestRefused,
            call=partial(_forget, seq=ROW),
            match="was made from",
        ),
        Refusal("what is still work", RequestRefused, _open_again, match="row/row:1"),
        Refusal("a run that is open", RequestRefused, _run_again, match="run run_"),
        Refusal("a change that is unknown", RequestRefused, _unknown, match="mutation run_"),
        Refusal("what is still to be told", RequestRefused, _told, match="delivery bus:"),
        Refusal(
            "more than its limit", RequestRefused, call=partial(_forget, events_max=2), match="2"
        ),
    ),
)


@pytest.mark.parametrize("trial", exam(FORGET))
async def test_forgetting_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """H5, A6: one transaction, whole or not at all; refused while anything of it is open."""
    await trial.sit(tmp_path)


async def test_the_limit_of_events_is_what_may_come_of_an_input(tmp_path: Path) -> None:
    """H5: as many as the limit says are erased, one more is refused (above)."""
    async with opened(tmp_path) as world:
        await attic(world)
        assert (await _forget(world, events_max=3)).events == 3


async def test_the_limit_of_runs_is_what_is_erased_at_once(tmp_path: Path) -> None:
    """H5: all of it is one transaction, so there is a limit; one run past it erases nothing."""
    async with opened(tmp_path) as world:
        await attic(world)
        with pytest.raises(RequestRefused, match="More than 1 runs"):
            await _forget(world, runs_max=1)
        assert "mail:1, first" in _titles(world).values()
        assert (await _forget(world, runs_max=2)).runs == 2


@pytest.mark.parametrize(("message_id", "runs"), [("m:1", 2), ("subject", 2), ("mailed", 4)])
async def test_other_runs_that_only_look_alike_keep_what_they_say(
    tmp_path: Path, message_id: str, runs: int
) -> None:
    """H5: a short id or the name of a field says nothing of the input; a mention takes a chain."""
    async with opened(tmp_path) as world:
        await attic(world)
        world.connection.execute(
            "update event set message_id = ? where workflow_id = ? and seq = ?",
            (message_id, WORKFLOW, MAIL),
        )
        other = '{"subject":"mailed","to":"m:1"}'
        world.connection.execute(
            "update run set state_before = ? where id = (select id from run where workflow_id = ? "
            "and open = 0 and id not in (select run_id from reservation) and id not in "
            "(select created_by from event where created_by is not null) limit 1)",
            (other, WORKFLOW),
        )
        assert world.connection.execute("select changes()").fetchone() == (1,)
        made = await _forget(world)
        assert (made.runs, made.is_looked_for) == (runs, len(message_id) >= 6)


async def test_a_second_input_of_the_same_change_is_forgotten_too(tmp_path: Path) -> None:
    """H5: the first sentence stays where both had a part."""
    async with opened(tmp_path) as world:
        scene: Scene = await attic(world)
        await _forget(world)
        other = scene.action("forget")
        again = await world.store.forget(WORKFLOW, LETTER, action=other, now=NOW)
        assert (again.events, again.mutations) == (3, 1)
        titles = _titles(world)
        assert titles["mail:1"] == titles["row:1"] == ERASED
        assert titles["letter:1"] == "Erased on 1970-01-11 by me"


async def test_what_the_bus_was_told_of_it_is_erased(tmp_path: Path) -> None:
    """H5, B10: announcements of its runs, and what handlers emitted because of them."""
    async with opened(tmp_path) as world:
        await attic(world)
        ((run_id,),) = world.connection.execute("select run_id from mutation").fetchall()
        payload = f'{{"run":"{run_id}","titles":["mail:1, first"]}}'
        told = await world.store.emit(JournalEvent("quiet", "duly", payload), now=NOW)
        after = await world.store.emit(
            JournalEvent("quiet", "notes", '{"text":"mail:1, first"}', None, f"bus:{told}"), now=NOW
        )
        other = await world.store.emit(JournalEvent("quiet", "notes", '{"text":"else"}'), now=NOW)
        world.connection.execute("update journal set status = 'done', processed_at = 1")
        answer = await _forget(world)
        assert answer.bus_events == 2
        rows = dict(world.connection.execute("select id, payload from journal"))
        assert "mail:1" not in rows[told] + rows[after]
        assert ERASED in rows[told]
        assert rows[other] == '{"text":"else"}'


async def test_other_inputs_of_the_same_bus_event_are_named(tmp_path: Path) -> None:
    """H5, T10: another workflow has its own copy; a person is told of it."""
    async with opened(tmp_path) as world:
        await attic(world)
        number = await world.store.emit(JournalEvent("quiet", "me", '{"text":"x"}'), now=NOW)
        run = world.connection.execute
        run("update journal set status = 'done', processed_at = 1")
        run("update event set bus_event = ? where seq = 2", (number,))
        run(
            "insert into workflow (id, name, created_at) values ('w2', 'other', 1);"
            "insert into topic (workflow_id, name, bus_topic) values ('w2', 't', 'quiet');"
            "insert into payload values ('w2', 1, 'x', '{}', 'd');"
            "insert into event (workflow_id, seq, topic, message_id, content, created_by, "
            f"created_at) values ('w2', 1, 't', 'bus:{number}', 1, 'me', 1)"
        ).fetchall()
        answer = await _forget(world)
        assert [(each.workflow, each.message_id) for each in answer.elsewhere] == [
            ("other", f"bus:{number}")
        ]
