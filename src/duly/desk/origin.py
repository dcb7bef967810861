"""Where the service of each connector is, as the store remembers it (K4, L5).

Law 1  What was sent to one place is not asked about, and not sent again, at another: the other one
       would say that it did not happen. As long as such a change is open, a host with another
       address does not open.
Law 2  A secret was given for one place. At another one it must be given anew.
"""

from __future__ import annotations

import logging
from typing import Final

from duly.connectors.registry import Registry
from duly.desk.upkeep import DULY
from duly.env import Env
from duly.errors import ConfigError
from duly.rules.value import decode, encode
from duly.rules.word import MutationStatus
from duly.store import Store
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


async def _leave(env: Env, store: Store, name: str, before: str, origin: str) -> None:
    sealed = await store.list_sealed()
    count = sum(
        row.tool.partition(".")[0] == name and row.status != MutationStatus.PROPOSED
        for row in sealed.mutations
    )
    if count:
        facts = {"before": before, "now": origin, "count": count}
        raise ConfigError(code="service_moved", subject=name, facts=facts)
    for row in sealed.secrets:
        if row.connector == name:
            action = Action(env.new_id("action"), DULY, "drop_secret")
            await store.drop_secret(name, row.name, action=action, now=env.now_ms())
            log.warning(
                "connector %s is at %s now: set its secret %s again", name, origin, row.name
            )
