"""A loop in virtual time, and the plugin as a user has it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from duly.testing.env import VirtualEnv
from duly.testing.loop import VirtualLoop

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem

__all__ = ["duly_world", "pytest_pycollect_makeitem"]


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as made:
        yield made


@pytest.fixture
def loop(runner: asyncio.Runner) -> VirtualLoop:
    made = runner.get_loop()
    assert isinstance(made, VirtualLoop)
    return made


@pytest.fixture
def env(loop: VirtualLoop) -> Iterator[VirtualEnv]:
    made = VirtualEnv(loop)
    yield made
    made.close()
