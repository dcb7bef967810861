"""The pytest plugin: `async def test_x(duly_world)` runs in virtual time.

Law: only tests that ask for `duly_world` are touched. They are plain functions to every other
plugin, so anyio and pytest-asyncio go on running whatever else is asynchronous. A program whose
tests never ask for it pays next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import wraps
from inspect import iscoroutinefunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from duly.testing.stage import Stage


@pytest.fixture
def duly_world(tmp_path: Path) -> Iterator[Stage]:
    """Give the test a world in virtual time: connectors, faults, hosts, and a count of effects."""
    from duly.testing.stage import open_stage

    with open_stage(tmp_path) as stage:
        yield stage


# The innermost wrapper: others look at the items after it, and find no coroutine to take over.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Make a coroutine that asks for `duly_world` a function that runs in virtual time."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if not isinstance(item, pytest.Function) or not iscoroutinefunction(item.obj):
            continue
        if "duly_world" in signature(item.obj).parameters:
            item.obj = _in_virtual_time(item.obj)
    return made


def _in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*, duly_world: Stage, **fixtures: Any) -> None:
        duly_world.run(test(duly_world=duly_world, **fixtures))

    return run
