"""A connection is proven with the user's own account before its word is believed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Http
from duly.connectors.base import Applied, Call, NotApplied, Verdict
from duly.desk.connection import ToolProof
from duly.errors import AuthNeeded, Invalid, NotFound, RequestRefused
from duly.rules.asking import ProofFault, ProofStatus, Sighting, judge_trial
from tests.connectors.accounts import FLOW, Accounts
from tests.connectors.shop import Shop, status

pytestmark = pytest.mark.anyio

ORDER: dict[str, Any] = {
    "does": "Order something.",
    "method": "POST",
    "path": "/orders",
    "arguments": {"item": "string"},
    "key": {"header": "Idempotency-Key"},
    "verify": {"path": "/orders", "query": {"key": "{key}"}, "items": "orders", "match": "key"},
    "trial": {"item": "a trial"},
    "lag_s": 0,
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "orders").mkdir()
    with Shop(tmp_path / "orders") as made:
        yield made


def orders(shop: Shop) -> int:
    return len([each for each in shop.folder.rglob("*") if each.is_file()])


def host_of(folder: Path, shop: Shop, below: str = "/a", /, **changed: Any) -> duly.Host:
    auth = {"type": "bearer"}
    made = Http(
        f"{shop.url}{below}",
        operations={"order": {**ORDER, **changed}},
        auth=auth,
        allow=["127.0.0.1"],
        name="shop",
    )
    return duly.Host(f"sqlite:///{folder}/duly.db", connectors=[made])


async def shown(host: duly.Host) -> ToolProof:
    (tool,) = (await host.connection("shop")).tools
    return tool


async def test_a_trial_is_shown_made_once_and_found_again(tmp_path: Path, shop: Shop) -> None:
    """K10: what it will do is shown first, the verdict and its date afterwards."""
    async with host_of(tmp_path, shop) as host:
        connection = await host.connection("shop")
        assert [(each.name, each.set_at) for each in connection.secrets] == [("token", None)]
        with pytest.raises(AuthNeeded):
            await host.prove("shop.order")
        assert orders(shop) == 0
        await host.set_secret("shop", "token", "a-token")
        before = await shown(host)
        assert (before.form, before.needs_trial, before.last) == (
            (("item", "a trial"),),
            True,
            None,
        )
        assert before.does.startswith("Order something.")
        assert before.answering.proven_at is None
        assert not before.answering.is_believed
        proven = await host.prove("shop.order")
        assert proven.answering.is_believed
        assert proven.last is not None
        assert (proven.last.status, proven.last.is_current) == (ProofStatus.PROVEN, True)
        assert orders(shop) == 1
        assert next(each.verb for each in await host.actions()) == "prove"
        assert await host.connections() == (
            *(each for each in await host.connections() if each.name == "clock"),
            await host.connection("shop"),
        )


async def test_a_proof_is_void_for_another_secret_account_or_operation(
    tmp_path: Path, shop: Shop
) -> None:
    """K10: bound to the service, the settings of the operation, and the secret."""
    async with host_of(tmp_path, shop) as host:
        await host.set_secret("shop", "token", "a-token")
        await host.prove("shop.order")
    for path, changed, is_valid in (
        ("/a", {}, True),
        ("/b", {}, False),
        ("/a", {"path": "/others"}, False),
        ("/a", {}, True),
    ):
        async with host_of(tmp_path, shop, path, **changed) as host:
            tool = await shown(host)
            assert tool.answering.is_believed is is_valid
            assert tool.last is not None
            assert tool.last.is_current is is_valid
    async with host_of(tmp_path, shop) as host:
        await host.set_secret("shop", "token", "another-token")
        assert not (await shown(host)).answering.is_believed
        await host.drop_secret("shop", "token")
        assert not (await shown(host)).answering.is_believed


async def test_a_restored_store_believes_no_proof(tmp_path: Path, shop: Shop) -> None:
    """K10, H5: a newer trial may have failed since the backup; one more call proves it anew."""
    async with host_of(tmp_path, shop) as host:
        await host.set_secret("shop", "token", "a-token")
        assert (await host.prove("shop.order")).answering.is_believed
        await host.backup(tmp_path / "copy.db")
    (tmp_path / "copy.db").rename(tmp_path / "duly.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"duly.db{suffix}").unlink(missing_ok=True)
    async with host_of(tmp_path, shop) as host:
        tool = await shown(host)
        assert tool.last is not None
        assert (tool.answering.is_believed, tool.last.is_current) == (False, False)
        assert orders(shop) == 1
        assert (await host.prove("shop.order")).answering.is_believed
        assert orders(shop) == 2


async def test_a_question_that_finds_nothing_or_everything_proves_nothing(
    tmp_path: Path, shop: Shop
) -> None:
    """K10: a path that is always 404, and a service that forgets keys."""
    lost = {"path": "/nowhere/{key}", "match": "key"}
    async with host_of(tmp_path, shop, verify=lost) as host:
        await host.set_secret("shop", "token", "a-token")
        host.clock.sleep = no_sleep  # type: ignore[method-assign]
        failed = await host.prove("shop.order")
        assert failed.last is not None
        assert (failed.last.status, failed.last.fault) == (
            ProofStatus.FAILED,
            ProofFault.NOT_FOUND,
        )
        assert not failed.answering.is_believed
        assert orders(shop) == 1
        # It is asked about the trial that was made before another one is sent.
        again = await host.prove("shop.order")
        assert again.last is not None
        assert again.last.fault is ProofFault.NOT_FOUND
        assert orders(shop) == 2


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


async def test_a_trial_that_is_refused_is_told_with_the_words_of_the_service(
    tmp_path: Path, shop: Shop
) -> None:
    """K10, A5: and without the secret."""
    async with host_of(tmp_path, shop) as host:
        await host.set_secret("shop", "token", "a-token")
        shop.manners = [status(404), status(400)]
        failed = await host.prove("shop.order")
        assert failed.last is not None
        assert failed.last.fault is ProofFault.NOT_MADE
        assert orders(shop) == 0


async def test_only_a_change_that_needs_a_trial_is_tried(tmp_path: Path, shop: Shop) -> None:
    """K10: refused with the reason; nothing is sent."""
    async with host_of(tmp_path, shop, trial={"item": "x"}) as host:
        with pytest.raises(NotFound):
            await host.prove("clock.now")
        with pytest.raises(NotFound):
            await host.connection("shopp")
        with pytest.raises(Invalid):
            await host.prove("shop.order", {"other": 1})
    untold = {key: each for key, each in ORDER.items() if key != "trial"}
    plain = {key: each for key, each in untold.items() if key != "verify"}
    for operation, error in ((untold, Invalid), (plain, RequestRefused)):
        made = Http(shop.url, operations={"order": operation}, allow=["127.0.0.1"], name="shop")
        async with duly.Host(f"sqlite:///{tmp_path}/other.db", connectors=[made]) as host:
            with pytest.raises(error):
                await host.prove("shop.order")
    assert orders(shop) == 0


class Slow(duly.Connector):
    """A service that never returns from its first call, and finds what it was told to find."""

    name = "slow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    @duly.mutation(key_in="id", asked="exactly", lag_s=0)
    async def add(self, call: Call, text: str) -> None:
        await call.keep({"at": text})
        (self.folder / call.key).write_text(text)
        self.begun.set()
        await self.go_on.wait()

    @add.reconcile
    async def add_happened(self, call: Call) -> Verdict:
        return Applied(None) if (self.folder / call.key).exists() else NotApplied()

    @add.trial
    def add_tried(self) -> dict[str, Any]:
        """Adds a file."""
        return {"text": "trial"}


async def test_of_two_trials_at_once_one_is_made(tmp_path: Path) -> None:
    """K10: the other is told so, and nothing is sent for it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    slow = Slow(outside)
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[slow]) as host:
        first = asyncio.ensure_future(host.prove("slow.add"))
        await slow.begun.wait()
        with pytest.raises(RequestRefused) as caught:
            await host.prove("slow.add")
        assert caught.value.code == "proof_under_way"
        (tool,) = (await host.connection("slow")).tools
        assert tool.last is not None
        assert tool.last.status is ProofStatus.BEGUN
        slow.go_on.set()
        assert (await first).answering.is_believed
    assert len(list(outside.iterdir())) == 1


KILLED = """
import asyncio, sys
from pathlib import Path
import duly
from tests.connectors.test_connection import Slow

async def main(folder):
    slow = Slow(folder / "outside")
    async with duly.Host(f"sqlite:///{folder}/duly.db", connectors=[slow]) as host:
        task = asyncio.ensure_future(host.prove("slow.add"))
        await slow.begun.wait()
        print("sent", flush=True)
        await task

asyncio.run(main(Path(sys.argv[1])))
"""


def kill_after_send(folder: Path) -> None:
    """Let a host make a trial, and kill it when the call has left and nothing is recorded."""
    command = [sys.executable, "-c", KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sent\n"
        os.kill(process.pid, signal.SIGKILL)


async def test_a_host_killed_between_send_and_record_leaves_a_trial_that_is_told(
    tmp_path: Path,
) -> None:
    """K10, L3: it is shown as begun; the next trial finds it, and sends no second one."""
    (tmp_path / "outside").mkdir()
    await asyncio.to_thread(kill_after_send, tmp_path)
    slow = Slow(tmp_path / "outside")
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[slow]) as host:
        (tool,) = (await host.connection("slow")).tools
        assert tool.last is not None
        assert tool.last.status is ProofStatus.BEGUN
        assert not tool.answering.is_believed
        proven = await host.prove("slow.add")
        assert proven.answering.is_believed
    assert len(list((tmp_path / "outside").iterdir())) == 1


class Echo(Slow):
    """A service that says yes to everything."""

    name = "echo"

    async def add_happened(self, call: Call) -> Verdict:
        return Applied(None)


async def test_a_service_that_says_yes_to_what_was_never_sent_is_found_out(tmp_path: Path) -> None:
    """K10: before anything is sent."""
    echo = Echo(tmp_path)
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[echo]) as host:
        failed = await host.prove("echo.add")
        assert failed.last is not None
        assert failed.last.fault is ProofFault.SEES_UNSENT
        assert not echo.begun.is_set()


@pytest.mark.parametrize(
    ("seen", "unsent", "is_made", "fault"),
    [
        (Sighting.DONE, Sighting.NOT_DONE, True, None),
        (Sighting.DONE, Sighting.UNSURE, False, None),
        (Sighting.DONE, Sighting.DONE, True, ProofFault.SEES_UNSENT),
        (Sighting.NOT_DONE, Sighting.NOT_DONE, True, ProofFault.NOT_FOUND),
        (Sighting.UNSURE, Sighting.NOT_DONE, True, ProofFault.NOT_FOUND),
        (Sighting.NOT_DONE, Sighting.NOT_DONE, False, ProofFault.UNKNOWN),
        (Sighting.SILENT, Sighting.SILENT, True, ProofFault.NOT_ASKED),
    ],
)
def test_a_trial_is_judged_by_its_key_and_by_one_that_was_never_sent(
    seen: Sighting, unsent: Sighting, is_made: bool, fault: ProofFault | None
) -> None:
    """K10: both count."""
    assert judge_trial(seen, unsent, is_made=is_made) is fault


class Lost(duly.Connector):
    """A service whose answers are lost."""

    name = "lost"

    def __init__(self, *, is_made: bool = True) -> None:
        self.made: list[str] = []
        self.is_made = is_made

    @duly.mutation(key_in="id", asked="exactly", lag_s=0)
    async def add(self, call: Call, text: str) -> None:
        if self.is_made:
            self.made.append(call.key)
        raise duly.UnknownOutcome("lost")

    @add.reconcile
    async def add_happened(self, call: Call) -> Verdict:
        return Applied(None) if call.key in self.made else NotApplied()

    @add.trial
    def add_tried(self) -> dict[str, Any]:
        """Adds a text."""
        return {"text": "trial"}


@pytest.mark.parametrize("is_proven", [False, True])
async def test_without_a_proof_the_word_of_the_outside_is_not_believed(
    tmp_path: Path, is_proven: bool
) -> None:
    """K10, L5: reconcile says yes; unproven it counts as unsure, and the reason says why."""
    lost = Lost()
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[lost]) as host:
        deployed = await host.deploy(duly.Source("python", FLOW), by="me", grant=True)
        assert [each.tool for each in deployed.changes] == ["lost.add"]
        if is_proven:
            await host.prove("lost.add")
        await host.publish("adds", "wish", title="One", message_id="1")
        await host.drain()
        (row,) = await host.mutations()
        assert str(row.status) == ("applied" if is_proven else "needs_reconcile")
        if not is_proven:
            told = str(await host.why(row.id))
            assert "never proven with your account" in told
    assert len(lost.made) == 1 + is_proven


async def test_without_a_proof_a_no_of_the_outside_sends_nothing_again(tmp_path: Path) -> None:
    """K10, L5: reconcile says no; believed, that would send the call a second time."""
    lost = Lost(is_made=False)
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[lost]) as host:
        await host.deploy(duly.Source("python", FLOW), by="me", grant=True)
        await host.publish("adds", "wish", title="One", message_id="1")
        await host.drain()
        (row,) = await host.mutations()
        assert (str(row.status), row.attempt) == ("needs_reconcile", 1)
        assert "never proven with your account" in str(await host.why(row.id))


async def test_a_trial_is_made_with_the_secret_that_it_proves(tmp_path: Path) -> None:
    """K10, H12: what another host has set since is read before, not some time later."""
    outside = Accounts()
    outside.is_silent = False
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[outside]) as host:
        await host.set_secret("lost", "token", "first")
        vault: Any = host._desk().vault
        place = ("lost", "token")
        vault._open[place], vault._seals[place] = "second", "as it was before"
        await host.prove("lost.add")
    assert [len(each) for each in outside.made.values()] == [1, 0]
