"""Which projects a person's commands may use, and the list of those trusted by hand (K14).

Law 1: a project's files are judged before anything in them is read as code or settings; a
       stranger's is refused with the command that trusts it.
Law 2: a folder is trusted by its real path, by a person, and is listed in a file that only this
       user can write; a list that others could have written is refused, not believed.
Law 3: what a module of the project imports from its folder is judged when it is imported, with the
       compiled file that Python would run in its place.
"""

from __future__ import annotations

import grp
import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Final

from duly.errors import ConfigError, RequestRefused
from duly.rules.trust import Distrust, Owned, User, judge

LIST: Final = "trusted"  # one folder a line
LIST_BYTES_MAX: Final = 1024 * 1024
LOADERS: Final = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)

_judged: Final[set[Path]] = set()  # projects whose imports are judged


def this_user() -> User:
    """Describe the user this process runs as; a private group has the user's name."""
    uid = os.geteuid()
    try:
        known = pwd.getpwuid(uid)
        group = grp.getgrgid(known.pw_gid)
    except KeyError:  # a user without a name, as in many containers
        return User(uid, None)
    others = set(group.gr_mem) - {known.pw_name}
    is_own = group.gr_name == known.pw_name and not others
    return User(uid, group.gr_gid if is_own else None)


def check_file(file: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Refuse a file of a project that another user could have written (K14).

    Judged are the file, the folders from it up to the project's own, and, where one of them is a
    link, what it leads to. A project in `folder` that was trusted by hand is not judged.
    """
    if (found := find_distrust(file, folder)) is None:
        return
    home = folder.resolve()
    if home in trusted(environ):
        return
    place, reason = found
    facts = {"why": str(reason), "folder": str(home)}
    raise ConfigError(code="distrusted", subject=str(place), facts=facts)


class Judge(FileFinder):
    """Finds the modules in one folder of a project and refuses what others could have written."""

    def __init__(self, path: str, project: Path) -> None:
        super().__init__(path, *LOADERS)
        self._project = project

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module, also a folder without `__init__.py`, and judge all that would run."""
        spec = super().find_spec(fullname, target)
        if spec is not None:
            inner = spec.submodule_search_locations or ()
            for name in (spec.origin, spec.cached, *inner):
                if name is not None and os.path.lexists(name):
                    check_file(Path(name), self._project, os.environ)
        return spec


def judge_imports(project: Path) -> None:
    """Judge from now on what is imported from this folder and the packages in it."""
    if _find_judge not in sys.path_hooks:
        sys.path_hooks.insert(0, _find_judge)
    if project in _judged:
        return
    _judged.add(project)
    for path in [each for each in sys.path_importer_cache if Path(each) == project]:
        del sys.path_importer_cache[path]


def _find_judge(path: str) -> Judge:
    """Return who judges the modules of a folder; one hook serves all projects of a process."""
    place = Path(path)
    inside = (place, *place.parents)
    project = next((each for each in inside if each in _judged), None)
    if project is None or not place.is_dir():
        raise ImportError(f"{path} is no folder of a project")
    # What is installed inside the project, in an environment of its own, has its own path.
    others = {Path(each) for each in sys.path} - {project}
    if others.intersection(inside[: inside.index(project)]):
        raise ImportError(f"{path} is installed in {project}")
    return Judge(path, project)


def find_distrust(file: Path, folder: Path) -> tuple[Path, Distrust] | None:
    """Find the first of a file and its folders that another user could have written."""
    user = this_user()
    for place in _places(file, folder):
        status = place.stat()
        reason = judge(Owned(status.st_uid, status.st_gid, status.st_mode), user)
        if reason is not None:
            return place, reason
    return None


def _places(file: Path, folder: Path) -> Iterator[Path]:
    """List a file, its folders up to the project's own, and where links lead instead."""
    seen: set[Path] = set()
    for path, top in ((file, folder), (file.resolve(), folder.resolve())):
        inner = [each for each in path.parents if each.is_relative_to(top)]
        for place in (path, *(inner or [path.parent])):
            if place not in seen:
                seen.add(place)
                yield place


def trusted(environ: Mapping[str, str]) -> frozenset[Path]:
    """Read the folders that this user trusted by hand."""
    place = list_path(environ)
    try:
        text = place.read_bytes()[: LIST_BYTES_MAX + 1]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return frozenset()  # also where HOME is still another user's
    if (found := find_distrust(place, place.parent)) is not None:
        facts = {"why": str(found[1])}
        raise ConfigError(code="trust_void", subject=str(found[0]), facts=facts)
    if len(text) > LIST_BYTES_MAX:
        most = {"limit": LIST_BYTES_MAX, "unit": "bytes"}
        raise ConfigError(code="too_long", subject=str(place), facts=most)
    lines = text.decode("utf-8", "surrogateescape").splitlines()
    return frozenset(Path(line) for line in lines if line)


def trust(folder: Path, environ: Mapping[str, str]) -> Path:
    """Write a folder into the list of trusted projects and return its real path."""
    home = folder.resolve()
    if not home.is_dir():
        raise RequestRefused(code="not_folder", subject=str(home))
    if "\n" in str(home) or "\r" in str(home):
        raise RequestRefused(code="control_character", subject=str(home))
    _write(trusted(environ) | {home}, environ)
    return home


def forget(folder: Path, environ: Mapping[str, str]) -> Path:
    """Take a folder out of the list of trusted projects and return its real path."""
    home = folder.resolve()
    known = trusted(environ)
    if home not in known:
        raise RequestRefused(code="not_trusted", subject=str(home))
    _write(known - {home}, environ)
    return home


def list_path(environ: Mapping[str, str]) -> Path:
    """Say where the list lies: beside the user's other settings."""
    settings = environ.get("XDG_CONFIG_HOME") or ""
    home = Path(settings) if Path(settings).is_absolute() else Path("~/.config").expanduser()
    return home / "duly" / LIST


def _write(folders: frozenset[Path], environ: Mapping[str, str]) -> None:
    place = list_path(environ)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = place.with_name(f"{place.name}.{os.getpid()}.unfinished")
    text = "".join(f"{each}\n" for each in sorted(folders))
    unfinished.touch(mode=0o600)
    unfinished.write_bytes(text.encode("utf-8", "surrogateescape"))
    unfinished.replace(place)
