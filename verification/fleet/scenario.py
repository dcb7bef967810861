"""A scenario of a fleet: what befalls which host and the way to the store, written down beforehand.

Law: the same scenario always runs the same way. A mishap comes at a place, and hits the host that
comes by there; or at a time, and hits the host it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from duly.rules.permission import Approval
from duly.testing.dice import Dice
from verification.workflow.outside import Outcome, Saying
from verification.workflow.scenario import OUTCOMES, SAYINGS, Action, Do, Scenario, in_order
from verification.workflow.shape import CHANGING, Shape, Tool

LENGTH_MS: Final = 60_000
HOSTS_MAX: Final = 3
STEP: Final = "before a step"


class What(StrEnum):
    """What befalls a host, or its way to the store."""

    KILL = "is killed"  # another process starts after a while
    STOP = "is stopped"  # and goes on after a while
    CLOSE = "is closed in order"
    SETTLE = "is closed and starts with the connector it lacked, or without it"
    CUT = "is cut off from the store"
    REFUSE = "gets no connection but that of its lease"
    LOSE = "does not hear that its transaction was committed"
    LATE = "waits in vain, and its transaction is committed later"
    LOSE_ASKED = "does not hear of a commit, and asks what became of it"
    LATE_ASKED = "waits in vain, and asks before its transaction arrives"
    CLOCK = "has its clock set"
    STORE_CLOCK = "sees the clock of the store step"  # all hosts do, here and below
    RESTART = "sees the server restart without its last riders"
    PROMOTE = "sees a standby promoted that lacks the last commits"
    ROLL_BACK = "sees the server come back as it was before the last commits"  # on one timeline
    BEHIND = "hears of a commit when a standby was promoted that lacks it"


ASKED: Final = (What.LOSE_ASKED, What.LATE_ASKED)
TRANSACTIONS: Final = (What.LOSE, What.LATE, What.BEHIND, *ASKED)
OF_SERVER: Final = (
    What.RESTART,
    What.PROMOTE,
    What.ROLL_BACK,
    What.BEHIND,
)  # `lasts_s` says how many commits are lost


@dataclass(frozen=True, slots=True)
class Mishap:
    """Something that befalls the host that comes by a place for the so many-th time, or a host.

    Without a place it comes at a time, and `times` is the number of the host. At `STEP` it comes
    before the so many-th step of the process of host 0.
    """

    what: What
    lasts_s: float = 0.0
    at: str = ""
    times: int = 1
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class FleetScenario:
    """One schedule of a fleet."""

    hosts: int = 2
    shape: Shape = Shape.FIFO
    tool: Tool = Tool.ASKED
    mails: int = 1
    mishaps: tuple[Mishap, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    sayings: tuple[Saying, ...] = ()
    actions: tuple[Action, ...] = ()
    ahead_s: tuple[int, ...] = ()  # by host: how far its clock is ahead of the right time
    without: tuple[int, ...] = ()  # the hosts that begin without the tool of the workflow
    approval: Approval = Approval.NEVER
    dice: int = 0
    has_long_keys: bool = False  # the sheet knows a key for longer than the margin of a day (L7)

    @property
    def lasts_days(self) -> bool:
        """Whether hosts are gone for days in it."""
        return any(each.what is What.KILL and each.lasts_s >= DAY_S for each in self.mishaps)

    @property
    def plain(self) -> Scenario:
        """As much of it as the people of a scenario need to know."""
        return Scenario(
            shape=self.shape,
            tool=self.tool,
            mails=self.mails,
            actions=self.actions,
            approval=self.approval,
            dice=self.dice,
        )


# Where a mishap can do most harm: around everything that is written before and after a send.
SORE: Final = (
    *("before the effect",) * 5,
    *("after the first byte",) * 3,
    *("after send",) * 3,
    *("before send", "before record", "after record", "before the question", "after the question"),
    *("before claim", "after claim", "after claim", "before take_turn", "after take_turn"),
    *("after prepare_run", "before commit_run", "after commit_run", "after take_up"),
    *("before renew", "after renew", "before evict", "after evict", "after join"),
    *("after succeed_run", "after publish"),
)
STOPPED: Final = ("before prepare_run", "before send", "before take_up", "after take_turn")
RECORDED: Final = ("after record", "after move_run", "after take_up", "after commit_run")
BARRIERS: Final = ("publish", "claim", "send")
LATE_WRITES: Final = ("claim", "publish", "take_turn")  # a second one would be committed, too
WRITES: Final = (
    *("send", "send", "record", "claim", "commit_run", "take_turn", "prepare_run"),
    *("renew", "join", "evict", "succeed_run", "take_up", "publish", "move_run"),
)
ASKED_SORE: Final = (
    "after propose",
    "after approve",
    "before send_approved",
    "after send_approved",
)
LASTS_S: Final[dict[What, tuple[float, ...]]] = {
    What.KILL: (0.0, 1.0, 4.0, 30.0),
    What.STOP: (1.0, 6.0, 9.0, 9.9, 11.0, 14.0, 16.0, 21.0, 26.0, 29.0, 45.0, 60.0),
    What.CLOSE: (0.0, 3.0, 30.0),
    What.SETTLE: (0.0, 3.0, 30.0),
    What.CUT: (2.0, 8.0, 13.0, 17.0, 40.0),
    What.LOSE: (0.0,),
    What.LATE: (1.0, 4.0, 12.0, 20.0, 40.0),
    What.LOSE_ASKED: (0.0,),
    What.LATE_ASKED: (1.0, 4.0, 12.0, 40.0),
    What.RESTART: (0.0, 1.0, 2.0, 4.0, 40.0),
    What.PROMOTE: (0.0, 0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0),
    What.ROLL_BACK: (2.0, 8.0, 40.0),
    What.BEHIND: (1.0, 2.0, 3.0),
    What.CLOCK: (-300.0, -40.0, -7.0, 3.0, 25.0, 120.0),
    What.STORE_CLOCK: (2.0, 16.0, 60.0),
}
KINDS: Final = (
    *(What.STOP,) * 6,
    *(What.KILL,) * 3,
    *(What.CUT,) * 2,
    *(What.LOSE,) * 2,
    *(What.LATE,) * 3,
    *(What.CLOSE,) * 2,
    *(What.CLOCK, What.STORE_CLOCK),
    *ASKED,
    *(What.RESTART, What.RESTART, What.PROMOTE, What.PROMOTE),
)
DAY_S: Final = 86_400
AHEAD_S: Final = (0, 0, 2, -3, 20, -45, 170, -300)
DAYS_AHEAD: Final = (-30, -3, -2, -2, 0, 0, 0, 2, 9)
ACTIONS: Final = (
    *(Do.PUBLISH,) * 5,
    *(Do.PAUSE, Do.RESUME, Do.RESUME, Do.RETRY, Do.ABANDON, Do.SKIP, Do.ANSWER, Do.ANSWER),
    *(Do.REPLACE, Do.REPUBLISH, Do.RUN_NOW, Do.TRY_AGAIN, Do.DEPLOY),
)
DOORS: Final = (
    *("after take_turn", "after prepare_run", "before send", "after send", "before the effect"),
    *("after record", "after commit_run", "after claim", "after evict", "before the question"),
)


UNLIKE: Final = (
    1 << 40
)  # hosts that differ have dice of their own: other scenarios stay as they are


UNABLE: Final = 2 << 40  # so have hosts that cannot write


def from_seed(seed: int) -> FleetScenario:
    """Make up a scenario of a fleet."""
    dice, scenario = Dice(UNABLE + seed), _plain_from_seed(seed)
    if dice.happens(0.03):
        return _unable(dice, scenario)
    dice = Dice(UNLIKE + seed)
    return _unlike(dice, scenario) if dice.happens(0.15) else scenario


def _plain_from_seed(seed: int) -> FleetScenario:
    dice = Dice(seed)
    hosts = dice.choose((2, 2, HOSTS_MAX))
    scenario = FleetScenario(
        hosts=hosts,
        shape=dice.choose((Shape.FIFO, Shape.FIFO, Shape.BATCH, Shape.PRODUCE, Shape.QUIET)),
        tool=dice.choose((Tool.ASKED, Tool.ASKED, Tool.BLIND, Tool.ONCE)),
        mails=dice.choose((1, 2, 3)),
        mishaps=tuple(_mishap(dice, hosts) for _ in range(dice.choose((1, 2, 2, 3, 3, 4, 6)))),
        outcomes=tuple(dice.choose(OUTCOMES) for _ in range(dice.randrange(6))),
        sayings=tuple(dice.choose(SAYINGS) for _ in range(dice.randrange(5))),
        actions=in_order([_action(dice) for _ in range(dice.randrange(6))]),
        ahead_s=tuple(dice.choose(AHEAD_S) for _ in range(hosts)),
        dice=1 + dice.randrange(1 << 31),
    )
    scenario = _asked(dice, scenario) if dice.happens(0.3) else scenario
    if dice.happens(0.3):
        return _forgetful(dice, scenario)
    if dice.happens(0.2):
        return _stalled(dice, scenario)
    if dice.happens(0.08):
        return _pressed(scenario)
    if dice.happens(0.1):
        return _apart(dice, scenario)
    if dice.happens(0.06):
        return _again(dice, scenario)
    return _unheld(dice, scenario) if dice.happens(0.04) else scenario


def _apart(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let the clocks of the hosts be days apart, in any scenario or in one that lasts for days.

    In the latter a host dies on a call that had an effect, and so do the others. All are gone for
    longer than the sheet knows a key; the first to come back is another host, with another clock.
    """
    ahead_s = tuple(DAY_S * dice.choose(DAYS_AHEAD) + each for each in scenario.ahead_s)
    if dice.happens(0.3):
        return replace(scenario, ahead_s=ahead_s)
    gone_s = dice.choose((2.1, 2.3, 2.6)) * DAY_S
    deaths = [Mishap(What.KILL, gone_s, "", each, 3_000) for each in range(scenario.hosts)]
    return replace(
        scenario,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        tool=Tool.ONCE,
        mishaps=(Mishap(What.KILL, gone_s + 60, "after the first byte"), *deaths),
        outcomes=(dice.choose((Outcome.TIMEOUT_AFTER, Outcome.AMBIGUOUS_AFTER)),),
        ahead_s=ahead_s,
        has_long_keys=True,
    )


def _again(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let a call be sent again after its end was written down, and its host stop on that send.

    It lands as late as it may, while a person tells another host that it did not happen: the end of
    the earlier send says nothing of it. The sheet forgets the key soon after that: what is sent
    under it then is another change.
    """
    first_ms = 45_000 + dice.randrange(5_000)
    answers = [Action(at_ms, Do.ANSWER) for at_ms in range(first_ms, 66_000, 400)]
    return replace(
        scenario,
        tool=Tool.BRIEF,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=(Mishap(What.STOP, 60.0, "after the first byte", 3),),
        outcomes=(*(Outcome.AMBIGUOUS_BEFORE,) * 2, Outcome.LATE, Outcome.RATE_LIMITED),
        sayings=(),
        actions=tuple(answers),
        approval=Approval.NEVER,
    )


def _unable(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let a disk be brought back when a host has sent that renews and writes no more from then on.

    Only it knows of the send, and the others find the workflow free.
    """
    sent = dice.choose(("after send", "after the first byte"))
    return replace(
        scenario,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=(
            Mishap(What.REFUSE, dice.choose((4.0, 120.0, 120.0, 120.0)), sent),
            Mishap(What.ROLL_BACK, dice.choose((4.0, 5.0, 6.0, 7.0, 8.0)), sent),
        ),
        mails=1,
        actions=(),
        approval=Approval.NEVER,
    )


def _unheld(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let the server forget a send whose host dies on it: no host compares what that one knew."""
    forgotten = Mishap(What.PROMOTE, dice.choose((5.0, 8.0, 13.0)), "after the first byte")
    return replace(
        scenario,
        tool=Tool.BLIND,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=(forgotten, Mishap(What.KILL, 60.0, "after the first byte")),
        actions=(),
        approval=Approval.NEVER,
    )


def _pressed(scenario: FleetScenario) -> FleetScenario:
    """Let a person say what became of a call, again and again, around its last moment to land."""
    answers = [Action(at_ms, Do.ANSWER) for at_ms in range(49_000, 57_000, 150)]
    return replace(
        scenario,
        tool=Tool.BLIND,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=(),
        outcomes=(Outcome.LATE,),
        actions=in_order([*scenario.actions, *answers]),
        approval=Approval.NEVER,
    )


def _unlike(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let hosts differ in their connectors, and some of them get others while they work."""
    without = tuple(each for each in range(scenario.hosts) if dice.happens(0.5))
    mishaps = list(scenario.mishaps)
    for _ in range(dice.choose((0, 1, 1, 2))):
        lasts_s = dice.choose(LASTS_S[What.SETTLE])
        mishaps.append(Mishap(What.SETTLE, lasts_s, dice.choose(SORE), 1 + dice.randrange(2)))
    return replace(scenario, mishaps=tuple(mishaps), without=without)


def _stalled(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let a host be stopped right before its first byte, die on it, and the request land late.

    Or let it be closed while a call is out that never returns, or be stopped until little of its
    lease is left, right before it looks whether it may send. Or let all hosts die after a call that
    only a person can answer for. Or let the clock of the store step over
    all leases while one host is stopped.
    """
    if dice.happens(0.15):
        at_ms = dice.randrange(30_000)
        deaths = (Mishap(What.KILL, 4.0, "", host, at_ms) for host in range(scenario.hosts))
        return replace(
            scenario,
            tool=Tool.BLIND,
            shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
            mishaps=tuple(deaths),
            outcomes=(Outcome.AMBIGUOUS_BEFORE,),
        )
    if dice.happens(0.1):
        at_ms = 5_000 + dice.randrange(15_000)
        step = Mishap(What.STORE_CLOCK, 60.0, "", 0, at_ms)
        return replace(scenario, mishaps=(step, Mishap(What.STOP, 14.0, "", 1, at_ms)))
    if dice.happens(0.2):
        stop = Mishap(What.STOP, dice.choose((6.0, 9.0, 11.0)), "after send")
        shape = scenario.shape if scenario.shape in CHANGING else Shape.FIFO
        return replace(scenario, shape=shape, mishaps=(stop,), actions=())
    if dice.happens(0.3):
        closing = Mishap(What.CLOSE, 3.0, "after the first byte")
        shape = scenario.shape if scenario.shape in CHANGING else Shape.FIFO
        silent = (Outcome.TIMEOUT_AFTER,)
        return replace(scenario, shape=shape, mishaps=(closing,), outcomes=silent)
    stop = Mishap(What.STOP, dice.choose((16.0, 21.0, 26.0, 29.0, 29.9)), "before the effect")
    death = Mishap(What.KILL, dice.choose((1.0, 30.0)), "after the first byte")
    return replace(
        scenario,
        tool=Tool.ASKED,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=(stop, death, *scenario.mishaps),
        outcomes=(Outcome.LATE, *scenario.outcomes),
        sayings=(),
    )


def _forgetful(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let the server lose something right where a call is written, sent or recorded.

    The host that was told lives on, dies with it, or had just taken over from one that comes back.
    Or a disk is brought back as it was before a host came, which lives on.
    Or it asks about a write that is still on its way.
    """
    promoted = Mishap(What.PROMOTE, dice.choose((1.0, 2.0, 3.0, 5.0, 8.0)))
    restarted = Mishap(What.RESTART, dice.choose((1.0, 2.0, 40.0)))
    death = Mishap(What.KILL, 60.0)
    sent, recorded = dice.choose(("after send", "after the first byte")), dice.choose(RECORDED)
    stopped = Mishap(What.STOP, dice.choose((21.0, 26.0)), dice.choose(STOPPED))
    longer = replace(promoted, lasts_s=dice.choose((8.0, 13.0, 21.0)), at="after the first byte")
    mishaps = dice.choose(
        (
            (replace(promoted, at=sent),),
            (replace(promoted, at=sent), replace(death, at=sent)),
            (replace(restarted, at=recorded, times=1 + dice.randrange(2)),),
            (stopped, longer, replace(death, at="after the first byte")),
            (Mishap(What.ROLL_BACK, dice.choose(LASTS_S[What.ROLL_BACK]), sent),),
            (Mishap(What.LATE_ASKED, 4.0, f"before {dice.choose(LATE_WRITES)}"),),
            (Mishap(What.BEHIND, 1.0, f"before {dice.choose(BARRIERS)}"),),
            (replace(restarted, at="after note", times=1 + dice.randrange(4)),),
        )
    )
    return replace(
        scenario,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=mishaps,
        actions=(),
    )


def _mishap(dice: Dice, hosts: int) -> Mishap:
    what = dice.choose(KINDS)
    lasts_s = dice.choose(LASTS_S[what])
    if what in TRANSACTIONS:
        return Mishap(what, lasts_s, f"before {dice.choose(WRITES)}", 1 + dice.randrange(3))
    if dice.happens(0.2):
        return Mishap(what, lasts_s, "", dice.randrange(hosts), dice.randrange(LENGTH_MS))
    return Mishap(what, lasts_s, dice.choose(SORE), 1 + dice.randrange(3))


def _action(dice: Dice) -> Action:
    do, which = dice.choose(ACTIONS), dice.randrange(4)
    if do is not Do.PUBLISH and dice.happens(0.5):
        return Action(0, do, which, dice.choose(DOORS), 1 + dice.randrange(3))
    return Action(dice.randrange(dice.choose((3_000, 30_000, LENGTH_MS))), do, which)


def _asked(dice: Dice, scenario: FleetScenario) -> FleetScenario:
    """Let a person be asked before every change."""
    answers = [
        Action(0, dice.choose((Do.APPROVE, Do.APPROVE, Do.REJECT)), 0, "after propose", times)
        for times in range(1, 4)
        if dice.happens(0.7)
    ]
    mishaps = [
        replace(each, at=dice.choose(ASKED_SORE), times=1)
        if each.at and each.what not in TRANSACTIONS and dice.happens(0.4)
        else each
        for each in scenario.mishaps
    ]
    return replace(
        scenario,
        shape=scenario.shape if scenario.shape in CHANGING else Shape.FIFO,
        mishaps=tuple(mishaps),
        actions=in_order([*scenario.actions, *answers]),
        approval=Approval.ALWAYS,
    )


LISTS: Final = ("mishaps", "actions", "outcomes", "sayings", "without", "ahead_s")


def simpler(scenario: FleetScenario) -> Iterator[FleetScenario]:
    """Return every scenario that is one step simpler, the largest steps first."""
    if scenario.approval is not Approval.NEVER:
        yield replace(scenario, approval=Approval.NEVER)
    for name in LISTS:
        if getattr(scenario, name):
            yield _with(scenario, name, ())
    if scenario.hosts > 2:
        yield replace(scenario, hosts=2)
    if scenario.mails > 1:
        yield replace(scenario, mails=1)
    if scenario.dice:
        yield replace(scenario, dice=0)
    for name in LISTS[:-1]:
        items = getattr(scenario, name)
        for place in range(len(items)):
            yield _with(scenario, name, items[:place] + items[place + 1 :])
    for place, outcome in enumerate(scenario.outcomes):
        if outcome is not Outcome.OK:
            kept = scenario.outcomes
            yield _with(scenario, "outcomes", (*kept[:place], Outcome.OK, *kept[place + 1 :]))


def _with(scenario: FleetScenario, name: str, items: tuple[Any, ...]) -> FleetScenario:
    changes: dict[str, Any] = {name: items}
    return replace(scenario, **changes)
