"""The folder of a demo: a project like any other, with mails in it and tables that fill.

Law 1  Only what a demo made is made anew. A folder with anything else in it is left alone, and so
       is a demo in which a person wrote a workflow or put a mail.
Law 2  What is shown of a table is read from its file, past everything that wrote it.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from duly.api.project import Project, find_project
from duly.api.session import connect
from duly.errors import RequestRefused

MARK: Final = ".demo"
POST: Final = "post"  # the project of the second part
DESK: Final = f"{POST}/workflows/mail_desk.py"
LIVE: Final = "live"  # the projects and programs of the page
INVOICES: Final = f"{LIVE}/duly/workflows/invoices.py"
OWN_FOLDERS: Final = (MARK, "mailbox", "tables", "workflows")  # of the first part
FOLDERS: Final = (*OWN_FOLDERS, POST, LIVE)
SETTINGS: Final = "duly.toml"
DATABASE: Final = ("duly.db", "duly.db-wal", "duly.db-shm", "duly.db.lock", "duly.db.socket")
TABLE: Final = "duly.faces.demo.table:HeldTable"
USE: Final = re.compile(r'^use = ".*"$', re.MULTILINE)
# What a demo makes in its folders, with the one mail that it offers to make.
OWN: Final = re.compile(
    r"\.demo/.+|post/((duly|books)\.db.*|duly\.toml|host\.log|workflows)"
    r"|live/(duly|plain|dbos)"
    r"|mailbox/(\.?[0-9]{3,}|again)\.eml"
    r"|tables/(mails(_js)?\.csv|\.mails(_js)?\.csv\.new|\.duly\.lock)",
    re.ASCII,
)


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
class DemoFolder:
    """The folder, and what the demo does with it."""

    path: Path

    @property
    def log(self) -> Path:
        """Where the host's log goes."""
        return self.path / "host.log"

    def project(self) -> Project:
        """Read the project; variables for other projects change nothing here."""
        return find_project(str(self.path), {}, Path.cwd())

    async def refuse_while_served(self) -> None:
        """Leave a folder alone whose host is running."""
        if (self.path / MARK).is_dir() and (self.path / SETTINGS).is_file():
            async with connect(self.project()) as session:
                if session.host is not None:
                    raise self.refusal("host_running", process=session.host.pid)

    def refusal(self, code: str, **facts: str | int | None) -> RequestRefused:
        """Make the error that says why a demo of this folder does not go on."""
        return RequestRefused(code=code, subject=str(self.path), facts=facts)

    def build(self, table: str) -> None:
        """Make the project, in the place of an earlier one."""
        try:
            self._clear()
            for each in OWN_FOLDERS:
                (self.path / each).mkdir(parents=True)
            for path, text in self._texts().items():
                path.write_text(text.replace("USE", table), encoding="utf-8")
        except OSError as error:
            where, facts = str(error.filename or self.path), {"cause": error.strerror}
            raise RequestRefused(code="unwritable", subject=where, facts=facts) from error

    def _clear(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir() or (any(self.path.iterdir()) and not (self.path / MARK).is_dir()):
            raise self.refusal("not_a_demo")
        for path in self._strange():
            raise RequestRefused(code="not_of_the_demo", subject=str(path))
        for name in FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for each in (SETTINGS, self.log.name, *DATABASE):
            (self.path / each).unlink(missing_ok=True)

    def _strange(self) -> Iterator[Path]:
        """Find what a person made or changed where an earlier demo would be taken away."""
        kept = files("duly.faces.demo").joinpath("text")
        texts = self._texts()
        for name in (DESK, INVOICES):
            file = f"{Path(name).name}.txt"
            texts[self.path / name] = kept.joinpath(file).read_text("utf-8")
        for path, text in texts.items():
            is_there = path.exists()
            if is_there and USE.sub("", path.read_text("utf-8", "replace")) != USE.sub("", text):
                yield path
        folders = (*FOLDERS, f"{POST}/workflows", f"{LIVE}/duly/workflows")
        for path in sorted(each for name in folders for each in (self.path / name).glob("*")):
            if path not in texts and not OWN.fullmatch(path.relative_to(self.path).as_posix()):
                yield path

    def _texts(self) -> dict[Path, str]:
        """Read the files that a demo writes."""
        kept = files("duly.faces.demo").joinpath("text")
        paths = [self.path / SETTINGS, *(self.path / "workflows" / flow.file for flow in FLOWS)]
        return {path: kept.joinpath(f"{path.name}.txt").read_text("utf-8") for path in paths}

    def deliver(self, mails: Mapping[str, bytes]) -> None:
        """Put mails into the mailbox, each one whole."""
        for name, data in mails.items():
            draft = self.path / "mailbox" / f".{name}"
            draft.write_bytes(data)
            draft.replace(draft.with_name(name))

    def mails(self) -> list[str]:
        """List the mails by their ids, which are the names of their files."""
        return sorted(path.name for path in (self.path / "mailbox").glob("*.eml"))

    def rows(self, flow: Flow) -> list[Row]:
        """Read the table that a workflow fills."""
        file = self.path / "tables" / f"{flow.table}.csv"
        lines = file.read_text("utf-8").splitlines(keepends=True) if file.exists() else []
        return [
            Row(flow.table, at, e["mail"], e["from"], e["subject"], e.get("duly_key", ""))
            for at, e in enumerate(csv.DictReader(lines), 1)
        ]
