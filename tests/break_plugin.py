"""The pytest plugin that puts one break in place before anything is collected.

Law: it acts while it is imported, which is before any conftest; `TEST_BREAK` names the break and
an empty name breaks nothing. Every module of the package and of its verification is imported
first, so that a name which was imported from one into another is replaced in both.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys

from tests import breaks


def import_everything(package: str) -> None:
    """Import every module of a package."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(getattr(root, "__path__", ()), f"{package}."):
        importlib.import_module(module.name)


def _break(key: str) -> None:
    found = [broken for broken in breaks.collect() if broken.key == key]
    try:
        if len(found) != 1:
            raise breaks.NoSuchPlace(f"{len(found)} breaks are called {key!r}")
        for package in (found[0].module.partition(".")[0], "verification"):
            import_everything(package)
        breaks.apply(found[0])
    except breaks.NoSuchPlace as error:
        print(error, file=sys.stderr)
        sys.exit(breaks.EXIT_MISSING)


if _key := os.environ.get(breaks.BREAK_VARIABLE):
    _break(_key)
