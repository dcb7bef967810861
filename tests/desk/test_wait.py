"""Waiting for a change, with a limit; the guide of a host; simulating through a host (M5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import duly
from duly.desk.guide import WAIT_S_MAX, WAITS_MAX
from duly.errors import Invalid, RequestRefused
from duly.host import Host
from duly.rules.source import Language
from duly.rules.verb import Scope
from duly.testing import Stage
from tests.desk.test_version import NAME
from tests.desk.test_whole import FLOW, Sheets


def source(text: str = FLOW) -> duly.Source:
    return duly.Source(Language.PYTHON, text)


async def test_a_wait_ends_with_the_change_and_misses_none(url: str) -> None:
    """M5: what changed between two waits is answered at once."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        first = await host.wait(NAME, seconds=1)
        assert not first.changed
        assert first.why is not None
        waiting = asyncio.ensure_future(host.wait(NAME, seen=first.seen, seconds=45))
        await asyncio.sleep(0)
        await host.pause(NAME)
        second = await waiting
        assert second.changed
        assert second.why is not None
        assert second.why.reason.code == "paused"
        await host.resume(NAME)
        assert (await host.wait(NAME, seen=second.seen, seconds=45)).changed


async def test_without_an_id_what_waits_for_a_person_is_watched(url: str) -> None:
    """M5: a proposal ends the wait."""
    async with Host(url, connectors=[Sheets()]) as host:
        before = await host.wait(seconds=1)
        assert (before.changed, before.attention) == (False, ())
        await host.propose(source(), by="token:a")
        after = await host.wait(seen=before.seen, seconds=45)
        assert after.attention is not None
        assert [each.reason.code for each in after.attention] == ["proposed_source"]


def test_a_wait_lasts_as_long_as_it_says(duly_world: Stage) -> None:
    """M5: in virtual time, to the second."""

    async def watch() -> None:
        host = await duly_world.host(connectors=[Sheets()])
        await host.deploy(source())
        begun_ms = duly_world.env.monotonic_ms()
        assert not (await host.wait(NAME, seconds=45)).changed
        assert 45_000 <= duly_world.env.monotonic_ms() - begun_ms < 47_000

    duly_world.run(watch())


async def test_one_past_each_limit_of_waiting_is_refused(url: str) -> None:
    """M5: the seconds, and how many wait at once."""
    async with Host(url, connectors=[Sheets()]) as host:
        for seconds in (0, WAIT_S_MAX + 1):
            with pytest.raises(Invalid, match="seconds"):
                await host.wait(seconds=seconds)
        waits = [asyncio.ensure_future(host.wait(seconds=45)) for _ in range(WAITS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(RequestRefused) as caught:
            await host.wait(seconds=1)
        assert caught.value.code == "too_many"
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert not (await host.wait(seconds=1)).changed


async def test_an_agent_lends_itself_no_reads(url: str) -> None:
    """M1, G4: a trial reads what a person granted; to grant for a trial needs the scope decide."""
    async with Host(url, connectors=[Sheets()]) as host:
        with pytest.raises(RequestRefused) as caught:
            await host.try_(source(), grant=True, right=Scope.AGENT)
        assert caught.value.code == "beyond_scope"
        await host.try_(source(), right=Scope.AGENT)
        await host.try_(source(), grant=True, right=Scope.DECIDE)


async def test_the_guide_of_a_host_has_its_tools(url: str) -> None:
    """M5: an agent is taught what holds here."""
    async with Host(url, connectors=[Sheets()]) as host:
        page = await host.guide(Language.PYTHON)
        assert "ctx.sheets." in page
        assert "in JavaScript" not in page


async def test_a_host_without_a_simulator_says_so_and_one_with_it_is_asked(url: str) -> None:
    """M5: the simulation is a callable that the host is given."""
    async with Host(url, connectors=[Sheets()]) as host:
        with pytest.raises(RequestRefused) as caught:
            await host.simulate(source())
        assert caught.value.code == "no_simulator"
        with pytest.raises(Invalid, match="crashes"):
            await host.simulate(source(), crashes=101)

    asked: list[Any] = []

    async def simulate(*given: Any) -> Any:
        asked.append(given)
        return {
            "workflow": NAME,
            "changes": [{"tool": "sheets.append", "args": {"a": 1}}],
            "troubles": [],
            "possible": 3,
            "crashes": 2,
            "asked": 0,
            "missed": 0,
            "mismatches": [],
        }

    async with Host(url, connectors=[Sheets()], simulator=simulate) as host:
        told = await host.simulate(source(), crashes=2)
        assert (told.possible, told.changes[0].tool) == (3, "sheets.append")
        assert asked[0][3] == 2
