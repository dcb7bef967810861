"""A process that has imported everything once and is forked for each run of tests under a break.

Law: a run gets a process of its own, as if it had been started anew: nothing of a break is left
for the next one. Importing is four fifths of the price of a break; it is paid once.

It reads one JSON line (tests, options, environment, seconds) after the other and answers each with
one: the exit status, null if it had to be ended, and its words.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
OURS = ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST")
INSIDE = "TEST_WARM"  # set in every run that such a process makes
# What every run of pytest would import first. `conftest.py` is left to each: it looks at the break.
PLUGINS = ("anyio.pytest_plugin", "hypothesis.strategies", "xdist.plugin")


class Warm:
    """The other side of such a process: runs tests in it, one after the other."""

    def __init__(self) -> None:
        # A run that is given no test runs all of them, this one too: each would start two more.
        assert INSIDE not in os.environ, "a run of tests under a break starts no further ones"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.warm"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, options: Sequence[str], environment: Mapping[str, str], timeout_s: float
    ) -> tuple[int | None, str]:
        """Run pytest with these options; None is the status of what did not end by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [list(options), dict(environment), timeout_s]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status, words = json.loads(self._process.stdout.readline())
        return status, words

    def close(self) -> None:
        """End the process and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve(orders: IO[str], answers: IO[str]) -> None:
    for line in orders:
        answers.write(json.dumps(_carry_out(*json.loads(line))) + "\n")
        answers.flush()


def _carry_out(
    options: list[str], environment: dict[str, str], timeout_s: float
) -> tuple[int | None, str]:
    with tempfile.TemporaryFile() as words:
        child = os.fork()
        if child == 0:
            _become(options, environment, words.fileno())
        os.setpgid(child, child)  # Before anybody could want to end it.
        status = _outlast(child, timeout_s)
        words.seek(0)
        return status, words.read().decode(errors="replace").strip()


def _become(options: list[str], environment: dict[str, str], words: int) -> NoReturn:
    """Be the run, in a group of its own, so that whatever it starts can be ended with it."""
    status = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((nothing, words, words)):
            os.dup2(source, target)
        os.environ.update({**environment, INSIDE: "1"})
        status = int(pytest.main(options))
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else status
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _outlast(child: int, timeout_s: float) -> int | None:
    """Wait for the end of a run, or end it and everything it has started."""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None


if __name__ == "__main__":
    for name in OURS:
        os.environ.pop(name, None)
    from tests import break_plugin, breaks

    for package in ("duly", "verification"):
        break_plugin.import_everything(package)
    breaks.collect()
    for name in PLUGINS:
        importlib.import_module(name)
    # The plugin acts while it is imported, so each run imports it anew.
    del sys.modules[break_plugin.__name__]
    gc.collect()
    gc.freeze()  # a run does not look through what it cannot have made
    _serve(sys.stdin, sys.stdout)
