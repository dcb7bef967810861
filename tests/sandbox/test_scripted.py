"""The stand-in beside the contract: its moves, its text, and that nothing in it is chance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.env import Loop
from duly.errors import IllegalTransition, ScriptError
from duly.rules.access import Step
from duly.rules.source import Language, Source
from duly.sandbox.base import MISSING, Asked, Broke, Returned, World
from tests.sandbox.contract import CATALOG, DECLARATION, WORLD, Story, play
from verification.moves import (
    NOW,
    RANDOM,
    Call,
    Each,
    Let,
    Lose,
    Move,
    Never,
    Pass,
    Return,
    Say,
    Throw,
    Wait,
    When,
    ref,
)
from verification.scripted import Scripted, ScriptedSandbox, ScriptedScript, read

pytestmark = pytest.mark.anyio


def workflow(*moves: Move) -> Scripted:
    return Scripted(DECLARATION, {"file": {Step.NEXT: moves}})


async def open_next(*moves: Move, world: World = WORLD, state: Any = MISSING) -> ScriptedScript:
    sandbox = ScriptedSandbox(Loop())
    loaded = await sandbox.load(workflow(*moves).source(), CATALOG)
    args: Any = ({"data": {"ids": ["a", "b"]}}, {"status": "applied", "result": 7}, state)
    return sandbox.open(loaded, "file", Step.NEXT, args, world)


async def tell(*moves: Move, state: Any = MISSING) -> Story:
    async with await open_next(*moves, state=state) as script:
        return await play(script, lambda call: call.id)


async def test_arguments_are_named_and_pointed_at() -> None:
    """C10: next is given the prepared data, the mutation's result and the state."""
    seen = [ref("prepared.data.ids.1"), ref("result.result"), ref("state.n")]
    assert (await tell(Return(seen), state={"n": 3})).value == ["b", 7, 3]


async def test_a_star_points_at_every_item() -> None:
    items: Any = [{"id": "m1"}, {"id": "m2"}]
    assert (await tell(Let("all", items), Return(ref("all.*.id")))).value == ["m1", "m2"]


async def test_each_plays_its_moves_for_every_item() -> None:
    story = await tell(Each("prepared.data.ids", "one", (Call("publish", (ref("one"),)),)))
    assert [call.args for call in story.calls] == [("a",), ("b",)]


async def test_each_breaks_on_what_is_no_list() -> None:
    assert "result is no list" in str((await tell(Each("result", "one", ()))).error)


@pytest.mark.parametrize(
    ("state", "way"), [(MISSING, "no"), (0, "no"), ([], "no"), ({"n": 1}, "yes"), ("x", "yes")]
)
async def test_when_asks_whether_there_is_something(state: Any, way: str) -> None:
    moves = When("state", (Return("yes"),), (Return("no"),))
    assert (await tell(moves, state=state)).value == way


@pytest.mark.parametrize("move", [Return(ref("absent.x")), Let("absent.x", 1), Let("state.9", 1)])
async def test_a_name_nobody_set_breaks(move: Move) -> None:
    """F1: a misspelt name is a logic failure, as it is in any language."""
    assert "There is no" in str((await tell(move, state=[1])).error)


async def test_time_passes_only_when_told() -> None:
    """C13: the clock of the stand-in stands until a move takes time."""
    story = await tell(Let("start", NOW), Pass(250), Say("late"), Return([ref("start"), NOW]))
    assert story.value == [WORLD.now_ms, WORLD.now_ms + 250]
    assert story.logs[0].after_ms == 250


async def test_a_lost_worker_takes_its_calls_along() -> None:
    """F1: a worker that dies is nobody's fault, and what it asked in that turn never arrived."""
    async with await open_next(Call("gmail.search", waits=False), Lose()) as script:
        turn = await script.start()
    assert isinstance(turn, Broke)
    assert turn.is_lost


async def test_a_script_starts_once_and_a_call_is_answered_once() -> None:
    """C8: what the engine must not do is refused loudly."""
    async with await open_next(Call("gmail.search"), Call("gmail.search")) as script:
        turn = await script.start()
        assert isinstance(turn, Asked)
        with pytest.raises(IllegalTransition):
            await script.start()
        with pytest.raises(IllegalTransition):
            await script.answer(9, None)
        await script.answer(turn.calls[0].id, None)
        with pytest.raises(IllegalTransition):
            await script.answer(turn.calls[0].id, None)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ('{"declaration": {}', 1, 1),
        ('{\n  "declaration": {},\n  "steps": =\n}', 3, 12),
        ('{"declaration": {}, "module": [{"type": "jump"}]}', 1, 1),
    ],
)
def test_a_text_that_is_no_script_is_refused_with_its_place(
    text: str, line: int, column: int
) -> None:
    """W5: the place is where the text stops making sense; of a wrong shape, its beginning."""
    with pytest.raises(ScriptError) as caught:
        read(Source(Language.PYTHON, text))
    assert (caught.value.line, caught.value.column) == (line, column)


# -- Properties ---------------------------------------------------------------------------------

VALUES = st.sampled_from([0, None, "text", [1, {"k": False}], NOW, RANDOM, ref("prepared.data")])
SIMPLE = st.one_of(
    st.builds(Say, VALUES),
    st.builds(Pass, st.integers(0, 9)),
    st.builds(Let, st.sampled_from("ab"), VALUES),
    st.builds(
        Call,
        st.sampled_from(["gmail.search", "publish"]),
        st.tuples(VALUES),
        into=st.sampled_from(["", "a"]),
        waits=st.booleans(),
    ),
    st.just(Wait()),
)
LAST = st.one_of(
    st.builds(Return, VALUES),
    st.builds(Throw, st.just("thrown")),
    st.just(Never()),
    st.just(Wait()),
)
SCRIPTS = st.tuples(st.lists(SIMPLE, max_size=8), LAST).map(lambda both: (*both[0], both[1]))


@given(SCRIPTS)
def test_a_script_is_read_as_it_was_written(moves: tuple[Move, ...]) -> None:
    """W1: the text the store keeps is the script, whole."""
    assert read(workflow(*moves).source()) == workflow(*moves)


@given(SCRIPTS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_every_call_is_asked_once_in_order_and_answered_before_the_end(
    moves: tuple[Move, ...], order: Any
) -> None:
    """C8: whatever the moves and the order of the answers, the laws hold, and twice the same."""

    async def whole(choices: list[int]) -> list[object]:
        turns: list[object] = []
        waiting: list[int] = []
        async with await open_next(*moves) as script:
            turn = await script.start()
            while isinstance(turn, Asked):
                turns.append(turn)
                waiting += [call.id for call in turn.calls]
                chosen = waiting.pop(choices.pop() % len(waiting))
                turn = await script.answer(chosen, chosen)
            assert waiting == []
            end = turn if isinstance(turn, Returned) else (str(turn.error), turn.logs)
            return [*turns, end]

    choices = [order.randrange(100) for _ in range(20)]
    first = asyncio.run(whole(list(choices)))
    assert asyncio.run(whole(list(choices))) == first
    asked = [call.id for turn in first[:-1] for call in turn.calls]  # type: ignore[attr-defined]
    assert asked == list(range(1, len(asked) + 1))
