"""The limit that was exceeded is the one that is named, and a lie about one is not (X2)."""

from __future__ import annotations

import pytest

from duly.env import Loop
from duly.rules.catalog import Catalog
from duly.sandbox.pool import Pool
from duly.sandbox.watch import Limit, ScriptWatch
from tests.sandbox.javascript_stand import Stand
from tests.sandbox.python_stand import make, opened, source


@pytest.mark.parametrize(
    ("cpu_s", "wall_s", "computed_s", "named"),
    [
        (1, 5, 7, Limit.CPU),  # both are broken; it computed too long before it lasted too long
        (5, 1, 7, Limit.WALL),
        (1, 1, 7, Limit.CPU),
        (1, 5, 0.5, Limit.WALL),
        (1, 50, 7, Limit.CPU),
        (10, 50, 7, None),
    ],
)
def test_of_two_broken_limits_the_first_is_named(
    cpu_s: float, wall_s: float, computed_s: float, named: Limit | None
) -> None:
    """X2: a look comes late on a busy machine; by then a second limit may be broken too."""
    watch = ScriptWatch(cpu_s, wall_s)
    watch.begin_turn()
    for _ in range(7):
        watch.wait_again()
        assert watch.add(1)
    assert watch.judge(computed_s) is named


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        ("MemoryError('mine')", "MemoryError: mine"),
        ("RecursionError('mine')", "RecursionError: mine"),
        ("TimeoutError('time limit exceeded')", "TimeoutError: time limit exceeded"),
    ],
)
async def test_what_a_python_script_raises_is_no_limit(raised: str, says: str) -> None:
    """X2: the words of a limit are the host's; a script that raises by itself exceeded none."""
    sandbox = make()
    try:
        loaded = await sandbox.load(source(f"raise {raised}"), Catalog())
        async with opened(sandbox, loaded) as script:
            turn = await script.start()
    finally:
        await sandbox.close()
    assert str(turn.error) == says  # type: ignore[union-attr]  # it raises


async def test_what_a_javascript_script_throws_is_no_limit() -> None:
    """X2: the interpreter's own interrupt cannot be caught, so one that was thrown is a word."""
    pool = Pool(Loop(), workers_max=1)
    try:
        error = await Stand(pool).broke("throw new InternalError('interrupted')")
    finally:
        await pool.close()
    assert str(error) == "The script threw InternalError: interrupted."
    assert error.line == 2
