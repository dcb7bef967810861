"""An agent, driven by the SDK's own client: from the guide to a repair, in both transports (M5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from tests.desk.test_whole import FLOW
from tests.mcp.stand import Place, call, opened, over_http, over_stdio, whole

NAME = "mail-to-row"
# Without a mail nothing was applied, and there is no row to tell of.
GOOD = FLOW.replace(
    "        row = result",
    '        if result["status"] != "applied":\n            return\n        row = result',
)
WRONG = GOOD.replace('            "ui": {"title": f"Add a row for {mail[\'title\']}"},\n', "")
FAILS = GOOD.replace(
    '"data": {"id": mail["message_id"]}', '"data": {"id": mail["payload"]["number"]}'
)
REPAIRED = GOOD.replace(
    '"data": {"id": mail["message_id"]}',
    '"data": {"id": (mail["payload"] or {}).get("number", mail["message_id"])}',
)
Connect = Callable[[Place], AbstractAsyncContextManager[Client]]


def source(text: str) -> dict[str, str]:
    return {"language": "python", "text": text, "name": "mail.py"}


async def walk(place: Place, agent: Client) -> None:
    """Go the whole way: write, learn, propose, watch, repair."""
    names = [each.name for each in (await agent.list_tools()).tools]
    assert names[:3] == ["guide", "status", "attention"]
    assert len(names) == 20
    guide = await call(agent, "guide", language="python")
    assert "ctx.sheets.append_row" in guide["text"]

    (finding,) = await call(agent, "check", source=source(WRONG))
    assert finding["rule"] == "mutate-without-title"
    assert await call(agent, "check", source=source(FAILS)) == []
    events = [{"topic": "mail", "title": "Mail 1", "message_id": "m1", "payload": {"number": "7"}}]
    tried = await call(agent, "try", source=source(FAILS), events=events)
    assert [each["observed"]["args"] for each in tried["changes"]] == [{"values": ["7"]}]

    proposed = await call(agent, "deploy", source=source(FAILS), note="Rows from mail")
    assert (proposed["workflow"], proposed["uses"]) == (NAME, ["sheets.append"])
    refused = await whole(agent, "act", verb="adopt", args={"proposal": proposed["hash"]})
    assert refused["error"]["code"] == "for_a_person"
    waits = await call(agent, "wait", seconds=1)
    assert [each["reason"]["code"] for each in waits["attention"]] == ["proposed_source"]

    await place.host.adopt(proposed["hash"], grant=True, by="ada")
    seen = await call(agent, "wait", id=NAME, seconds=1)
    good = {"title": "Mail 1", "message_id": "m1", "payload": {"number": "7"}}
    assert await call(agent, "publish", workflow=NAME, topic="mail", **good) == "new"
    while not place.sheets.rows:
        await call(agent, "wait", id=NAME, seconds=1)
    made = {"workflow": NAME, "topic": "mail", "title": "Mail 2", "message_id": "m2"}
    assert await call(agent, "publish", **made) == "new"
    failed: Any = seen
    while failed["why"]["script"] is None:
        failed = await call(agent, "wait", id=NAME, seen=failed["seen"], seconds=45)
    assert failed["why"]["script"]["line"] > 0
    (run, *_) = await call(agent, "runs", workflow=NAME, status="failed:logic")
    detail = await call(agent, "run", id=run["id"])
    assert detail["run"]["error"]

    compared = await call(agent, "what_if", workflow=NAME, source=source(REPAIRED))
    assert (compared["tried"], compared["differences"]) == (1, [])  # the good mail, as it was
    wrong = REPAIRED.replace('"number"', '"other"')
    compared = await call(agent, "what_if", workflow=NAME, source=source(wrong))
    assert len(compared["differences"]) == 1
    repair = await call(agent, "deploy", source=source(REPAIRED), note="A mail without a payload")
    assert repair["replaces"] == "1.0"
    await place.host.adopt(repair["hash"], by="ada")
    while len(place.sheets.rows) < 2:
        await call(agent, "wait", id=NAME, seconds=1)
    assert place.sheets.rows == [["7"], ["m2"]]
    assert {each.by for each in await place.host.actions()} >= {"ada", proposed["author"]}


async def test_an_agent_goes_the_whole_way_over_http(tmp_path: Path) -> None:
    """M5, M6, U6: with a token of the scope agent."""
    async with opened(tmp_path) as place, over_http(place, await place.token("agent")) as agent:
        await walk(place, agent)
        status = await whole(agent, "why", id=NAME)
        assert status["page"] == f"{place.url}/why/{NAME}"


async def test_an_agent_goes_the_whole_way_over_stdio(tmp_path: Path) -> None:
    """M5, M6, U6: `duly mcp` speaks to the host that runs, as an agent of its user."""
    async with opened(tmp_path) as place:
        async with over_stdio(place) as agent:
            await walk(place, agent)
            said = await whole(
                agent, "act", verb="settle", args={"mutation": "m", "answer": "skip"}
            )
            assert said["command"].startswith("duly settle m skip")
        done = await place.host.actions()
        assert any(each.by.startswith("agent:") and each.verb == "propose" for each in done)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_clients_of_the_older_handshake_are_served(mode: str, tmp_path: Path) -> None:
    """M5: and those of the newest one."""
    async with opened(tmp_path) as place:
        token = await place.token("read")
        async with over_http(place, token, mode) as agent:
            assert (await call(agent, "status"))["workflows"] == []
