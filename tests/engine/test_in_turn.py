"""Whatever the engine writes of a run is waited for, however long it takes (R8, S1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from duly.config import Policy
from duly.errors import StoreUnavailable
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.repairing import Smith, played
from tests.engine.slow import OVERDUE_S, Keyed, hanging
from tests.engine.stand import (
    CONSUMER,
    DECLINE,
    NAME,
    PRODUCER,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import Throw

__all__ = ["played"]

WRITES = (
    *("prepare_run", "move_run", "stop_run", "succeed_run", "commit_producer"),
    *("replan", "commit_run", "ask_repair", "decline_repair", "keep_version", "deploy"),
    *("propose", "send", "send_again", "send_approved", "record", "record_late"),
    *("keep_late_answer", "keep_handle", "count_attempt"),
)
WRITE_S = 0.05


class Turns:
    """Lets every write of a run take its time, and notes those that are under way together."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self.at_once: list[tuple[str, ...]] = []
        self.done: list[str] = []

    def watch(self, play: Play) -> None:
        for verb in WRITES:
            setattr(play.store, verb, self._slow(verb, getattr(play.store, verb), play))

    def _slow(
        self, verb: str, body: Callable[..., Awaitable[Any]], play: Play
    ) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.under_way:
                self.at_once.append((*self.under_way, verb))
                raise StoreUnavailable("two writes of one run at once")  # the engine rests
            self.under_way.append(verb)
            try:
                await play.stage.env.sleep(WRITE_S)
                return await body(*args, **kwargs)
            finally:
                self.under_way.remove(verb)
                self.done.append(verb)

        return call


Scene = Callable[[Stage, Turns], Awaitable[Play]]


async def begun(
    stage: Stage, turns: Turns, *faults: Fault, script: Any = None, **options: Any
) -> Play:
    """A workflow with one event, deployed and not begun yet."""
    play = await opened(stage, **options)
    plan(stage, *faults)
    await play.deploy(script or flow())
    await play.publish("a")
    turns.watch(play)
    return play


async def settle(play: Play, turns: Turns, seconds: float = 0) -> None:
    """Do what is due; nothing may be under way when there is nothing left to do."""
    await play.pass_by(seconds)
    assert turns.under_way == []


async def applied(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns)


async def nothing_reserved(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, script=flow({CONSUMER: consumer(DECLINE)}))


async def no_call(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, script=flow({CONSUMER: consumer(mutate=())}))


async def produced(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, script=flow(None, {PRODUCER: producer(publish("x"))}))


async def refused(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, Fault.REFUSE)


async def thrown(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, script=flow({CONSUMER: consumer((Throw("no"),))}))


async def not_sent(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, Fault.NOT_SENT)
    await settle(play, turns)
    await settle(play, turns, 60)
    return play


async def found_out(stage: Stage, turns: Turns) -> Play:
    return await begun(stage, turns, Fault.AMBIGUOUS)


async def found_out_later(stage: Stage, turns: Turns) -> Play:
    play = await opened(stage)
    plan(stage, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE, Fault.UNSURE, Fault.ERROR))
    await play.deploy(flow())
    await play.publish("a")
    turns.watch(play)
    for _ in range(6):
        await settle(play, turns, 60)
    return play


async def asked_in_vain(stage: Stage, turns: Turns) -> Play:
    play = await opened(stage)
    plan(stage, Fault.AMBIGUOUS, reconcile=(Fault.UNSURE,) * 6)
    await play.deploy(flow())
    await play.publish("a")
    turns.watch(play)
    for _ in range(8):
        await settle(play, turns, 660)
    assert (await play.row()).status == Row.INDETERMINATE
    return play


async def cannot_be_asked(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, Fault.AMBIGUOUS, reconcile=False)
    await settle(play, turns)
    await play.host.settle((await play.row()).id, "happened")
    return play


async def sent_again(stage: Stage, turns: Turns) -> Play:
    play = await begun(
        stage, turns, Fault.AMBIGUOUS, Fault.AMBIGUOUS, Fault.NOT_SENT, idempotent=True
    )
    for _ in range(5):
        await settle(play, turns, 60)
    return play


async def approved(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, policy=Policy(approvals={"*": "always"}))
    await settle(play, turns)
    row = await play.row()
    await play.host.approve(row.id, row.hash)
    return play


async def signed_in_again(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, Fault.AUTH)
    await settle(play, turns)
    await play.host.reconnect("sheet")
    return play


async def crashed(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns)
    await play.crash_during(record="before")
    turns.watch(play)
    return play


async def crashed_thrice(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, script=flow({CONSUMER: consumer(mutate=None)}))
    for _ in range(3):
        await play.crash_during(commit_run="before")
        turns.watch(play)
    return play


async def planned_anew(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, script=flow({}, {PRODUCER: producer(every="5m")}))
    await settle(play, turns)
    stage.env.jump(-86_400_000)
    return play


async def repaired(stage: Stage, turns: Turns) -> Play:
    play = await opened(stage)
    play.options["repairer"] = Smith(None, flow().source())
    await play.restart()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("a")
    turns.watch(play)
    await settle(play, turns)
    await play.host.retry((await play.run()).id)
    return play


async def repaired_too_late(stage: Stage, turns: Turns) -> Play:
    play = await opened(stage)

    async def late(_: object) -> object:
        await play.host.pause(NAME)
        return flow().source()

    play.options["repairer"] = Smith(late)
    await play.restart()
    await play.deploy(flow({CONSUMER: consumer(mutate=(Throw("no"),))}))
    await play.publish("a")
    turns.watch(play)
    return play


async def still_out(stage: Stage, turns: Turns) -> Play:
    slow = Keyed()
    play = await hanging(stage, slow)
    turns.watch(play)
    async with play.host.running():
        await stage.advance(2 * OVERDUE_S)
        assert (await play.row()).status == Row.INDETERMINATE
        for number in range(1, len(slow.sends) + 1):
            await slow.end(number)
            await stage.advance(1)
    return play


async def crashed_and_cannot_be_asked(stage: Stage, turns: Turns) -> Play:
    play = await begun(stage, turns, reconcile=False)
    await play.crash_during(record="before")
    turns.watch(play)
    return play


# What each ends with: the status of its newest run, and writes that only it shows.
SCENES: dict[Scene, tuple[Status, str]] = {
    applied: (Status.COMMITTED, "record"),
    nothing_reserved: (Status.COMMITTED, "commit_run"),
    no_call: (Status.COMMITTED, "move_run"),
    produced: (Status.COMMITTED, "commit_producer"),
    refused: (Status.FAILED_LOGIC, "record"),
    thrown: (Status.FAILED_LOGIC, "stop_run"),
    not_sent: (Status.COMMITTED, "succeed_run"),
    found_out: (Status.COMMITTED, "record"),
    found_out_later: (Status.COMMITTED, "count_attempt"),
    asked_in_vain: (Status.PAUSED_RECONCILIATION, "count_attempt"),
    cannot_be_asked: (Status.COMMITTED, "record"),
    sent_again: (Status.COMMITTED, "send_again"),
    approved: (Status.COMMITTED, "send_approved"),
    signed_in_again: (Status.COMMITTED, "send_again"),
    crashed: (Status.COMMITTED, "succeed_run"),
    still_out: (Status.COMMITTED, "record_late"),
    crashed_and_cannot_be_asked: (Status.PAUSED_RECONCILIATION, "record"),
    crashed_thrice: (Status.CRASHED, "stop_run"),
    planned_anew: (Status.COMMITTED, "replan"),
    repaired: (Status.COMMITTED, "decline_repair"),
    repaired_too_late: (Status.FAILED_LOGIC, "decline_repair"),
}


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_writes_of_a_run_come_one_after_the_other(duly_world: Stage, scene: Scene) -> None:
    """R8, S1: the next one is decided when the one before is in the store, not before."""
    turns = Turns()
    play = await scene(duly_world, turns)
    await settle(play, turns)
    status, wrote = SCENES[scene]
    assert (turns.at_once, (await play.run(NAME)).status) == ([], status)
    assert wrote in turns.done
