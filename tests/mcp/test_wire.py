"""What `/mcp` says on the wire, as the official conformance suite asks it (M5; decision 240)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import duly.faces.mcp.server as face
from duly.api.registry import Scope
from duly.faces.web import agent
from tests.mcp.stand import FAR_S
from tests.mcp.suite import PICTURE, TOOLS, SuiteServer
from tests.web.stand import Reply, Web, ask, serving

VERSIONS = ("2025-06-18", "2025-11-25")
ACCEPT = {"accept": "application/json, text/event-stream"}


async def say(web: Web, method: str, number: int | None = 1, **more: Any) -> Reply:
    """Send one message, as a client does after its handshake."""
    said: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    said |= {} if number is None else {"id": number}
    said |= {"params": more["params"]} if "params" in more else {}
    headers = {
        "authorization": f"Bearer {web.tokens[Scope.AGENT]}",
        "mcp-protocol-version": more.get("version", VERSIONS[-1]),
        **ACCEPT,
        **more.get("headers", {}),
    }
    return await ask(web.app, "/mcp", "POST", headers=headers, body=said)


def result_of(reply: Reply) -> Any:
    assert (reply.status, reply["content-type"]) == (200, "application/json")
    said = json.loads(reply.text)
    assert (said["jsonrpc"], said["id"], "error" in said) == ("2.0", 1, False)
    return said["result"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_is_welcomed_and_finds_the_tools(version: str, tmp_path: Path) -> None:
    """M5: the handshake, a ping, the list, and an unknown tool, each in the form of its version."""
    hello = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "wire", "version": "1"},
    }
    async with serving(tmp_path) as web:
        made = result_of(await say(web, "initialize", params=hello, version=version))
        assert made["protocolVersion"] == version
        assert made["serverInfo"]["name"] == "duly"
        assert {*made["capabilities"]} == {"tools"}
        begun = await say(web, "notifications/initialized", None, version=version)
        assert (begun.status, begun.text) == (202, "")
        assert result_of(await say(web, "ping", version=version)) == {}
        tools = result_of(await say(web, "tools/list", version=version))["tools"]
        for each in tools:
            assert each["name"]
            assert each["description"]
            assert each["inputSchema"]["type"] == "object"
        params = {"name": "test_error_handling", "arguments": {}}
        failed = result_of(await say(web, "tools/call", params=params, version=version))
        assert failed["isError"] is True
        assert [each["type"] for each in failed["content"]] == ["text"]
        unknown = json.loads((await say(web, "prompts/list", version=version)).text)
        assert unknown["error"]["code"] == -32601


async def test_a_long_call_tells_that_it_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5: a client that asks for progress hears of it before the answer; others get one message."""
    monkeypatch.setattr(face, "PROGRESS_S", 0.02)
    monkeypatch.setattr(agent, "LOOK_S", FAR_S)  # the client of these tests has hung up by then
    asked = {"name": "wait", "arguments": {"seconds": 1}}
    meant = {**asked, "_meta": {"progressToken": "t1"}}
    async with serving(tmp_path) as web:
        told = await say(web, "tools/call", params=meant)
        assert (told.status, told["content-type"].partition(";")[0]) == (200, "text/event-stream")
        lines = [each[6:] for each in told.text.splitlines() if each.startswith("data: {")]
        *notes, last = map(json.loads, lines)
        assert {each["method"] for each in notes} == {"notifications/progress"}
        assert {each["params"]["progressToken"] for each in notes} == {"t1"}
        passed = [each["params"]["progress"] for each in notes]
        assert passed == sorted({*passed})
        assert (last["id"], last["result"].get("isError", False)) == (1, False)
        plain = {"accept": "application/json"}
        short = {**meant, "name": "status", "arguments": {}}
        result_of(await say(web, "tools/call", params=short, headers=plain))
        result_of(await say(web, "tools/call", params={**short, "_meta": {}}))
        refused = await say(web, "tools/call", params=meant, headers={"authorization": "Bearer x"})
        assert refused.status == 401


async def test_a_page_of_another_name_reaches_nothing(tmp_path: Path) -> None:
    """M5, G2: a name that was pointed at this machine by another site is refused."""
    evil = {"host": "evil.example.com", "origin": "http://evil.example.com"}
    async with serving(tmp_path) as web:
        assert (await say(web, "ping", headers=evil)).status == 421
        assert result_of(await say(web, "ping")) == {}


async def test_what_the_suite_calls_goes_through_the_face(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M5: the stand that the suite judges is this route; every kind of content passes it whole."""
    monkeypatch.setattr(face, "AgentServer", SuiteServer)
    async with serving(tmp_path) as web:
        tools = result_of(await say(web, "tools/list"))["tools"]
        assert {each["name"]: each["inputSchema"] for each in tools} == TOOLS
        kinds = {}
        for name in TOOLS:
            answer = result_of(await say(web, "tools/call", params={"name": name, "arguments": {}}))
            kinds[name] = [each["type"] for each in answer["content"]]
            assert answer.get("isError", False) is (name == "test_error_handling")
        assert kinds["test_multiple_content_types"] == ["text", "image", "resource"]
        assert kinds["test_audio_content"] == ["audio"]
        read = {"uri": "test://static-binary"}
        (held,) = result_of(await say(web, "resources/read", params=read))["contents"]
        assert held["blob"] == PICTURE
        nameless = {"authorization": "Bearer nothing"}
        assert (await say(web, "ping", headers=nameless)).status == 401
