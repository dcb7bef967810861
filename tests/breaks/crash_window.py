"""Breaks of the promise itself, which the killed processes of the crash window must notice.

Each names single tests: a process that dies takes a second, and one death is enough to tell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duly.connectors.base import Applied
from duly.engine.ledger import Ledger
from duly.rules import lifecycle
from duly.rules.word import Act, MutationStatus, Reserved
from tests.breaks import Break

FOLDER = "tests/engine/crash_window"
FOUND_OUT = f"{FOLDER}/test_place.py::test_an_unknown_call_is_found_out_and_made_once"
KNOWN = f"{FOLDER}/test_place.py::test_a_recorded_answer_is_never_asked_for_again"
_MAKE = Ledger.make
_CRASH = lifecycle.crash


async def _send_first(self: Any, live: Any, wanted: Any, reads_text: Any) -> None:
    """Let the call leave before its row is written."""
    row = await self._enter(live, wanted, reads_text)
    call = self._first(live, wanted, row, 0, 0).call
    await self._parts.outside.send(wanted.tool, call).result()
    await _MAKE(self, live, wanted, reads_text)


def _forget_the_call(run: lifecycle.Run, counts: lifecycle.Counts) -> lifecycle.Change:
    """Take a call that was out for one that was never made."""
    change = _CRASH(run, counts)
    if run.row is not MutationStatus.IN_FLIGHT:
        return change
    return lifecycle.succeed(replace(change.run, row=MutationStatus.FAILED))


async def _guess(self: Any, tool: Any, call: Any) -> Applied:
    return Applied()


BREAKS = (
    Break(
        "L2",
        "duly.engine.ledger",
        "Ledger.make",
        _send_first,
        (f"{FOLDER}/test_place.py::test_a_call_that_is_not_in_the_ledger_was_not_made",),
        "a call leaves before its row is written",
    ),
    Break(
        "L3",
        "duly.rules.lifecycle",
        "crash",
        _forget_the_call,
        (f"{FOUND_OUT}[after the effect-asked]",),
        "a call that was out when the host died is taken for one never made",
    ),
    Break(
        "L5",
        "duly.engine.ledger",
        "Ledger.ask",
        _guess,
        (f"{FOUND_OUT}[before the effect-asked]",),
        "a killed call is believed to have happened, without asking",
    ),
    Break(
        "L6",
        "duly.rules.ledger",
        "is_absence_settled",
        lambda lag_ms, since_end_ms: True,
        (f"{FOLDER}/test_answer.py::test_did_not_happen_is_refused_until_the_time_it_names",),
        "a killed call is believed absent at once",
    ),
    Break(
        "L10",
        "duly.rules.lifecycle",
        "ACTS",
        {
            **lifecycle.ACTS,
            Act.SKIP: {MutationStatus.INDETERMINATE: (lifecycle.APPLIED, Reserved.HOLD)},
        },
        (f"{FOLDER}/test_answer.py::test_skip_never_sends_and_skips_the_event",),
        "skipping a killed call says that it happened",
    ),
    Break(
        "R7",
        "duly.rules.lifecycle",
        "CRASHES_MAX",
        1,
        (f"{KNOWN}[in next-asked]",),
        "the first death already asks a person",
    ),
)
