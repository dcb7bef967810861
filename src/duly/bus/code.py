"""The files of extensions: which folders there are, and how the code in one is imported (B9).

Law 1: what cannot be read, a folder, a file or a link, is that extension's report.
Law 2: no code outside of an extension's folder is executed as a part of it. Where a module really
       lies is judged when it is found, before it runs, also of one that another one imports.
Law 3: what runs is the source that lies there, never a compiled file beside it.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import count
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import Final

from duly.bus.manifest import MANIFEST_BYTES
from duly.errors import ConfigError, Invalid
from duly.rules.delivery import ERROR_CHARS
from duly.rules.fault import describe
from duly.rules.redaction import Redactor
from duly.rules.shown import cut

FILE: Final = "manifest.yaml"
FOLDERS_MAX: Final = 200

_numbers = count(1)  # a package's name is never used again in this process


# -- Folders --------------------------------------------------------------------------------------


def scan(folder: Path) -> dict[Path, bytes | Invalid]:
    """Read the manifest of every folder in a folder; where that fails, say why (law 1)."""
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError as error:
        why = error.strerror if isinstance(error, PermissionError) else None
        raise ConfigError(
            code="no_folder", subject="extensions", facts={"folder": str(folder), "cause": why}
        ) from None
    found: dict[Path, bytes | Invalid] = {}
    for name in names:
        if not name.startswith((".", "_")) and (data := _look(folder / name)) is not None:
            found[folder / name] = data
    if len(found) > FOLDERS_MAX:
        raise ConfigError(
            code="too_many", subject=str(folder), facts={"limit": FOLDERS_MAX, "unit": "folders"}
        )
    return found


def _look(place: Path) -> bytes | Invalid | None:
    """Read the manifest in a folder, or say why not; None where there is no folder."""
    try:
        is_folder = stat.S_ISDIR(os.stat(place).st_mode)  # noqa: PTH116  # pathlib hides errors
    except OSError as error:
        return Invalid(code="unreadable", subject=str(place), facts={"cause": error.strerror})
    return _read_file(place / FILE) if is_folder else None


def _read_file(path: Path) -> bytes | Invalid:
    try:
        # Looked at before it is opened: a pipe would wait for a writer.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  # pathlib hides errors
            return Invalid(code="no_file", subject=path.name)
        with path.open("rb") as file:
            return file.read(MANIFEST_BYTES + 1)
    except FileNotFoundError:
        return Invalid(code="no_file", subject=path.name)
    except OSError as error:
        return Invalid(code="unreadable", subject=path.name, facts={"cause": error.strerror})


# -- Modules --------------------------------------------------------------------------------------


class _Source(SourceFileLoader):
    """Runs the source as it lies there (law 3)."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Finder(MetaPathFinder):
    """Finds the modules of extensions, and refuses those that lie elsewhere (law 2)."""

    def __init__(self) -> None:
        self.folders: dict[str, Path] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        folder = self.folders.get(package)
        spec = None if folder is None else PathFinder.find_spec(fullname, path, target)
        if spec is None or folder is None:
            return None
        places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])]
        if not all(lies_in(place, folder) for place in places):
            raise Invalid(code="module_outside", subject=rest, facts={"folder": folder.name})
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Source(spec.loader.name, spec.loader.path)
            spec.cached = None
        return spec


_finder = _Finder()


def import_from(folder: Path, module: str) -> tuple[str, ModuleType]:
    """Import a module as part of a package that is the folder; return the package's name too."""
    package = f"duly_extension_{next(_numbers)}"
    made = ModuleType(package)
    made.__path__ = [str(folder)]
    made.__spec__ = ModuleSpec(package, None, is_package=True)
    _finder.folders[package] = folder
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    sys.modules[package] = made
    name = f"{package}.{module}"
    try:
        return package, importlib.import_module(name)
    except ModuleNotFoundError as error:
        forget(package)
        if not _is_in(name, error.name or ""):
            raise  # its module is there; what that one imports is not
        raise Invalid(code="no_module", subject=module, facts={"folder": folder.name}) from None
    except BaseException:
        forget(package)
        raise


def forget(package: str) -> None:
    """Let go of an extension's modules; its name is never used again."""
    for name in [each for each in sys.modules if package and _is_in(each, package)]:
        del sys.modules[name]
    _finder.folders.pop(package, None)


def blame(error: BaseException, folder: Path, secrets: Redactor) -> str:
    """Say what was raised, and the last line of the extension's own that led to it."""
    frames = [frame for frame in extract_tb(error.__traceback__) if lies_in(frame.filename, folder)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{cut(describe(error, secrets), ERROR_CHARS)}{where}"


def lies_in(file: str, folder: Path) -> bool:
    """Tell whether a file is in a folder, wherever links lead."""
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
