"""A project: where its `duly.toml` lies and what it says; `build.py` makes a host of it.

Law 1: a relative path in the file is relative to the file's folder, not to the reader's.
Law 2: no file of a project is used that another user could have written (K14).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from duly.api.trust import check_file
from duly.config import URL_PREFIX, Config, is_server, load, name_store, path_from_url
from duly.errors import ConfigError
from duly.rules.value import is_text

FILE: Final = "duly.toml"
VARIABLE: Final = "DULY_PROJECT"
SOCKET_SUFFIX: Final = ".socket"
SERVER_NAME: Final = "duly"  # what the socket is named after, where the store is no file
# The store, what SQLite has not yet brought into it, and the key to its secrets and seals.
STORE_SUFFIXES: Final = ("", "-wal", "-shm", ".key", ".key.old")


@dataclass(frozen=True, slots=True)
class Project:
    """A folder, the settings in it, and the file they came from, if there is one."""

    folder: Path
    file: Path | None
    config: Config

    @property
    def database(self) -> Path | None:
        """Where the store's file lies, if it is one; two names of one file are one place."""
        if is_server(self.config.url):
            return None
        return (self.folder / path_from_url(self.config.url)).resolve()

    @property
    def place(self) -> str:
        """Where the store lies, for people: a file, or a database without its password."""
        file = self.database
        return name_store(self.config.url) if file is None else str(file)

    @property
    def url(self) -> str:
        """The store's URL, which means the same in every folder."""
        if not self.config.url.startswith(URL_PREFIX):
            return self.config.url  # a server's, or the host says what is wrong with it
        return f"{URL_PREFIX}{self.database}"

    @property
    def socket(self) -> Path:
        """Where a running host is spoken to: beside the file, else in the project's folder."""
        file = self.database or (self.folder / SERVER_NAME).resolve()
        return file.with_name(file.name + SOCKET_SUFFIX)

    @property
    def has_store(self) -> bool:
        """Tell whether there is a store; one on a server is taken to be there."""
        return self.database is None or self.database.exists()

    @property
    def workflows(self) -> Path:
        """The folder of the workflows' sources."""
        return self.folder / self.config.workflows

    @property
    def settings(self) -> str:
        """A fingerprint of what the file and the environment say; comments change nothing."""
        return sha256(repr(self.config).encode()).hexdigest()


def settings_of(project: Project) -> Path:
    """Return the file of the settings, also where there is none yet."""
    return project.file or project.folder / FILE


def find_project(given: str | None, environ: Mapping[str, str], here: Path) -> Project:
    """Find the project that was named, or the one that `here` is in, and read its settings."""
    named = given or environ.get(VARIABLE) or None
    folder = here.absolute()
    file: Path | None = None
    if named is not None:
        file = _file_of(folder / Path(named).expanduser(), "--project" if given else VARIABLE)
    else:
        above = (each / FILE for each in (folder, *folder.parents))
        file = next((each for each in above if each.is_file()), None)
    if file is not None:
        check_file(file, file.parent, environ)
    config = load(file, environ)
    found = Project(folder if file is None else file.parent, file, config)
    _check_store(found, environ)
    return found


def _check_store(project: Project, environ: Mapping[str, str]) -> None:
    """Refuse a store or a key that another user could have written: scripts are in it (K14)."""
    try:
        store = project.database
    except ConfigError:
        return  # the host says what is wrong with the URL
    if store is None:
        return
    if not is_text(str(store)):
        shown = os.fsencode(store).decode("utf-8", "backslashreplace")
        raise ConfigError(code="path_not_utf8", subject=shown)
    is_inside = store.is_relative_to(project.folder.resolve())
    for suffix in STORE_SUFFIXES:
        file = store.with_name(store.name + suffix)
        # A host that ends takes its log away, perhaps this moment: what is gone is not read.
        with suppress(FileNotFoundError):
            if file.exists():
                check_file(file, project.folder if is_inside else store.parent, environ)


def _file_of(place: Path, said_by: str) -> Path:
    """Return the file that a folder or a file names."""
    if place.is_dir():
        if not (place / FILE).is_file():
            facts = {"option": said_by, "file": FILE}
            raise ConfigError(code="no_settings", subject=str(place), facts=facts)
        return place / FILE
    if not place.is_file():
        raise ConfigError(code="no_project", subject=str(place), facts={"option": said_by})
    return place
