"""What makes a scenario unkind: sends that go on, clocks that are set, keys that are forgotten.

Law 1  The world breaks no promise a real one keeps (`outside`); it only stops being polite.
Law 2  What is added is drawn from a series of its own for each way: the scenario of a seed
       stays what it was where nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from duly.rules.permission import Approval
from duly.testing.dice import Dice
from verification.disk import Kind, Operation
from verification.workflow.outside import OUTLASTING, STRANGE, STRANGE_SAYINGS, Outcome, Saying
from verification.workflow.scenario import (
    LENGTH_MS,
    Action,
    Death,
    DiskFault,
    Do,
    PlannedCrash,
    Scenario,
    in_order,
    invent,
)
from verification.workflow.shape import CHANGING, Shape, Tool

SALT: Final = 0x5EED
SHIFT: Final = 40
EACH: Final = 0.3  # so many of them are unkind in each way
DOWN_S: Final = (0.0, 5.0, 45.0, 600.0, 43_200.0, 100_000.0)
# Around every write of a run the clock is set; a verb of a person's action comes as well.
WRITES: Final = (
    "take_turn",
    "prepare_run",
    "send",
    "send_again",
    "record",
    "count_attempt",
    "stop_run",
    "succeed_run",
    "commit_run",
    "publish",
    "propose",
    "approve",
    "settle",
)
BROKEN_AT: Final = (
    "before a sync of the log",
    *(f"{moment} {verb}" for verb in WRITES for moment in ("before", "between the statements of")),
)
DONE: Final = (
    Do.PAUSE,
    Do.SKIP,
    Do.RESUME,
    Do.DEPLOY,
    Do.RETRY,
    Do.ABANDON,
    Do.GRANT,
)
OUT: Final = (*OUTLASTING, Outcome.DEAF, Outcome.LATE)
CLOSED_AT: Final = (
    "before the effect",
    "before the effect",
    "after send",
    "before record",
    "after record",
    "before the question",
    "after count_attempt",
    "after take_turn",
    "after prepare_run",
)
GENEROUS_SORE: Final = (
    "before send_allowed",
    "between the statements of send_allowed",
    "after send_allowed",
    "after an answer to allow the next calls",
    "after an answer to amend",
    "between the statements of approve_all",
    "after approve_all",
)
# A call whose end is unknown again and again, until its key is old.
LOST: Final = (
    Outcome.TIMEOUT_AFTER,
    Outcome.TIMEOUT_AFTER,
    Outcome.LATE,
    Outcome.LATE,
    Outcome.TIMEOUT_BEFORE,
    Outcome.AMBIGUOUS_AFTER,
    Outcome.NOT_SENT,
    Outcome.RATE_LIMITED,
)


def from_seed(seed: int) -> Scenario:
    """Make up a scenario; every other one is unkind, in one way or several."""
    scenario = invent(seed)
    return roughen(seed, scenario) if seed % 2 else scenario


def roughen(seed: int, scenario: Scenario) -> Scenario:
    """Add what makes a scenario unkind; each way has dice of its own."""
    for place, add in enumerate(WAYS):
        dice = Dice(seed ^ SALT ^ (place << SHIFT))
        if dice.happens(EACH):
            scenario = add(dice, scenario)
    for place, add in LATER_WAYS.items():
        dice = Dice(seed ^ SALT ^ (place << SHIFT))
        if dice.happens(EACH):
            scenario = add(dice, scenario)
    return scenario


def _outlast(dice: Dice, scenario: Scenario) -> Scenario:
    """Let sends go on after their cancel and their timeout, and the host be closed meanwhile."""
    outcomes = [dice.choose(OUT) for _ in range(1 + dice.randrange(2))]
    scenario = replace(_changing(scenario), outcomes=(*outcomes, *scenario.outcomes))
    if dice.happens(0.6):
        close = PlannedCrash(1, Death.CLOSE, dice.choose(CLOSED_AT))
        scenario = replace(scenario, crashes=(close, *scenario.crashes))
    return scenario


def _set_clocks(dice: Dice, scenario: Scenario) -> Scenario:
    """Set the clock around writes: by hours, days and years."""
    actions = []
    for _ in range(1 + dice.randrange(4)):
        door = f"{dice.choose(('before', 'after'))} {dice.choose(WRITES)}"
        times = 1 + dice.randrange(3)
        actions.append(Action(0, Do.SET_CLOCK, dice.randrange(1 << 16), door, times))
    if dice.happens(0.4):  # while a run waits for its time
        actions.append(Action(0, Do.SET_CLOCK, dice.randrange(1 << 16), "after record"))
        waits = dice.choose((Outcome.NOT_SENT, Outcome.RATE_LIMITED, Outcome.TIMEOUT_BEFORE))
        scenario = replace(_changing(scenario), outcomes=(waits, *scenario.outcomes))
    return replace(scenario, actions=in_order([*scenario.actions, *actions]))


def _forget_keys(dice: Dice, scenario: Scenario) -> Scenario:
    """Let the outcome of a repeatable call stay unknown until its key is forgotten."""
    outcomes = tuple(dice.choose(LOST) for _ in range(1 + dice.randrange(5)))
    tool = dice.choose((Tool.BRIEF, Tool.BRIEF, Tool.ONCE))
    crashes = tuple(replace(each, down_s=dice.choose(DOWN_S)) for each in scenario.crashes)
    return replace(_changing(scenario), tool=tool, outcomes=outcomes, crashes=crashes)


def _fail_disks(dice: Dice, scenario: Scenario) -> Scenario:
    """Let the disk be full or fail at any write, for a while."""
    faults = tuple(
        DiskFault(
            dice.choose(BROKEN_AT),
            1 + dice.randrange(3),
            dice.choose((Operation.WRITE, Operation.WRITE, Operation.SYNC, Operation.TRUNCATE)),
            dice.choose((Kind.FULL, Kind.IOERR)),
            dice.choose((0, 0, 1, 2, 5)),
            dice.choose((0.0, 0.0, 5.0, 40.0, 300.0)),
        )
        for _ in range(1 + dice.randrange(2))
    )
    return replace(scenario, faults=faults)


def _wake(dice: Dice, scenario: Scenario) -> Scenario:
    """Let the consumer ask to be woken, and a run be followed by one that goes on with it."""
    crash = PlannedCrash(
        1 + dice.randrange(2), Death.KILL, dice.choose(("after record", "after send"))
    )
    return replace(scenario, shape=Shape.WAKE, crashes=(crash, *scenario.crashes))


def _doubt(dice: Dice, scenario: Scenario) -> Scenario:
    """Let the outside not know for a long time what became of a call."""
    lost = dice.choose((Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_BEFORE, Outcome.LATE))
    sayings = (Saying.UNSURE,) * (4 + dice.randrange(8))
    scenario = replace(_changing(scenario), tool=Tool.ASKED, sayings=sayings)
    return replace(scenario, outcomes=(lost, *scenario.outcomes))


def _reserve_again(dice: Dice, scenario: Scenario) -> Scenario:
    """Let what was reserved be free again: with other content, or for a script in other order."""
    do = dice.choose((Do.REPLACE, Do.DEPLOY))
    actions = [
        Action(0, do, at=dice.choose(("after prepare_run", "after send", "before the effect")))
    ]
    no = dice.choose((Outcome.NOT_SENT, Outcome.RATE_LIMITED, Outcome.REFUSED))
    return replace(
        scenario,
        shape=Shape.BATCH if do is Do.DEPLOY else _changing(scenario).shape,
        mails=max(2, scenario.mails),
        outcomes=(no, *scenario.outcomes),
        actions=in_order([*scenario.actions, *actions]),
    )


def _cut_after_action(dice: Dice, scenario: Scenario) -> Scenario:
    """Cut the power right after a person was told that an action is done."""
    do = dice.choose(DONE)
    at = dice.choose(("after take_turn", "after prepare_run", "after commit_run", "after publish"))
    action = Action(0, do, dice.randrange(3), at, 1 + dice.randrange(2))
    cut = PlannedCrash(1, Death.POWER, f"after an answer to {do}")
    return replace(
        scenario,
        actions=in_order([*scenario.actions, action]),
        crashes=(cut, *scenario.crashes),
        mails=3,
    )


def _be_strange(dice: Dice, scenario: Scenario) -> Scenario:
    """Let a connector raise what no connector should, or not come back."""
    outcomes = [dice.choose(tuple(STRANGE)) for _ in range(1 + dice.randrange(2))]
    lost = dice.choose((Outcome.TIMEOUT_AFTER, Outcome.LATE))
    sayings = [dice.choose(STRANGE_SAYINGS) for _ in range(dice.randrange(5))]
    return replace(
        _changing(scenario),
        outcomes=(*outcomes, lost, *scenario.outcomes),
        sayings=(*sayings, *scenario.sayings),
    )


def _be_generous(dice: Dice, scenario: Scenario) -> Scenario:
    """Let a person allow the next calls, amend one, agree to all at once, and take it back (A3)."""
    actions = [Action(0, Do.ALLOW, dice.choose((0, 1, 1, 2)), "after propose")]
    if dice.happens(0.5):
        door = dice.choose(("after propose", "after propose", "before approve", "after approve"))
        actions.append(Action(0, Do.AMEND, dice.randrange(9), door, 1 + dice.randrange(2)))
        actions.append(Action(0, Do.APPROVE, at="after amend"))
    if dice.happens(0.4):
        actions.append(Action(0, Do.APPROVE_ALL, at="after propose", times=1 + dice.randrange(3)))
    if dice.happens(0.6):
        do = dice.choose((Do.REVOKE_ALLOWANCE, Do.DEPLOY, Do.DEPLOY))
        door = dice.choose(("after commit_run", "after commit_run", "after take_turn"))
        actions.append(Action(0, do, dice.randrange(2), door, 1 + dice.randrange(2)))
    crashes = scenario.crashes
    if dice.happens(0.4):
        door = dice.choose(GENEROUS_SORE)
        crashes = (PlannedCrash(1, dice.choose((Death.KILL, Death.POWER)), door), *crashes)
    return replace(
        _changing(scenario),
        mails=max(5, scenario.mails),
        approval=Approval.ALWAYS,
        actions=in_order([*scenario.actions, *actions]),
        crashes=crashes,
    )


def _pause_in_doubt(dice: Dice, scenario: Scenario) -> Scenario:
    """Pause while nothing is known of a call that can only be sent again (F7, L7)."""
    lost = (Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_BEFORE, Outcome.LATE)
    outcomes = [dice.choose(lost) for _ in range(1 + dice.randrange(3))]
    actions = [Action(0, Do.PAUSE, at="after record", times=1 + dice.randrange(2))]
    if dice.happens(0.5):
        actions.append(Action(dice.randrange(LENGTH_MS), Do.RESUME))
    return replace(
        _changing(scenario),
        tool=dice.choose((Tool.ONCE, Tool.BRIEF)),
        outcomes=(*outcomes, *scenario.outcomes),
        actions=in_order([*scenario.actions, *actions]),
    )


def _changing(scenario: Scenario) -> Scenario:
    return scenario if scenario.shape in CHANGING else replace(scenario, shape=Shape.FIFO)


WAYS: Final[tuple[Callable[[Dice, Scenario], Scenario], ...]] = (
    _outlast,
    _set_clocks,
    _forget_keys,
    _fail_disks,
    _wake,
    _doubt,
    _reserve_again,
    _cut_after_action,
    _be_strange,
)
# Each has a series of its own, so that older ways run as they did.
LATER_WAYS: Final[Mapping[int, Callable[[Dice, Scenario], Scenario]]] = {
    13: _be_generous,
    14: _pause_in_doubt,
}
