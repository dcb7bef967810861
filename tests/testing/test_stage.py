"""A whole host in virtual time: every mail becomes one row, whatever goes wrong outside."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from duly import Source
from duly.connectors.base import Call, Connector, mutation
from duly.errors import ConfigError, Invalid
from duly.host import Host
from duly.rules.source import Language
from duly.testing import Fault, Stage, Stuck, open_stage
from duly.testing.crash import Moment

TOOL = "sheets.append_row"
EXAMPLE = Path(__file__).parents[2] / "examples" / "mail_to_table.js"
SEND_PAGE = """\
export default Keep.workflow({
  name: "pager",
  topics: ["t"],
  producers: {
    make: async (ctx) => {
      await ctx.publish("t", { messageId: "1", title: "One", payload: {} });
    },
  },
  consumers: {
    send: Keep.consumer({
      subscribe: ["t"],
      async prepare(ctx) {
        const ids = (await ctx.peek("t")).map((event) => event.messageId);
        return { reservations: [{ topic: "t", ids }], ui: { title: "Page somebody" } };
      },
      async mutate(ctx) {
        await ctx.pager.send({ text: "wake up" });
      },
    }),
  },
});
"""


async def deployed(stage: Stage) -> Host:
    host = await stage.host()
    await host.deploy(EXAMPLE, by="me", grant=True)
    return host


async def test_a_day_of_mail_becomes_a_row_each(duly_world: Stage) -> None:
    mailbox = duly_world.mailbox(3)
    sheet = duly_world.sheet()
    host = await deployed(duly_world)
    async with host.running():
        await duly_world.advance("1m")
        mailbox.deliver(subject="Later")
        await duly_world.advance("1h")
    assert [row[1] for row in sheet.rows] == [*(f"Subject {n}" for n in (1, 2, 3)), "Later"]  # type: ignore[index]
    assert duly_world.loop.time() == 3600 + 60


async def test_what_is_due_at_the_very_end_of_an_advance_has_run(duly_world: Stage) -> None:
    mailbox = duly_world.mailbox(0)
    duly_world.sheet()
    host = await deployed(duly_world)
    async with host.running():
        await duly_world.advance(1)
        mailbox.deliver()
        await duly_world.advance(298)
        assert duly_world.count() == 0
        await duly_world.advance(1)
        assert duly_world.count() == 1


@pytest.mark.parametrize("fault", [Fault.TIMEOUT_AFTER, Fault.AMBIGUOUS, Fault.LATE(30)])
async def test_a_row_whose_answer_is_lost_is_written_once(duly_world: Stage, fault: Fault) -> None:
    duly_world.mailbox(1)
    duly_world.sheet()
    duly_world.plan(TOOL, fault)
    host = await deployed(duly_world)
    async with host.running():
        await duly_world.advance("10m")
    assert duly_world.count(TOOL) == 1


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
async def test_a_host_that_crashes_at_the_effect_leaves_one_row(
    duly_world: Stage, fault: Fault
) -> None:
    duly_world.mailbox(2)
    duly_world.sheet()
    duly_world.plan(TOOL, fault)
    host = await deployed(duly_world)
    await duly_world.crash(host, host.drain())
    assert duly_world.count() == (fault is Fault.CRASH_AFTER)
    host = await duly_world.host()
    async with host.running():
        await duly_world.advance("10m")
    assert duly_world.count(TOOL) == 2


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["prepare_run", "send", "record"])
async def test_a_host_that_crashes_at_a_verb_leaves_one_row(
    duly_world: Stage, verb: str, moment: Moment
) -> None:
    duly_world.mailbox(1)
    duly_world.sheet(lag_s=0)
    host = await deployed(duly_world)
    duly_world.crash_at(**{verb: moment})
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    async with host.running():
        await duly_world.advance("10m")
    assert duly_world.count(TOOL) == 1


async def test_a_host_is_abandoned_in_the_middle_of_its_work(duly_world: Stage) -> None:
    duly_world.mailbox(1)
    duly_world.sheet()
    duly_world.plan(TOOL, Fault.SLOW(20))
    host = await deployed(duly_world)
    async with host.running():
        await duly_world.advance(10)
        await duly_world.crash(host)
    # What has left is no longer ours: it lands although its host is gone.
    await duly_world.advance(10)
    assert duly_world.count(TOOL) == 1
    host = await duly_world.host()
    async with host.running():
        await duly_world.advance("10m")
    assert duly_world.count(TOOL) == 1


async def test_a_crash_that_does_not_come_is_said(duly_world: Stage) -> None:
    host = await duly_world.host()
    with pytest.raises(ConfigError, match="crash did not come"):
        await duly_world.crash(host, host.drain())
    await duly_world.crash(host)
    with pytest.raises(ConfigError, match="abandoned before"):
        await duly_world.crash(host)


async def test_an_idle_host_wakes_nobody(duly_world: Stage) -> None:
    host = await duly_world.host()
    async with host.running():
        await duly_world.advance("1m")
        before = (duly_world.env.wakes, duly_world.env.blocking_calls)
        await duly_world.advance("1d")
        after = (duly_world.env.wakes, duly_world.env.blocking_calls)
    # The one wake is the test's own.
    assert (after[0] - before[0], after[1] - before[1]) == (1, 0)


class Pager(Connector):
    """A connector of the user's own, which blocks in a thread."""

    name = "pager"

    def __init__(self) -> None:
        self.sent: list[str] = []

    @mutation
    async def send(self, call: Call, text: str) -> None:
        await self.in_thread(self._block, text)

    def _block(self, text: str) -> None:
        # Long for a machine, nothing for the clock of the test.
        threading.Event().wait(0.05)
        self.sent.append(text)


async def test_a_thread_of_a_connector_takes_no_virtual_time(duly_world: Stage) -> None:
    pager = Pager()
    host = await duly_world.host(connectors=[pager])
    await host.deploy(Source(Language.JAVASCRIPT, SEND_PAGE), by="me", grant=True)
    await host.drain()
    assert (pager.sent, duly_world.loop.elapsed_ms < 1000) == (["wake up"], True)


async def test_time_does_not_go_back(duly_world: Stage) -> None:
    with pytest.raises(ConfigError, match="does not go back"):
        await duly_world.advance(-1)
    with pytest.raises(Invalid, match="5m"):
        await duly_world.advance("soon")


def test_a_stage_that_got_stuck_leaves_nothing_behind(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        stage.mailbox(1)
        await deployed(stage)
        await stage.loop.create_future()

    with open_stage(tmp_path) as stage, pytest.raises(Stuck):
        stage.run(play(stage))
    assert [each for each in threading.enumerate() if each.name == "duly-sandbox"] == []
    with open_stage(tmp_path) as stage:
        stage.run(stage.host())


def test_a_stage_needs_virtual_time(tmp_path: Path) -> None:
    with asyncio.Runner() as runner, pytest.raises(ConfigError, match="VirtualLoop"):
        Stage(runner, tmp_path)
