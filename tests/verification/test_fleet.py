"""Several hosts on one store: random scenarios, those that once went wrong, and planted bugs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from duly.rules.permission import Approval
from tests.breaks import number_of_commit, tenth_of_commit
from verification import __main__ as command
from verification.fleet.outside import LONG_TIMEOUT_S
from verification.fleet.paused import PAUSES_S, situations, unfold
from verification.fleet.planted import BUGS, find
from verification.fleet.process import FleetLoop, Process
from verification.fleet.run import run
from verification.fleet.scenario import (
    DAY_S,
    STEP,
    FleetScenario,
    Mishap,
    What,
    from_seed,
    simpler,
)
from verification.survey import run_seeds
from verification.workflow.outside import Outcome
from verification.workflow.planted import RANGES, planted, seeds_of
from verification.workflow.scenario import Action, Do
from verification.workflow.shape import Shape, Tool

SEEDS = 10
EVENTFUL = (21, 26, 40, *range(9_000, 9_005), 9_011, 9_019, 9_026, 9_047)
FIRST = tenth_of_commit() * SEEDS
NAMES = {bug.name: bug for bug in BUGS}
# Where `python -m verification --fleet --planted --json` found each of them first, by range. The
# seed is tried before the others; it decides nothing.
FOUND: dict[str, list[int]] = json.loads(Path(__file__).with_name("found_fleet.json").read_bytes())
# A commit looks for a fifth of them, in one of the three ranges; the command looks for all.
CHOSEN = sorted(FOUND)[number_of_commit() % 5 :: 5]
RANGE = number_of_commit() // 5 % 3

BOTH_DIE = (
    Mishap(What.KILL, 4.0, times=0, at_ms=50_000),
    Mishap(What.KILL, 4.0, times=1, at_ms=50_000),
)
BACK_AND_DEAD = FleetScenario(
    tool=Tool.ONCE,
    mishaps=(
        Mishap(What.KILL, 2.1 * DAY_S, "after take_turn"),
        Mishap(What.KILL, 2.1 * DAY_S, times=1, at_ms=200),
        Mishap(What.KILL, 2.3 * DAY_S, "after the first byte"),
    ),
    outcomes=(Outcome.TIMEOUT_AFTER,),
    has_long_keys=True,
)
REGRESSIONS = {
    "another host claimed what was free again before its sender had compared": FleetScenario(
        shape=Shape.PRODUCE,
        tool=Tool.ASKED,
        mails=2,
        mishaps=(Mishap(What.ROLL_BACK, 8.0, "after send"),),
        dice=1_920_867_117,
    ),
    "a host that had waited for its send could not leave, and its wait was counted": FleetScenario(
        shape=Shape.BATCH,
        tool=Tool.ASKED,
        mishaps=(
            Mishap(What.CUT, 8.0, "after succeed_run"),
            Mishap(What.SETTLE, 0.0, "before the effect"),
        ),
        outcomes=(Outcome.LATE,),
    ),
    "a closing host lapsed, came back, and wrote under its former claim": FleetScenario(
        shape=Shape.BATCH,
        tool=Tool.BLIND,
        mails=2,
        mishaps=(
            Mishap(What.STOP, 14.0, "after claim", 2),
            Mishap(What.CLOSE, 30.0, "after prepare_run"),
        ),
        dice=1_645_966_885,
    ),
    "a connection whose entry was lost was used on, and its host wrote nothing": FleetScenario(
        shape=Shape.BATCH,
        mails=2,
        mishaps=(Mishap(What.LATE_ASKED, 4.0, "before claim"),),
        dice=82_028_497,
    ),
    "no host held the workflow, so a person's answer was too early for ever": FleetScenario(
        tool=Tool.BLIND, outcomes=(Outcome.AMBIGUOUS_BEFORE,), mishaps=BOTH_DIE
    ),
    "an old server confirmed what the host had compared, and no host noticed": FleetScenario(
        tool=Tool.ONCE,
        mishaps=(Mishap(What.PROMOTE, 2.0, "after publish"),),
        dice=555_623_747,
    ),
    "a host heard of its event when it was lost, and the oracle had looked before": FleetScenario(
        mishaps=(Mishap(What.PROMOTE, 21.0, "", 1, 2_309),), dice=1_188_439_715
    ),
    "the entry of a slot came late, and overtook a newer one": FleetScenario(
        shape=Shape.QUIET,
        mishaps=(Mishap(What.LATE, 4.0, "before renew", 2),),
        dice=1_112_793_698,
    ),
    "a cancelled write was not counted, so the next one seemed to be committed": FleetScenario(
        tool=Tool.BLIND,
        mishaps=(
            Mishap(What.LATE_ASKED, 40.0, "before claim", 3),
            Mishap(What.CLOSE, 3.0, "after propose"),
        ),
        approval=Approval.ALWAYS,
        dice=1_024_758_596,
    ),
    "a person had more to answer for than the patience of the scenario allowed": FleetScenario(
        shape=Shape.PRODUCE,
        mails=3,
        mishaps=(Mishap(What.PROMOTE, 8.0, "", 0, 57_800),),
        outcomes=(Outcome.RATE_LIMITED, Outcome.REFUSED, Outcome.TIMEOUT_BEFORE),
        actions=(Action(861, Do.PUBLISH, 2), Action(16_672, Do.PUBLISH, 2)),
        approval=Approval.ALWAYS,
    ),
    "a host went on between two looks of the oracle, renewed, and was stopped again": FleetScenario(
        mails=2,
        mishaps=(
            Mishap(What.CUT, 8.0, "before send", 2),
            Mishap(What.STOP, 45.0, "after send", 2),
            Mishap(What.STOP, 14.0, "before send", 3),
        ),
        dice=388_955_701,
    ),
    "a new process was cut off like the one before it, and counted as well": FleetScenario(
        shape=Shape.BATCH,
        mishaps=(
            Mishap(What.STOP, 16.0, "before the effect", 1),
            Mishap(What.STOP, 21.0, "before the effect", 2),
            Mishap(What.CUT, 40.0, "before the effect", 2),
            Mishap(What.STOP, 60.0, "", 0, 24_857),
        ),
        actions=(Action(523, Do.PUBLISH, 1),),
        dice=2_141_876_310,
    ),
    "a write whose host had lapsed was sent again under its next id": FleetScenario(
        shape=Shape.PRODUCE,
        tool=Tool.ONCE,
        mails=3,
        mishaps=(
            Mishap(What.STORE_CLOCK, 60.0, "after the first byte", 2),
            Mishap(What.LATE_ASKED, 4.0, "before record", 2),
        ),
        dice=434596571,
    ),
    "nothing was lost in a restart, and the oracle had forgotten what was sent": FleetScenario(
        shape=Shape.BATCH,
        tool=Tool.ONCE,
        mishaps=(Mishap(What.RESTART, 2.0, "after send"),),
        actions=(Action(0, Do.PAUSE, at="after send"),),
    ),
}


def test_no_random_scenario_of_a_fleet_doubles_or_loses_anything() -> None:
    """H2, L6, S1: hosts are stopped, killed, cut off and misled; each change is made once."""
    tally = run_seeds(range(FIRST, FIRST + SEEDS), "fleet")
    assert tally.failures == []
    assert tally.schedules == SEEDS


def test_random_scenarios_of_a_fleet_are_eventful() -> None:
    """Hosts come, go, are evicted and take over from each other."""
    endings = [run(from_seed(seed)) for seed in EVENTFUL]
    verbs = ("join", "renew", "claim", "evict", "leave")
    for verb in verbs:
        assert sum(each.points[f"after {verb}"] for each in endings) >= len(endings) // 4, verb
    told = "\n".join(line for each in endings for line in each.trace)
    for what in set(What) - {What.CLOCK, What.STORE_CLOCK}:
        assert what.value in told


def test_no_host_is_up_for_days_while_another_one_is_gone() -> None:
    """A host that dies after the days in which all were gone is back soon: time is not wasted."""
    ending = run(BACK_AND_DEAD)
    assert ending.problems == ()
    assert sum("starts again" in line for line in ending.trace) == BACK_AND_DEAD.hosts + 1
    assert ending.points.total() < 5_000


@pytest.mark.parametrize("lesson", REGRESSIONS)
def test_scenario_of_a_fleet_that_once_went_wrong_is_fine(lesson: str) -> None:
    """What was found once stays found."""
    assert run(REGRESSIONS[lesson]).problems == ()


@pytest.mark.parametrize("name", CHOSEN)
def test_planted_bug_of_a_fleet_is_found(name: str) -> None:
    """H2, L6: within 600 schedules of one range; a command looks through all three."""
    assert find(NAMES[name], (FOUND[name][RANGE], *seeds_of(RANGES[RANGE]))) is not None


def test_there_are_enough_bugs_of_a_fleet() -> None:
    """At least twenty, in the store, the rules and the engine."""
    assert len(NAMES) == len(BUGS) >= 20
    assert FOUND.keys() == NAMES.keys()
    for seeds in FOUND.values():
        assert all(seed in seeds_of(start) for seed, start in zip(seeds, RANGES, strict=True))
    assert all(bug.says.endswith(".") for bug in BUGS)


def test_scenario_of_a_fleet_is_run_the_same_way_twice() -> None:
    """The second run of a seed has the trace of the first, whichever ran between."""
    first = [run(from_seed(seed)).hash for seed in range(4)]
    again = [run(from_seed(seed)).hash for seed in reversed(range(4))]
    assert first == again[::-1]
    assert len(set(first)) == len(first)


# -- One host, and what its pause may do ---------------------------------------------------

# Longer than a lease, and with the time of the tool (30 s): the host sends when it goes on.
# Longer than both: it sends nothing.
STOPS_S = (5.0, 16.0, 29.0, 31.0, 90.0)


@pytest.mark.parametrize("stopped_s", STOPS_S)
@pytest.mark.parametrize("at", ["before the effect", "after send", "after the first byte"])
def test_a_stop_around_the_first_byte_makes_no_second_change(at: str, stopped_s: float) -> None:
    """H2, L6: also where the request lands as late as it can, and the host dies on it."""
    stop = Mishap(What.STOP, stopped_s, at)
    death = Mishap(What.KILL, 30.0, "after the first byte")
    for mishaps in ((stop,), (stop, death)):
        scenario = FleetScenario(outcomes=(Outcome.LATE,), mishaps=mishaps)
        assert run(scenario).problems == ()


def test_a_host_that_was_stopped_past_the_time_of_its_tool_sends_nothing() -> None:
    """H2, L7: its first byte would be too late, and another host has taken over."""
    stop = Mishap(What.STOP, 31.0, "before the effect")
    ending = run(FleetScenario(mishaps=(stop,)))
    assert ending.problems == ()
    calls = [line for line in ending.trace if " call 1 of " in line]
    rows = [line for line in ending.trace if "a row appears" in line]
    assert (len(calls), len(rows)) == (1, 1)
    assert float(calls[0].split(" s: ")[0]) > 31


def test_the_work_of_a_dead_host_goes_on_at_another_one() -> None:
    """H2: within a lease, two renewals and what the tool may take, and the change is made once."""
    ending = run(FleetScenario(mishaps=(Mishap(What.KILL, 80.0, "after take_turn"),)))
    assert ending.problems == ()
    made = next(line for line in ending.trace if "a row appears" in line)
    assert float(made.split(" s: ")[0]) < 30


# A pause before each step of a run, up to the last look at the lease, and in the window after it.
PAUSED = {each.name: each for each in situations()}
PART = tenth_of_commit()  # a commit tries a tenth of the steps; the command tries all


@pytest.mark.parametrize("name", PAUSED)
def test_a_host_that_wakes_after_its_lease_sends_and_writes_nothing(name: str) -> None:
    """H2: another host has taken its place; it writes nothing, and sends nothing it had not begun.

    Only what it had looked at its lease for may leave, and not after the time of its tool (L7).
    """
    pauses = unfold(PAUSED[name])
    assert 0 < pauses.looked_in_step <= pauses.steps
    for scenario in pauses.scenarios[PART::10]:
        ending = run(scenario)
        assert ending.problems == (), scenario
        (stop,) = scenario.mishaps
        at = next(n for n, line in enumerate(ending.trace) if STEP in line)
        is_window = stop.times > pauses.looked_in_step and stop.lasts_s < LONG_TIMEOUT_S
        if not is_window and not scenario.actions:  # a person may ask it again when it is back
            assert not [line for line in ending.trace[at:] if "host 0 sends" in line], scenario


def test_a_pause_between_the_last_look_and_the_first_byte_lets_a_send_leave() -> None:
    """H2, L7: nothing is promised for this window; it ends with the time of the tool."""
    step = unfold(PAUSED["one by one"]).steps
    sent = {}
    for pause_s in PAUSES_S:
        ending = run(FleetScenario(mishaps=(Mishap(What.STOP, pause_s, STEP, step),)))
        assert ending.problems == ()
        sent[pause_s] = [line for line in ending.trace if "host 0 sends" in line]
    assert sent == {26.0: ["26.000 s: host 0 sends"], 45.0: []}


# -- The loop and the command ---------------------------------------------------


def test_a_process_that_is_stopped_runs_nothing_and_misses_nothing() -> None:
    """Time goes on; a timer that went off runs when the process goes on, and others never wait."""
    seen: list[tuple[str, float]] = []

    async def tick(name: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append((name, asyncio.get_running_loop().time()))

    async def both() -> None:
        one, two = Process("one"), Process("two")
        tasks = [one.spawn(tick("one"), "one"), two.spawn(tick("two"), "two")]
        await asyncio.sleep(0.5)
        one.stop()
        await asyncio.sleep(10)
        assert seen == [("two", 1.0), ("two", 2.0), ("two", 3.0)]
        one.go_on()
        await asyncio.gather(*tasks)

    with asyncio.Runner(loop_factory=FleetLoop) as runner:
        runner.run(both())
    assert seen[3:] == [("one", 10.5), ("one", 11.5), ("one", 12.5)]


def test_the_end_of_a_process_ends_its_tasks_alone() -> None:
    """Also those that stand still, and those that do not want to hear of it at once."""

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            await asyncio.sleep(1_000)

    async def end() -> float:
        one, two = Process("one"), Process("two")
        task, other = one.spawn(stubborn(), "one"), two.spawn(stubborn(), "two")
        await asyncio.sleep(1)
        one.stop()
        await one.end()
        assert task.done()
        assert not other.done()
        await two.end()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=FleetLoop) as runner:
        assert runner.run(end()) < 10


def test_scenario_of_a_fleet_gets_simpler() -> None:
    """Every step leaves something out, down to the plainest fleet of two."""
    scenario = FleetScenario(
        hosts=3,
        mails=2,
        mishaps=BOTH_DIE,
        outcomes=(Outcome.LATE,),
        actions=(Action(5, Do.PAUSE),),
        dice=7,
    )
    for _ in range(20):
        scenario = next(simpler(scenario), scenario)
    assert scenario == FleetScenario()
    assert list(simpler(scenario)) == []


def test_command_runs_scenarios_of_a_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted and told like the others, with --fleet; a wrong one with how to run it again."""
    assert command.main(["--fleet", "--seeds", "2", "--from", "70"]) == 0
    assert "2 schedules" in capsys.readouterr().out
    with planted(NAMES["claim-of-what-is-held"]):
        assert command.main(["--fleet", "--seeds", "1", "--from", "1"]) == 1
    told = capsys.readouterr().out
    assert "python -m verification --fleet --seed 1" in told
    assert re.search(r"^  => .* has taken the workflow from ", told, re.MULTILINE)


def test_command_names_every_scenario_that_goes_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few are told in full, and before the search is over."""
    monkeypatch.setattr(command, "SHOWN_MAX", 0)
    with planted(NAMES["claim-of-what-is-held"]):
        wrong = [seed for seed in range(4) if run(from_seed(seed)).problems]
        assert len(wrong) > 1
        for option, stream in (("", "out"), ("--json", "err")):
            arguments = ["--fleet", "--seeds", "4", "--from", "0", *option.split()]
            assert command.main(arguments) == 1
            told = getattr(capsys.readouterr(), stream)
            assert [int(each) for each in re.findall(r"--fleet --seed (\d+)", told)] == wrong
