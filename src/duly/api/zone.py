"""The time zone of this machine, by its name: what `duly init` writes into a project (S2)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

NOWHERE: Final = "UTC"  # where the machine does not say
NAME_CHARS_MAX: Final = 100
FOLDER: Final = "zoneinfo/"


def find_zone(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """Answer what this machine calls its zone: its variable TZ, its file, its link; or UTC."""
    for name in (environ.get("TZ", "").lstrip(":"), _file(root), _link(root)):
        short = name.rpartition(FOLDER)[2].removeprefix("posix/")
        if short and _is_known(short):
            return short
    return NOWHERE


def _file(root: Path) -> str:
    try:
        with (root / "etc" / "timezone").open(encoding="utf-8") as file:
            return file.read(NAME_CHARS_MAX).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _link(root: Path) -> str:
    try:
        return str((root / "etc" / "localtime").readlink())
    except OSError:
        return ""


def _is_known(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return len(name) <= NAME_CHARS_MAX
