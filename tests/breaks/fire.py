"""Breaks that only show when time passes between a question and its answer, or jumps.

Each names single tests: they play in virtual time, and one is enough to tell.
"""

from __future__ import annotations

from typing import Any

from duly.engine.ledger import Ledger
from tests.breaks import Break

CLOCK = "tests/fire/test_clock.py"
_HEAR = Ledger.hear_verdict


async def _believe_by_the_answer(
    self: Any, live: Any, sent: Any, *args: Any, is_believable: bool, **more: Any
) -> None:
    """Measure the lag when the answer has come, not when the question was asked."""
    is_over = self.sends.absence_wait_ms(live.fence, sent.mutation_id, sent.terms) == 0
    await _HEAR(self, live, sent, *args, is_believable=is_over, **more)


BREAKS = (
    Break(
        "L6",
        "duly.engine.ledger",
        "Ledger.hear_verdict",
        _believe_by_the_answer,
        (f"{CLOCK}::test_a_no_is_as_old_as_its_question",),
        "a no that was asked for too early is believed when it comes late",
    ),
    Break(
        "S2",
        "duly.loop",
        "SLICE_MS",
        10**15,
        (f"{CLOCK}::test_a_long_sleep_ends_when_the_clock_is_set_ahead",),
        "a host sleeps on though the wall clock was set past its next time",
    ),
)
