"""What only Python's sandbox has: its interpreter's gaps, its workers, its clock, its limits."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from signal import SIGKILL

import pytest

from duly.env import Loop
from duly.errors import ConfigError, NotDeployed, ScriptError
from duly.rules.source import Language, Source
from duly.sandbox import python_error, python_process
from duly.sandbox.base import Asked, Broke, Returned
from duly.sandbox.pool import Worker
from duly.sandbox.python import PythonSandbox, PythonScript
from duly.sandbox.python_world import ScriptClock
from duly.script import NAMES
from tests.sandbox.python_stand import (
    CATALOG,
    LIMITS,
    WORLD,
    error_of,
    make,
    opened,
    run,
    source,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def sandbox() -> AsyncIterator[PythonSandbox]:
    made = make()
    yield made
    await made.close()


# -- Loading ------------------------------------------------------------------------------------


async def test_what_the_interpreter_lacks_is_refused_before_it_runs(sandbox: PythonSandbox) -> None:
    """W5: loading asks the table first; no line of such a script runs."""
    with pytest.raises(ScriptError, match=r"module uuid\. Use the id the outside gave") as caught:
        await sandbox.load(source("pass", "1 / 0\nimport uuid"), CATALOG)
    assert caught.value.line == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import json", "declares 0 workflows"),
        (
            "import duly\na = duly.workflow('a', topics=[])\nb = duly.workflow('b', topics=[])",
            "declares 2 workflows",
        ),
        ("from duly import workflow\nworkflow('a', topics=[{1}])", "set"),
    ],
)
async def test_a_file_declares_exactly_one_workflow(
    sandbox: PythonSandbox, text: str, words: str
) -> None:
    """W1: none, two, or one that is no declaration is refused."""
    with pytest.raises((NotDeployed, ScriptError), match=words):
        await sandbox.load(Source(Language.PYTHON, text), CATALOG)


async def test_a_name_of_duly_that_is_not_for_scripts_is_refused(sandbox: PythonSandbox) -> None:
    """X1: a script cannot import the host."""
    with pytest.raises(ScriptError, match=r"duly\.Host is not for scripts") as caught:
        await sandbox.load(source("pass", "\nfrom duly import Host"), CATALOG)
    assert caught.value.line == 3


async def test_imports_of_ours_move_no_line(sandbox: PythonSandbox) -> None:
    """X3: however an import is written, lines after it keep their number."""
    module = """
        import json, duly as d  # a comment
        from duly import (
            workflow as w,
            consumer,
        ); ü = 1  # more
        assert d.workflow is w
        """
    turn = await run(sandbox, "raise ValueError(str(ü))", module)
    assert error_of(turn).line == 13
    assert "ValueError: 1" in str(error_of(turn))


async def test_a_moment_of_the_deploy_stays_in_no_step(sandbox: PythonSandbox) -> None:
    """C1, C13: what a module reads of clock and dice it reads again for every step."""
    module = "import time, random\nnow, thrown = time.time(), random.random()"
    loaded = await sandbox.load(source("return [now * 1000, thrown]", module), CATALOG)
    seen = []
    for world in (WORLD, replace(WORLD, now_ms=5000, seed=8), WORLD):
        async with opened(sandbox, loaded, replace(world, frozen=True)) as script:
            turn = await script.start()
            assert isinstance(turn, Returned)
            seen.append(turn.value)
    assert seen[0] == seen[2] != seen[1]
    assert seen[1][0] == 5000  # type: ignore[index]


# -- Clock and dice -----------------------------------------------------------------------------


async def test_the_dice_are_what_the_page_says(sandbox: PythonSandbox) -> None:
    """C13: the numbers are a function of the seed alone, the same in every release."""
    turn = await run(sandbox, "return list(os.urandom(40))", "import os")
    expected = sha256(b"duly:7:0").digest() + sha256(b"duly:7:1").digest()
    assert turn == Returned(list(expected[:40]))


async def test_a_sleep_passes_on_the_script_s_clock_only(sandbox: PythonSandbox) -> None:
    """C13: nobody waits, and a loop that waits for a moment ends; past the wall limit it breaks."""
    module = "import asyncio, time"
    slept = "t = time.time()\nawait asyncio.sleep(59)\ntime.sleep(1)\nreturn time.time() - t >= 60"
    assert await run(sandbox, slept, module) == Returned(True)
    error = error_of(await run(sandbox, "time.sleep(60.5)", module))
    assert "60 s of wall time" in str(error)
    assert "wake_at" in str(error)


@pytest.mark.parametrize(
    "loop",
    [
        "while time.time() < 9e9:\n    pass",
        "while True:\n    await asyncio.sleep(0)",
        "while os.urandom(1):\n    pass",
    ],
)
async def test_a_script_that_asks_without_end_is_told_which_limit_it_met(
    sandbox: PythonSandbox, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    """X2: a loop that only asks the host for time, chance or sleep has its own limit."""
    monkeypatch.setattr(python_error, "QUESTIONS_MAX", 1000)
    frozen = replace(WORLD, frozen=True)
    error = error_of(await run(sandbox, loop, "import asyncio, os, time", frozen))
    assert "more than 1000 times for the time, for chance or to sleep" in str(error)


class StandingEnv(Loop):
    """A machine whose clock goes on only when it is told."""

    at_ms = 0

    def monotonic_ms(self) -> int:
        return self.at_ms


def test_who_asks_when_the_wall_time_is_over_gets_no_answer() -> None:
    """X2, N: at the limit the clock still answers; one millisecond past it nobody does."""
    env = StandingEnv()
    clock = ScriptClock(WORLD, env, wall_s=1)
    clock.begin_turn()
    env.at_ms = 1000
    assert clock.find("time.time") is not None
    env.at_ms = 1001
    with pytest.raises(ScriptError, match="1 s of wall time"):
        clock.find("time.time")


async def test_a_source_that_watches_the_clock_is_refused_within_the_load_limit() -> None:
    """W6: a loop that asks and asks takes no longer to load than any other."""
    hasty = make(replace(LIMITS, load_wall_s=0.2))
    with pytest.raises(ScriptError, match=r"0\.2 s of wall time"):
        await hasty.load(source("pass", "import time\nwhile True:\n    time.time()"), CATALOG)
    await hasty.close()


async def test_a_step_that_meets_the_wall_limit_is_told_so() -> None:
    """X2: a worker that is ended for its wall time did not exceed its CPU time."""
    hasty = make(replace(LIMITS, step_wall_s=1))
    assert "1 s of wall time" in str(error_of(await run(hasty, "while True:\n    pass")))
    await hasty.close()


# -- Limits -------------------------------------------------------------------------------------


async def test_a_bomb_of_shared_references_meets_the_script_s_own_limit(
    sandbox: PythonSandbox,
) -> None:
    """X2, T8: what is small inside and endless as JSON never reaches the host."""
    bomb = "x = []\nfor n in range(60):\n    x = [x, x]\n"
    for end in ("return x", "await ctx.mail.send(x)"):
        assert "memory" in str(error_of(await run(sandbox, bomb + end)))


async def test_recursion_is_a_limit_with_a_name(sandbox: PythonSandbox) -> None:
    """X2: a function that calls itself without end."""
    assert "recursion" in str(error_of(await run(sandbox, "deep()", "def deep(): return deep()")))


@pytest.mark.parametrize(
    ("call", "words"),
    [("ctx.mail.send()", "calls of tools"), ("ctx.publish('t', title='x')", "publishes")],
)
async def test_calls_are_bounded_at_the_border(
    sandbox: PythonSandbox, call: str, words: str
) -> None:
    """N: a script cannot pile up calls it does not wait for; at the limit they all arrive."""
    body = f"for n in range({{}}):\n    {call}\nreturn 1"
    assert await run(sandbox, body.format(2)) == Returned(1)
    loaded = await sandbox.load(source(body.format(3)), CATALOG)
    async with opened(sandbox, loaded) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        assert len(turn.calls) == 2
        for each in turn.calls:
            turn = await script.answer(each.id, None)
    assert f"more than 2 {words}" in str(error_of(turn))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        "_duly_host(1)",
        "_duly_host('call', 'mail.send', '[]')",
        "_duly_host('call', 'mail.send', '[[], {}')",
        "_duly_host('call', 'mail.send', '[' * 100000)",
        "global _duly_write\n_duly_write = lambda *all: 5\nreturn 1",
        "global _duly_write\n_duly_write = lambda *all: chr(34)\nreturn 1",
        "global _duly_write\n_duly_write = lambda *all: str(2 ** 60)\nreturn 1",
    ],
)
async def test_a_script_that_forges_the_border_breaks_itself_only(body: str) -> None:
    """X1, T8: the host trusts nothing that comes out, not even its own prelude."""
    unchecked = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=lambda text: None)
    error_of(await run(unchecked, body))
    await unchecked.close()


# -- Workers ------------------------------------------------------------------------------------


class Process:
    """What the kernel says of a process."""

    def __init__(self, pid: int) -> None:
        self.home = Path(f"/proc/{pid}")

    @property
    def status(self) -> str:
        return (self.home / "status").read_text()

    @property
    def environment(self) -> bytes:
        return (self.home / "environ").read_bytes()

    @property
    def descriptors(self) -> list[str]:
        return sorted(path.name for path in (self.home / "fd").iterdir())

    @property
    def errors_go_to(self) -> str:
        return str((self.home / "fd" / "2").readlink())

    @property
    def is_running(self) -> bool:
        try:
            return "State:\tZ" not in self.status
        except OSError:
            return False


async def begun(script: PythonScript) -> int:
    """Wait until the script has a worker."""
    while True:
        if script._worker is not None and not script._worker.is_clean:
            return script._worker.pid
        await asyncio.sleep(0.001)


async def busy_worker(sandbox: PythonSandbox) -> Worker:
    """Wait until some script runs."""
    while True:
        for worker in sandbox.pool._all:
            if not worker.is_clean:
                return worker
        await asyncio.sleep(0.001)


@asynccontextmanager
async def worker_of(sandbox: PythonSandbox) -> AsyncIterator[tuple[PythonScript, int]]:
    loaded = await sandbox.load(source("await ctx.mail.send()"), CATALOG)
    async with opened(sandbox, loaded) as script:
        assert isinstance(await script.start(), Asked)
        assert script._worker is not None
        yield script, script._worker.pid


async def test_a_worker_is_locked_before_it_takes_work(sandbox: PythonSandbox) -> None:
    """X1: seccomp is on, privileges are gone, nothing is open but its channel."""
    async with worker_of(sandbox) as (_, pid):
        process = Process(pid)
        assert "Seccomp:\t2" in process.status
        assert "NoNewPrivs:\t1" in process.status
        assert process.environment == b""
        assert process.descriptors == ["0", "1", "2"]
        assert process.errors_go_to == "/dev/null"


async def test_without_a_lock_no_script_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """X1: a machine that cannot lock a process is told so, with the way out."""

    broken = "; from duly.cell import lock; lock._restrict_files = lambda *_: None; main("
    program = python_process.PROGRAM.replace("; main(", broken)
    monkeypatch.setattr(python_process, "PROGRAM", program)
    locked = make()
    with pytest.raises(ConfigError, match=r"sandbox\.unlocked"):
        await locked.load(source("pass"), CATALOG)
    await locked.close()
    accepted = make(is_unlocked=True)
    assert await run(accepted, "return 1") == Returned(1)
    await accepted.close()


async def test_a_worker_that_dies_is_lost_and_replaced(sandbox: PythonSandbox) -> None:
    """X2, F1: a death without a limit is nobody's fault; the next script runs."""
    async with worker_of(sandbox) as (script, pid):
        os.kill(pid, SIGKILL)
        turn = await script.answer(0, None)
        assert isinstance(turn, Broke)
        assert turn.is_lost
    assert await run(sandbox, "return 1") == Returned(1)


async def test_a_worker_that_dies_while_it_loads_is_lost_too(sandbox: PythonSandbox) -> None:
    """F1, X2: who deploys can tell a dead worker from a wrong script."""
    endless = source("pass", "while True:\n    pass")
    loading = asyncio.create_task(sandbox.load(endless, CATALOG))
    busy = await busy_worker(sandbox)
    os.kill(busy.pid, SIGKILL)
    with pytest.raises(ScriptError, match="died") as caught:
        await loading
    assert caught.value.is_lost
    with pytest.raises(ScriptError) as caught:
        await sandbox.load(source("pass", "1 / 0"), CATALOG)
    assert not caught.value.is_lost


async def test_a_step_that_is_cancelled_while_it_runs_is_killed(sandbox: PythonSandbox) -> None:
    """C3: who leaves does not wait for a script that never ends."""
    loaded = await sandbox.load(source("while True:\n    pass"), CATALOG)
    script = opened(sandbox, loaded)

    async def step() -> None:
        async with script:
            await script.start()

    task = asyncio.create_task(step())
    pid = await begun(script)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not Process(pid).is_running
    assert await run(sandbox, "return 1") == Returned(1)


async def test_a_dropped_script_makes_no_further_step_a_thousand_times(
    sandbox: PythonSandbox,
) -> None:
    """C3, C8: neither except nor finally nor a later line is seen in logs, calls or results."""
    body = """
        try:
            ctx.mail.send("first")
            print("canary")
            await ctx.mail.send("second")
        except BaseException:
            print("canary")
        finally:
            print("canary")
            ctx.publish("t", title="canary")
        return "canary"
        """
    loaded = await sandbox.load(source(body), CATALOG)
    for _ in range(1000):
        script = opened(sandbox, loaded)
        async with script:
            turn = await script.start()
        assert isinstance(turn, Asked)
        assert [call.args for call in turn.calls] == [("first",), ("second",)]
        assert turn.logs == ()
        heard = len(script._seat._logs)
        late = await script.answer(turn.calls[0].id, "canary")
        assert isinstance(late, Broke)
        assert late.logs == ()
        assert len(script._seat._logs) == heard == 1  # what was held back, and is given to nobody


async def test_nothing_is_spawned_before_the_first_script() -> None:
    """X2: a host that runs no script has no worker."""
    idle = make()
    assert idle.pool.pids == ()
    await idle.close()


PROGRAM = """
import asyncio, sys
from tests.sandbox.python_stand import CATALOG, make, opened, source

async def main(is_closed):
    sandbox = make()
    loaded = await sandbox.load(source("print('x')\\nawait ctx.mail.send()"), CATALOG)
    for _ in range(5):
        async with opened(sandbox, loaded) as script:
            await script.start()
    left = await opened(sandbox, loaded).__aenter__()
    await left.start()
    print(left._worker.pid, flush=True)
    if is_closed:
        await sandbox.close()

asyncio.run(main(sys.argv[1] == "closed"))
sys.exit(7)
"""


@pytest.mark.parametrize("how", ["closed", "left open"])
def test_a_program_keeps_its_exit_status_and_leaves_no_process(how: str) -> None:
    """X2: scripts dropped in the middle of a call do not change how a program ends."""
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, how],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": f"src{os.pathsep}."},
        )
        assert (done.returncode, done.stderr) == (7, "")
        deadline = time.monotonic() + 120
        while Process(int(done.stdout)).is_running:
            assert time.monotonic() < deadline, "a worker outlived its program"
            time.sleep(0.01)
