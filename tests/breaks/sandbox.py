"""Breaks of the contract between host and script, most in the stand-in: C, some of X, W, T, S."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from duly.errors import ScriptError
from duly.rules.value import Json
from duly.sandbox.base import Asked, Broke, Log, Returned, ScriptCall, Turn
from duly.sandbox.slot import Slots
from tests.breaks import Break
from verification import moves
from verification.moves import Call, Context
from verification.scripted import Scripted, ScriptedSandbox, ScriptedScript


def _call_with_live_arguments(context: Context, move: Call) -> int:
    context.made += 1
    context.waiting[context.made] = move
    kwargs: Any = {name: context.evaluate(value) for name, value in move.kwargs.items()}
    context.calls.append(ScriptCall(context.made, move.path, move.args, kwargs, move.line))
    return context.made


def _call_when_awaited(context: Context, move: Call) -> int:
    return _call(context, move) if move.waits else 0


def _take_all(context: Context) -> tuple[tuple[ScriptCall, ...], tuple[Log, ...]]:
    calls, logs = tuple(context.calls), tuple(context.logs)
    context.calls.clear()
    context.logs.clear()
    return calls, logs


_call = Context.call


async def _end_at_once(script: ScriptedScript) -> Turn:
    script._end = script._end or script._advance()
    context = script._context
    calls, logs = context.take()
    if isinstance(script._end, Returned | Broke):
        return replace(script._end, logs=logs)
    return Asked(calls, logs) if context.waiting else Broke(_STALLED)


_STALLED = ScriptError("stalled")
_SHARED: list[Context] = []


def _shared_context(sandbox: ScriptedSandbox, script: Scripted, world: Any) -> Context:
    context = _fresh(sandbox, script, world)
    if _SHARED:
        context.named = _SHARED[0].named
    _SHARED.append(context)
    return context


_fresh = ScriptedSandbox._fresh


def _running_clock(context: Context, value: Json) -> Json:
    if value == moves.NOW:
        return context.world.now_ms + context.elapsed_ms
    return _evaluate(context, value)


_evaluate = Context.evaluate


def _same_dice(context: Context) -> float:
    context.throws += 1
    return context.throws / 1000


def _process(name: str) -> tuple[str, ...]:
    """Name one test of Python's process."""
    return (f"tests/sandbox/test_python_process.py::{name}",)


async def _stays(script: Any, *how: object) -> None:
    """Leave without leaving."""


async def _go_round_by_arrival(slots: Slots, workflow: str) -> None:
    await _take_slot(slots, "")


_take_slot = Slots.take


def _watch(name: str) -> tuple[str, ...]:
    """Name one test of the watch over a script."""
    return (f"tests/sandbox/test_watch.py::{name}",)


def _reaper(name: str) -> tuple[str, ...]:
    """Name one test of who ends what stands idle."""
    return (f"tests/sandbox/test_reaper.py::{name}",)


def _test(name: str, part: str = "", language: str = "scripted") -> tuple[str, ...]:
    """Name one test of the contract, as one language is asked it."""
    return (f"tests/sandbox/test_contract{part}.py::{name}[{language}]",)


def _dropped(language: str) -> tuple[str, ...]:
    """Name the test of a thousand scripts that are left."""
    name = "test_a_dropped_script_makes_no_further_observable_step"
    return (f"tests/sandbox/test_dropped.py::{name}[{language}]",)


BREAKS = (
    Break(
        "C3",
        "verification.scripted",
        "ScriptedScript.__aexit__",
        _stays,
        _test("test_a_script_that_was_left_gives_no_further_turn"),
        "a script that was left goes on",
    ),
    Break(
        "C8",
        "verification.moves",
        "Context.call",
        _call_with_live_arguments,
        _test("test_arguments_are_copied_when_the_call_is_made"),
        "arguments are shared with the script",
    ),
    Break(
        "C8",
        "verification.moves",
        "Context.call",
        _call_when_awaited,
        _test("test_a_call_nobody_awaits_is_made_and_answered_before_the_end"),
        "a call is made when it is awaited",
    ),
    Break(
        "C8",
        "verification.scripted",
        "ScriptedScript._turn",
        _end_at_once,
        _test("test_a_call_made_before_a_throw_arrives_before_it"),
        "an end overtakes the calls made before it",
    ),
    Break(
        "C8",
        "verification.moves",
        "Context.take",
        _take_all,
        _test("test_what_is_said_after_a_call_is_not_heard_before_its_answer"),
        "a log written after the call is heard",
    ),
    Break(
        "C1",
        "verification.scripted",
        "ScriptedSandbox._fresh",
        _shared_context,
        _test("test_globals_do_not_survive_a_step", "_world"),
        "globals survive a step",
    ),
    Break(
        "C13",
        "verification.moves",
        "Context.evaluate",
        _running_clock,
        _test("test_a_frozen_clock_stands", "_world"),
        "a frozen clock runs",
    ),
    Break(
        "C13",
        "verification.moves",
        "Context.throw_dice",
        _same_dice,
        _test("test_another_seed_throws_other_numbers", "_world"),
        "every seed throws the same",
    ),
    Break(
        "T7",
        "duly.sandbox.border",
        "to_python",
        lambda path, value: value,
        _test("test_events_are_shown_in_the_script_s_own_spelling", "_border"),
        "an event has no id",
    ),
    Break(
        "T8",
        "verification.moves",
        "Context.copy_out",
        lambda context, value, path: msgspec.json.encode(value).decode(),
        _test("test_an_argument_that_is_no_json_breaks_with_its_path", "_border"),
        "what is no strict JSON crosses",
    ),
    Break(
        "W5",
        "verification.moves",
        "Context.call",
        lambda context, move: 0,
        _test("test_a_tool_call_at_module_level_is_refused", "_load"),
        "a call at module level is overlooked",
    ),
    Break(
        "C13",
        "duly.sandbox.border",
        "dice",
        lambda seed: (1, 2, 3, 4),
        _test("test_another_seed_throws_other_numbers", "_world", "javascript"),
        "the seed does not reach the worker",
    ),
    Break(
        "S6",
        "duly.sandbox.border",
        "from_javascript_result",
        lambda step, value: value,
        _test("test_prepare_s_wake_time_is_spelled_our_way", "_border", "javascript"),
        "wakeAt is not understood",
    ),
    Break(
        "X3",
        "duly.sandbox.border",
        "_rename",
        lambda given, names: given,
        _test("test_tools_and_arguments_are_spelled_as_in_the_catalogue", "_border", "javascript"),
        "arguments keep the script's spelling",
    ),
    Break(
        "X3",
        "duly.sandbox.javascript",
        "SCRIPT_LINE",
        0,
        _test("test_a_call_knows_its_line", "", "javascript"),
        "a line of the prelude is taken for the script's",
    ),
    Break(
        "X2",
        "duly.sandbox.watch",
        "ScriptWatch.begin_turn",
        lambda watch: watch.wait_again() + watch.cpu_s,
        _watch("test_a_script_ends_within_its_limit_and_two_seconds"),
        "a script that used up its time in earlier turns is left alone for as long again",
    ),
    Break(
        "X2",
        "duly.sandbox.watch",
        "ScriptWatch.judge",
        lambda watch, computed_s: None,
        _watch("test_a_script_within_its_limits_is_left_alone"),
        "the host's watch ends nobody",
    ),
    Break(
        "X2",
        "duly.sandbox.slot",
        "Slots.take",
        _go_round_by_arrival,
        ("tests/sandbox/hostile/test_turn_taking.py::test_workflows_take_turns",),
        "who waits with many is served first",
    ),
    Break(
        "X2",
        "duly.sandbox.slot",
        "ScriptPlace.look",
        lambda place: False,
        ("tests/sandbox/test_place.py",),
        "scripts that wait outside keep others from beginning",
    ),
    Break(
        "S9",
        "duly.sandbox.pool",
        "Pool._reap",
        lambda pool: False,
        _reaper("test_a_javascript_worker_ends_after_a_minute_of_nothing"),
        "an idle JavaScript worker stays for ever",
    ),
    Break(
        "C3",
        "duly.sandbox.javascript",
        "JavaScriptScript.__aexit__",
        _stays,
        _dropped("javascript"),
        "a JavaScript script that was left goes on",
    ),
    Break(
        "C3",
        "duly.sandbox.python",
        "PythonScript.__aexit__",
        _stays,
        _dropped("python"),
        "a Python script that was left goes on",
    ),
    Break(
        "C1",
        "duly.sandbox.python_process",
        "PythonWorker._wiping",
        lambda _: (),
        _process("test_nothing_of_a_script_is_there_for_the_next"),
        "a Python worker does not forget its script",
    ),
    Break(
        "C1",
        "duly.sandbox.python_process",
        "Stream._must_be_quiet",
        lambda _: None,
        _process("test_what_is_said_between_two_scripts_is_not_heard"),
        "an end that a Python worker said in advance is the next script's",
    ),
    Break(
        "X2",
        "duly.sandbox.python_wire",
        "Reader._count",
        lambda _: None,
        _process("test_a_worker_that_says_nonsense_is_lost"),
        "an event of a Python worker may have any number of fields",
    ),
    Break(
        "X2",
        "duly.sandbox.python_process",
        "READ_AT_ONCE_BYTES",
        1 << 30,
        _process("test_long_events_are_read_beside_the_loop"),
        "a long event of a Python worker is read in the loop",
    ),
    Break(
        "X2",
        "duly.sandbox.python_process",
        "OUT_OF_MEMORY",
        1,
        _process("test_a_worker_that_is_out_of_memory_says_so_by_its_end"),
        "a Python script that used up its memory is run again",
    ),
    Break(
        "X4",
        "duly.sandbox.python_text",
        "print_text",
        lambda *_: "_duly_begin_log = bool\n",
        ("tests/sandbox/test_python_print.py",),
        "all that a script prints crosses to the host",
    ),
    Break(
        "X4",
        "duly.sandbox.python_seat",
        "Seat._hear_dropped",
        lambda *_: None,
        ("tests/sandbox/test_python_print.py",),
        "lines that a worker dropped are not counted",
    ),
)
