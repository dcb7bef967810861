"""Change the source in one place at a time and see whether a test notices.

    python -m tests.mutants                      some hundred, always the same (`make mutants`)
    python -m tests.mutants --all                every mutant: hours
    python -m tests.mutants engine.ledger sql    those whose name contains one of these words
    python -m tests.mutants --sample             the few that belong to the commit, as CI does
    python -m tests.mutants --map                first see again which test runs which statement

A mutant is judged by the tests that run the changed statement, the quickest first, until one is
red or the budget is used up. `--write` keeps which test found what in `tests/mutants/found.json`;
that test is asked first the next time. Exits with 1 if a mutant survives that `docs/mutants.md`
does not name.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import closing

from tests.mutants import score
from tests.mutants.judge import FOUND, SURVIVED, Court

COUNT = 500
BUDGET_S = 60.0


def main() -> int:
    """Judge the mutants the command line asks for; answer the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help="only mutants whose name contains one of these")
    parser.add_argument("--all", action="store_true", help="every mutant, not some hundred")
    parser.add_argument("--count", type=int, default=COUNT, help="how many")
    parser.add_argument("--sample", action="store_true", help="what belongs to the commit")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of tests for each")
    parser.add_argument("--map", action="store_true", help="trace the tests again")
    parser.add_argument("--as-traced", action="store_true", help="judge without newer tests")
    parser.add_argument("--write", action="store_true", help="keep what was found by which test")
    wanted = parser.parse_args()
    if wanted.sample:
        return score.try_sample(print)
    known = score.Known.read()
    with closing(Court()) as court:
        entered = score.read_map(
            court.tests, anew=wanted.map, say=print, as_traced=wanted.as_traced
        )
        chosen = score.choose(court.mutants, wanted.words, None if wanted.all else wanted.count)
        survivors: list[str] = []
        verdicts: Counter[str] = Counter()
        begun = time.monotonic()
        for key in chosen:
            answer = score.judge(court, key, entered, known, wanted.budget)
            verdicts[answer["verdict"]] += 1
            known.found.pop(key, None)
            if answer["verdict"] == FOUND:
                if not answer["hung"]:  # what hangs is found, and too slow for each commit's sample
                    known.found[key] = answer["by"]
            else:
                survivors.append(key)
                said = "" if answer["verdict"] == SURVIVED else answer["words"]
                print(f"{answer['verdict']:10} {key}  ({answer.get('tests', 0)} tests)\n{said}")
            print(f"\r{verdicts.total()} of {len(chosen)}", end="\r", file=sys.stderr)
        seconds = time.monotonic() - begun
    if wanted.write:
        known.write()
    print(score.table(chosen, survivors, known.explained))
    print(f"{seconds:.0f} s · {dict(verdicts)}")
    return 1 if set(survivors) - set(known.explained) else 0


if __name__ == "__main__":
    sys.exit(main())
