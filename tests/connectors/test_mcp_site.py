"""An MCP server at a URL as a connector: each message is sent once, over the web (M7, M8, K2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.mcp import Mcp
from duly.connectors.registry import Registry
from duly.errors import (
    AuthNeeded,
    ConfigError,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.host import Host
from duly.rules.failure import answer_of
from duly.rules.source import Language, Source
from duly.rules.word import Answer, MutationStatus
from tests.connectors.mcp_server import TOOLS, Notes, Site
from tests.connectors.test_mcp import add, agreed, at_work, search
from tests.web.stand import Shifted


@pytest.fixture(params=[False, True], ids=["messages", "streams"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, streams=request.param)
    yield made
    made.close()


def remote(site: Site, **more: Any) -> Any:
    def make(folder: Path) -> Mcp:
        words: dict[str, Any] = {"reads": ["search-*"], "allow": ["127.0.0.1"], "timeout_s": 10}
        words |= more
        return Mcp(lock=folder / "notes.lock.json", url=site.url, name="notes", **words)

    return make


LOST = ("die", "failed", "error", "no content")


async def test_a_server_at_a_url_is_used_as_it_was_agreed_to(tmp_path: Path, site: Site) -> None:
    """M7, M8, K2: both kinds of answers; what is lost is unknown; a rug that is pulled stops it."""
    async with at_work(agreed(tmp_path, remote(site))) as registry:
        assert (await add(registry))["text"] == "added"
        assert (await search(registry))["text"] == "milk"
        assert not registry.is_local("notes.add_note")
        for manner in LOST:
            (tmp_path / "manner").write_text(manner)
            before = len(Notes(tmp_path).notes())
            with pytest.raises(UnknownOutcome):
                await add(registry)
            assert len(Notes(tmp_path).notes()) == before + 1, manner
        (tmp_path / "manner").write_text("")
        count = len(Notes(tmp_path).notes())
        other = [TOOLS[0], {**TOOLS[1], "title": "Harmless"}]
        (tmp_path / "tools.json").write_text(json.dumps(other))
        with pytest.raises(AuthNeeded):
            await add(registry)
        assert len(Notes(tmp_path).notes()) == count


async def test_a_forgotten_session_is_begun_anew_for_a_question_alone(
    tmp_path: Path, site: Site
) -> None:
    """K2, M8: a change whose session is gone may have been made, and is not sent again."""
    async with at_work(agreed(tmp_path, remote(site))) as registry:
        await add(registry)
        site.forgets = {"tools/list"}
        await add(registry)
        site.forgets = {"tools/call"}
        with pytest.raises(UnknownOutcome):
            await add(registry)
        assert len(Notes(tmp_path).notes()) == 2
        await add(registry)
        assert len(Notes(tmp_path).notes()) == 3
        calls = [method for method, _ in site.asked if method == "tools/call"]
        assert len(calls) == 4


# What a server, or a proxy before it, can answer after the work, with its headers.
AFTERWARDS: dict[int, dict[str, str]] = {
    307: {"Location": "/other"},
    400: {},
    401: {"WWW-Authenticate": "Bearer"},
    403: {"Retry-After": "1"},
    404: {},
    405: {},
    425: {},
    429: {"Retry-After": "1"},
}


async def test_no_status_says_that_a_call_that_was_sent_is_not_done(tmp_path: Path) -> None:
    """M8: the server adds the note and answers as if it had not."""
    site = Site(tmp_path)
    try:
        async with at_work(agreed(tmp_path, remote(site))) as registry:
            for count, (status, more) in enumerate(AFTERWARDS.items(), start=1):
                site.lies = {"tools/call": (status, more)}
                with pytest.raises(UnknownOutcome):
                    await add(registry)
                assert len(Notes(tmp_path).notes()) == count, status
                with pytest.raises((AuthNeeded, PermissionDenied, Refused, Transient)):
                    await search(registry)  # a read is told apart as everywhere
            site.lies = {}
            await add(registry)
    finally:
        site.close()


FLOW = """
from duly import workflow

flow = workflow("list", topics={"wish": {"ingress": True}})


@flow.consumer("wish")
class add:
    async def prepare(self, ctx, state):
        [wish, *_] = await ctx.peek("wish", limit=1) or [None]
        if wish is None:
            return {"reservations": []}
        taken = [{"topic": "wish", "ids": [wish["message_id"]]}]
        return {"reservations": taken, "data": {"text": wish["title"]}, "ui": {"title": "Add"}}

    async def mutate(self, ctx, prepared):
        await ctx.notes.add_note(text=prepared["data"]["text"])
"""


@pytest.mark.parametrize("status", [404, 429])
async def test_a_change_that_was_made_and_denied_is_sent_once_and_waits_for_a_person(
    tmp_path: Path, status: int
) -> None:
    """M8, L4: a whole host, on a clock that runs far ahead."""
    site = Site(tmp_path)
    clock = Shifted()
    try:
        site.lies = {"tools/call": (status, {"Retry-After": "1"})}
        notes = agreed(tmp_path, remote(site))
        async with Host(f"sqlite:///{tmp_path}/duly.db", connectors=[notes], env=clock) as host:
            await host.deploy(Source(Language.PYTHON, FLOW), grant=True)
            await host.publish("list", "wish", title="milk", message_id="1")
            for _ in range(5):
                await host.drain()
                clock.shift_ms += 3_600_000
                clock.ticked_ms += 3_600_000
            assert Notes(tmp_path).notes() == ["milk"]
            assert [method for method, _ in site.asked].count("tools/call") == 1
            [row] = await host.mutations("list")
            assert row.status is MutationStatus.INDETERMINATE
            assert [each.reason.code for each in await host.attention()] == ["outcome_unknown"]
    finally:
        clock.close()
        site.close()


async def test_statuses_of_a_server_say_what_is_certain(tmp_path: Path) -> None:
    """L4, K4, K8: before the call they send nothing; a token goes with every request."""
    site = Site(tmp_path, token="t0ken-of-notes")
    try:
        auth = {"type": "bearer", "secret": "token"}
        registry = Registry([first := remote(site, auth=auth)(tmp_path)])
        registry.bind(lambda *_: "t0ken-of-notes")
        await first._agree((await first._offer()).hash)
        async with at_work(remote(site, auth=auth)(tmp_path)) as registry:
            registry.bind(lambda *_: "t0ken-of-notes")
            await add(registry)
            said: dict[str, tuple[int, dict[str, str], type[Exception], Answer]] = {
                "tools/list": (429, {"Retry-After": "7"}, NotSent, Answer.NOT_SENT),
                "tools/call": (502, {}, UnknownOutcome, Answer.UNKNOWN),
            }
            for method, (status, more, kind, answer) in said.items():
                site.statuses = {method: (status, more)}
                with pytest.raises(kind) as caught:
                    await add(registry)
                assert answer_of(caught.value) is answer
                assert "t0ken" not in str(caught.value)
            site.statuses = {}
            registry.bind(lambda *_: "another-token")
            with pytest.raises(AuthNeeded):
                await add(registry)
        assert len(Notes(tmp_path).notes()) == 1
        assert all("authorization" in known for _, known in site.asked)
        with pytest.raises(ConfigError, match="without TLS"):
            remote(site, auth=auth, allow=[])(tmp_path)
        with pytest.raises(PermissionDenied):
            await remote(site, allow=[])(tmp_path)._offer()
    finally:
        site.close()
