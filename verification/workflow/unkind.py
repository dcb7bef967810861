"""What makes a story unkind: sends that go on, clocks that are set, keys that are forgotten.

Law 1  The world breaks no promise a real one keeps (`outside`); it only stops being polite.
Law 2  What is added to a story is drawn from a series of its own for each way: the story of a seed
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
    Act,
    Death,
    DiskFault,
    PlannedCrash,
    Story,
    Wish,
    in_order,
    invent,
)
from verification.workflow.shape import CHANGING, Shape, Tool

SALT: Final = 0x5EED
SHIFT: Final = 40
EACH: Final = 0.3  # so many of them are unkind in each way
DOWN_S: Final = (0.0, 5.0, 45.0, 600.0, 43_200.0, 100_000.0)
# Around every write of a run somebody sets the clock; a verb of a person's act comes as well.
WRITES: Final = (
    "start_run",
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
    Wish.PAUSE,
    Wish.SKIP,
    Wish.RESUME,
    Wish.DEPLOY,
    Wish.RETRY,
    Wish.ABANDON,
    Wish.GRANT,
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
    "after start_run",
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


def from_seed(seed: int) -> Story:
    """Make up a story; every other one is unkind, in one way or several."""
    story = invent(seed)
    return roughen(seed, story) if seed % 2 else story


def roughen(seed: int, story: Story) -> Story:
    """Add what makes a story unkind; each way has dice of its own."""
    for place, add in enumerate(WAYS):
        dice = Dice(seed ^ SALT ^ (place << SHIFT))
        if dice.happens(EACH):
            story = add(dice, story)
    for place, add in LATER_WAYS.items():
        dice = Dice(seed ^ SALT ^ (place << SHIFT))
        if dice.happens(EACH):
            story = add(dice, story)
    return story


def _outlast(dice: Dice, story: Story) -> Story:
    """Let sends go on after their cancel and their timeout, and the host be closed meanwhile."""
    outcomes = [dice.choose(OUT) for _ in range(1 + dice.randrange(2))]
    story = replace(_changing(story), outcomes=(*outcomes, *story.outcomes))
    if dice.happens(0.6):
        close = PlannedCrash(1, Death.CLOSE, dice.choose(CLOSED_AT))
        story = replace(story, crashes=(close, *story.crashes))
    return story


def _set_clocks(dice: Dice, story: Story) -> Story:
    """Set the clock around writes: by hours, days and years."""
    acts = []
    for _ in range(1 + dice.randrange(4)):
        door = f"{dice.choose(('before', 'after'))} {dice.choose(WRITES)}"
        times = 1 + dice.randrange(3)
        acts.append(Act(0, Wish.SET_CLOCK, dice.randrange(1 << 16), door, times))
    if dice.happens(0.4):  # while a run waits for its time
        acts.append(Act(0, Wish.SET_CLOCK, dice.randrange(1 << 16), "after record"))
        waits = dice.choose((Outcome.NOT_SENT, Outcome.RATE_LIMITED, Outcome.TIMEOUT_BEFORE))
        story = replace(_changing(story), outcomes=(waits, *story.outcomes))
    return replace(story, acts=in_order([*story.acts, *acts]))


def _forget_keys(dice: Dice, story: Story) -> Story:
    """Let the outcome of a repeatable call stay unknown until its key is forgotten."""
    outcomes = tuple(dice.choose(LOST) for _ in range(1 + dice.randrange(5)))
    tool = dice.choose((Tool.BRIEF, Tool.BRIEF, Tool.ONCE))
    crashes = tuple(replace(each, down_s=dice.choose(DOWN_S)) for each in story.crashes)
    return replace(_changing(story), tool=tool, outcomes=outcomes, crashes=crashes)


def _fail_disks(dice: Dice, story: Story) -> Story:
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
    return replace(story, faults=faults)


def _wake(dice: Dice, story: Story) -> Story:
    """Let the consumer ask to be woken, and a run be followed by one that goes on with it."""
    crash = PlannedCrash(
        1 + dice.randrange(2), Death.KILL, dice.choose(("after record", "after send"))
    )
    return replace(story, shape=Shape.WAKE, crashes=(crash, *story.crashes))


def _doubt(dice: Dice, story: Story) -> Story:
    """Let the outside not know for a long time what became of a call."""
    lost = dice.choose((Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_BEFORE, Outcome.LATE))
    sayings = (Saying.UNSURE,) * (4 + dice.randrange(8))
    story = replace(_changing(story), tool=Tool.ASKED, sayings=sayings)
    return replace(story, outcomes=(lost, *story.outcomes))


def _reserve_again(dice: Dice, story: Story) -> Story:
    """Let what was reserved be free again: with other content, or for a script in other order."""
    wish = dice.choose((Wish.REPLACE, Wish.DEPLOY))
    acts = [Act(0, wish, at=dice.choose(("after prepare_run", "after send", "before the effect")))]
    no = dice.choose((Outcome.NOT_SENT, Outcome.RATE_LIMITED, Outcome.REFUSED))
    return replace(
        story,
        shape=Shape.BATCH if wish is Wish.DEPLOY else _changing(story).shape,
        mails=max(2, story.mails),
        outcomes=(no, *story.outcomes),
        acts=in_order([*story.acts, *acts]),
    )


def _cut_after_act(dice: Dice, story: Story) -> Story:
    """Cut the power right after a person was told that an act is done."""
    wish = dice.choose(DONE)
    at = dice.choose(("after start_run", "after prepare_run", "after commit_run", "after publish"))
    act = Act(0, wish, dice.randrange(3), at, 1 + dice.randrange(2))
    cut = PlannedCrash(1, Death.POWER, f"after an answer to {wish}")
    return replace(story, acts=in_order([*story.acts, act]), crashes=(cut, *story.crashes), mails=3)


def _be_strange(dice: Dice, story: Story) -> Story:
    """Let a connector raise what no connector should, or not come back."""
    outcomes = [dice.choose(tuple(STRANGE)) for _ in range(1 + dice.randrange(2))]
    lost = dice.choose((Outcome.TIMEOUT_AFTER, Outcome.LATE))
    sayings = [dice.choose(STRANGE_SAYINGS) for _ in range(dice.randrange(5))]
    return replace(
        _changing(story),
        outcomes=(*outcomes, lost, *story.outcomes),
        sayings=(*sayings, *story.sayings),
    )


def _be_generous(dice: Dice, story: Story) -> Story:
    """Let a person allow the next calls, amend one, agree to all at once, and take it back (A3)."""
    acts = [Act(0, Wish.ALLOW, dice.choose((0, 1, 1, 2)), "after propose")]
    if dice.happens(0.5):
        door = dice.choose(("after propose", "after propose", "before approve", "after approve"))
        acts.append(Act(0, Wish.AMEND, dice.randrange(9), door, 1 + dice.randrange(2)))
        acts.append(Act(0, Wish.APPROVE, at="after amend"))
    if dice.happens(0.4):
        acts.append(Act(0, Wish.APPROVE_ALL, at="after propose", times=1 + dice.randrange(3)))
    if dice.happens(0.6):
        wish = dice.choose((Wish.REVOKE_ALLOWANCE, Wish.DEPLOY, Wish.DEPLOY))
        door = dice.choose(("after commit_run", "after commit_run", "after start_run"))
        acts.append(Act(0, wish, dice.randrange(2), door, 1 + dice.randrange(2)))
    crashes = story.crashes
    if dice.happens(0.4):
        door = dice.choose(GENEROUS_SORE)
        crashes = (PlannedCrash(1, dice.choose((Death.KILL, Death.POWER)), door), *crashes)
    return replace(
        _changing(story),
        mails=max(5, story.mails),
        approval=Approval.ALWAYS,
        acts=in_order([*story.acts, *acts]),
        crashes=crashes,
    )


def _pause_in_doubt(dice: Dice, story: Story) -> Story:
    """Pause while nothing is known of a call that can only be sent again (F7, L7)."""
    lost = (Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_BEFORE, Outcome.LATE)
    outcomes = [dice.choose(lost) for _ in range(1 + dice.randrange(3))]
    acts = [Act(0, Wish.PAUSE, at="after record", times=1 + dice.randrange(2))]
    if dice.happens(0.5):
        acts.append(Act(dice.randrange(LENGTH_MS), Wish.RESUME))
    return replace(
        _changing(story),
        tool=dice.choose((Tool.ONCE, Tool.BRIEF)),
        outcomes=(*outcomes, *story.outcomes),
        acts=in_order([*story.acts, *acts]),
    )


def _changing(story: Story) -> Story:
    return story if story.shape in CHANGING else replace(story, shape=Shape.FIFO)


WAYS: Final[tuple[Callable[[Dice, Story], Story], ...]] = (
    _outlast,
    _set_clocks,
    _forget_keys,
    _fail_disks,
    _wake,
    _doubt,
    _reserve_again,
    _cut_after_act,
    _be_strange,
)
# Each has a series of its own, so that older ways play as they did.
LATER_WAYS: Final[Mapping[int, Callable[[Dice, Story], Story]]] = {
    13: _be_generous,
    14: _pause_in_doubt,
}
