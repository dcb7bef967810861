"""A host of a fleet reads its secrets again, for other hosts set and drop them too (H12)."""

from __future__ import annotations

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
