"""Virtual time for every example that is run from its file to its effect."""

from __future__ import annotations

# By name, so that it makes no difference whether the installed package brings the plugin as well.
from duly.testing.plugin import duly_world, pytest_pycollect_makeitem

__all__ = ["duly_world", "pytest_pycollect_makeitem"]
