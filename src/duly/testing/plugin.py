"""The pytest plugin: `async def test_x(duly_world)` runs in virtual time.

Law: only tests and fixtures that stand on `duly_world` are touched: they ask for it, or for a
fixture that does. They are plain functions to every other plugin, so anyio and pytest-asyncio go
on running all other asynchronous tests. A program whose tests never ask for it pays next to
nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from duly.testing.stage import Stage

WORLD: Final = "duly_world"


@pytest.fixture
def duly_world(tmp_path: Path) -> Iterator[Stage]:
    """Give the test a world in virtual time: connectors, faults, hosts, and a count of effects."""
    from duly.testing.stage import open_stage

    with open_stage(tmp_path) as stage:
        yield stage


# The innermost wrapper: others look at the items after it, and find no coroutine to take over.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_pycollect_makeitem() -> Generator[None, Any, Any]:
    """Make a coroutine that stands on `duly_world` a function that runs in virtual time."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if not isinstance(item, pytest.Function) or not iscoroutinefunction(item.obj):
            continue
        if WORLD in item.fixturenames:
            item.obj = _in_virtual_time(item.obj)
            # pytest fills in what the item's fixtures are named; the world may come through one.
            _ask_for(item._fixtureinfo)
    return made


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Run an asynchronous fixture that stands on `duly_world` in its virtual time."""
    function: Callable[..., Any] = fixturedef.func
    is_ours = iscoroutinefunction(function) or isasyncgenfunction(function)
    if not is_ours or not _stands_on_world(fixturedef, request):
        return (yield)
    world: Stage = request.getfixturevalue(WORLD)
    given = cast("Any", fixturedef)
    given.func = (
        _set_up_and_down(function, world)
        if isasyncgenfunction(function)
        else _set_up(function, world)
    )
    try:
        return (yield)
    finally:
        given.func = function


def _stands_on_world(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> bool:
    """Tell whether a fixture asks for the world, itself or through another fixture."""
    known = request._fixturemanager
    asked, seen = list(fixturedef.argnames), set[str]()
    while asked:
        name = asked.pop()
        if name == WORLD:
            return True
        if name not in seen:
            seen.add(name)
            found = known.getfixturedefs(name, request.node) or ()
            asked += [each for definition in found for each in definition.argnames]
    return False


def _in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    is_asked = WORLD in signature(test).parameters

    @wraps(test)
    def run(*, duly_world: Stage, **fixtures: Any) -> None:
        given = {WORLD: duly_world, **fixtures} if is_asked else fixtures
        duly_world.run(test(**given))

    return run


def _ask_for(info: Any) -> None:
    if WORLD not in info.argnames:
        object.__setattr__(info, "argnames", (*info.argnames, WORLD))


def _set_up(function: Callable[..., Coroutine[Any, Any, Any]], world: Stage) -> Callable[..., Any]:
    @wraps(function)
    def run(**fixtures: Any) -> Any:
        return world.run(function(**fixtures))

    return run


def _set_up_and_down(
    function: Callable[..., AsyncGenerator[Any, None]], world: Stage
) -> Callable[..., Generator[Any, None, None]]:
    @wraps(function)
    def run(**fixtures: Any) -> Generator[Any, None, None]:
        steps = function(**fixtures)
        yield world.run(_next(steps))
        try:
            world.run(_next(steps))
        except StopAsyncIteration:
            return
        raise pytest.fail.Exception("An asynchronous fixture yields once.")

    return run


async def _next(steps: AsyncGenerator[Any, None]) -> Any:
    return await anext(steps)
