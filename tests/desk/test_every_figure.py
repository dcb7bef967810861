"""Every figure there is, on one real host, with the value that it must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Llm
from duly.host import Host
from duly.rules.delivery import Event, Retry
from duly.rules.figure import FigureName as Name
from duly.rules.source import Language, Source
from tests.models.server import ModelServer, Say

pytestmark = pytest.mark.anyio

SCRIPT = """
from duly import workflow

flow = workflow("sorting", topics={"mails": {"ingress": True}})


@flow.consumer("mails")
class sort:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mails", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        kind = await ctx.llm.classify(text="Please pay", classes=["bill", "other"])
        ids = [pending[0]["message_id"]]
        return {"reservations": [{"topic": "mails", "ids": ids}], "data": {"kind": kind}}

    async def mutate(self, ctx, prepared):
        await ctx.desk.file(kind=prepared["data"]["kind"])
"""
ONCE = Retry(1, ())
PRICED = {"price_in": 2.0, "price_out": 10.0}
LONG_S = 1e6  # longer than any machine keeps the test waiting


class Desk(duly.Connector):
    """Files mails."""

    name = "desk"

    @duly.mutation(risk="low")
    async def file(self, call: duly.Call, kind: str) -> None:
        """File a mail."""


async def fail(event: Event) -> None:
    raise ValueError("no luck")


async def hear(event: Event) -> None:
    pass


async def read(host: Host) -> dict[tuple[str, ...], float]:
    return {(each.name, *each.labels.values()): each.value for each in await host.figures()}


def count_syncs(host: Host) -> None:
    """Let every sync from now on take one second by its own clock."""
    syncs: Any = host._desk().parts.store.backend
    ticks = iter(range(10**6))
    syncs.syncs._clock_s = lambda: next(ticks)
    syncs.syncs.count, syncs.syncs.total_s = 0, 0.0


async def test_every_figure_is_there_with_its_value(tmp_path: Path) -> None:
    """U1, B5, M2: dead letters, a question to a model, a script of its own process, a sync."""
    with ModelServer(tmp_path) as server:
        server.script(Say('{"class": "bill"}', tokens=(20, 7)))
        models = {"default": server.settings(**PRICED)}
        url = f"sqlite:///{tmp_path}/duly.db"
        async with Host(url, connectors=[Desk(), Llm()], models=models) as host:
            count_syncs(host)
            host.bus.subscribe("post", fail, subscriber_id="test:fails", retry=ONCE)
            host.bus.subscribe("post", hear, subscriber_id="test:hears", retry=ONCE)
            await host.bus.emit("post", {"text": "hello"}, source="test")
            await host.deploy(Source(Language.PYTHON, SCRIPT, "sorting.py"))
            for capability in ("llm.read", "desk.file"):
                await host.grant("sorting", capability)
            await host.publish("sorting", "mails", message_id="m1", title="A mail", payload={})
            await host.drain()
            host._desk().parts.env.lag.note(LONG_S)
            assert host._outside.pace.lag is host._desk().parts.env.lag
            found = await read(host)
            assert {name for name, *_ in found} == {*Name}
            assert found[Name.WORKFLOWS, "idle"] == 1
            assert found[Name.RUNS, "committed"] == found[Name.RUNS_STARTED, "consumer"] == 1
            assert (found[Name.DELIVERIES, "done"], found[Name.DELIVERIES, "dead"]) == (1, 1)
            assert [key[1:] for key in found if key[0] == Name.UNFINISHED_DELIVERIES] == [
                ("waiting",),
                ("running",),
                ("dead",),
            ]
            assert found[Name.UNFINISHED_DELIVERIES, "dead"] == 1
            assert found[Name.MUTATIONS, "desk.file", "applied"] == 1
            assert found[Name.MODEL_QUESTIONS, "default", "answered"] == 1
            assert found[Name.MODEL_TOKENS, "default", "in"] == 20
            assert found[Name.MODEL_TOKENS, "default", "out"] == 7
            assert found[Name.MODEL_COST, "default"] == 0.00011
            assert found[Name.WORKER_STARTS,] == 1
            assert found[Name.STORE_SYNCS,] == found[Name.STORE_SYNC_SECONDS,] > 0
            assert found[Name.LOOP_LAG,] == LONG_S
            (dead,) = await host.bus.deliveries(status="dead")
            await host.bus.discard(dead.event_id, dead.subscriber_id)
            found = await read(host)
            assert found[Name.UNFINISHED_DELIVERIES, "dead"] == 0
            assert found[Name.DELIVERIES, "discarded"] == 1
