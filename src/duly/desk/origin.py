"""Where the service of each connector is, as the store remembers it (K4, L5).

Law 1  What was sent to one place is not asked about, and not sent again, at another: the other one
       would say that it did not happen. As long as such a change is open, a host with another
       address does not open.
Law 2  A secret was given for one place. At another one it must be given anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from duly.connectors.registry import Registry
from duly.desk.upkeep import DULY
from duly.env import Env
from duly.errors import ConfigError, RequestRefused
from duly.rules.value import decode, encode
from duly.rules.word import MutationStatus
from duly.store import Store
from duly.store.approval import Sealed
from duly.store.record import Action

OWNER: Final = "duly.connectors"  # no extension is called so
ORIGIN_BYTES_MAX: Final = 2_000

log = logging.getLogger("duly.host")


async def check_origins(env: Env, store: Store, outside: Registry) -> None:
    """Compare the origins of all connectors with those of the last host, and keep them."""
    for name, origin in outside.origins().items():
        kept = await store.get_state(OWNER, name)
        text = encode(origin, name, limit_bytes=ORIGIN_BYTES_MAX)
        if kept == text:
            continue
        if kept is not None:
            await _leave(env, store, name, str(decode(kept)), origin)
        await store.put_state(OWNER, name, text, now=env.now_ms())


async def check_moves(store: Store, origins: Mapping[str, str]) -> None:
    """Refuse addresses with which a host would not open (law 1); nothing is kept."""
    for name, origin in origins.items():
        kept = await store.get_state(OWNER, name)
        if kept is not None and (before := str(decode(kept))) != origin:
            _check_open(await store.list_sealed(), name, before, origin)


async def check_unused(store: Store, name: str, origin: str | None) -> None:
    """Refuse a name under which another connection left something: a new one would inherit it."""
    kept = await store.get_state(OWNER, name)
    before = None if kept is None else str(decode(kept))
    sealed = await store.list_sealed()
    has_secret = any(row.connector == name for row in sealed.secrets)
    is_open = any(row.tool.partition(".")[0] == name for row in sealed.mutations)
    if has_secret or is_open or (before is not None and before != origin):
        raise RequestRefused(code="name_used_before", subject=name)


def _check_open(sealed: Sealed, name: str, before: str, origin: str) -> None:
    count = sum(
        row.tool.partition(".")[0] == name and row.status != MutationStatus.PROPOSED
        for row in sealed.mutations
    )
    if count:
        facts = {"before": before, "now": origin, "count": count}
        raise ConfigError(code="service_moved", subject=name, facts=facts)


async def _leave(env: Env, store: Store, name: str, before: str, origin: str) -> None:
    sealed = await store.list_sealed()
    _check_open(sealed, name, before, origin)
    for row in sealed.secrets:
        if row.connector == name:
            action = Action(env.new_id("action"), DULY, "drop_secret")
            await store.drop_secret(name, row.name, action=action, now=env.now_ms())
            log.warning(
                "connector %s is at %s now: set its secret %s again", name, origin, row.name
            )
