"""One turn of a workflow: look at it, let the rules choose, and open the run they chose (S5, H2).

Law: look and start are one transaction. So no act comes between them, and an idle workflow costs
one look that writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from duly.rules.turn import Choice, Work
from duly.store import run, statements
from duly.store.base import Fence, Transaction
from duly.store.claim import list_lacking
from duly.store.due import Outlook, read_outlook

Choose: TypeAlias = Callable[[Outlook], Choice]


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """What was found in a workflow and chosen there; `started` is the run that was opened."""

    outlook: Outlook
    choice: Choice
    started: run.Started | None = None


@dataclass(frozen=True, slots=True)
class Able:
    """A host of a fleet, and the version of a workflow for which it is known to have all tools."""

    host_id: str
    version: str | None = None


def take_turn(
    tx: Transaction,
    fence: Fence,
    run_id: str,
    choose: Choose,
    *,
    now: int,
    able: Able | None = None,
) -> TurnTaken:
    """Look at a workflow and choose; if a handler is to start, its run is opened under this id.

    A version that came since the claim may need a tool that the holder has not (H7).
    """
    standing = statements.check(tx, fence)
    outlook = read_outlook(tx, fence, standing)
    if able is not None and able.version != standing.active_version:
        lacking = list_lacking(tx, able.host_id, fence.workflow_id)
        outlook = replace(outlook, lacking=lacking)
    choice = choose(outlook)
    if choice.work is not Work.START:
        return TurnTaken(outlook, choice)
    assert choice.handler is not None, choice
    started = run.open_run(tx, fence, standing, run_id, choice.handler.name, now=now)
    return TurnTaken(outlook, choice, started)
