"""Figures for a monitor: what the ledger and the runs say, at the same cost for any history."""

from __future__ import annotations

from collections import Counter

import pytest

from duly.config import Policy
from duly.rules.figure import FigureName
from duly.store import tally
from duly.store.tally import Tally
from duly.testing import Fault, Stage
from duly.words.figure import MEANINGS
from tests.engine.stand import NAME, TOOL, Play, flow, opened, plan

pytestmark = pytest.mark.anyio

Read = dict[tuple[str, ...], float]


async def read(play: Play) -> Read:
    return {(each.name, *each.labels.values()): each.value for each in await play.host.figures()}


async def ended(play: Play, found: Read) -> tuple[Counter[str], dict[str, float]]:
    """Return how the rows of the ledger stand, and how the changes that moved are counted."""
    rows = Counter(str(each.status) for each in await play.rows())
    moved = {key[2]: value for key, value in found.items() if key[:2] == (COUNTED, TOOL)}
    return rows, moved


COUNTED = FigureName.MUTATIONS


async def test_the_counts_are_what_became_of_runs_and_changes(duly_world: Stage) -> None:
    """U1: every change that ended is counted once, under its tool and its status."""
    plan(duly_world, Fault.OK, Fault.AMBIGUOUS, Fault.REFUSE, reconcile=(Fault.UNSURE,))
    play = await opened(duly_world)
    await play.deploy(flow())
    for each in "abc":
        await play.publish(each)
    await play.drain()
    found = await read(play)
    assert found[FigureName.OPEN_MUTATIONS, "needs_reconcile"] == 1
    assert found[FigureName.OPEN_RUNS, "paused:reconciliation"] == 1
    assert found[FigureName.PENDING, NAME] == 1
    await play.pass_by(3600)
    found = await read(play)
    rows, moved = await ended(play, found)
    assert rows == {"applied": 2, "failed": 1}
    assert moved == {**rows, "in_flight": 3, "needs_reconcile": 1}
    runs = Counter(str(each.status) for each in await play.runs())
    assert found[FigureName.RUNS, "committed"] == runs["committed"]
    assert found[FigureName.RUNS_STARTED, "consumer"] == sum(runs.values())
    assert found[FigureName.ATTENTION,] == len(await play.host.attention()) == 1
    assert found[FigureName.STORE_BYTES,] > 0
    assert found.get((FigureName.STORE_SYNCS,), 1) > 0  # a server syncs by itself


async def test_a_change_that_a_crash_left_behind_is_counted_under_its_tool(
    duly_world: Stage,
) -> None:
    """U1, R7: the host that settles it counts it, though another one sent it."""
    plan(duly_world, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,))
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.restart()
    await play.pass_by(3600)
    rows, moved = await ended(play, await read(play))
    assert rows == moved == {"applied": 1}


async def approve_all(play: Play) -> None:
    """Let every call that waits be made."""
    for each in await play.rows():
        if each.status == "proposed":
            await play.host.approve(each.id, each.hash)
    await play.drain()


async def test_a_send_is_counted_once_however_it_came_to_be(duly_world: Stage) -> None:
    """L2, A4, F4: approved, sent again under its key, sent again after a sign-in; was twice."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}), idempotent=True)
    plan(duly_world, Fault.OK, Fault.AMBIGUOUS, Fault.OK, Fault.AUTH)
    await play.deploy(flow())
    for each in "abc":
        await play.publish(each)
        await play.drain()
        await approve_all(play)
    await play.host.reconnect("sheet")
    await play.drain()
    await approve_all(play)
    rows, moved = await ended(play, await read(play))
    assert (rows, [each.attempt for each in await play.rows()]) == ({"applied": 3}, [1, 2, 2])
    assert moved["in_flight"] == play.sends() == 5


async def test_a_yes_alone_is_no_send(duly_world: Stage) -> None:
    """A4: the call is in flight from the yes on; the send is counted when it is written down."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    await play.host.approve(row.id, row.hash)
    _, moved = await ended(play, await read(play))
    assert moved == {"proposed": 1}
    await play.drain()
    _, moved = await ended(play, await read(play))
    assert moved == {"proposed": 1, "in_flight": 1, "applied": 1}


async def test_the_oldest_pending_event_says_how_long_it_waits(duly_world: Stage) -> None:
    """U4: also while the workflow is paused."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.pause(NAME)
    await play.publish("a")
    await play.pass_by(90)
    await play.publish("b")
    found = await read(play)
    assert found[FigureName.OLDEST_PENDING, NAME] == 90
    assert found[FigureName.PENDING, NAME] == 2
    assert found[FigureName.WORKFLOWS, "stopped"] == 1


def test_moves_of_an_attempt_that_is_run_again_are_counted_once() -> None:
    """H3: a transaction that the database ended for another one is run again."""
    counts = Tally()
    moves: list[tally.Move] = []
    for _ in range(2):
        counts.noted(lambda: tally.note(tally.RUNS, "committed"), moves)
    counts.add(moves)
    assert counts.read(tally.RUNS) == {("committed",): 1}
    tally.note(tally.RUNS, "committed")  # outside of a verb nothing is counted
    assert counts.read(tally.RUNS) == {("committed",): 1}


def test_what_a_tally_remembers_is_bounded() -> None:
    """N: one past each limit is left out; the oldest run is forgotten first."""
    counts = Tally()
    for number in range(tally.TOOLS_MAX + 1):
        counts.add([("seen", (f"run {number}", "a.b"), 1)])
    counts.add([(tally.MUTATIONS, ("run 0", "applied"), 1)])
    counts.add([(tally.MUTATIONS, ("run 1", "applied"), 1)])
    assert counts.read(tally.MUTATIONS) == {("a.b", "applied"): 1, ("unknown", "applied"): 1}
    for number in range(tally.LABELS_MAX):
        counts.count(tally.QUESTIONS, str(number), "answered")
    assert len(counts.read(tally.QUESTIONS)) == tally.LABELS_MAX - 2


def test_every_figure_has_a_meaning_and_a_name_with_its_unit() -> None:
    """G13: the names follow the conventions of Prometheus."""
    assert set(MEANINGS) == set(FigureName)
    assert all(each.startswith("duly_") and each == each.lower() for each in FigureName)
