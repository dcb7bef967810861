"""From a command to what is shown of it: a real engine, a real sandbox, a table in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import duly
from duly.errors import RequestRefused
from duly.host import Host
from duly.rules.source import Language
from duly.rules.word import MutationStatus, Status
from tests.spoken import short

FAR_S = 60


FLOW = """\
from duly import workflow

flow = workflow("mail-to-row", topics={"mail": {"ingress": True}, "row": {}})


@flow.consumer("mail", publishes=["row"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]
        return {
            "reservations": [{"topic": "mail", "ids": [mail["message_id"]]}],
            "data": {"id": mail["message_id"]},
            "ui": {"title": f"Add a row for {mail['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.sheets.append_row(values=[prepared["data"]["id"]])

    async def next(self, ctx, prepared, result, state):
        row = result["result"]["row"]
        await ctx.publish("row", message_id=f"row:{row}", title=f"Row {row}", payload={"row": row})
"""


class Sheets(duly.Connector):
    """A table in memory."""

    name = "sheets"

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.called = asyncio.Event()

    @duly.mutation(capability="sheets.append", risk="low", noun="row", lag_s=0)
    async def append_row(self, call: duly.Call, values: list[Any]) -> dict[str, Any]:
        self.rows.append(values)
        self.called.set()
        return {"row": len(self.rows)}


async def test_a_mail_becomes_a_row_through_the_whole_house(url: str) -> None:
    """C11, T9: published from outside, changed outside once, told inside, and all of it shown."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        await host.deploy(duly.Source(Language.PYTHON, FLOW), by="anna", grant=True)
        await host.publish("mail-to-row", "mail", message_id="m1", title="Mail 1")
        await host.drain()
        assert sheets.rows == [["m1"]]
        (mutation,) = await host.mutations("mail-to-row")
        assert (mutation.status, mutation.result) == (MutationStatus.APPLIED, {"row": 1})
        assert mutation.title == "Add a row for Mail 1"
        (row,) = await host.events("mail-to-row", topic="row")
        assert row.caused_by == (("mail", "m1"),)
        assert {run.status for run in await host.runs()} == {Status.COMMITTED}


async def test_a_run_waits_for_a_grant_that_the_next_deploy_brings(url: str) -> None:
    """A2, F4: the same run goes on, and its call is made once."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        source = duly.Source(Language.PYTHON, FLOW)
        assert (await host.deploy(source)).missing == ("sheets.append",)
        await host.publish("mail-to-row", "mail", message_id="m1", title="Mail 1")
        await host.drain()
        assert "allow sheets.append" in short(host, await host.workflow("mail-to-row"))
        await host.deploy(source, grant=True)
        await host.drain()
        assert sheets.rows == [["m1"]]


async def test_drain_and_serve_are_one_at_a_time(url: str) -> None:
    """S1: the second is refused."""
    async with Host(url) as host, host.running():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused, match="one at a time"):
            await host.drain()


async def test_a_mail_published_while_serving_is_taken_up_at_once(url: str) -> None:
    """S4: nobody waits for a poll."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        await host.deploy(duly.Source(Language.PYTHON, FLOW), grant=True)
        async with host.running():
            await host.publish("mail-to-row", "mail", message_id="m1", title="Mail 1")
            async with asyncio.timeout(FAR_S):
                await sheets.called.wait()
    assert sheets.rows == [["m1"]]


async def test_a_failed_run_is_followed_by_the_version_that_corrects_it(url: str) -> None:
    """F3, R7: its successor is nobody's crash, and the row is added once."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        broken = FLOW.replace("pending[0]", "pending[1]")
        await host.deploy(duly.Source(Language.PYTHON, broken), grant=True)
        await host.publish("mail-to-row", "mail", message_id="m1", title="Mail 1")
        await host.drain()
        (failed,) = await host.runs(status="failed:logic")
        assert failed.error is not None
        assert failed.error.failure == "logic"
        await host.deploy(duly.Source(Language.PYTHON, FLOW))
        await host.drain()
        assert sheets.rows == [["m1"]]
        followed = [run for run in await host.runs() if run.retry_of == failed.id]
        assert [run.status for run in followed] == [Status.COMMITTED]


async def test_a_failed_run_is_retried_by_a_person(url: str) -> None:
    """R9: the successor runs, and fails in the same way, not as a crash."""
    async with Host(url, connectors=[Sheets()]) as host:
        broken = FLOW.replace("pending[0]", "pending[1]")
        await host.deploy(duly.Source(Language.PYTHON, broken), grant=True)
        await host.publish("mail-to-row", "mail", message_id="m1", title="Mail 1")
        await host.drain()
        (failed,) = await host.runs(status=Status.FAILED_LOGIC)
        successor = await host.retry(failed.id)
        await host.drain()
        assert (await host.run(successor)).status is Status.FAILED_LOGIC
        await host.abandon(successor)
        assert (await host.run(successor)).status is Status.ABANDONED
