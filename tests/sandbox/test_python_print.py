"""What a Python script prints beyond its log is dropped in its worker, and counted exactly (X4)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.config import Limits
from duly.sandbox.base import Returned
from duly.sandbox.python import PythonSandbox
from duly.sandbox.python_seat import PRINTED, Seat
from tests.sandbox.python_stand import error_of, make, run, tell

LINES, CHARS = 3, 5
LIMITS = Limits(log_lines=LINES, log_line_chars=CHARS, step_wall_s=60)


@pytest.fixture
async def sandbox() -> AsyncIterator[PythonSandbox]:
    made = make(LIMITS)
    yield made
    await made.close()


def expected(printed: str) -> list[str]:
    """Return the log that a text must give, computed apart from the code under test."""
    lines = printed.split("\n")
    if lines[-1] == "":
        lines.pop()
    more = len(lines) - LINES
    kept = [line[:CHARS] for line in lines[:LINES]]
    return [*kept, f"{more} more lines were left out."] if more > 0 else kept


@pytest.mark.parametrize(
    "calls",
    [
        "print('a', 'b', sep='-', end='!')|print('c')",
        "print('abcdefgh')|print('a\\nbcdefgh\\n')|print('x', end='')",
        "print('abc', end='')|print('def', end='')|print('ghi')|print('j')",
        "print('a\\nb\\nc\\nd\\ne')|print('f')",
        "print('a\\nb\\nc')|print('d', end='')|print('e', end='')|print('f')|print('g', end='')",
        "print('a\\nb\\nc', end='')|print('d', end='')|print('e\\nf', end='')|print()|print()",
        "print('\\n' * 1000, end='')|print('tail', end='')",
        "print('a\\nb\\nc\\nd', 'e\\nf', sep='\\n', end='\\n\\n')|print('', end='')",
        "print(1, None, [2], sep='\\n')|print(4.5, sep=None, end=None)",
    ],
)
async def test_a_log_is_the_same_wherever_a_line_is_dropped(
    sandbox: PythonSandbox, calls: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """X4: lines kept, cut and counted as if all that was printed had crossed."""
    body = calls.replace("|", "\n")
    exec(body, {})  # Python's own print says what was printed
    said = capsys.readouterr().out
    assert (await tell(sandbox, body)).said == expected(said)


@pytest.mark.parametrize("flood", ["'x' * 1_000_000", "'x\\n' * 500_000", "'é\\n' * 500_000"])
async def test_what_the_log_has_no_room_for_does_not_cross(
    sandbox: PythonSandbox, flood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2, X4: 40 MB printed cost the host no more than the log's room; each line is counted."""
    heard: list[int] = []
    hear = Seat.hear

    def count(self: Seat, stream: int, text: str) -> None:
        heard.append(len(text))
        hear(self, stream, text)

    monkeypatch.setattr(Seat, "hear", count)
    story = await tell(sandbox, f"for n in range(40): print({flood})")
    assert isinstance(story.end, Returned)
    lines = 40 * (eval(flood).count("\n") + 1)
    assert story.said[LINES:] == [f"{lines - LINES} more lines were left out."]
    assert sum(heard) < LINES * (CHARS + 1) + 40 * len("1000000\n")


async def test_lines_dropped_before_and_after_a_call_are_told_with_it(
    sandbox: PythonSandbox,
) -> None:
    """X4, C8: the count of a turn has nothing of the next; a line that a call ends is one."""
    body = (
        "print('a\\nb\\nc\\nd')\nprint('e', end='')\nawait ctx.mail.send()\nprint('f\\ng', end='')"
    )
    story = await tell(sandbox, body)
    left_out = "2 more lines were left out."
    assert story.said == ["a", "b", "c", left_out, left_out]


async def test_lines_of_loading_take_no_room_of_the_step(sandbox: PythonSandbox) -> None:
    """X4: a step has its own log, also where its script is loaded once for many steps."""
    story = await tell(sandbox, "print('step')", "for n in range(10): print('loading')\n")
    assert story.said == ["step"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("print('a', sep=3)", "sep must be None or a string, not int"),
        ("print('a', end=3)", "end must be None or a string, not int"),
        ("print('a', file=3)", "'file' argument must be sys.stdout or sys.stderr"),
        ("print('a', other=3)", "print() got an unexpected keyword argument 'other'"),
    ],
)
async def test_a_wrong_print_is_told_as_pythons_own(
    sandbox: PythonSandbox, call: str, words: str
) -> None:
    """X3: the line is the script's, not that of what is fed before it."""
    error = error_of(await run(sandbox, call))
    assert words in str(error)
    assert error.line is not None


async def test_a_script_cannot_write_to_the_stream_of_the_counts(sandbox: PythonSandbox) -> None:
    """X1, X4: what it prints to the error stream is a line of its log as well."""
    story = await tell(sandbox, "import sys\nprint('7+', file=sys.stderr)")
    assert story.said == ["7+"]


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "9" * 13, "²", "+", "1 2 x 3+"])
def test_what_a_worker_says_of_dropped_lines_is_a_number_or_nothing(text: str) -> None:
    """X1: a worker that was taken over cannot break the host by it."""
    seat = Seat(None, {}, LIMITS)  # type: ignore[arg-type]  # no clock is asked
    seat.hear(PRINTED + 1, text)
    assert seat._left_out == (6 if "3+" in text else 0)
