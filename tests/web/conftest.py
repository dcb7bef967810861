"""Virtual time for the tests of the web that ask for `duly_world`."""

from __future__ import annotations

from duly.testing.plugin import duly_world, pytest_pycollect_makeitem

__all__ = ["duly_world", "pytest_pycollect_makeitem"]
