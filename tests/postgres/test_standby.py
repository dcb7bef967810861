"""A real standby that is promoted: one that was waited for, one that was not, one that lags."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

import duly
from duly.config import FleetSettings
from duly.errors import StoreError
from duly.host import Host
from duly.rules.standing import Code
from duly.rules.word import MutationStatus
from duly.store.base import Durability
from tests.house import ROOT
from tests.postgres import server
from tests.postgres.former import come
from tests.postgres.stand import KEY, Outside, deploy, opened, until
from tests.postgres.storm import outside as counted

# Longer than any failover here, so that it is never the lease that pauses something.
LONG = FleetSettings(lease_s=60)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DULY_KEY", KEY)


@dataclass
class Pair:
    """A server and its standby."""

    primary: Path
    standby: Path

    @property
    def url(self) -> str:
        """Name both, as a host of a fleet does."""
        return server.address(self.primary, server.DATABASE, self.standby)

    def follow(self, *, is_waited_for: bool) -> None:
        """Start the standby."""
        server.follow(self.primary, self.standby, is_waited_for=is_waited_for)

    def is_calm(self) -> bool:
        """Tell whether every note that was published is done."""
        with psycopg.connect(self.url, target_session_attrs="read-write") as connection:
            left = connection.execute("select 1 from event where status <> 'consumed' limit 1")
            return left.fetchone() is None

    def fail_over(self) -> None:
        """Let the server die, and promote its standby."""
        server.kill(self.primary)
        server.promote(self.standby)


@pytest.fixture
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="duly-pair-"))
    folder.chmod(0o755)
    made = Pair(folder / "one", folder / "two")
    server.start(made.primary)
    yield made
    for each in (made.primary, made.standby):
        if (each / "data" / "postmaster.pid").exists():
            server.kill(each)
    shutil.rmtree(folder)


async def publish(host: Host, *notes: str) -> None:
    """Publish notes; a host that comes back as another refuses until it has."""
    for note in notes:

        async def is_taken(note: str = note) -> bool:
            try:
                await host.publish("notes", "note", title=note, message_id=note)
            except StoreError:
                return False
            return True

        await until(is_taken, f"{note} published")


async def ride(host: Host) -> None:
    """Make a write that does not wait for the disk."""
    await host._desk().parts.store.backend.transact(lambda tx: None, Durability.RIDER)


async def test_a_synchronous_standby_lacks_nothing_and_the_host_goes_on(pair: Pair) -> None:
    """H10, L2: in the middle of work the server dies; every note is posted once, nothing pauses."""
    outside = Outside()
    pair.follow(is_waited_for=True)
    async with opened(pair.url, outside, fleet=LONG) as host, host.running():
        await deploy(host)
        await publish(host, *(f"before{n}" for n in range(5)))
        await asyncio.to_thread(pair.fail_over)
        await publish(host, *(f"after{n}" for n in range(5)))
        await until(lambda: len(set(outside.posts)) == 10, "every note")
        await until(pair.is_calm, "every run ended")
        (flow,) = await host.workflows()
        assert not flow.paused
        assert {row.status for row in await host.mutations()} == {MutationStatus.APPLIED}
    assert len(outside.posts) == 10


async def test_a_promoted_standby_that_lost_acknowledged_rows_is_noticed(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """H10, H5: everything is paused, nothing is sent, and the sentence speaks of the promotion."""
    outside = Outside()
    pair.follow(is_waited_for=False)
    async with opened(pair.url, outside, fleet=LONG) as host, host.running():
        await deploy(host)
        await deploy(host, "idle")
        await publish(host, "kept")
        await until(lambda: outside.posts == ["kept"], "the first note")
        await until(pair.is_calm, "every run ended")
        server.catch_up(pair.primary, pair.standby)
        server.cut_standby(pair.standby)
        await publish(host, "lost")
        await until(lambda: outside.posts == ["kept", "lost"], "the note that is lost")
        await until(pair.is_calm, "every run ended")
        await asyncio.to_thread(pair.fail_over)

        async def is_noticed() -> bool:
            with suppress(StoreError):
                await host.publish("notes", "note", title="lost", message_id="lost")
            reasons = [(await host.why(name)).reason.code for name in ("notes", "idle")]
            return reasons == [Code.STANDBY_BEHIND] * 2

        await until(is_noticed, "the pause")
        said = str(await host.why("notes"))
        assert "standby" in said
        assert "backup" not in said + caplog.text
        assert outside.posts == ["kept", "lost"]  # what may have been made is not made again
        reasons = [each.reason.code for each in await host.attention()]
        assert reasons == [Code.STANDBY_BEHIND] * 2


@dataclass
class Slow(Outside):
    """An outside that takes effect, and answers when it is let."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @duly.mutation(lag_s=0.1, timeout_s=50, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict[str, object]:
        """Post a note."""
        self.posts.append(text)
        self.begun.set()
        await self.go.wait()
        return {}

    @post.reconcile
    async def post_happened(self, call: duly.Call) -> Any:
        """Look whether a note is there."""
        return duly.Applied({}) if call.args["text"] in self.posts else duly.NotApplied()


async def test_a_standby_that_lacks_only_riders_pauses_nothing(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """H10, R7: the host claims anew what it held; no crash is counted, and no change made twice."""
    outside = Slow()
    pair.follow(is_waited_for=False)
    async with opened(pair.url, outside, fleet=LONG) as host, host.running():
        await deploy(host)
        await publish(host, "slow")
        await asyncio.wait_for(outside.begun.wait(), server.PATIENCE_S)
        server.catch_up(pair.primary, pair.standby)
        server.cut_standby(pair.standby)
        await ride(host)
        await asyncio.to_thread(pair.fail_over)

        async def is_noticed() -> bool:
            with suppress(StoreError):
                await ride(host)
            return "came back without the last writes" in caplog.text

        await until(is_noticed, "the loss of a rider")
        outside.go.set()
        await publish(host, "next")
        await until(lambda: outside.posts == ["slow", "next"], "the next note")
        await until(pair.is_calm, "every run ended")
        (flow,) = await host.workflows()
        assert not flow.paused
    with psycopg.connect(server.address(pair.standby)) as connection:
        crashed = connection.execute("select count(*) from run where status = 'crashed'")
        assert crashed.fetchall() == [(0,)]


async def test_a_host_that_dies_with_its_server_leaves_nothing_that_is_sent_again(
    pair: Pair, tmp_path: Path
) -> None:
    """H10, H2: no host can compare what the dead one was told, so what it held is paused."""
    here = Outside()
    with counted(tmp_path) as counting, ExitStack() as stack:
        pair.follow(is_waited_for=False)
        member = await asyncio.to_thread(stack.enter_context, come(tmp_path, ROOT, pair.url))
        assert await asyncio.to_thread(member.hear) == "here", member.said
        for words in (("deploy",), ("publish", "kept")):
            await asyncio.to_thread(member.tell, *words)
        await until(lambda: counting.posts["kept"] == 1, "the first note")
        await until(pair.is_calm, "every run ended")
        async with opened(pair.url, here, fleet=FleetSettings(lease_s=6)) as host:

            async def is_paused() -> bool:
                with suppress(StoreError):
                    code = (await host.why("notes")).reason.code
                    return code in (Code.STANDBY_PROMOTED, Code.STANDBY_BEHIND)
                return False

            async with host.running():
                server.catch_up(pair.primary, pair.standby)
                server.cut_standby(pair.standby)
                await asyncio.to_thread(member.tell, "publish", "lost")
                await until(lambda: counting.posts["lost"] == 1, "the note that is lost")
                await asyncio.to_thread(member.kill)
                await asyncio.to_thread(pair.fail_over)
                await publish(host, "lost")  # its caller cannot know that it was posted
                await until(is_paused, "the pause")
            await host.drain()
            assert await is_paused()
    assert here.posts == []
    assert counting.posts == {"kept": 1, "lost": 1}
