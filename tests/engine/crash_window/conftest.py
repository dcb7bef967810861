"""Windows: a store, a book, and processes that die there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

# What the stand asserts is shown as if it stood in the test.
pytest.register_assert_rewrite("tests.engine.crash_window.stand")

from tests.engine.crash_window.stand import Nursery, Window, open_nursery  # noqa: E402


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with open_nursery() as opened:
        yield opened


@pytest.fixture
def window(nursery: Nursery, tmp_path: Path) -> Window:
    return Window(nursery, tmp_path)
