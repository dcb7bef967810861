"""The end of sends on the rows of a fleet: so any host can take a person's answer (L6, H7).

Law 1  The host that holds a workflow writes it, by the clock of the server, when no send of an
       unknown row is out here. What an earlier holder sent ends at the latest with its tool's
       time, counted from our claim.
Law 2  It is written later than it was, never earlier. What is lost of it costs a person time: then
       only the holder can tell.
Law 3  Who judges by it believes that clock only as far as it was ever seen behind: one that is set
       forward makes no time pass.
"""

from __future__ import annotations

import logging

from duly.engine.base import Parts
from duly.engine.worker import Worker
from duly.errors import Fenced, Stale, StoreError

log = logging.getLogger("duly.engine")


async def write_ends(parts: Parts, worker: Worker) -> None:
    """Write what is known of the end of sends, after each renewal of the lease."""
    sends = worker.ledger.sends
    for mutation_id, known, in_ms in sends.list_ended():
        fence = worker.claims.fence_of(known.workflow_id)
        if fence is None:
            continue  # it was lost, or given back, while others were written
        try:
            is_done = await parts.store.note_end(fence, mutation_id, known.attempt, in_ms)
        except (Fenced, Stale):
            continue  # another host holds it now
        except StoreError as error:
            log.info("the ends of sends cannot be written yet: %s", error)
            return
        if is_done:
            sends.has_written(mutation_id, known)
