"""Writes values and keys as TOML does: in the settings, and in a command that a person copies."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def write_value(value: Any) -> str:
    """Write a value as TOML does, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        inside = ", ".join(f"{write_key(key)} = {write_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    assert isinstance(value, list | tuple), value
    return f"[{', '.join(map(write_value, value))}]"


def write_key(name: str) -> str:
    """Write a key: bare where that is possible."""
    return name if BARE.fullmatch(name) else write_value(name)
