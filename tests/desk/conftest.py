"""Virtual time for every test of the desk that asks for `duly_world`; a store for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem
from tests.desk import stores

__all__ = ["duly_world", "pytest_pycollect_makeitem"]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty store; a file lies in the folder of the test."""
    with stores.store_in(tmp_path) as made:
        yield made
