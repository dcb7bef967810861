"""What the engine is given, and the one way a step of a script can fail.

Law: everything comes in through `Parts`; nothing of it is kept anywhere else, and no fact that
decides something lives only in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from duly.config import Policy, WorkflowPolicy
from duly.connectors.base import Call
from duly.connectors.blob import using_blobs
from duly.connectors.llm import ModelWay
from duly.connectors.registry import Registry
from duly.connectors.watch import Watch
from duly.engine.blobs import WorkflowBlobs
from duly.engine.lease import Lease
from duly.engine.live import Live
from duly.engine.study import Apart
from duly.env import Boot, Env
from duly.errors import ConfigError, DulyError, NotDeployed, ScriptError
from duly.model_settings import NO_MODELS, ModelSettings
from duly.rules import chain
from duly.rules.catalog import Tool
from duly.rules.ledger import FirstSends, Stamp
from duly.rules.lifecycle import Counts, Run
from duly.rules.model import AskModel
from duly.rules.repair import Repairer
from duly.rules.seal import OPEN_KEY
from duly.rules.value import Json
from duly.rules.word import Failure, Way
from duly.sandbox.base import Sandbox
from duly.store import Store

PLAIN_POLICY = WorkflowPolicy()


async def find_open_key() -> bytes:
    """Return the key of parts that were built without a host."""
    return OPEN_KEY


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything the engine works with."""

    env: Env
    store: Store
    sandbox: Sandbox
    outside: Registry
    policy: Policy
    repairer: Repairer | None = None
    seal_key: Callable[[], Awaitable[bytes]] = find_open_key  # a host's own is not in its store
    apart: Apart | None = None
    lease: Lease | None = None  # of a host of a fleet; the host of a file has its lock (H6)
    # Whether a handler of the bus is connected here and its subscription not written yet (B13).
    has_new_handler: Callable[[], bool] = lambda: False
    models: AskModel | None = None  # the way to language models (M2)
    model_settings: Mapping[str, ModelSettings] = field(default_factory=lambda: NO_MODELS)
    worker_starts: Callable[[], int] = lambda: 0  # processes for scripts, since the host opened

    def way(
        self, run: Run, counts: Counts, *, is_escalated: bool = False, was_empty: bool = False
    ) -> Way:
        """Return who moves an open run on here; where a person was told, a person does (F8)."""
        if is_escalated:
            return Way.PERSON
        return chain.way(
            run,
            counts,
            retries_max=self.policy.retries.attempts,
            repairs_max=self.policy.repair_budget,
            has_repairer=self.repairer is not None,
            was_empty=was_empty,
        )

    def blobs_of(self, live: Live) -> WorkflowBlobs:
        """Return the blobs that the calls of a run reach (K15)."""
        return WorkflowBlobs(self.store, self.env, self.policy.limits, live)

    def model_of(self, live: Live) -> ModelWay | None:
        """Return the way to models for the calls of a run; its workflow pays (M2)."""
        if self.models is None:
            return None
        return ModelWay(self.models, live.fence.workflow_id, live.id, live.chain)

    def send(self, live: Live, tool: Tool, call: Call) -> Watch:
        """Send a mutation of a run, which may use the blobs of its workflow (K15)."""
        with using_blobs(self.blobs_of(live)):
            return self.outside.send(tool, call, clock=self.env.monotonic_ms)

    def policy_of(self, workflow: str) -> WorkflowPolicy:
        """Return what the policy says about one workflow."""
        return self.policy.workflows.get(workflow, PLAIN_POLICY)


def stamp(env: Env, firsts: FirstSends) -> Stamp:
    """Return this moment by every clock, to compare first sends with it (L7)."""
    boot = env.boot()
    return Stamp(env.now_ms(), boot.id, boot.ms, firsts.clock_at(env.monotonic_ms()))


def boot_now(parts: Parts) -> Boot:
    """Return this moment of the boot, and of the server where there is one: a send begins (L7)."""
    boot = parts.env.boot()
    return boot if parts.lease is None else replace(boot, clock_ms=parts.lease.clock_ms)


class StepFailed(DulyError):
    """A step of a script ended without a result (F1)."""

    default_code = ""

    def __init__(
        self, message: str, failure: Failure, details: Details | None = None, *, code: str = ""
    ) -> None:
        super().__init__(message, code=code)
        self.failure = failure
        self.details = details or Details()


def sandbox_failure(error: DulyError | OSError) -> StepFailed:
    """Classify what a sandbox raised instead of running a script (F1).

    A worker that was lost or could not be started is a temporary failure. A machine that cannot
    lock a worker needs a person.
    """
    failure = Failure.TRANSIENT
    if isinstance(error, ConfigError):
        failure = Failure.INTERNAL
    elif isinstance(error, NotDeployed) or (isinstance(error, ScriptError) and not error.is_lost):
        failure = Failure.LOGIC
    details = Details(line=getattr(error, "line", None))
    return StepFailed(str(error), failure, details, code=getattr(error, "code", ""))


@dataclass(frozen=True, slots=True)
class Details:
    """What is known of a failure besides its class: where, in which call, and what it waits for."""

    line: int | None = None
    tool: str | None = None
    args: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    waits_on: str | None = None
    retry_after_s: float | None = None
