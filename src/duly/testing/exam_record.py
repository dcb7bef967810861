"""What a package says of the exam of its connector, and the code that it says it of.

Law: a record is believed only of the code whose hash it names. It is the word of the package:
it protects from forgetting, not from lying.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

FILE: Final = "exam.json"
RECORD_BYTES_MAX: Final = 64 * 1024
CODE_BYTES_MAX: Final = 32 * 1024 * 1024
FILES_MAX: Final = 5_000


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
    except (OSError, ValueError):
        return ExamRecord(code, {})
    points = found.get("points") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(points, dict):
        return ExamRecord(code, {})
    if found.get("code") != code:
        return ExamRecord(code, {}, is_stale=True)
    return ExamRecord(code, {str(each): at for each, at in points.items() if isinstance(at, int)})


def hash_code(folder: Path) -> str:
    """Return the SHA-256 of every file of a package, or of a single module; the record aside.

    What is more than the limits is not hashed, and then the hash is empty.
    """
    made, size = sha256(), 0
    for count, path in enumerate(_files(folder)):
        size += path.stat().st_size
        if count >= FILES_MAX or size > CODE_BYTES_MAX:
            return ""
        made.update(f"{path.relative_to(folder.parent)}\0{path.stat().st_size}\0".encode())
        made.update(path.read_bytes())
    return made.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != FILE and "__pycache__" not in path.parts:
            yield path
