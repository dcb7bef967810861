"""The folder of a demo: a project like any other, with mails in it and tables that fill.

Law 1  Only what a demo made is made anew: a folder with anything else in it is left alone, and so
       is a demo in which somebody has written a workflow, or put a mail of his own.
Law 2  What is told of a table is read from its file, past everything that wrote it.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from duly.api.project import Project, find_project
from duly.connectors.table_csv import LOCK
from duly.errors import RequestRefused
from duly.faces.demo.letter import Letter
from duly.faces.demo.table import Signal
from duly.rules.source import SUFFIXES

MARK: Final = ".demo"
MAILBOX: Final = "mailbox"
TABLES: Final = "tables"
WORKFLOWS: Final = "workflows"
LOG: Final = "host.log"
FOLDERS: Final = (MARK, MAILBOX, TABLES, WORKFLOWS)
SETTINGS: Final = "duly.toml"
TABLE: Final = "duly.faces.demo.table:HeldTable"
USE: Final = re.compile(r'^use = ".*"$', re.MULTILINE)
# The mails of a demo, and the one that it tells people to make.
OWN_MAIL: Final = re.compile(r"\.?[0-9]{3,}\.eml|again\.eml", re.ASCII)
DATABASE: Final = ("duly.db", "duly.db-wal", "duly.db-shm", "duly.db.lock", "duly.db.socket")


@dataclass(frozen=True, slots=True)
class Flow:
    """One workflow of the demo: where it is written, and the table that it fills."""

    name: str
    language: str
    file: str
    table: str


PYTHON: Final = Flow("mail-to-table", "Python", "mail_to_table.py", "mails")
JAVASCRIPT: Final = Flow("mail-to-table-js", "JavaScript", "mail_to_table_js.js", "mails_js")
FLOWS: Final = (PYTHON, JAVASCRIPT)


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it stands in a file; `key` is that of the call which made it."""

    table: str
    number: int
    mail: str
    sender: str
    subject: str
    key: str


@dataclass(frozen=True, slots=True)
class Scene:
    """The folder, and what is asked of it."""

    folder: Path

    @property
    def signal(self) -> Signal:
        """The way to the demo's table."""
        return Signal(self.folder / MARK)

    @property
    def log(self) -> Path:
        """Where the host's log goes."""
        return self.folder / LOG

    def project(self) -> Project:
        """Read the project; no variable of somebody else's changes what a demo does."""
        return find_project(str(self.folder), {}, Path.cwd())

    def build(self, table: str) -> None:
        """Make the project, in the place of an earlier one."""
        try:
            self._clear()
            for each in FOLDERS:
                (self.folder / each).mkdir(parents=True)
            settings = _text(SETTINGS).replace("USE", table)
            (self.folder / SETTINGS).write_text(settings, encoding="utf-8")
            for flow in FLOWS:
                place = self.folder / WORKFLOWS / flow.file
                place.write_text(_text(flow.file), encoding="utf-8")
        except OSError as error:
            where, facts = str(error.filename or self.folder), {"cause": error.strerror}
            raise RequestRefused(code="unwritable", subject=where, facts=facts) from error

    def _clear(self) -> None:
        if not self.folder.exists():
            return
        if not self.folder.is_dir() or not self._is_own():
            raise RequestRefused(code="not_a_demo", subject=str(self.folder))
        for path in self._strange():
            raise RequestRefused(code="not_of_the_demo", subject=str(path))
        for name in FOLDERS:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for each in (SETTINGS, LOG, *DATABASE):
            (self.folder / each).unlink(missing_ok=True)

    def _is_own(self) -> bool:
        return (self.folder / MARK).is_dir() or not any(self.folder.iterdir())

    def _strange(self) -> Iterator[Path]:
        """Find what a person made or changed where an earlier demo would be taken away."""
        texts = {self.folder / WORKFLOWS / flow.file: _text(flow.file) for flow in FLOWS}
        texts[self.folder / SETTINGS] = _text(SETTINGS)
        for path, text in texts.items():
            if path.exists() and USE.sub("", path.read_text("utf-8", "replace")) != USE.sub(
                "", text
            ):
                yield path
        sheets = {
            name for flow in FLOWS for name in (f"{flow.table}.csv", f".{flow.table}.csv.new")
        }
        for path in _inside(self.folder / WORKFLOWS):
            if path not in texts:
                yield path
        for path in _inside(self.folder / MAILBOX):
            if not OWN_MAIL.fullmatch(path.name):
                yield path
        for path in _inside(self.folder / TABLES):
            if path.name not in sheets | {LOCK}:
                yield path

    def deliver(self, letters: Sequence[Letter]) -> None:
        """Put mails into the mailbox, each one whole."""
        for each in letters:
            draft = self.folder / MAILBOX / f".{each.name}"
            draft.write_bytes(each.data)
            draft.replace(draft.with_name(each.name))

    def mails(self) -> list[str]:
        """List the mails by their ids, which are the names of their files."""
        return sorted(path.name for path in (self.folder / MAILBOX).glob("*.eml"))

    def source(self, flow: Flow) -> dict[str, str]:
        """Read a workflow in the form in which it is sent to a host."""
        path = self.folder / WORKFLOWS / flow.file
        text = path.read_text(encoding="utf-8")
        return {"language": SUFFIXES[path.suffix].value, "text": text, "name": path.name}

    def rows(self, flow: Flow) -> list[Row]:
        """Read the table that a workflow fills."""
        try:
            text = (self.folder / TABLES / f"{flow.table}.csv").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        records = csv.DictReader(text.splitlines(keepends=True))
        return [
            Row(
                table=flow.table,
                number=number,
                mail=each["mail"],
                sender=each["from"],
                subject=each["subject"],
                key=each.get("duly_key", ""),
            )
            for number, each in enumerate(records, 1)
        ]


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _text(name: str) -> str:
    place = files("duly.faces.demo").joinpath("text", f"{name}.txt")
    return place.read_text(encoding="utf-8")
