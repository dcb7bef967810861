"""The stand of JavaScript's own tests: one pool, and short ways to load and run a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.config import Limits
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import MISSING, Broke, Missing, Returned, Turn, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool

LIMITS = Limits(step_cpu_s=1, load_s=1, step_memory_bytes=16 * 1024 * 1024)
FROZEN = World(now_ms=1_800_000_000_000, frozen=True, seed=1)
RUNNING = World(now_ms=1_800_000_000_000, frozen=False, seed=1)
APPEND = Tool(
    "sheets.append_row",
    ToolKind.MUTATION,
    "sheets.append",
    parameters=(Parameter("spreadsheet_id"), Parameter("values")),
)
CATALOG = Catalog((APPEND,))
HEAD = 'export default Keep.workflow({name: "w", producers: {p: async (ctx, state) => {\n'


@dataclass(frozen=True, slots=True)
class Stand:
    """A pool for this file, and short ways to load and run."""

    pool: Pool

    async def load(self, text: str, limits: Limits = LIMITS) -> Any:
        sandbox = JavaScriptSandbox(self.pool, limits)
        return await sandbox.load(Source(Language.JAVASCRIPT, text), CATALOG)

    async def turns(
        self,
        body: str,
        *answers: Json,
        state: Json | Missing = MISSING,
        world: World = FROZEN,
        limits: Limits = LIMITS,
        before: str = "",
    ) -> list[Turn]:
        """Run a producer whose body begins on line 2, answer its calls in order."""
        sandbox = JavaScriptSandbox(self.pool, limits)
        text = f"{HEAD}{body}\n}}}}}});{before}"
        loaded = await sandbox.load(Source(Language.JAVASCRIPT, text), CATALOG)
        async with sandbox.open(loaded, "p", Step.PRODUCE, (state,), world) as script:
            turns = [await script.start()]
            for number, value in enumerate(answers, 1):
                turns.append(await script.answer(number, value))
        return turns

    async def returned(self, body: str, *answers: Json, **options: Any) -> Json | Missing:
        end = (await self.turns(body, *answers, **options))[-1]
        assert isinstance(end, Returned), end
        return end.value

    async def broke(self, body: str, *answers: Json, **options: Any) -> ScriptError:
        end = (await self.turns(body, *answers, **options))[-1]
        assert isinstance(end, Broke), end
        assert not end.is_lost
        return end.error
