"""The random bytes of a Python script: the same stream however it is read, and not too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

import pytest

from duly.config import Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.sandbox.base import Returned
from duly.sandbox.python_world import RANDOM_BYTES_MAX, RANDOM_BYTES_PER_STEP_MAX, ScriptClock
from tests.sandbox.hostile.meter import metering
from tests.sandbox.python_stand import WORLD, error_of, make, run

LOOP_MS_MAX = 250  # as in the corpus


def given(*counts: int) -> Iterator[bytes]:
    clock = ScriptClock(WORLD, Loop(), wall_s=60)
    for count in counts:
        urandom = clock.find("os.urandom")
        assert urandom is not None
        yield urandom(count)


@pytest.mark.parametrize("counts", [(96,), (0, 1, 31, 32, 0, 32), (33, 62, 1), (5, 90), (64, 20)])
def test_the_bytes_are_one_stream_however_they_are_asked_for(counts: tuple[int, ...]) -> None:
    """C13: neither a byte left over nor one too few changes what follows."""
    stream = b"".join(sha256(b"duly:7:%d" % block).digest() for block in range(3))
    assert b"".join(given(*counts)) == stream[: sum(counts)]


def test_one_random_byte_more_than_a_call_or_a_step_may_have_is_refused() -> None:
    """X2, N: the host makes them in its loop."""
    assert len(next(given(RANDOM_BYTES_MAX))) == RANDOM_BYTES_MAX
    with pytest.raises(ScriptError, match=f"at most {RANDOM_BYTES_MAX} random bytes at once"):
        next(given(RANDOM_BYTES_MAX + 1))
    whole = [RANDOM_BYTES_MAX] * (RANDOM_BYTES_PER_STEP_MAX // RANDOM_BYTES_MAX)
    most = f"at most {RANDOM_BYTES_PER_STEP_MAX} random bytes in a step"
    with pytest.raises(ScriptError, match=most):
        list(given(*whole, 1))


async def test_a_script_that_asks_for_much_chance_does_not_stop_the_loop() -> None:
    """X2: to make a MiB costs the loop little, and a loop of such calls ends soon."""
    sandbox = make(replace(Limits(), step_cpu_s=5))
    try:
        async with metering() as meter:
            ended = await run(sandbox, "import os\nreturn len(os.urandom(1024 * 1024))")
            assert ended == Returned(1024 * 1024)
            error = error_of(
                await run(sandbox, "import os\nwhile True:\n    os.urandom(1024 * 1024)")
            )
    finally:
        await sandbox.close()
    assert "random bytes in a step" in str(error)
    assert meter.callback_cpu_ms < LOOP_MS_MAX, meter.callback
