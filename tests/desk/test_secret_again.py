"""A host of a fleet reads its secrets again, for other hosts set and drop them too (H12)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from duly.store.people import SecretRow
from duly.testing import Stage
from tests.desk.test_secret import CANARY, OTHER, leaking


async def test_a_secret_set_while_all_are_read_again_is_kept(duly_world: Stage) -> None:
    """H12: a host takes over what others set, and never puts an older one in place of its own."""
    play, _ = await leaking(duly_world, "")
    vault = play.host._desk().vault
    assert vault is not None

    async def list_before(value: str) -> tuple[SecretRow, ...]:
        rows = await play.host._desk().parts.store.list_secrets()
        await play.host.set_secret("leaky", "token", value)
        return rows

    for value in (CANARY, OTHER):
        slow: Any = SimpleNamespace(list_secrets=partial(list_before, value))
        await vault.read_again(slow)
        assert vault.find("leaky", "token") == value


async def test_what_is_set_during_a_swap_is_handed_out(duly_world: Stage) -> None:
    """H12, L7: a refreshed token never stands in for the account that a person has just set.

    It would be sent with the old account, under a digest that names the new one.
    """
    play, _ = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    vault = play.host._desk().vault
    assert vault is not None
    kept = await vault.read_kept("leaky", "token")
    real = vault._store
    assert real is not None

    async def swap_then_set(*args: str) -> bool:
        is_done = await real.swap_secret(*args)
        await play.host.set_secret("leaky", "token", OTHER)
        return is_done

    slow: Any = SimpleNamespace(swap_secret=swap_then_set, get_secret=real.get_secret)
    vault._store = slow
    assert await vault.swap("leaky", "token", kept, f"{CANARY} refreshed")
    assert vault.find("leaky", "token") == OTHER


async def test_under_a_new_key_goes_what_the_row_says_now(duly_world: Stage) -> None:
    """H12: a host that still has the old key may refresh a token while another seals anew."""
    play, _ = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    vault = play.host._desk().vault
    assert vault is not None
    old = await vault.find_key()
    (row,) = await play.host._desk().parts.store.list_secrets()
    newer = replace(row, sealed=vault._seal(old, "leaky", "token", OTHER))
    vault._key, vault.old_key = bytes(32), old
    again = vault.seal_again(newer)
    assert again is not None
    vault._take(replace(row, sealed=again))
    assert vault.find("leaky", "token") == OTHER
