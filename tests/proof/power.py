"""Power cuts for as many seeds as you like: before every operation on the disk, in three ways.

    python -m tests.proof.power --seeds 20 --from 1000

Every seed plays two workloads on the SQLite store that ships: lines of all sizes, and the verbs of
the store. Exits with 1 if anything that a barrier confirmed is missing, torn or out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from tests.store.test_power import NOTEBOOK, examine
from tests.store.test_power_verbs import verbs

VERBS_EVERY = 20  # its workload has twenty times as many operations as the other


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.power", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--from", dest="start", type=int, default=0)
    wanted = parser.parse_args()
    cuts, problems = 0, []
    for seed in range(wanted.start, wanted.start + wanted.seeds):
        loads = [NOTEBOOK, verbs()] if seed % VERBS_EVERY == 0 else [NOTEBOOK]
        for load in loads:
            findings = asyncio.run(examine(load, seed))
            cuts += findings.cuts
            problems += [f"seed {seed}: {each}" for each in findings.problems]
    for each in problems:
        print(each, file=sys.stderr)
    print(json.dumps({"seeds": wanted.seeds, "power_cuts": cuts, "problems": len(problems)}))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
