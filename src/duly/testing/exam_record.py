"""What a package says of the exam of its connector, and the code that it says it of.

Law: a record is believed only of the code whose hash it names. It is the word of the package:
it protects from forgetting, not from lying.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

FILE: Final = "exam.json"
RECORD_BYTES_MAX: Final = 64 * 1024
CODE_BYTES_MAX: Final = 32 * 1024 * 1024
FILES_MAX: Final = 5_000  # and folders
POINTS_MAX: Final = 1_000_000  # of one tool
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")  # of a tool


@dataclass(frozen=True, slots=True)
class ExamRecord:
    """The hash of the code that is installed, and what was examined of that very code.

    `points` is how often each tool was broken; it is empty where no exam is known. `is_stale`: a
    record is there, of other code.
    """

    code: str
    points: Mapping[str, int]
    is_stale: bool = False


def record_exam(folder: Path, points: Mapping[str, int]) -> None:
    """Write into a package that its tools passed their exam at so many points."""
    record = {"code": hash_code(folder), "points": dict(points)}
    (folder / FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def read_exam(folder: Path) -> ExamRecord:
    """Read what a package says of its exam, and compare it with its code."""
    code = hash_code(folder)
    try:
        data = (folder / FILE).read_bytes()[: RECORD_BYTES_MAX + 1]
        found = json.loads(data) if len(data) <= RECORD_BYTES_MAX else None
    except (OSError, ValueError, RecursionError):
        return ExamRecord(code, {})
    points = found.get("points") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(points, dict):
        return ExamRecord(code, {})
    if found.get("code") != code:
        return ExamRecord(code, {}, is_stale=True)
    return ExamRecord(code, {each: at for each, at in points.items() if _is_point(each, at)})


def _is_point(tool: str, count: object) -> bool:
    """Tell whether it is a tool and a count; what else a record holds is not shown."""
    return NAME.fullmatch(tool) is not None and type(count) is int and 0 <= count <= POINTS_MAX


def hash_code(folder: Path) -> str:
    """Return the SHA-256 of every file of a package, or of a single module; the record aside.

    Also of what a link leads to, for that is imported as well. What is more than the limits, or
    cannot be read, is not hashed, and then the hash is empty.
    """
    made, size = sha256(), 0
    try:
        for path in _files(folder):
            size += path.stat().st_size
            if size > CODE_BYTES_MAX:
                return ""
            made.update(os.fsencode(path.relative_to(folder.parent)))
            made.update(f"\0{path.stat().st_size}\0".encode())
            made.update(path.read_bytes())
    except (OSError, OverflowError):
        return ""
    return made.hexdigest()


def _files(folder: Path) -> list[Path]:
    """List the files that belong to the code; what Python compiles itself does not."""
    if folder.is_file():
        return [folder]
    found: list[Path] = []
    for count, (place, _, names) in enumerate(os.walk(folder, followlinks=True)):
        paths = [Path(place, name) for name in names]
        found += [each for each in paths if each.is_file() and not _is_compiled(each)]
        if max(count, len(found)) > FILES_MAX:
            raise OverflowError(folder)
    return sorted(each for each in found if each != folder / FILE)


def _is_compiled(path: Path) -> bool:
    return path.suffix == ".pyc" and path.parent.name == "__pycache__"
