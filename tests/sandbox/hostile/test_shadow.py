"""No name and no value of a Python script takes the place of what its bridge uses (X1, X3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from duly.config import MIB, Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog
from duly.rules.source import Language, Source
from duly.sandbox import python_text
from duly.sandbox.base import (
    MISSING,
    Asked,
    Broke,
    Loaded,
    Returned,
    ScriptCall,
    World,
)
from duly.sandbox.python import PythonSandbox
from duly.sandbox.python_text import PRELUDE, context_text, print_text, read
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from tests.sandbox.hostile.corpus_shadow import BINDINGS, Shadow, own_names, shadows, write

LIMITS = Limits(step_cpu_s=5, step_wall_s=60, step_memory_bytes=16 * MIB)
WORLD = World(now_ms=1_800_000_000_000, frozen=True, seed=1)
SHADOWS = shadows()
PRINTS = (print_text(LIMITS, ""), print_text(LIMITS, "print"))
OWN = own_names(
    NAMES, PRELUDE, *PRINTS, context_text(Catalog(), read("ctx.a.b"), 9), python_text.DECLARE
)


@dataclass(frozen=True, slots=True)
class Stand:
    """A sandbox, and what it has loaded: one source for every module of the corpus."""

    sandbox: PythonSandbox
    loaded: dict[str, Loaded] = field(default_factory=dict)

    async def run(self, attack: Shadow) -> tuple[list[ScriptCall], Returned | Broke]:
        """Run an attack; return its calls and its end."""
        together = tuple(each for each in SHADOWS if each.module == attack.module)
        if attack.module not in self.loaded:
            source = Source(Language.PYTHON, write(together))
            self.loaded[attack.module] = await self.sandbox.load(source, Catalog())
        calls: list[ScriptCall] = []
        handler, loaded = f"a{together.index(attack)}", self.loaded[attack.module]
        async with self.sandbox.open(loaded, handler, Step.PRODUCE, (MISSING,), WORLD) as script:
            turn = await script.start()
            while isinstance(turn, Asked):
                calls += turn.calls
                turn = await script.answer(turn.calls[0].id, "answered")
        return calls, turn


@pytest.fixture(scope="module")
async def stand() -> AsyncIterator[Stand]:
    made = PythonSandbox(Loop(), LIMITS, names=NAMES, refuse=refuse_lacking, workers_max=2)
    yield Stand(made)
    await made.close()


@pytest.mark.parametrize("attack", SHADOWS, ids=lambda each: each.id)
async def test_a_shadow_falls_on_nothing_of_the_bridge(stand: Stand, attack: Shadow) -> None:
    """X1, X3: the host hears the one call as it was made, and refuses a value by its path."""
    calls, end = await stand.run(attack)
    heard = [(call.path, call.args, dict(call.kwargs)) for call in calls]
    assert heard == ([("echo.back", (), {"x": 1})] if attack.is_called else [])
    if attack.error:
        assert isinstance(end, Broke), end
        assert (str(end.error), end.is_lost) == (attack.error, False)
    else:
        assert isinstance(end, Returned), end
        assert end.value == attack.value


@pytest.mark.parametrize(
    "way",
    ["object.__setattr__(ctx, 'echo', ctx.other)", "type(ctx.echo).back = type(ctx.echo).other"],
)
async def test_a_tool_that_was_replaced_past_the_freezing_is_the_call_it_makes(
    stand: Stand, way: str
) -> None:
    """X1, C1: the host hears which tool it is, and the next step has its own `ctx`."""
    source = write((Shadow("around", f"if state:\n    {way}\nreturn await ctx.echo.back(x=1)"),))
    loaded = await stand.sandbox.load(Source(Language.PYTHON, source), Catalog())
    paths: list[str] = []
    for state in (True, False):
        async with stand.sandbox.open(loaded, "a0", Step.PRODUCE, (state,), WORLD) as script:
            turn = await script.start()
            assert isinstance(turn, Asked)
            paths += [call.path for call in turn.calls]
    assert paths in (["other.back", "echo.back"], ["echo.other", "echo.back"])


@pytest.mark.parametrize("binding", BINDINGS)
def test_no_binding_takes_a_name_of_the_bridge(binding: str) -> None:
    """X1: whichever name of the bridge it is, the text is refused before it runs."""
    assert len(OWN) > 20
    for name in OWN:
        with pytest.raises(ScriptError, match=f"{name} is a name of Duly's own"):
            refuse_lacking(binding.format(name=name))


def test_every_shadow_is_another_one() -> None:
    """X1: no attack is counted twice."""
    assert len({each.id for each in SHADOWS}) == len(SHADOWS)
    assert len({(each.module, each.body) for each in SHADOWS}) == len(SHADOWS)
