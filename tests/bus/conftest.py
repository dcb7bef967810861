"""Virtual time for every test of the bus that asks for `duly_world`."""

from __future__ import annotations

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem

__all__ = ["duly_world", "pytest_pycollect_makeitem"]
