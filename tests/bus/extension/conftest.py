"""Virtual time for every test of extensions that asks for `duly_world`, and a clean stand."""

from __future__ import annotations

from pathlib import Path

import pytest

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem
from tests.bus.extension import stand

__all__ = ["duly_world", "pytest_pycollect_makeitem"]


@pytest.fixture
def shelf(tmp_path: Path) -> stand.Shelf:
    """Give the test an empty folder for extensions."""
    stand.contexts.clear()
    stand.heard.clear()
    folder = tmp_path / "extensions"
    folder.mkdir()
    return stand.Shelf(folder)
