"""Seals everything anew: under a rotated key, or after an upgrade (L11, L15, A5).

Law 1  What was sealed with the old key and does not fit it stays as it is: it is never used.
Law 2  Until everything is sealed anew, a host that lacks one of the two keys is refused: it would
       take rows under that key for forged ones, and call off what a person agreed to (H12).
Law 3  A row without a seal is sealed only by the process that has just brought its store up from a
       schema without seals. At any other time such a row was made by another program.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from duly.desk.secret import Vault
from duly.env import Env
from duly.errors import ConfigError, Stale
from duly.rules.seal import judge, make_seal, name_key
from duly.store import Store
from duly.store.approval import Resealed, Sealed
from duly.store.base import Durability
from duly.store.record import Action, AllowanceRow, MutationRow
from duly.store.seal import list_keys

DULY = "duly"
AGAIN_MAX: Final = 1000  # each time another host has sealed something

R = TypeVar("R")

log = logging.getLogger("duly.seal")


async def seal_anew(env: Env, store: Store, vault: Vault, *, has_unsealed: bool) -> None:
    """Seal what is in use under the key of now, if there is an old one or no seal yet."""
    await _check_keys(store, vault)
    if vault.old_key is None and not has_unsealed:
        return
    await _seal_ended(env, store, vault, has_unsealed=has_unsealed)
    is_there = await _again(partial(_seal_rest, env, store, vault, has_unsealed=has_unsealed))
    if is_there and vault.old_key is not None:
        log.warning(
            "Secrets and changes are sealed with the new key now. Take the old one away (%s).",
            vault.where_old,
        )


async def agree(
    store: Store, vault: Vault, ask: Callable[[str, str | None], Awaitable[bool]]
) -> None:
    """Refuse a key that is not the one of all hosts, or not one of a change under way (H12)."""
    await _check_keys(store, vault)  # before the key is replaced: with a third one no host begins
    await vault.agree(ask)


async def _check_keys(store: Store, vault: Vault) -> None:
    """Refuse a host that lacks a key, while what it seals is not all sealed anew (H12).

    Who gives one key in both places says that the other one is lost.
    """
    needed = await store.backend.transact(list_keys, Durability.READ)
    here = {name_key(each) for each in (vault.known_key(), vault.old_key) if each is not None}
    if needed <= here or (vault.old_key is not None and len(here) == 1):
        return
    facts = {"old": vault.where_old}
    raise ConfigError(code="key_unfinished", subject=vault.where, facts=facts)


async def _again(seal: Callable[[], Awaitable[R]]) -> R:
    """Read and seal again what another host with both keys has sealed meanwhile (H12)."""
    for _ in range(AGAIN_MAX):
        with suppress(Stale):
            return await seal()
    return await seal()


async def _seal_rest(env: Env, store: Store, vault: Vault, *, has_unsealed: bool) -> bool:
    """Seal anew all but the rows that ended; return whether anything was there."""
    sealed = await store.list_sealed()
    is_under_way = bool(await store.backend.transact(list_keys, Durability.READ))
    is_there = bool(sealed.mutations or sealed.allowances or sealed.secrets)
    if not (has_unsealed or is_under_way or is_there):
        return False
    key = await vault.find_key()
    mutations = tuple(_rows(sealed.mutations, vault.old_key, key, has_unsealed=has_unsealed))
    allowances = tuple(_rows(sealed.allowances, vault.old_key, key, has_unsealed=False))
    secrets = tuple(_secrets(sealed, vault))
    if has_unsealed or is_under_way or mutations or allowances or secrets:
        action = Action(env.new_id("action"), DULY, "reseal")
        await store.reseal(
            mutations=mutations,
            allowances=allowances,
            secrets=secrets,
            action=action,
            now=env.now_ms(),
        )
    return True


async def _seal_ended(env: Env, store: Store, vault: Vault, *, has_unsealed: bool) -> None:
    """Seal the rows that ended anew, a page at a time (L15).

    A host that dies meanwhile goes on at its next start: the mark of the keys, or that of rows
    without a seal, is still there, and a row that has its new seal does not fit the old key.
    """
    key = await vault.find_key()
    keys = () if vault.old_key is None else (name_key(vault.old_key), name_key(key))
    after: str | None = ""

    async def seal_page() -> str | None:
        seals, further = await store.list_ended(
            old_key=vault.old_key, new_key=key, has_unsealed=has_unsealed, after=str(after)
        )
        if seals:
            await store.reseal_ended(seals, keys=keys, now=env.now_ms())
        return further

    while after is not None:
        after = await _again(seal_page)
    await store.sync()


def _rows(
    rows: tuple[MutationRow, ...] | tuple[AllowanceRow, ...],
    old: bytes | None,
    new: bytes,
    *,
    has_unsealed: bool,
) -> Iterator[Resealed]:
    for row in rows:
        is_unsealed = row.seal is None and has_unsealed
        is_old = old is not None and judge(old, row.facts, row.seal) is None
        if is_unsealed or is_old:
            yield Resealed(row.id, row.seal, make_seal(new, row.facts))


def _secrets(sealed: Sealed, vault: Vault) -> Iterator[Resealed]:
    for row in sealed.secrets:
        new = vault.seal_again(row)
        if new is not None:
            yield Resealed(row.connector, row.sealed, new, row.name)
