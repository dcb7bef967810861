"""A sandbox that is closed under a script."""

from __future__ import annotations

import pytest

from duly.errors import DulyError, ScriptError
from duly.rules.access import Step
from duly.sandbox.base import MISSING, Asked, Broke
from tests.sandbox.contract import CATALOG, LANGUAGES, WORLD, Body, make_subject
from verification.moves import Call, Return

ASK = Body(
    javascript="await ctx.gmail.search(); return 1",
    python="await ctx.gmail.search()\nreturn 1",
    scripted=(Call("gmail.search"), Return(1)),
)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_closing_under_a_script_is_not_the_script_s_fault(language: str) -> None:
    """F1: its worker is lost, which is transient; nobody repairs a script for it."""
    sandbox = (await make_subject(language)).sandbox
    loaded = await sandbox.load(ASK.source(language), CATALOG)
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        await sandbox.close()
        turn = await script.answer(turn.calls[0].id, [])
    assert isinstance(turn, Broke)
    assert turn.is_lost


@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_a_closed_sandbox_blames_no_script(language: str) -> None:
    """F1: entering a closed sandbox is the host's error, not a logic failure."""
    sandbox = (await make_subject(language)).sandbox
    loaded = await sandbox.load(ASK.source(language), CATALOG)
    await sandbox.close()
    with pytest.raises(DulyError, match="closed") as refused:
        async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD):
            pass
    assert not isinstance(refused.value, ScriptError)
