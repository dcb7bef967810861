"""What the steps of a script can use: clock, events and grants, reads, and the sandbox.

Law: nothing here can change anything, neither stored nor outside. A real run and a rehearsal run
their scripts with the same code, and differ only in what stands behind these protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from duly.config import Policy, WorkflowPolicy
from duly.connectors.llm import ModelWay
from duly.engine.blobs import StepBlobs
from duly.engine.live import Live
from duly.rules.catalog import Catalog, Tool
from duly.rules.value import Json, is_light
from duly.sandbox.base import Sandbox
from duly.store.people import GrantRow
from duly.store.record import EventRow

R = TypeVar("R")


class HostClock(Protocol):
    """Time and chance, as a step needs them."""

    def now_ms(self) -> int:
        """Return the wall clock, in milliseconds since 1970 UTC."""

    def monotonic_ms(self) -> int:
        """Return a clock that never goes back, for durations."""

    def random_bytes(self, count: int) -> bytes:
        """Make bytes that cannot be guessed."""

    def compute(self, function: Callable[[], R]) -> Awaitable[R]:
        """Run a function that computes for long, beside the event loop."""


async def think(clock: HostClock, value: object, function: Callable[[], R]) -> R:
    """Do something with a value: at once, or beside the event loop if the value is large (X2)."""
    return function() if is_light(value) else await clock.compute(function)


class StepStore(Protocol):
    """The events and the grants of a workflow, as the store has them."""

    def peek(
        self,
        workflow_id: str,
        topic: str,
        *,
        limit: int,
        bytes_max: int,
        after: str | None = None,
    ) -> Awaitable[tuple[EventRow, ...]]:
        """Read pending events in their order (T6)."""

    def get_by_ids(
        self, workflow_id: str, topic: str, message_ids: tuple[str, ...], *, bytes_max: int
    ) -> Awaitable[tuple[EventRow, ...]]:
        """Read known events of any status (T7)."""

    def list_grants(self, workflow_id: str) -> Awaitable[tuple[GrantRow, ...]]:
        """Read the envelope of a workflow (A1)."""

    def count_sent(
        self, workflow_id: str, tools: Iterable[str], *, since: int, besides: str = ""
    ) -> Awaitable[int]:
        """Return how often any of these tools was sent since a moment (A1)."""

    def count_first(self, workflow_id: str, tool: str, major: str, *, most: int) -> Awaitable[int]:
        """Return for how many inputs a major version has sent a tool, up to so many (A3)."""

    def has_asked_model(self, chain: str) -> Awaitable[bool]:
        """Tell whether a model answered a chain of runs (M4)."""


class StepOutside(Protocol):
    """The outside, to be looked at."""

    @property
    def catalog(self) -> Catalog:
        """Every tool there is, mutations too: a script may ask for one, and is left then (C8)."""

    async def read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Ask the outside."""


class StepEnv(Protocol):
    """All of it; `Parts` is one, and has more."""

    @property
    def env(self) -> HostClock:
        """Time and chance."""

    @property
    def store(self) -> StepStore:
        """Events and grants."""

    @property
    def sandbox(self) -> Sandbox:
        """Where scripts run."""

    @property
    def outside(self) -> StepOutside:
        """What scripts may look at."""

    @property
    def policy(self) -> Policy:
        """What the host allows."""

    def blobs_of(self, live: Live) -> StepBlobs:
        """Return the blobs that the calls of a run reach."""

    def model_of(self, live: Live) -> ModelWay | None:
        """Return the way to models for the calls of a run, if there is one."""

    def policy_of(self, workflow: str) -> WorkflowPolicy:
        """Return what the policy says about one workflow."""
