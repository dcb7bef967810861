"""What a new user meets on an empty machine: the README's two commands, and the three short paths.

    python -m tests.empty_machine                   # some minutes; needs root, fetches packages
    python -m tests.empty_machine --fresh FOLDER    # keep the fresh file system for the next time
    python -m tests.empty_machine --whole           # all of `make test` in place of a sample
    python -m tests.empty_machine --suite trixie    # another Debian, with another Python

Law 1: an ordinary user does everything. Root types one thing: `make browser mail-server`.
Law 2: each step is tried, also after one that went wrong; the last line is one object with counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.house import ROOT
from tests.machine import PATH, SUITE, Machine, making

USER: Final = "visitor"
TREE: Final = f"/home/{USER}/duly"
HOME: Final = {"HOME": f"/home/{USER}", "USER": USER}
TAIL_CHARS: Final = 3000
FIRST_WORKFLOW: Final = re.compile(r"^```sh\n(duly init .*?)^```$", re.MULTILINE | re.DOTALL)
# Nothing says that a text is UTF-8, and Python may not guess it.
BARE: Final = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
PATHS: Final = {
    "the page": "tests/browser/test_path.py",
    "the command line": "tests/faces/test_getting_started.py",
    "an agent": "tests/mcp/test_path.py",
}
# What asks something of the machine: programs, users, locks, servers, a terminal.
SAMPLE: Final = (
    *("tests/test_readme.py", "tests/test_install.py", "tests/test_container.py"),
    *("tests/test_env.py", "tests/test_quick.py", "tests/proof", "tests/site"),
    *("tests/sandbox/test_own_user.py", "tests/sandbox/test_lock.py"),
    *("tests/sandbox/test_contract.py", "tests/connectors/test_mail_real.py"),
    *("tests/postgres/test_both_stores.py", "tests/faces/test_service.py"),
    *("tests/faces/test_cli_group.py", "tests/faces/test_cli_offer.py"),
    *("tests/faces/test_completion.py", "tests/faces/test_pages_for_operators.py"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """Something a person does, and what must be read then."""

    says: str
    line: str
    reads: str = ""
    user: str = USER
    environ: Mapping[str, str] = field(default_factory=dict)
    is_refused: bool = False

    def go(self, machine: Machine) -> str:
        """Do it; return what is wrong, or nothing."""
        done = machine.run(
            *("sh", "-ec", self.line), user=self.user, folder=TREE, environ=self.environ
        )
        told = done.stdout + done.stderr
        if bool(done.returncode) is not self.is_refused:
            return f"exit status {done.returncode}\n{told[-TAIL_CHARS:]}"
        if self.reads not in told:
            return f"does not say: {self.reads}\n{told[-TAIL_CHARS:]}"
        return told[-TAIL_CHARS:] if "Traceback (most recent call last)" in told else ""


def steps(*, is_whole: bool) -> Iterator[Step]:
    """List what is done, in order."""
    yield Step("make demo", "make demo", "nothing twice, nothing lost", environ=HOME)
    found = FIRST_WORKFLOW.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    own = {**BARE, "PATH": f"{TREE}/.venv/bin:{PATH}"}
    line = f"cd $(mktemp -d)\n{found[1]}"
    yield Step("the first workflow, without a HOME or UTF-8", line, "table.insert", environ=own)
    line = "make browser"
    said = "apt-get install"  # what to do about it, in one sentence
    yield Step("no browser and no right to fetch one", line, said, is_refused=True)
    given = {"HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
    yield Step("a browser and a mail server", f"{line} mail-server", user="root", environ=given)
    for name, file in PATHS.items():
        line = f".venv/bin/python -m pytest {file}"
        yield Step(f"the path with {name}", line, "passed", environ=HOME)
    if is_whole:
        yield Step("make test", "make test", "passed", environ=HOME)
    else:
        line = f".venv/bin/python -m pytest -n 2 {' '.join(SAMPLE)}"
        yield Step("a sample of make test", line, "passed", environ=HOME)


def walk(machine: Machine, *, is_whole: bool) -> list[str]:
    """Do every step; return what went wrong."""
    machine.add_user(USER)
    machine.take_tree(TREE, USER)
    wrong = []
    for step in steps(is_whole=is_whole):
        begun_s, before = time.monotonic(), os.times()
        said = step.go(machine)
        spent_s = sum(os.times()[2:4]) - sum(before[2:4])
        took = f"{time.monotonic() - begun_s:.0f} s, {spent_s:.0f} s of processor time"
        print(f"{'wrong' if said else 'well'}: {step.says} ({took})", file=sys.stderr, flush=True)
        if said:
            wrong.append(f"{step.says}: {said}")
            print(said, file=sys.stderr, flush=True)
    return wrong


def main() -> int:
    """Make the machine and walk; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.empty_machine")
    parser.add_argument("--fresh", type=Path)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--suite", default=SUITE, metavar="NAME")
    wanted = parser.parse_args()
    with making(wanted.fresh, suite=wanted.suite) as machine:
        python = machine.run("python3", "--version").stdout.strip()
        print(f"Debian {wanted.suite}, {python}", file=sys.stderr, flush=True)
        wrong = walk(machine, is_whole=wanted.whole)
    count = len([*steps(is_whole=wanted.whole)])
    print(json.dumps({"python": python, "steps": count, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
