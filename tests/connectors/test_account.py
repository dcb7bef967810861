"""An account that changes while the outcome of a call is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

import duly
from duly.rules.schedule import DAY_MS, HOUR_MS
from tests.connectors.accounts import FLOW, Accounts, Plain, Repeated, Tidied
from tests.web.stand import Shifted

pytestmark = pytest.mark.anyio


async def begin(host: duly.Host) -> None:
    """Send one call with the first account; its answer is lost."""
    await host.set_secret("lost", "token", "first")
    await host.deploy(duly.Source("python", FLOW), by="me", grant=True)
    await host.publish("adds", "wish", title="One", message_id="1")
    await host.drain()


@pytest.mark.parametrize("moved_ms", [1000, -1000, 0])
@pytest.mark.parametrize("token", ["second", "first"])
@pytest.mark.parametrize("kind", [Accounts, Plain])
async def test_a_no_of_another_account_is_not_believed(
    tmp_path: Path, kind: type[Accounts], token: str, moved_ms: int
) -> None:
    """K10, L5: a call sent with one account is unknown to the other; it is not sent there again.

    A clock that is set back, or stands still, between the send and the new secret changes nothing.
    """
    outside, clock = kind(), Shifted()
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[outside], env=clock) as host:
        await begin(host)
        outside.is_silent = False
        clock.shift_ms += moved_ms
        await host.set_secret("lost", "token", token)
        if kind is Accounts:
            await host.prove("lost.add")
        for _ in range(8):
            clock.shift_ms += DAY_MS
            await host.drain()
        (row,) = await host.mutations()
        if token == "first":
            assert str(row.status) == "applied"  # what is found is there, whenever it was proven
        else:
            assert str(row.status) == "indeterminate"  # a person decides
            assert "another secret or other settings" in str(await host.why(row.id))
    clock.close()
    assert sum(map(len, outside.made.values())) == 1 + (kind is Accounts)  # the call, and the trial


async def test_a_call_is_not_sent_again_with_another_secret(tmp_path: Path) -> None:
    """L7: each account remembers its own keys; the second one would do it once more."""
    outside, clock = Repeated(), Shifted()
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[outside], env=clock) as host:
        await begin(host)
        outside.is_silent = False
        await host.set_secret("lost", "token", "second")
        for _ in range(8):
            clock.shift_ms += DAY_MS
            await host.drain()
        (row,) = await host.mutations()
        assert str(row.status) == "indeterminate"
        assert "is not sent again: its secret" in str(await host.why(row.id))
    clock.close()
    assert [len(each) for each in outside.made.values()] == [1, 0]


async def test_a_secret_that_changes_during_a_second_send_is_not_used_for_it(
    tmp_path: Path,
) -> None:
    """L7: what was decided with one secret is not sent with the next; the host compares again."""
    outside, clock = Repeated(), Shifted()
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[outside], env=clock) as host:
        await begin(host)
        outside.is_silent = False

        async def change() -> None:
            outside.before = None
            await host.set_secret("lost", "token", "second")

        outside.before = change
        for _ in range(8):
            clock.shift_ms += DAY_MS
            await host.drain()
        (row,) = await host.mutations()
        assert str(row.status) == "indeterminate"
    clock.close()
    assert [len(each) for each in outside.made.values()] == [1, 0]


async def test_a_call_is_sent_again_with_the_same_secret(tmp_path: Path) -> None:
    """L7: the guard stops nothing else, and a host that starts anew knows the account."""
    outside, clock = Repeated(), Shifted()
    url = f"sqlite:///{tmp_path}/duly.db"
    async with duly.Host(url, connectors=[outside], env=clock) as host:
        await begin(host)
    outside.is_silent = False
    async with duly.Host(url, connectors=[outside], env=clock) as host:
        clock.shift_ms += DAY_MS
        await host.drain()
        (row,) = await host.mutations()
        assert str(row.status) == "applied"
    clock.close()
    assert [len(each) for each in outside.made.values()] == [1, 0]


@pytest.mark.parametrize(("away_ms", "status"), [(HOUR_MS // 2, "failed"), (2 * HOUR_MS, "")])
async def test_what_a_person_tidied_away_is_not_made_again(
    tmp_path: Path, away_ms: int, status: str
) -> None:
    """L6: within the hour a no means never made; after it a person is asked, with the reason."""
    outside, clock = Tidied(), Shifted()
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[outside], env=clock) as host:
        await begin(host)
        outside.made["first"].clear()  # a person deletes what the lost call made
        outside.is_silent = False
        clock.shift_ms += away_ms
        for _ in range(8):
            await host.drain()
            clock.shift_ms += HOUR_MS // 6
        row = (await host.mutations())[-1]
        if not status:
            assert str(row.status) == "indeterminate"
            assert "a person may have deleted it since" in str(await host.why(row.id))
    clock.close()
    assert len(outside.made["first"]) == (1 if status else 0)
