"""A nursery for hosts, an outside for each test, and a store between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# What the stand asserts is shown as if it stood in the test.
pytest.register_assert_rewrite("tests.fire.stand", "tests.fire.storm")

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem  # noqa: E402
from tests.fire.process import Flow  # noqa: E402
from tests.fire.stand import Fire, Nursery, open_nursery, open_outside  # noqa: E402

__all__ = ["duly_world", "pytest_pycollect_makeitem"]


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with open_nursery() as opened:
        yield opened


@pytest.fixture
def light(nursery: Nursery, tmp_path: Path) -> Iterator[Callable[..., Fire]]:
    """Make a fire over some workflows."""
    with open_outside() as outside:

        def make(*flows: Flow) -> Fire:
            return Fire(nursery, outside, tmp_path, *flows)

        yield make
