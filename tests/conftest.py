"""What every test stands on: asyncio, and properties that try the same examples every time."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator

import hypothesis
import pytest

from tests import loopback
from tests.breaks import BREAK_VARIABLE
from tests.order import ALL, marks, rank
from tests.spare import OWN, SHELF

# Tests start hundreds of processes. What the first one compiles is kept for the others, also where
# the environment says otherwise: without that each break costs three times as much.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No deadline: a slow machine must not fail a test. No database: a run depends on nothing but the
# tree. Under a break the first counterexample is enough, so it is not made smaller.
hypothesis.settings.register_profile("duly", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile(
    "break",
    hypothesis.settings.get_profile("duly"),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("break" if os.environ.get(BREAK_VARIABLE) else "duly")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutines on asyncio, the only loop Duly speaks."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    """Let `-m` know the marks."""
    for mark, names in ALL.items():
        config.addinivalue_line("markers", f"{mark}: {', '.join(names)}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which need never look at what stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and begin with the long tests; the others keep their order."""
    for item in items:
        for mark in marks(item.nodeid):
            item.add_marker(mark)
    items.sort(key=lambda item: rank(item.nodeid))


loopback.watch()
SHELF.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test have workers that another one left, or start its own."""
    SHELF.is_open = not item.nodeid.startswith(OWN)


def pytest_sessionfinish() -> None:
    """End the workers that are left."""
    SHELF.empty()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that tried to reach another machine, whatever became of it (M10)."""
    loopback.forget()
    result = yield
    if tried := loopback.forget():
        pytest.fail(f"{item.nodeid} tried to reach {', '.join(tried)}.")
    return result
