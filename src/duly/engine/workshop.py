"""Where a host's scripts run and where their sources are read: builds it, decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from duly.config import Policy, SandboxSettings
from duly.engine.study import FINGERPRINT, STUDY, Apart
from duly.env import Env
from duly.rules.source import Language
from duly.sandbox import javascript as javascript_sandbox
from duly.sandbox import python as python_sandbox
from duly.sandbox.base import Sandbox
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.languages import Languages
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.sandbox.slot import RUNNING_MAX, Slots
from duly.sandbox.study import Studies
from duly.script import NAMES
from duly.script.lacking import refuse_lacking

# What is read off a source apart from the host, and by which function.
STUDIED: Final = {
    STUDY: "duly.script.study:study_apart",
    FINGERPRINT: "duly.script.study:fingerprint_apart",
    python_sandbox.REFUSE: "duly.script.study:refuse_apart",
    python_sandbox.READ: "duly.sandbox.python_text:read_apart",
    javascript_sandbox.CHECK: "duly.sandbox.javascript_text:check_apart",
}


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where scripts run, and where their sources are read."""

    sandbox: Sandbox
    studies: Studies | None = None
    apart: Apart | None = None
    pools: tuple[Pool, ...] = ()

    def count_starts(self) -> int:
        """Count the processes that were started for scripts; one that died is started again."""
        return sum(each.starts for each in self.pools)

    async def close(self) -> None:
        """End every process."""
        try:
            await self.sandbox.close()
        finally:
            if self.studies is not None:
                await self.studies.close()


def build_workshop(
    env: Env, policy: Policy, settings: SandboxSettings, *, is_apart: bool = True
) -> Workshop:
    """Build both sandboxes; an `Env` that tests brought may put something around them.

    In virtual time, and where `is_apart` says no, sources are read in the host: they are the
    test's own, and a process that computes there would take no time.
    """
    # Scripts of both languages share these slots, and workflows take turns for them.
    running = Slots(RUNNING_MAX)
    wrap: Callable[[Sandbox], Sandbox] | None = getattr(env, "wrap_sandbox", None)
    wall_s, unlocked = policy.limits.load_wall_s, settings.unlocked
    studies = None
    if wrap is None and is_apart:
        studies = Studies(env, STUDIED, wall_s=wall_s, running=running, unlocked=unlocked)
    pool = Pool(env, running=running, unlocked=settings.unlocked)
    python = PythonSandbox(
        env,
        policy.limits,
        names=NAMES,
        refuse=refuse_lacking,
        is_unlocked=settings.unlocked == "i-accept",
        running=running,
        studies=studies,
    )
    sandbox: Sandbox = Languages(
        {
            Language.JAVASCRIPT: JavaScriptSandbox(pool, policy.limits, studies),
            Language.PYTHON: python,
        }
    )
    pools = (pool, python.pool)
    if studies is None:
        return Workshop(sandbox if wrap is None else wrap(sandbox), pools=pools)
    return Workshop(sandbox, studies, Apart(studies.ask, python.type_check), pools)
