"""Every pause of a host: before each step of a run, for longer than its lease.

Law 1  The steps are not listed here: a situation is run without a pause, and every step that host 0
       takes until its first byte becomes a scenario of its own. Another host takes over meanwhile.
Law 2  After its pause the host is evicted, so it writes nothing (laws 1 and 7 of the oracle). If it
       had not looked at its lease yet, it sends nothing. What remains is the window between that
       look and the first byte: there a send may leave until the time of the tool is over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from duly.rules.permission import Approval
from duly.testing.crash import AFTER
from verification.fleet.member import Member
from verification.fleet.outside import FIRST_BYTE
from verification.fleet.run import run
from verification.fleet.scenario import STEP, FleetScenario, Mishap, What
from verification.workflow.outside import Outcome
from verification.workflow.scenario import Action, Do
from verification.workflow.shape import Shape, Tool

# Longer than a lease and two renewals. The second is longer than the time of the tool, too.
PAUSES_S: Final = (26.0, 45.0)
ASKED: Final = (Action(0, Do.APPROVE, 0, "after propose"),)


@dataclass(frozen=True, slots=True)
class Situation:
    """A scenario in which host 0 sends."""

    name: str
    scenario: FleetScenario


@dataclass(frozen=True, slots=True)
class Pauses:
    """A situation that was run without a pause, and with each."""

    steps: int  # of host 0, until its first byte
    looked_in_step: int  # the step in which it looked at its lease for the last time before that
    scenarios: tuple[FleetScenario, ...]


def situations() -> tuple[Situation, ...]:
    """Return what is run with every pause."""
    return (
        Situation("one by one", FleetScenario()),
        Situation("a batch, with a key", FleetScenario(shape=Shape.BATCH, tool=Tool.ONCE, mails=2)),
        Situation("no question helps", FleetScenario(tool=Tool.BLIND)),
        Situation("a yes is asked for", FleetScenario(approval=Approval.ALWAYS, actions=ASKED)),
        Situation("sent again", FleetScenario(outcomes=(Outcome.RATE_LIMITED,))),
        Situation("three hosts, in disorder", FleetScenario(hosts=3, mails=2, dice=6)),
    )


def unfold(situation: Situation, *, is_thorough: bool = False) -> Pauses:
    """Run a situation, then return it with one pause more: before every step, of every length.

    No two steps have the same future, so there is nothing that a thorough look would add.
    """
    first: list[tuple[int, int]] = []

    def note(member: Member, name: str) -> None:
        if member.number == 0 and name == f"{AFTER} {FIRST_BYTE}" and not first:
            first.append((member.process.steps, member.lease.looked_in_step))

    ending = run(situation.scenario, note)
    assert ending.problems == (), ending.problems
    ((steps, looked_in_step),) = first
    scenarios = (
        replace(situation.scenario, mishaps=(Mishap(What.STOP, pause_s, STEP, step),))
        for step in range(1, steps + 1)
        for pause_s in PAUSES_S
    )
    return Pauses(steps, looked_in_step, tuple(scenarios))
