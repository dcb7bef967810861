"""Seals everything anew: under a rotated key, or after an upgrade (L11, L15, A5).

Law 1  What was sealed with the old key and does not fit it stays as it is: it is never used.
Law 2  A row without a seal is sealed only by the process that has just brought its store up from a
       schema without seals. At any other time such a row was made by another program.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from duly.desk.secret import Vault
from duly.env import Env
from duly.rules.seal import judge, make_seal
from duly.store import Store
from duly.store.approval import Resealed, Sealed
from duly.store.record import Action, AllowanceRow, MutationRow

DULY = "duly"

log = logging.getLogger("duly.seal")


async def seal_anew(env: Env, store: Store, vault: Vault, *, has_unsealed: bool) -> None:
    """Seal what is in use under the key of now, if there is an old one or no seal yet."""
    if vault.old_key is None and not has_unsealed:
        return
    await _seal_ended(store, vault, has_unsealed=has_unsealed)
    sealed = await store.list_sealed()
    if not (has_unsealed or sealed.mutations or sealed.allowances or sealed.secrets):
        return
    key = await vault.find_key()
    mutations = tuple(_rows(sealed.mutations, vault.old_key, key, has_unsealed=has_unsealed))
    allowances = tuple(_rows(sealed.allowances, vault.old_key, key, has_unsealed=False))
    secrets = tuple(_secrets(sealed, vault))
    if has_unsealed or mutations or allowances or secrets:
        action = Action(env.new_id("action"), DULY, "reseal")
        await store.reseal(
            mutations=mutations,
            allowances=allowances,
            secrets=secrets,
            action=action,
            now=env.now_ms(),
        )
    if vault.old_key is not None:
        log.warning(
            "Secrets and changes are sealed with the new key now. Take the old one away (%s).",
            vault.where_old,
        )


async def _seal_ended(store: Store, vault: Vault, *, has_unsealed: bool) -> None:
    """Seal the rows that ended anew, a page at a time (L15).

    A host that dies meanwhile goes on at its next start: the old key, or the mark of rows without a
    seal, is still there, and a row that has its new seal already does not fit the old key.
    """
    after: str | None = ""
    while after is not None:
        seals, after = await store.list_ended(
            old_key=vault.old_key,
            new_key=await vault.find_key(),
            has_unsealed=has_unsealed,
            after=after,
        )
        if seals:
            await store.reseal_ended(seals)
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
