"""What authors write: the names they use, and what can be said of a text without running it."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

# The interpreter has no modules of ours, so it gets the text that CPython imports.
NAMES: Final = files(__name__).joinpath("names.py").read_text(encoding="utf-8")
