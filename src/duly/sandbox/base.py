"""The contract between the engine and a sandbox, which runs a script.

Law 1  A call is made when the script *calls*, not when it awaits; calls arrive in the order in
       which they were made, with their arguments copied at that moment (C8).
       What a script says after the first call of a turn arrives with the next turn, if there is
       one; a call made before a throw arrives before the throw. So leaving at a call shows
       nothing of what a later line did (C8).
Law 2  `Returned` never comes before every call was answered, awaited or not.
Law 3  There is no way to answer with an error: an error is leaving the script, which then makes no
       further observable step: no log, no call, no result (C3).
Law 4  Every `open` is a fresh context: nothing a script did before is there (C1). Leaving it drops
       it for good.
Law 5  Time and chance come from `World`; a script sees no other clock and no other dice (C13).
Law 6  What crosses is a copy, as JSON; names we own are snake_case on this side of the border, in
       the script's own spelling on the other (X3).

JavaScript, Python and the scripted stand-in keep these laws under one contract suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType, TracebackType
from typing import Final, Literal, Protocol, Self, TypeAlias

import msgspec

from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.declaration import Declaration
from duly.rules.source import Language, Source
from duly.rules.value import Json


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING  # returning nothing: undefined in JavaScript, None in Python (P2)
Missing = Literal[_Missing.MISSING]

# A longer text is read beside the event loop.
TEXT_AT_ONCE_CHARS: Final = 16 * 1024
# Publishes and looks a step may make, per publish of a run: what it may pile up in the host. The
# engine refuses one publish too many, and says so.
OWN_PER_PUBLISH: Final = 2


@dataclass(frozen=True, slots=True)
class World:
    """What a script knows of time and chance.

    Frozen, the clock stands at `now_ms` (C13). Otherwise it begins there and goes on by the time
    the script itself takes. The dice are seeded by `seed` in both cases.
    """

    now_ms: int
    frozen: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Log:
    """One line a script wrote: how many milliseconds after its start, and what (X4).

    A line with `left_out` is not the script's: it stands for so many lines past the limit (R1).
    """

    after_ms: int
    text: str
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A call of a tool or of `publish`, `peek`, `get_by_ids`; `line` is the script's own, if known.

    `path` is spelled as the catalogue spells it. A path the catalogue does not have is spelled as
    in the script, and the engine refuses it.
    """

    id: int
    path: str
    args: tuple[Json, ...] = ()
    kwargs: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The script waits for these calls, or goes on without waiting: all that are new, in order."""

    calls: tuple[ScriptCall, ...]
    logs: tuple[Log, ...] = ()


@dataclass(frozen=True, slots=True)
class Returned:
    """The script is done, and every call of its was answered."""

    value: Json | Missing
    logs: tuple[Log, ...] = ()


@dataclass(frozen=True, slots=True)
class Broke:
    """The script threw, exceeded a limit, or waits for something that never comes.

    All of that is a logic failure. `is_lost` says that the worker died and no limit was broken:
    that is a temporary failure (F1).
    """

    error: ScriptError
    logs: tuple[Log, ...] = ()
    is_lost: bool = False


Turn = Asked | Returned | Broke
# What a call is answered with: a value, or its JSON text, which is passed on unread. A long answer
# waits for its script as text: as values it would take many times as much memory (X2).
Result: TypeAlias = "Json | msgspec.Raw"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A source that was loaded once: what it declares, and what a sandbox keeps to open it fast.

    `catalog` is the one it was loaded with, if its language translates names by it (X3).
    """

    source: Source
    declaration: Declaration
    image: bytes | None = None
    catalog: Catalog | None = None

    @property
    def language(self) -> Language:
        """The language of its text."""
        return self.source.language


class Script(Protocol):
    """One step of one handler, from its first line to its end; an async context manager."""

    async def __aenter__(self) -> Self:
        """Take a place to run in."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop the context for good."""

    async def start(self) -> Turn:
        """Call the step and run until it asks, returns or breaks."""

    async def answer(self, call_id: int, value: Result) -> Turn:
        """Give one call its result and go on."""

    def waiting_outside(self) -> AbstractContextManager[None]:
        """Mark the time in which a call of the script is outside the host.

        Another script may begin meanwhile, however long the call lasts (X2).
        """


class Sandbox(Protocol):
    """Where scripts run."""

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        """Run the source with no tools and read what it declares (W6).

        Raises ScriptError with line and column if it cannot be loaded, or with `is_lost` if the
        worker died meanwhile; NotDeployed if it loads but does not declare a workflow.
        """

    def open(
        self,
        loaded: Loaded,
        handler: str,
        step: Step,
        args: tuple[Json | Missing, ...],
        world: World,
    ) -> Script:
        """Make a fresh context for one step; it runs when it is entered."""

    async def close(self) -> None:
        """End every worker; none is left behind."""
