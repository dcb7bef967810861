"""The settings of a host's project, as a host changes them for a person who has the page alone.

Law 1  A connector is built from what would be written, with the same checks as `duly connect`;
       what is written is exactly that, and only if the file is as it was read then.
Law 2  A folder of a new connection lies below the project's folder, behind no symbolic link, and
       holds nothing of the project itself: neither its store nor its settings and sources (K13).
Law 3  Before a host stops for new settings, they are built whole, in a process of its own: this
       one has modules in its memory that may read otherwise on the disk by now.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from duly.api.description import mark_of, read_openapi_text
from duly.api.project import STORE_SUFFIXES, Project, find_project, settings_of
from duly.api.settings_text import change_file, put_table, remove_tables
from duly.api.wire import read_error
from duly.connectors.base import Connector
from duly.connectors.need import Need
from duly.connectors.private import Private
from duly.errors import ConfigError, DulyError, Invalid, RequestRefused, parts_of, short
from duly.host import Host
from duly.rules.addable import (
    ADDABLE,
    OPENAPI,
    Added,
    Rehearsed,
    SettingsState,
    find_addable,
    make_table,
)
from duly.rules.addable_kind import AddableField, AddableKind, AddableSecret, Takes
from duly.rules.addable_operation import place_refused
from duly.rules.openapi import Imported
from duly.rules.page import places_of
from duly.words.addable import find_label

REHEARSAL_S_MAX: Final = 60.0
TOLD_BYTES_MAX: Final = 1024 * 1024
SAID_BYTES: Final = 4096  # of its errors that are kept: the last of them says why it ended
CHUNK_BYTES: Final = 64 * 1024
FOLDER_MODE: Final = 0o755
CONNECTORS: Final = "connectors"
OPERATIONS: Final = "operations"


@dataclass(frozen=True, slots=True)
class Builder:
    """How a project becomes a host, which is not opened; and what of it no connector serves."""

    build: Callable[[Project], Host]
    private: Callable[[Project], Private]
    shipped: Mapping[str, str]


class ProjectSetup:
    """The settings of one project; `restart` begins the process of its host anew, if one can."""

    def __init__(
        self, project: Project, builder: Builder, restart: Callable[[], None] | None = None
    ) -> None:
        self._project = project
        self._builder = builder
        self._restart = restart

    @property
    def can_restart(self) -> bool:
        """Tell whether the process of the host can begin again."""
        return self._restart is not None

    def list_kinds(self) -> tuple[AddableKind, ...]:
        """List what can be added, with the labels of the connectors."""
        shipped = self._builder.shipped
        return tuple(_describe(use, shipped[use]) for use in ADDABLE)

    # -- What has changed -------------------------------------------------------------------------

    def look(self) -> SettingsState:
        """Compare the settings with those that the host was started with."""
        try:
            now = self._read()
        except DulyError as error:
            state = SettingsState(has_project=True, is_changed=True, fault=str(error))
        else:
            before, after = self._project.config.connectors, now.config.connectors
            both = before.keys() & after.keys()
            state = SettingsState(
                has_project=True,
                is_changed=now.settings != self._project.settings,
                added=tuple(sorted(after.keys() - before.keys())),
                changed=tuple(sorted(each for each in both if after[each] != before[each])),
                gone=tuple(sorted(before.keys() - after.keys())),
            )
        return replace(state, can_restart=self.can_restart)

    def _read(self) -> Project:
        """Read the settings as they are now, in the same place."""
        file = settings_of(self._project)
        given = str(file) if file.exists() else None
        return find_project(given, os.environ, self._project.folder)

    # -- Adding -----------------------------------------------------------------------------------

    def try_out(self, use: str, name: str, given: Mapping[str, str | list[str]]) -> Added:
        """Build a connector from what would be written (laws 1 and 2); nothing is written."""
        seen = self._digest()
        now = self._read()
        if name in now.config.connectors:
            raise RequestRefused(code="connection_there", subject=name)
        kind = find_addable(use)
        table, imported = _make_table(use, given)
        folder = next((given[each.name] for each in kind.keys if each.takes is Takes.FOLDER), None)
        made = None if folder is None else self._prepare_folder(str(folder))
        config = replace(now.config, connectors={name: table})
        try:
            host = self._builder.build(replace(now, config=config))
        except DulyError as error:
            if made is not None:
                _remove(made)
            # The place in the file is known: what is wrong with what was typed is enough.
            cause = str(error.facts.get("cause") or error)
            texts = {key: value for key, value in given.items() if isinstance(value, str)}
            facts = {"cause": cause, "field": place_refused(cause, texts)}
            raise RequestRefused(code="not_added", subject=name, facts=facts) from error
        file = str(settings_of(self._project))
        origin = host.connectors.origins().get(name)
        where = None if folder is None else str(folder)
        same = imported.operations.items()
        operations = table.get(OPERATIONS, {})
        described = frozenset(each for each, one in same if operations[each] is one)
        omitted = tuple(imported.omitted)
        return Added(name, table, origin, file, seen, where, described, omitted)

    def write(self, added: Added) -> None:
        """Write what was tried, if the settings are as they were then (law 1)."""
        place = (CONNECTORS, added.name)

        def change(text: str) -> str:
            if _digest_of(text) != added.seen:
                raise ConfigError(code="settings_changed", subject=added.file)
            if added.name in tomllib.loads(text).get(CONNECTORS, {}):
                raise RequestRefused(code="connection_there", subject=added.name)
            operations = added.table.get(OPERATIONS, {})
            rest = {name: each for name, each in added.table.items() if name != OPERATIONS}
            text = put_table(text, place, rest)
            for name, table in operations.items():
                note = mark_of(table) if name in added.described else ""
                text = put_table(text, (*place, OPERATIONS, name), table, note=note)
            return text

        try:
            change_file(settings_of(self._project), change)
        except OSError as error:
            raise _unwritable(added.file, error) from error

    def take_back(self, added: Added) -> None:
        """Take out what was written."""
        place = (CONNECTORS, added.name)
        operations = [(*place, OPERATIONS, each) for each in added.table.get(OPERATIONS, {})]
        places = [*operations, place]
        change_file(settings_of(self._project), lambda text: remove_tables(text, places))

    def _digest(self) -> str:
        file = settings_of(self._project)
        return _digest_of(file.read_bytes().decode() if file.exists() else "")

    def _prepare_folder(self, text: str) -> list[Path]:
        try:
            self._check_folder(text)
            return self._make_folder(text)
        except OSError as error:
            raise _unwritable(str(self._project.folder / text), error) from error

    def _check_folder(self, text: str) -> None:
        """Refuse a folder that is not the connection's own (law 2)."""
        project = self._project
        root = project.folder.resolve()
        target = root / text
        for each in _steps(root, text):
            with suppress(FileNotFoundError):
                if not stat.S_ISDIR(each.lstat().st_mode):
                    raise Invalid(
                        code="wrong_value",
                        path="settings.path",
                        subject="path",
                        facts={"wanted": "real_folder"},
                    )
        private = self._builder.private(project)
        own = [each.resolve() for each in (*private.files, *private.folders)]
        if project.database is not None:
            own += [_beside(project.database, each) for each in STORE_SUFFIXES]
        if any(_overlaps(target, each) for each in own):
            raise Invalid(
                code="wrong_value",
                path="settings.path",
                subject="path",
                facts={"wanted": "folder_of_data"},
            )

    def _make_folder(self, text: str) -> list[Path]:
        """Make what is missing of a folder; return what was made, the innermost last."""
        made = []
        for each in _steps(self._project.folder.resolve(), text):
            with suppress(FileExistsError):
                each.mkdir(FOLDER_MODE)
                made.append(each)
        return made

    # -- Beginning again --------------------------------------------------------------------------

    def restart(self) -> None:
        """Let the host stop in order, and begin again."""
        assert self._restart is not None
        self._restart()

    async def rehearse(self) -> Rehearsed:
        """Build everything the settings name, in another process, or raise why it cannot be."""
        # Law 3. The store of a host is not changed under way: it would begin with another ledger.
        held = [each for _, ports in places_of(self._project.config.page) for each in ports]
        given = msgspec.json.encode([str(settings_of(self._project)), self._project.url, held])
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "duly.api.rehearsal", given.decode()),
            cwd=self._project.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(REHEARSAL_S_MAX):
                told, said = await asyncio.gather(
                    _first_of(process.stdout), _last_of(process.stderr)
                )
                await process.wait()
        except TimeoutError:
            facts = {"cause": "", "seconds": f"{REHEARSAL_S_MAX:g}"}
            raise RequestRefused(code="not_rehearsed", facts=facts) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode != 0 or not told or len(told) > TOLD_BYTES_MAX:
            facts = {"cause": short(said.decode("utf-8", "replace").strip().rpartition("\n")[2])}
            raise RequestRefused(code="not_rehearsed", facts=facts)
        answer: dict[str, Any] = msgspec.json.decode(told)
        if "error" in answer:
            error = read_error(answer["error"])
            raise RequestRefused(**{**parts_of(error), "code": "settings_broken"})
        return Rehearsed(answer["origins"])


def _make_table(use: str, given: Mapping[str, str | list[str]]) -> tuple[dict[str, Any], Imported]:
    """Return what would be written, and what a description brings of it.

    A description says neither where its service is nor who asks: a person types both.
    """
    table, text = make_table(use, given), given.get(OPENAPI)
    if not isinstance(text, str):
        return table, Imported()
    imported = read_openapi_text(text, f"settings.{OPENAPI}")
    table[OPERATIONS] = {**imported.operations, **table.get(OPERATIONS, {})}
    return table, imported


async def _first_of(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end, and keep no more than shows that it is too much."""
    assert stream is not None
    kept = bytearray()
    while data := await stream.read(CHUNK_BYTES):
        if len(kept) <= TOLD_BYTES_MAX:
            kept += data
    return bytes(kept)


async def _last_of(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end, and keep what came last."""
    assert stream is not None
    kept = b""
    while data := await stream.read(CHUNK_BYTES):
        kept = (kept + data)[-SAID_BYTES:]
    return kept


@cache
def _describe(use: str, target: str) -> AddableKind:
    kind = ADDABLE[use]
    module, _, name = target.partition(":")
    found: type[Connector] = getattr(importlib.import_module(module), name)
    needs = {each.name: each for each in found.needs}
    fields = []
    for key in kind.keys:
        label, example = find_label(use, key.name) or _own(needs[key.name])
        fields.append(
            AddableField(
                key.name, label, example, key.takes, key.is_required, key.group, key.choices
            )
        )
    secrets = tuple(AddableSecret(each, each not in kind.optional) for each in kind.secrets)
    return AddableKind(use, tuple(fields), secrets, kind.signs_in)


def _own(need: Need) -> tuple[str, str]:
    return need.label, need.example


def _unwritable(subject: str, error: OSError) -> ConfigError:
    facts = {"cause": error.strerror or str(error)}
    return ConfigError(code="unwritable", subject=subject, facts=facts)


def _digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _steps(root: Path, text: str) -> Iterator[Path]:
    """Name each folder on the way to one below another."""
    place = root
    for part in text.split("/"):
        place /= part
        yield place


def _beside(store: Path, suffix: str) -> Path:
    return store.with_name(store.name + suffix)


def _overlaps(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _remove(made: list[Path]) -> None:
    """Remove folders that were made for nothing, if nothing is in them."""
    for each in reversed(made):
        for inside in each.iterdir():
            if inside.is_dir():
                with suppress(OSError):
                    inside.rmdir()
        with suppress(OSError):
            each.rmdir()
