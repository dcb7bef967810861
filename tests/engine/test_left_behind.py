"""Sends that outlive the wait for them, and what becomes of their late answers (L1, L6, L10)."""

from __future__ import annotations

import pytest

import duly
from duly.errors import NotSent, Refused, RequestRefused, UnknownOutcome
from duly.rules.late import read_late
from duly.rules.seal import Part
from duly.rules.word import Answer, Status
from duly.rules.word import MutationStatus as Row
from duly.testing import Stage
from tests.engine.slow import (
    DONE,
    HANGS,
    LAG_S,
    OPEN,
    OVERDUE_S,
    TIMEOUT_S,
    UNKNOWN,
    Keyed,
    Mute,
    Slow,
    found,
    hanging,
)
from tests.engine.stand import NAME
from tests.spoken import long

# -- A send that never returns --------------------------------------------------------------------


async def test_a_send_that_never_returns_is_shown_when_its_time_is_over(duly_world: Stage) -> None:
    """L6, L13: asked twice, then a person is told exactly that; was asked for ever, unseen."""
    slow = Slow()
    play = await hanging(duly_world, slow)
    began_s = duly_world.loop.time()
    async with play.host.running():
        await duly_world.advance(OVERDUE_S - 1)
        assert await found(play) == UNKNOWN
        await duly_world.advance(2)
        assert await found(play) == OPEN
        await duly_world.advance("1d")
    assert [at - began_s for at in slow.asks] == [TIMEOUT_S + 1, OVERDUE_S]
    assert HANGS in (await play.error())["message"]
    (entry,) = await play.host.attention()
    assert HANGS in long(play.host, entry)
    await slow.end()


@pytest.mark.parametrize("kind", [Slow, Mute, Keyed])
async def test_while_it_is_out_a_person_may_say_yes_but_not_no(
    duly_world: Stage, kind: type[Slow]
) -> None:
    """L10: refused with the reason and the one way to end it; nothing is sent beside it."""
    slow = kind()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance("1h")
        row = await play.row()
        assert row.status == Row.INDETERMINATE
        for answer in ("did_not_happen", "try_again"):
            with pytest.raises(RequestRefused, match="has not returned") as refused:
                await play.host.settle(row.id, answer)
            assert "stop the host" in str(refused.value)
        await play.host.settle(row.id, "happened", {"row": 7})
        await duly_world.advance(1)
        assert await found(play) == DONE
        for number in range(len(slow.sends)):
            await slow.end(number + 1)
    assert (await play.payloads())["a"] == {"status": "applied", "result": {"row": 7}}


async def test_a_person_may_skip_it_and_its_late_answer_is_shown_beside(duly_world: Stage) -> None:
    """L10, L1: what was decided stays, what the send said is there to be read."""
    slow = Mute()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance("1h")
        row = await play.row()
        await play.host.settle(row.id, "skip")
        await duly_world.advance(1)
        await slow.end()
        await duly_world.advance(1)
    assert (await play.row()).status == Row.SKIPPED
    shown = await play.host.mutation(row.id)
    (late,) = shown.late
    assert (late.attempt, late.answer, late.message) == (1, Answer.APPLIED, None)
    assert late.at is not None
    said = long(play.host, await play.host.why(row.id))
    assert "Send 1 of slow.change returned late, on 1 Jan 01:00 UTC: it was done." in said
    assert (await play.host.certificate(row.id)).changes[0].late == (late,)
    # The row had ended before; it is sealed with what came late, and a change of that is seen.
    assert (await play.host.verify()).ok
    play.tamper("update mutation set late = replace(late, 'applied', 'refused')")
    (found,) = (await play.host.verify()).changed
    assert found.parts == (Part.LATE,)
    assert await play.statuses() == {"a": "skipped"}


async def test_stopping_the_host_ends_the_send_and_counting_begins_anew(duly_world: Stage) -> None:
    """L10, L6: after the next start "it did not happen" is taken when the lag is over."""
    slow = Mute()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance("1h")
    row = await play.row()
    await play.restart()
    with pytest.raises(RequestRefused, match="too early"):
        await play.host.settle(row.id, "did_not_happen")
    await duly_world.advance(LAG_S)
    await play.host.settle(row.id, "did_not_happen")
    assert (await play.row()).status == Row.FAILED
    await slow.end()


# -- Late answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("after_s", [TIMEOUT_S + 5, OVERDUE_S + 5])
@pytest.mark.parametrize("kind", [Slow, Mute])
async def test_a_late_yes_settles_the_row(
    duly_world: Stage, kind: type[Slow], after_s: float
) -> None:
    """L1, L6: while it is asked about as well as when a person is; the same run goes on."""
    slow = kind()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(after_s)
        run = await play.run()
        await slow.end()
        await duly_world.advance(1)
    assert await found(play) == DONE
    assert (await play.row()).held_by == run.id
    assert (await play.payloads())["a"] == {"status": "applied", "result": "done"}
    assert (slow.made, len(slow.sends), run.crash_count) == (1, 1, 0)
    assert (await play.row()).late is None


NOES = {
    "refused": (Refused("no such sheet"), Status.FAILED_LOGIC),
    "not sent": (NotSent("no route"), Status.PAUSED_TRANSIENT),
    "sign-in": (duly.AuthNeeded("sign in"), Status.PAUSED_TRANSIENT),
}


@pytest.mark.parametrize("after_s", [TIMEOUT_S + 5, OVERDUE_S + 5])
@pytest.mark.parametrize("name", NOES)
async def test_a_late_no_settles_a_row_that_was_sent_once(
    duly_world: Stage, name: str, after_s: float
) -> None:
    """L1: it is a no to the call; the generation grows as at any other refusal (L7)."""
    error, status = NOES[name]
    slow = Mute()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(after_s)
        await slow.end(error=error)
        await duly_world.advance(1)
        row = (await play.rows())[0]
        assert row.status == Row.FAILED
        assert row.refused == (name == "refused")
        assert (await play.store.get_run(row.held_by)).status == status


async def test_a_late_no_of_a_call_that_was_sent_again_settles_nothing(duly_world: Stage) -> None:
    """L1: the other send may have made the change; the no is shown beside."""
    slow = Keyed()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(2 * OVERDUE_S)
        assert len(slow.sends) >= 2
        assert (await play.row()).status == Row.INDETERMINATE
        await slow.end(1, Refused("no"))
        await duly_world.advance(1)
        row = await play.row()
        (late,) = read_late(row.late)
        assert (row.status, late.answer) == (Row.INDETERMINATE, Answer.REFUSED)
        assert late.message is not None
        assert "no" in late.message
        for number in range(2, len(slow.sends) + 1):
            await slow.end(number)
        await duly_world.advance(1)
        assert await found(play) == DONE
    assert (await play.payloads())["a"] == {"status": "applied", "result": "done"}


async def test_a_late_no_to_the_newest_of_two_sends_settles_nothing(duly_world: Stage) -> None:
    """L1: the first send is still unknown, and a fresh run would make the change beside it."""
    slow = Keyed()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(2 * OVERDUE_S)
        row = await play.row()
        assert (row.attempt, row.status) == (len(slow.sends), Row.INDETERMINATE)
        await slow.end(row.attempt, Refused("no"))
        await duly_world.advance("1h")
        row = await play.row()
        (late,) = read_late(row.late)
        assert (row.status, late.answer) == (Row.INDETERMINATE, Answer.REFUSED)
        assert late.message is not None
        assert "no" in late.message
        assert len(await play.rows()) == 1
        for number in range(1, len(slow.sends)):
            await slow.end(number)
        await duly_world.advance(1)
        assert await found(play) == DONE


async def test_a_late_end_that_says_nothing_opens_the_way_to_a_persons_no(
    duly_world: Stage,
) -> None:
    """L6, L10: the lag counts from the real end."""
    slow = Mute()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance("1h")
        await slow.end(error=UnknownOutcome("lost"))
        await duly_world.advance(LAG_S - 1)
        row = await play.row()
        assert [each.answer for each in read_late(row.late)] == [Answer.UNKNOWN]
        with pytest.raises(RequestRefused, match="too early"):
            await play.host.settle(row.id, "did_not_happen")
        await duly_world.advance(1)
        await play.host.settle(row.id, "did_not_happen")
    assert (await play.rows())[0].status == Row.FAILED


async def test_a_late_answer_in_a_paused_workflow_is_written_and_waits(duly_world: Stage) -> None:
    """F7, L1: nothing follows from it before resume."""
    slow = Slow()
    play = await hanging(duly_world, slow)
    async with play.host.running():
        await duly_world.advance(TIMEOUT_S + 5)
        await play.host.pause(NAME)
        await slow.end()
        await duly_world.advance("1h")
        assert await found(play) == (Row.APPLIED, Status.ACTIVE)
        await play.host.resume(NAME)
        await duly_world.advance(1)
        assert await found(play) == DONE
    assert (await play.run()).crash_count == 0
