"""The answer to a COMMIT is lost, and asking what became of it fails, too (H10, H3, S1)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from duly.env import Loop
from duly.errors import Fenced, StoreUnavailable
from duly.store import Store
from duly.store.base import Transaction
from duly.store.postgres import PostgresBackend, open_postgres
from duly.store.postgres_session import TRIES_MAX, ServerSession
from tests.postgres.proxy import Cut, Proxy, proxied
from tests.postgres.server import superuser
from tests.postgres.test_slot import BARRIER, last, take
from tests.postgres.world import HOST, LEASE_MS, TIMES, Place, say

Entry = Callable[[], None]


class Host:
    """A host whose next answer to COMMIT is lost, and what happens when its slot is asked."""

    def __init__(self, backend: PostgresBackend, proxy: Proxy, name: str, folder: Path) -> None:
        self.backend = backend
        self.proxy = proxy
        self.name = name
        self.folder = folder

    def set(self, setting: str, value: str | None) -> None:
        """Let every new connection to the database have a setting, or what it had before."""
        told = f"set {setting} = '{value}'" if value else f"reset {setting}"
        with psycopg.connect(superuser(self.folder), autocommit=True) as admin:
            admin.execute(f"alter database {self.name} {told}".encode())

    async def lose(self, patch: pytest.MonkeyPatch, *entries: Entry) -> int:
        """Write, lose the answer, and let one thing after the other happen when it is asked."""
        assert await self.backend.transact(take, BARRIER) == 1
        real, left = ServerSession._enter, list(entries)

        def enter(session: ServerSession, *given: Any) -> Any:
            if self.proxy.cuts and left:
                left.pop(0)()
            return real(session, *given)

        patch.setattr(ServerSession, "_enter", enter)
        self.proxy.cut = Cut.UNHEARD
        try:
            return await self.backend.transact(take, BARRIER)
        finally:
            assert self.proxy.cuts == 1
            assert not left


@pytest.fixture
async def host(place: Place) -> AsyncIterator[Host]:
    """A host that is here, over a line that can be cut."""
    name, env = place.make(), Loop()
    with proxied(place.folder) as proxy:
        backend = await open_postgres(proxy.address(name), env)
        await Store(backend).join(HOST, now=0, lease_ms=LEASE_MS)
        backend.write_as(lambda: HOST, TIMES)
        made = Host(backend, proxy, name, place.folder)
        yield made
        await backend.close()
    for setting in ("deadlock_timeout", "synchronous_commit"):
        made.set(setting, None)
    env.close()
    place.give_back(name)


def fails(error: Exception) -> Entry:
    """Let the server, or the line to it, fail."""

    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        errors.SerializationFailure("the server ended this transaction for another"),
        errors.QueryCanceled("canceling statement due to statement timeout"),
        psycopg.OperationalError("the server closed the connection"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_commit_is_asked_about_again_when_asking_failed(
    host: Host, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1, H10: what is committed is not done again, whatever ends the question."""
    assert await host.lose(monkeypatch, fails(error)) == 2
    assert await last(host.backend) == 2
    assert await host.backend.transact(take, BARRIER) == 3


async def test_a_deadlock_while_asking_does_not_run_a_committed_write_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1, H10: a real one, with a host that waits for what the question has locked."""
    host.set("deadlock_timeout", "20ms")
    deadlocks = 0
    with psycopg.connect(superuser(host.folder, host.name)) as other:
        other.execute("set deadlock_timeout = '60s'")  # so the question is what the server ends
        other.execute("select 1 from counter where name = 'journal' for update")
        wait = ("select 1 from store for update",)
        waiting = threading.Thread(target=other.execute, args=wait, daemon=True)

        def lock(tx: Transaction) -> None:
            nonlocal deadlocks
            if host.proxy.cuts and not deadlocks:
                say(tx, "select 1 from store for update")
                waiting.start()
                while not say(tx, "select 1 from pg_locks where not granted"):
                    pass
                deadlocks += 1
                say(tx, "select 1 from counter where name = 'journal' for update")

        host.backend.beside.on_enter = lock
        assert await host.lose(monkeypatch) == 2
        waiting.join()
    assert deadlocks == 1
    assert await last(host.backend) == 2


@pytest.mark.parametrize(
    "entries",
    [
        [fails(errors.DeadlockDetected("deadlock detected"))] * TRIES_MAX,
        [fails(errors.QueryCanceled("canceling statement due to statement timeout"))] * 2,
        [fails(psycopg.OperationalError("connection refused"))] * 2,
        [fails(Fenced(code="lapsed", subject=HOST))],
    ],
    ids=["deadlocks", "slow", "unreachable", "evicted"],
)
async def test_a_commit_that_cannot_be_asked_about_is_called_unknown(
    host: Host, entries: list[Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3, H10: no error says that nothing was written, or leaves it open; the next write counts."""
    with pytest.raises(StoreUnavailable) as raised:
        await host.lose(monkeypatch, *entries)
    assert raised.value.code == "commit_unknown"
    assert "is not known" in str(raised.value)
    assert await host.backend.transact(take, BARRIER) == 3


async def test_an_entry_waits_for_the_disk_whatever_its_user_is_set_to(host: Host) -> None:
    """H10: what is taken for committed may not be lost after that, as a rider may."""
    seen: list[Any] = []
    host.set("synchronous_commit", "off")
    host.backend.beside.on_enter = lambda tx: seen.extend(say(tx, "show synchronous_commit"))
    await host.backend.transact(take, BARRIER)
    assert seen == [("on",)]
