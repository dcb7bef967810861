"""What a person may ask why about, beyond the open states: rest, pauses, endings, what was left.

Every builder answers the host and what is asked about: a workflow's name, a run or a mutation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import duly
from duly.rules.failure import RECORD_LOST, WRONG_SET_UP
from duly.store.base import Durability, Transaction
from duly.store.record import Origin, VersionSpec
from duly.testing import Fault, Stage
from tests.desk import situation
from tests.desk.situation import ASKED, LONG_S, LOSE, THROW, indeterminate, ready, run
from tests.engine.repairing import Smith, failing
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    PRODUCER,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    producer,
    publish,
)
from verification.moves import Call, Return, When

Asked = tuple[Play, str]
Builder = Callable[[Stage], Awaitable[Asked]]

WHO: Final = "anna"
DECLINE: Final = (Call("peek", (IN,), {"limit": 9}, into="pending"), Return(NOTHING))
PEEK_ALL: Final = Call("peek", (IN,), {"limit": 9}, into="pending")
DAYS_8: Final = 8 * 86_400


def declining(*topics: str) -> Any:
    return flow({CONSUMER: consumer(DECLINE)}, topics=topics or (IN, OUT))


def untitled() -> Any:
    """A script that calls its change nothing."""
    quiet = {key: value for key, value in RESERVE.items() if key != "ui"}  # type: ignore[union-attr]
    return flow({CONSUMER: consumer((PEEK_ALL, Return(quiet)))})


# -- Nothing is open ------------------------------------------------------------------------------


async def resting(stage: Stage, script: Any, *ids: str) -> Asked:
    play = await opened(stage)
    await play.deploy(script)
    await play.publish(*ids)
    await play.drain()
    return play, NAME


async def due(stage: Stage) -> Asked:
    return await ready(stage), NAME


async def resting_half_a_minute(stage: Stage) -> Asked:
    """Publish without taking anything: the consumer waits before it looks at its own event."""
    return await resting(
        stage, flow({CONSUMER: consumer((PEEK_ALL, Return(NOTHING)), then=(publish("x"),))})
    )


async def paused(stage: Stage, *ids: str) -> Asked:
    play, name = await resting(stage, declining(), *ids)
    await play.host.pause(NAME, by=WHO)
    return play, name


async def removed(stage: Stage) -> Asked:
    play, name = await resting(stage, declining())
    await play.host.remove(NAME, by=WHO)
    return play, name


# -- A pause over something open ------------------------------------------------------------------


async def pausing(stage: Stage, builder: Callable[[Stage], Awaitable[Play]]) -> Asked:
    play = await builder(stage)
    await play.host.pause(NAME, by=WHO)
    return play, NAME


async def granted(stage: Stage) -> Asked:
    play = await situation.ungranted(stage)
    await play.host.grant(NAME, TOOL, by=WHO)
    return play, NAME


async def reconnected(stage: Stage) -> Asked:
    play = await run(stage, None, Fault.AUTH)
    await play.host.reconnect("sheet", by=WHO)
    return play, NAME


async def granted_while_paused(stage: Stage) -> Asked:
    play, name = await granted(stage)
    await play.host.pause(NAME, by=WHO)
    return play, name


async def worn_out(stage: Stage) -> Asked:
    play = await run(stage, flow({CONSUMER: consumer(prepare=LOSE)}))
    async with play.host.running():
        await stage.advance(LONG_S)
    return play, NAME


async def used_up(stage: Stage) -> Asked:
    play = await ready(stage)
    await play.host.grant(NAME, TOOL, mutations_per_day=1, by=WHO)
    await play.publish("b")
    await play.drain()
    return play, NAME


async def said_yes_before(stage: Stage) -> Asked:
    """A call that was approved, was refused outside, and waits for a yes again."""
    play = await run(stage, None, Fault.REFUSE, policy=ASKED)
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash, by=WHO)
    await play.drain()
    (failed, *_) = await play.host.runs(NAME)
    await play.host.retry(failed.id, by=WHO)
    await play.drain()
    (again,) = await play.host.approvals()
    return play, again.mutation


class Rows(duly.Connector):
    """A database whose owner has something to do."""

    name = "rows"

    def __init__(self, code: str) -> None:
        self.code = code

    @duly.read
    async def list(self) -> list[str]:
        raise duly.Refused("rows.db: there is no such file. Make it there.", code=self.code)

    @duly.mutation
    async def add(self, call: duly.Call, text: str) -> str:
        raise duly.Refused("rows.db: the record is not there. See to it.", code=self.code)


async def for_owner(stage: Stage, code: str, *, is_read: bool = False) -> Asked:
    """A connection with which neither waiting nor another script helps."""
    asks = (Call("rows.list"),) if is_read else (Call("rows.add", (), {"text": "a"}),)
    script = flow({CONSUMER: consumer(asks) if is_read else consumer(mutate=asks)})
    return await _named(run(stage, script, connectors=(Rows(code),)))


async def repairing(stage: Stage) -> Asked:
    play = await failing(stage, Smith())
    await play.host.pause(NAME, by=WHO)
    await play.host.resume(NAME, by=WHO)
    await play.crash_during(ask_repair="before")
    return play, NAME


async def proposed(stage: Stage, script: Any = None, **options: Any) -> Asked:
    play = await run(stage, script, policy=ASKED, **options)
    return play, NAME


async def in_the_way(stage: Stage, script: Any = None, **options: Any) -> Asked:
    """Let one thing stand still while two more have come."""
    play = await run(stage, script, **options)
    await play.publish("b", "c")
    return play, NAME


async def many(stage: Stage) -> Asked:
    together = flow({CONSUMER: consumer((PEEK_ALL, When("pending", (Return(RESERVE),))))})
    play = await ready(stage, together, policy=ASKED)
    await play.publish("b", "c")
    await play.drain()
    return play, NAME


# -- It is over -----------------------------------------------------------------------------------


async def newest_run(play: Play) -> Asked:
    return play, (await play.run()).id


async def ended(stage: Stage, script: Any = None, *, is_quiet: bool = False) -> Asked:
    return await newest_run(await run(stage, script, is_producer=is_quiet))


async def declined(stage: Stage) -> Asked:
    play, _ = await proposed(stage)
    row = await play.row()
    await play.host.reject(row.id, by=WHO)
    await play.drain()
    return play, row.id


async def settled(stage: Stage, answer: str) -> Asked:
    play = await indeterminate(stage)
    row = await play.row()
    await play.host.settle(row.id, answer, by=WHO)
    await play.drain()
    return play, row.id


async def given_up(stage: Stage) -> Asked:
    play = await run(stage, flow({CONSUMER: consumer(mutate=THROW)}))
    failed = await play.run()
    await play.host.abandon(failed.id, by=WHO)
    return play, failed.id


async def withdrawn(stage: Stage) -> Asked:
    play, _ = await proposed(stage)
    row = await play.row()
    await play.host.abandon(row.held_by, by=WHO)
    return play, row.id


async def skipped_away(stage: Stage) -> Asked:
    play = await run(stage, flow({CONSUMER: consumer(mutate=THROW)}))
    failed = await play.run()
    await play.host.skip(NAME, IN, "a", by=WHO)
    return play, failed.id


async def dropped(stage: Stage) -> Asked:
    play = await situation.crashed(stage, {"prepare_run": "before"})
    left = await play.run()
    await play.host.pause(NAME, by=WHO)
    return play, left.id


async def followed(stage: Stage) -> Asked:
    play = await run(stage, flow({CONSUMER: consumer(mutate=THROW)}))
    failed = await play.run()
    await play.deploy(flow())
    await play.drain()
    return play, failed.id


async def refused(stage: Stage) -> Asked:
    play = await run(stage, None, Fault.REFUSE)
    row = await play.row()
    await play.deploy(flow())
    await play.drain()
    return play, row.id


# -- What was left --------------------------------------------------------------------------------


async def stale(stage: Stage) -> Asked:
    play, name = await resting(stage, declining(), "a", "b")
    await stage.advance(DAYS_8)
    return play, name


async def left_behind(stage: Stage, *topics: str) -> Asked:
    """Redeploy without the consumer; its topic goes with it, or stays."""
    play, name = await resting(stage, declining(), "a", "b")
    polling = {PRODUCER: producer(publish("x", OUT), every="1d")}
    await play.deploy(flow({}, polling, topics=topics))
    await play.drain()
    return play, name


async def repair_proposed(stage: Stage) -> Asked:
    play, name = await resting(stage, declining())
    active = await play.store.get_version(await play.workflow_id(), "1.0")
    version = VersionSpec(
        "1.1",
        active.language,
        active.source,
        active.hash,
        active.declaration,
        active.findings,
        "smith",
        Origin.REPAIR,
        "1.0",
    )
    await play.store.keep_version(
        await play.workflow_id(), version, action=play.desk.action("smith", "propose"), now=play.now
    )
    return play, name


async def stray(stage: Stage) -> Asked:
    """Hold an event by a run that never was, which no verb would do."""
    play, name = await resting(stage, declining(), "a")
    workflow_id = await play.workflow_id()
    (event,) = await play.events()

    def hold(tx: Transaction) -> None:
        seqs = f'{{"{event.seq}":null}}'
        tx.run("reserve_events", workflow_id=workflow_id, seqs=seqs, run_id="run_none")

    await play.store.backend.transact(hold, Durability.BARRIER)
    return play, name


async def _behind(building: Awaitable[Play], *ids: str) -> Asked:
    play = await building
    await play.publish(*(ids or ("b", "c")))
    return play, NAME


OTHERS: Final[dict[str, Builder]] = {
    "nothing waits, nothing is planned": lambda stage: resting(stage, flow()),
    "the next check is planned": lambda stage: resting(
        stage, flow({CONSUMER: consumer()}, {PRODUCER: producer(every="5m")})
    ),
    "a check only when asked": lambda stage: resting(
        stage, flow({CONSUMER: consumer()}, {PRODUCER: producer()})
    ),
    "something is due": due,
    "the script left what waits": lambda stage: resting(stage, declining(), "a", "b"),
    "the script asked to be woken": lambda stage: resting(
        stage,
        flow(
            {CONSUMER: consumer((Return({**NOTHING, "wake_at": "2026-01-01T02:00:00Z"}),))}  # type: ignore[dict-item]
        ),
    ),
    "it rests after making work of nothing": resting_half_a_minute,
    "paused, nothing waits": paused,
    "paused, two wait": lambda stage: paused(stage, "a", "b"),
    "removed": removed,
    "paused while it waits to try again": lambda stage: pausing(
        stage, lambda stage: run(stage, flow({CONSUMER: consumer(prepare=LOSE)}))
    ),
    "paused while a call waits for approval": lambda stage: pausing(
        stage, lambda stage: run(stage, policy=ASKED)
    ),
    "paused after an approval, before the send": lambda stage: pausing(stage, situation.approved),
    "paused while a call is out": lambda stage: pausing(stage, situation.sending),
    "paused while it is being found out": lambda stage: pausing(
        stage, situation.SITUATIONS["consumer mutating paused:reconciliation needs_reconcile"]
    ),
    "approved, not sent yet": lambda stage: _named(situation.approved(stage)),
    "allowed again, not gone on yet": granted,
    "allowed again, but paused": granted_while_paused,
    "connected again, not gone on yet": reconnected,
    "tried again and again": worn_out,
    "the limit of the day is reached": used_up,
    "a yes to it came to nothing before": said_yes_before,
    "the set-up of a connection is wrong": lambda stage: for_owner(stage, WRONG_SET_UP),
    "the set-up is wrong where it only reads": lambda stage: for_owner(
        stage, WRONG_SET_UP, is_read=True
    ),
    "no record says whether it was made": lambda stage: for_owner(stage, RECORD_LOST),
    "a repair is being asked for": repairing,
    "no title given": lambda stage: proposed(stage, untitled()),
    "several inputs together": many,
    "two wait behind an approval": lambda stage: in_the_way(stage, policy=ASKED),
    "two wait behind a passing trouble": lambda stage: in_the_way(
        stage, flow({CONSUMER: consumer(mutate=LOSE)})
    ),
    "two wait behind a fault of ours": lambda stage: _behind(
        situation.SITUATIONS["consumer mutating failed:internal"](stage)
    ),
    "one waits behind a question nobody can answer": lambda stage: _behind(
        indeterminate(stage), "b"
    ),
    "two more than the one it may have failed over": lambda stage: in_the_way(
        stage, flow({CONSUMER: consumer(prepare=THROW)})
    ),
    "done": ended,
    "done without a change": lambda stage: ended(stage, flow({CONSUMER: consumer(mutate=())})),
    "done with nothing to do": lambda stage: ended(stage, is_quiet=True),
    "a check is done": lambda stage: ended(
        stage, flow({}, {PRODUCER: producer(every="1d")}), is_quiet=True
    ),
    "declined": declined,
    "a person said that it happened": lambda stage: settled(stage, "happened"),
    "a person skipped it": lambda stage: settled(stage, "skip"),
    "given up": given_up,
    "withdrawn": withdrawn,
    "ended by a skip": skipped_away,
    "dropped by a pause": dropped,
    "an earlier attempt": followed,
    "refused, then corrected": refused,
    "two have waited too long": stale,
    "left behind with their topic": lambda stage: left_behind(stage, OUT),
    "left behind by their consumer": lambda stage: left_behind(stage, IN, OUT),
    "a repair was proposed": repair_proposed,
    "held by nobody": stray,
}


async def _named(playing: Awaitable[Play]) -> Asked:
    return await playing, NAME
