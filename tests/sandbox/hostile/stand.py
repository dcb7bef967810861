"""The corpus' stand: both sandboxes with workers a test has its hand in, and a host that echoes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from duly.config import MIB, Limits
from duly.env import Loop
from duly.errors import DulyError, ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Source
from duly.rules.value import Json
from duly.sandbox import pool as pool_module
from duly.sandbox import python_process, wire
from duly.sandbox.base import MISSING, Asked, Broke, Log, Returned, Sandbox, ScriptCall, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import Slots
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile import payload
from tests.sandbox.hostile.attack import Attack, Program, write
from tests.sandbox.hostile.canary import VARIABLE, WORD, Canaries
from tests.sandbox.hostile.corpus_escape import ESCAPES
from tests.sandbox.hostile.corpus_exhaust import EXHAUSTIONS

ROOT = Path(__file__).parents[3]
WORLD = World(now_ms=1_800_000_000_000, frozen=True, seed=1)
# Nobody who means to end comes near these; who means not to is stopped after the tight ones.
ROOMY = Limits(
    step_cpu_s=20, load_s=20, step_wall_s=60, step_memory_bytes=16 * MIB,
    calls_per_step=20, publishes_per_run=50, log_lines=20,
)  # fmt: skip
LIMITS = {
    "roomy": ROOMY,
    "tight": replace(ROOMY, step_cpu_s=0.1),
    "short": replace(ROOMY, step_cpu_s=0.1, step_wall_s=2),
    "tight to load": replace(ROOMY, load_s=0.3),
}
AT_ONCE = 6
SCRIPTS: tuple[Attack, ...] = ESCAPES + EXHAUSTIONS
CASES = [(attack, language) for attack in SCRIPTS for language in attack.programs()]
# Becomes the interpreter at once, with no lock at all.
OPEN_LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 0), os.dup2(int(sys.argv[1]), 1)
said = b'{"held":["nothing"],"missing":[]}'
os.write(1, len(said).to_bytes(4, "little") + said)
os.execv(sys.argv[-1].removeprefix("word:"), ["monty", "subprocess"])
"""
NATIVE_NAMES = [*payload.OUTSIDE, *payload.INSIDE]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack ended, and what the host kept of it."""

    end: Returned | Broke | DulyError
    logs: tuple[Log, ...] = ()
    took_s: float = 0.0

    @property
    def words(self) -> str:
        """What it was stopped with; nothing if it returned."""
        if isinstance(self.end, Returned):
            return ""
        return str(self.end.error if isinstance(self.end, Broke) else self.end)

    @property
    def is_lost(self) -> bool:
        """Tell whether its worker was lost."""
        return isinstance(self.end, Broke | ScriptError) and self.end.is_lost


def limits_for(says: str, body: str = "step") -> str:
    """Answer under which limits a program runs that ends like this."""
    if "longer" not in says:
        return "roomy"
    if not body:
        return "tight to load"
    # Who computes is stopped for computing; only who does not need meet the wall clock.
    return "short" if says.startswith("ran") or "asked more" in says else "tight"


def hook_workers(patch: pytest.MonkeyPatch, caged: Canaries, *, is_locked: bool) -> None:
    """Let workers run payloads; unlocked, nothing of a lock is on, and nothing is kept from them.

    A descriptor is left open for them in both cases: to close it is the lock's part.
    """
    kept = {"is_locked": is_locked, "places": caged.places}
    program = (
        f"import sys; sys.path[:0] = [*sys.argv[2:], {str(ROOT)!r}];"
        f" from tests.sandbox.hostile.hook import serve; serve(int(sys.argv[1]), **{kept!r})"
    )

    def start(command: list[str], *, pass_fds: tuple[int, ...], env: Any, **rest: Any) -> Any:
        told = env if is_locked else {**env, VARIABLE: WORD}
        kept_open = (*pass_fds, caged.inherited)
        return subprocess.Popen(command, pass_fds=kept_open, env=told, **rest)

    patch.setattr(pool_module, "PROGRAM", program)
    started = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)
    patch.setattr(pool_module, "subprocess", started)
    patch.setenv(VARIABLE, WORD)
    if not is_locked:
        patch.setattr(python_process, "PROGRAM", OPEN_LAUNCHER)


def launch(caged: Canaries, *, is_locked: bool) -> dict[str, str]:
    """Try every payload where Python's interpreter would be, and answer what came of it."""
    kept = {"is_locked": is_locked, "places": caged.places}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"from tests.sandbox.hostile.hook import launch; launch(**{kept!r})",
        ],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", VARIABLE: WORD},
        pass_fds=(caged.inherited,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    # First the launcher says whether it is locked.
    (length,) = wire.LENGTH.unpack_from(done.stdout)
    found: dict[str, str] = json.loads(done.stdout[wire.LENGTH.size + length :])
    return found


class Stage:
    """Both sandboxes, under each set of limits."""

    def __init__(self) -> None:
        self.pool = Pool(Loop(), running=Slots(AT_ONCE))
        self._made: dict[tuple[str, str], Sandbox] = {}
        for name, limits in LIMITS.items():
            self._made["javascript", name] = JavaScriptSandbox(self.pool, limits)
            self._made["python", name] = PythonSandbox(
                Loop(), limits, names=NAMES, refuse=refuse_lacking, running=Slots(AT_ONCE)
            )

    async def close(self) -> None:
        """End every worker."""
        for each in self._made.values():
            await each.close()

    async def run(self, language: str, source: Source, limits: str) -> Outcome:
        """Load and play one step; every call is answered with what the host saw of it."""
        sandbox = self._made[language, limits]
        logs: list[Log] = []
        begun_s = time.monotonic()
        try:
            loaded = await sandbox.load(source, Catalog())
            async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
                turn, waiting = await script.start(), list[ScriptCall]()
                while isinstance(turn, Asked):
                    logs += turn.logs
                    waiting += turn.calls
                    call = waiting.pop(0)
                    args, kwargs = list(call.args), dict(call.kwargs)
                    seen: Json = {"path": call.path, "args": args, "kwargs": kwargs}
                    turn = await script.answer(call.id, seen)
                logs += turn.logs
        except DulyError as error:
            return Outcome(error, tuple(logs), time.monotonic() - begun_s)
        return Outcome(turn, tuple(logs), time.monotonic() - begun_s)

    async def attack(self, attack: Attack, language: str, places: dict[str, str]) -> Outcome:
        """Run one attack of the corpus."""
        program = attack.programs()[language]
        source = write(language, program, places)
        return await self.run(language, source, limits_for(program.says, program.body))

    async def native(self, name: str) -> Outcome:
        """Let a payload run as the worker of a JavaScript step."""
        source = write("javascript", native_program(name), {})
        says = payload.INSIDE[name][0] if name in payload.INSIDE else ""
        return await self.run("javascript", source, limits_for(says))


def native_program(name: str) -> Program:
    """Write the script in whose place a payload runs."""
    return Program(f"return 'not run' // native: {name}")


def cpu_limit_s(limits: str) -> float:
    """Answer how long a process under these limits may compute: in a load, or in a step."""
    return min(LIMITS[limits].load_s, LIMITS[limits].step_cpu_s)


async def together(tasks: dict[Any, Callable[[], Awaitable[Outcome]]]) -> dict[Any, Outcome]:
    """Run all, a few at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(run: Callable[[], Awaitable[Outcome]]) -> Outcome:
        async with room:
            return await run()

    ended = await asyncio.gather(*(one(run) for run in tasks.values()))
    return dict(zip(tasks, ended, strict=True))


async def stopped(pid: int) -> None:
    """Return when a process that was told to stand still does; a signal takes its time."""
    stat = Path(f"/proc/{pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "T":  # noqa: ASYNC110, ASYNC240  # no event
        await asyncio.sleep(0.001)
