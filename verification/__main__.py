"""`python -m verification`: run scenarios and say what went wrong, as small as it gets.

    --seeds 1000 [--from 5000]     a thousand random scenarios
    --seed 5123                    one of them, with everything that happened in it
    --exhaustive [--thorough]      every scenario with one crash
    --planted                      every planted bug, from three ranges of seeds
    --bus                          with each of these: the scenarios of the event bus
    --fleet                        with each of these: several hosts on one store; --exhaustive is
                                   every pause of a host that is longer than its lease
    --three-weeks                  three weeks of a laptop, with 20,000 changes

Law 1  The exit status is 1 if anything went wrong. Only a terminal is shown a progress bar.
Law 2  Every scenario that goes wrong is named when it has gone wrong, with how to run it again. A
       search that is ended early loses none of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final, TextIO

from verification import survey, weeks
from verification.suite import BUS, FLEET, WORKFLOW, Suite
from verification.survey import Failure, Tally
from verification.workflow import planted
from verification.workflow.shrink import shrink_by

BAR_WIDTH: Final = 40
GC_THRESHOLD: Final = (20_000, 20, 50)  # a scenario makes much and keeps little
SHOWN_MAX: Final = 3  # so many scenarios that went wrong are told in full; each is named


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    gc.set_threshold(*GC_THRESHOLD)
    gc.freeze()  # what was imported is looked through no more
    parser = _parser()
    options = parser.parse_args(arguments)
    suite = FLEET if options.fleet else BUS if options.bus else WORKFLOW
    if options.seed is not None:
        return _tell_one(suite, options.seed, as_json=options.json)
    if options.three_weeks:
        return _live_three_weeks(weeks.FULL, as_json=options.json)
    if options.planted:
        return _hunt(suite, options)
    if options.exhaustive:
        work = partial(survey.run_case, of=suite.name, is_thorough=options.thorough)
        numbers = range(len(suite.cases()))
        done = survey.spread(work, numbers, options.jobs)
        tally = _gather(suite, done, len(numbers), as_json=options.json)
        missing = suite.never_reached(tally.points)
    else:
        pieces = survey.slices(options.start, options.seeds)
        run_seeds = partial(survey.run_seeds, of=suite.name)
        done = survey.spread(run_seeds, pieces, options.jobs)
        tally = _gather(suite, done, len(pieces), as_json=options.json)
        missing = ()
    _report(suite, tally, missing, as_json=options.json)
    return 1 if tally.failures or missing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verification",
        description="Run scenarios in which everything goes wrong, on the engine that ships.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", type=_positive, metavar="N", help="run N random scenarios")
    what.add_argument("--seed", type=int, metavar="S", help="run one scenario and tell it")
    what.add_argument(
        "--exhaustive", action="store_true", help="every scenario with one crash, or pause"
    )
    what.add_argument("--planted", action="store_true", help="look for every planted bug")
    what.add_argument("--three-weeks", action="store_true", help="three weeks of a laptop")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--bus", action="store_true", help="scenarios of the event bus")
    kind.add_argument("--fleet", action="store_true", help="several hosts on one store")
    parser.add_argument("--from", dest="start", type=int, default=0, metavar="S")
    parser.add_argument("--thorough", action="store_true", help="also points with equal futures")
    parser.add_argument("--jobs", type=_positive, default=1, metavar="J", help="processes")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: say at least 1")
    return number


# -- What is run ----------------------------------------------------------------------------------


def _gather(suite: Suite, tallies: Iterable[Tally], count: int, *, as_json: bool) -> Tally:
    whole = Tally()
    for tally in _with_bar(tallies, count):
        for failure in tally.failures:
            _name(suite, failure, sys.stderr if as_json else sys.stdout)
        whole.add(tally)
    return whole


def _tell_one(suite: Suite, seed: int, *, as_json: bool) -> int:
    scenario = suite.from_seed(seed)
    ending = suite.run(scenario)
    if as_json:
        _say_json(
            {"seed": seed, "hash": ending.hash, "problems": ending.problems, "trace": ending.trace}
        )
    else:
        _say(_numbered(ending.trace))
        _say(f"trace {ending.hash}")
    if not ending.problems:
        return 0
    if not as_json:
        _tell(suite, f"seed {seed}", scenario, ending.problems)
    return 1


def _hunt(suite: Suite, options: argparse.Namespace) -> int:
    bugs = suite.bugs
    tasks = [(number, start) for start in planted.RANGES for number in range(len(bugs))]
    hunted = survey.spread(partial(survey.hunt, of=suite.name), tasks, options.jobs)
    found = []
    for name, start, seed in _with_bar(hunted, len(tasks)):
        found.append((name, start, seed))
        told = "was NOT found" if seed is None else f"was found after {seed - start + 1} schedules"
        if not options.json:
            _say(f"from {start}: {name} {told}")
            sys.stdout.flush()
    missed = [(name, start) for name, start, seed in found if seed is None]
    if options.json:
        _say_json([{"bug": name, "from": start, "seed": seed} for name, start, seed in found])
        return 1 if missed else 0
    _say(f"{len(bugs)} bugs, {len(planted.RANGES)} ranges, {len(missed)} not found")
    return 1 if missed else 0


def _live_three_weeks(plan: weeks.Plan, *, as_json: bool) -> int:
    report = weeks.run(plan)
    wrong = weeks.wrong(plan, report)
    if as_json:
        _say_json({**asdict(report), "wrong": wrong})
        return 1 if wrong else 0
    _say(
        f"{report.changes} changes in {plan.days} days and {report.lives} lives, "
        f"{report.crashes} of them ended by a crash: "
        f"{len(report.twice)} made twice, {len(report.lost)} lost"
    )
    _say(f"after {report.returns} returns, caught up within {max(0.0, report.slowest_s):.0f} s")
    _say(f"{report.cpu_s:.0f} s of CPU, {1000 * report.cpu_s / report.changes:.1f} ms per change")
    _say(f"{len(report.questions)} questions to a person:")
    for question in report.questions:
        _say(f"  {question}")
    for each in wrong:
        _say(f"  => {each}")
    return 1 if wrong else 0


# -- What is said ---------------------------------------------------------------------------------


def _report(suite: Suite, tally: Tally, missing: tuple[str, ...], *, as_json: bool) -> None:
    if as_json:
        _say_json(
            {
                "schedules": tally.schedules,
                "per_second_per_core": round(tally.per_second, 1),
                "events_median": tally.events_median,
                "crashes_median": tally.deaths_median,
                "crashes": sum(count * times for count, times in tally.deaths.items()),
                "power_cuts": tally.power_cuts,
                "points": dict(sorted(tally.points.items())),
                "never_reached": missing,
                "failures": [
                    {"name": each.name, "scenario": repr(each.scenario), "problems": each.problems}
                    for each in tally.failures
                ],
            }
        )
        return
    for failure in tally.failures[:SHOWN_MAX]:
        _tell(suite, failure.name, failure.scenario, failure.problems)
    crashes = sum(count * times for count, times in tally.deaths.items())
    _say(
        f"{tally.schedules} schedules, {tally.per_second:.1f} per second and core; "
        f"in the middle {tally.events_median:g} events and {tally.deaths_median:g} crashes each"
    )
    _say(
        f"{crashes} crashes, {tally.power_cuts} of them power cuts; "
        f"{len(tally.points)} different points reached, {tally.points.total()} times"
    )
    for name in missing:
        _say(f"never reached: {name}")
    _say(f"{len(tally.failures)} went wrong")


def _name(suite: Suite, failure: Failure, into: TextIO) -> None:
    """Name a scenario that went wrong, in one line and at once."""
    again = f"; run it again: {_command(suite, failure.name)}" if _has_seed(failure.name) else ""
    into.write(f"{failure.name} went wrong: {'; '.join(failure.problems)}{again}\n")
    into.flush()


def _has_seed(name: str) -> bool:
    return name.startswith("seed ")


def _command(suite: Suite, name: str) -> str:
    return f"python -m verification {suite.option}--{name}"


def _tell(suite: Suite, name: str, scenario: Any, problems: tuple[str, ...]) -> None:
    """Tell a scenario that went wrong, as small as it gets."""
    small = shrink_by(scenario, suite.run, suite.simpler)
    ending = suite.run(small)
    _say(f"{name} went wrong: {'; '.join(problems)}")
    if _has_seed(name):
        _say(f"Run it again: {_command(suite, name)}")
    _say("The smallest scenario found that goes wrong the same way:")
    _say(f"  {small!r}")
    _say(_numbered(ending.trace))
    for problem in ending.problems:
        _say(f"  => {problem}")


def _numbered(trace: Sequence[str]) -> str:
    return "\n".join(f"{number}: {line}" for number, line in enumerate(trace, start=1))


def _with_bar(pieces: Iterable[Any], count: int) -> Iterator[Any]:
    """Hand the pieces on; a terminal is shown how many are done."""
    is_shown = sys.stderr.isatty()
    for done, piece in enumerate(pieces, start=1):
        if is_shown:
            filled = BAR_WIDTH * done // count
            bar = "#" * filled + "." * (BAR_WIDTH - filled)
            sys.stderr.write(f"\r{bar} {done}/{count}" + ("\n" if done == count else ""))
            sys.stderr.flush()
        yield piece


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _say_json(value: Any) -> None:
    _say(json.dumps(value, indent=2))


if __name__ == "__main__":
    sys.exit(main())
