"""The engine with the real sandbox: what a script in either language cannot catch or repeat."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly import Source
from duly.host import Host
from duly.rules.source import Language
from duly.rules.value import Json
from duly.rules.word import Status
from duly.testing import Fault, Stage

TOOL = "sheets.append_row"

PYTHON = """\
from duly import workflow
import random

flow = workflow("flow", topics={"in": {"ingress": True}, "out": {}})
count = {"n": 0}


@flow.consumer("in")
class file:
    async def prepare(self, ctx, state):
        count["n"] += 1
        pending = await ctx.peek("in", limit=1)
        ids = [each["message_id"] for each in pending]
        data = {"count": count["n"]}
        return {"reservations": [{"topic": "in", "ids": ids}], "data": data,
                "ui": {"title": "Add a row"}}

    async def mutate(self, ctx, prepared):
        count["n"] += 1
        print("before")
        MUTATE
        print("after")

    async def next(self, ctx, prepared, result, state):
        await ctx.publish("out", message_id=prepared["reservations"][0]["ids"][0], title="Done",
                          payload={"count": count["n"], "status": result["status"],
                                   "random": random.random()})
"""
JAVASCRIPT = """\
let count = 0;
export default Keep.workflow({
  name: "flow",
  topics: {in: {ingress: true}, out: {}},
  consumers: {
    file: Keep.consumer({
      subscribe: ["in"],
      prepare: async (ctx, state) => {
        count += 1;
        const pending = await ctx.peek("in", {limit: 1});
        const ids = pending.map(each => each.messageId);
        return {reservations: [{topic: "in", ids}], data: {count}, ui: {title: "Add a row"}};
      },
      mutate: async (ctx, prepared) => {
        count += 1;
        console.log("before");
        MUTATE
        console.log("after");
      },
      next: async (ctx, prepared, result, state) => {
        await ctx.publish("out", {messageId: prepared.reservations[0].ids[0], title: "Done",
          payload: {count, status: result.status, random: Math.random()}});
      },
    }),
  },
});
"""
CALLS = {
    "python": 'await ctx.sheets.append_row(spreadsheet_id="S", values=["x"])',
    "javascript": 'await ctx.sheets.appendRow({spreadsheetId: "S", values: ["x"]})',
}
TRIES = {
    "python": f"""try:
            {CALLS["python"]}
        except Exception:
            print("caught")
        finally:
            print("finally")
        {CALLS["python"]}""",
    "javascript": f"""try {{ {CALLS["javascript"]}; }}
        catch (error) {{ console.log("caught"); }}
        finally {{ console.log("finally"); }}
        {CALLS["javascript"]};""",
}
LOOSE = {
    "python": """first = ctx.sheets.append_row(spreadsheet_id="S", values=["x"])
        second = ctx.sheets.append_row(spreadsheet_id="S", values=["y"])""",
    "javascript": """ctx.sheets.appendRow({spreadsheetId: "S", values: ["x"]});
        ctx.sheets.appendRow({spreadsheetId: "S", values: ["y"]});""",
}
LANGUAGES = ("python", "javascript")


async def running(stage: Stage, language: str, mutate: str) -> Host:
    host = await stage.host()
    template = PYTHON if language == "python" else JAVASCRIPT
    await host.deploy(
        Source(Language(language), template.replace("MUTATE", mutate)), by="me", grant=True
    )
    await host.publish("flow", "in", title="One", message_id="a")
    return host


async def told(host: Host) -> dict[str, Json]:
    """What next published."""
    (event,) = await host.events("flow", topic="out")
    payload: Any = event.payload
    return dict(payload)


async def logged(host: Host) -> list[str]:
    """What the run that made the mutation said."""
    (row,) = await host.mutations("flow")
    logs = (await host._desk().parts.store.get_run(row.run)).logs
    return [each["text"] for each in json.loads(logs)["lines"]] if logs else []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("texts", [TRIES, LOOSE], ids=["caught and finally", "not awaited"])
async def test_the_first_call_is_the_last_thing_seen_of_mutate(
    duly_world: Stage, language: str, texts: dict[str, str]
) -> None:
    """C8, C3: try, finally and calls nobody awaits change nothing: one row, one line of log."""
    sheet = duly_world.sheet()
    host = await running(duly_world, language, texts[language])
    await host.drain()
    assert (sheet.rows, await logged(host)) == ([["x"]], ["before"])
    assert (await told(host))["status"] == "applied"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_refused_call_cannot_be_caught(duly_world: Stage, language: str) -> None:
    """C3, L4: the run stops; the script never hears of it."""
    duly_world.sheet()
    duly_world.plan(TOOL, Fault.REFUSE)
    host = await running(duly_world, language, TRIES[language])
    await host.drain()
    (run,) = await host.runs("flow")
    assert (run.status, duly_world.calls.count(TOOL)) == (Status.FAILED_LOGIC, 1)
    assert await logged(host) == ["before"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_globals_do_not_survive_and_dice_do(duly_world: Stage, language: str) -> None:
    """C1, C13: each step begins anew, and next throws the same dice after a crash."""
    duly_world.sheet()
    host = await running(duly_world, language, CALLS[language])
    duly_world.crash_at(commit_run="before")
    seen: list[Json] = []
    commit = host._desk().parts.store.commit_run

    async def note(*args: Any, **kwargs: Any) -> None:
        seen.append(json.loads(args[4].publications[0].payload_text)["random"])
        await commit(*args, **kwargs)

    object.__setattr__(host._desk().parts.store, "commit_run", note)
    await duly_world.crash(host, host.drain())
    host = await duly_world.host()
    await host.drain()
    payload = await told(host)
    assert (payload["count"], payload["random"]) == (0, seen[0])
    assert duly_world.count(TOOL) == 1
