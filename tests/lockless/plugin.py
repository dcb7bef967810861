"""What tests make without a host accepts a missing lock as well."""

from __future__ import annotations

from typing import Any


def pytest_configure() -> None:
    """Change what is taken where nothing is said (law 2); pytest must see these modules first."""
    from duly.config import SandboxSettings
    from duly.connectors.reader import Readers
    from duly.sandbox.pool import Pool
    from duly.sandbox.python import PythonSandbox
    from duly.sandbox.study import Studies

    settings: Any = SandboxSettings.__init__  # pytest finds this module by itself
    settings.__defaults__ = ("i-accept",)
    begin: Any
    for begin, name, value in (
        (Pool.__init__, "unlocked", "i-accept"),
        (Studies.__init__, "unlocked", "i-accept"),
        (PythonSandbox.__init__, "is_unlocked", True),
    ):
        begin.__kwdefaults__[name] = value
    made: Any = Readers
    make = made.__init__

    def accept(self: Readers, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.is_unlocked = True

    made.__init__ = accept
