"""`duly demo`, with real processes: it survives its own kill, and believes nobody (L5, R7)."""

from __future__ import annotations

import asyncio
import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from email import message_from_bytes
from functools import partial
from pathlib import Path

import pytest

from duly.api.build import build_host
from duly.bus.record import Journaled
from duly.connectors.mail import read_mail
from duly.desk.record import Action, Input, Mutation, Run
from duly.errors import RequestRefused
from duly.faces.demo.account import Entry, compare, compare_settled
from duly.faces.demo.folder import FLOWS, PYTHON, TABLE, DemoFolder, Row
from duly.faces.demo.mail import write_mails
from duly.faces.demo.process import Process
from duly.faces.demo.table import HOLD, Hold
from duly.faces.socket import Control
from duly.rules.word import MutationStatus, Status
from tests import house, readme_page

MAILS = 7
FEW = 3  # of which two are there at first, and the first one's row is held
PATIENCE_S = 300.0
NAMES = {flow.table: flow.name for flow in FLOWS}


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Start the command line as a person does, without a terminal."""
    # A setting of other projects is not meant for a demo.
    stray = {"DULY_URL": "sqlite:////nowhere/duly.db"}
    more = {"PYTHONPATH": str(house.ROOT), "PYTHONUNBUFFERED": "1", **stray}
    environ = {**readme_page.path_to_duly(), **more}
    return subprocess.Popen(
        [sys.executable, "-m", "duly", *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run of tests in the background ignores Ctrl-C, and so would its children.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def run(*arguments: str, folder: Path) -> tuple[int, str, str]:
    with start(*arguments, folder=folder) as child:
        out, err = child.communicate(timeout=PATIENCE_S)
        return child.returncode, out, err


def rows_of(folder: Path, table: str) -> list[dict[str, str]]:
    """Read a table as anybody would, past everything of ours."""
    with (folder / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def in_session(pid: int) -> list[int]:
    """List the processes of a host and of whatever it started."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal():
            continue
        try:
            status = (each / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(status[3]) == pid and status[0] != "Z":
            found.append(int(each.name))
    return found


def ends(pid: int) -> bool:
    """Wait until nothing is left of a host; its workers end when they notice that it is gone."""
    last = time.monotonic() + PATIENCE_S
    while in_session(pid):
        if time.monotonic() > last:
            return False
        time.sleep(0.05)
    return True


class Kept:
    """What the store of a demo says, read when all is over."""

    ledger: dict[str, list[Mutation]]
    settled: list[Journaled]
    crashed: list[Run]
    inputs: list[Input]
    actions: list[Action]


async def look(folder: Path) -> Kept:
    kept = Kept()
    async with build_host(DemoFolder(folder).project()) as host:
        names = [flow.name for flow in FLOWS]
        kept.ledger = {name: list(await host.mutations(name, limit=1000)) for name in names}
        kept.settled = list(await host.bus.journal(topic="mutation.settled"))
        kept.crashed = list(await host.runs(PYTHON.name, status=Status.CRASHED, limit=1000))
        kept.inputs = list(await host.inputs(PYTHON.name, limit=1000))
        kept.actions = list(await host.actions(limit=1000))
    return kept


# -- The whole of it ------------------------------------------------------------------------------


async def test_seven_mails_are_one_row_each_in_both_tables_through_a_kill(tmp_path: Path) -> None:
    """L5, R7, C11: the change nobody knew about is settled by a question, and never made twice."""
    status, out, err = run("demo", "--no-page", folder=tmp_path)
    assert (status, err, "\x1b" in out) == (0, "", False)
    folder = tmp_path / "duly-demo"
    mails = [path.name for path in (folder / "mailbox").iterdir()]
    assert len(mails) == MAILS

    kept = await look(folder)
    for table, name in NAMES.items():
        rows = rows_of(folder, table)
        assert Counter(row["mail"] for row in rows) == Counter(mails)
        ledger = kept.ledger[name]
        assert {each.status for each in ledger} == {MutationStatus.APPLIED}
        assert sorted(each.key for each in ledger) == sorted(row["duly_key"] for row in rows)

    # The one that was out: asked about, not sent again, and by no person's word.
    (settled,) = kept.settled
    assert settled.payload is not None
    (mutation,) = [e for e in kept.ledger[PYTHON.name] if e.id == settled.payload["mutation"]]
    assert mutation.attempt == 1
    assert mutation.run != mutation.held_by
    assert [each.id for each in kept.crashed if each.id == mutation.run] == [mutation.run]
    assert {each.verb for each in kept.actions} <= {"deploy", "grant"}
    assert f"   {mutation.id}" in out.splitlines()

    # What was told, and what can be done next.
    assert readme_page.mask(out) == readme_page.mask(readme_page.shown())
    pids = [int(each) for each in re.findall(r"The host is process (\d+)\.", out)]
    assert len(set(pids)) == 4
    assert f"Process {pids[0]} was ended by SIGKILL." in out
    assert f"Process {pids[2]} was ended by SIGKILL." in out
    assert all(ends(pid) for pid in pids)
    assert sorted(path.name for path in (folder / ".demo").iterdir()) == []
    paste(out, tmp_path)


def paste(out: str, folder: Path) -> None:
    """Paste what the demo offers into a shell."""
    offered = [line.strip() for line in out.partition("Go on with:\n")[2].splitlines()]
    assert offered[:2] == ["cd duly-demo", "duly status"]
    done = subprocess.run(
        ["sh", "-e"],
        input="\n".join(offered),
        cwd=folder,
        env=readme_page.path_to_duly(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The last of them brings one mail more.
    assert [len(rows_of(folder / "duly-demo", table)) for table in NAMES] == [MAILS + 1] * 2


@pytest.mark.parametrize(
    ("liar", "said"),
    [
        ("Denier", "001.eml: its row was there when the host died, and the ledger says failed"),
        ("Doubler", "mails: 001.eml: rows 1 and 2, and 1 applied in the ledger"),
        ("Boaster", "mails: 001.eml: no row, and 1 applied in the ledger"),
    ],
)
def test_a_table_that_lies_is_caught_by_the_account(tmp_path: Path, liar: str, said: str) -> None:
    """L3: the demo names the mail on which table and ledger do not agree, and leaves with 1."""
    status, out, err = run(
        "demo", "--mails", str(FEW), "--table", f"tests.faces.demo_liar:{liar}", folder=tmp_path
    )
    assert (status, "Table and ledger do not agree" in err) == (1, True), out + err
    assert said in err
    assert "exactly one row" not in out
    pids = [int(each) for each in re.findall(r"The host is process (\d+)\.", out)]
    assert all(ends(pid) for pid in pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_the_demo_ends_its_host(tmp_path: Path, number: signal.Signals) -> None:
    with start("demo", folder=tmp_path) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if found := re.search(r"The host is process (\d+)\.", line):
                break
        assert found is not None
        assert in_session(int(found[1]))
        child.send_signal(number)
        _, err = child.communicate(timeout=PATIENCE_S)
        assert (child.returncode, err) == (130, "")
    assert ends(int(found[1]))


# -- The folder -----------------------------------------------------------------------------------


def test_a_folder_that_is_no_demo_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("Dear diary")
    with pytest.raises(RequestRefused, match="is not a demo; nothing was written"):
        DemoFolder(tmp_path).build(TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]
    with pytest.raises(RequestRefused, match="is not a demo"):
        DemoFolder(tmp_path / "diary.txt").build(TABLE)


def test_an_earlier_demo_is_made_anew_and_what_else_is_there_stays(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path)
    folder.build(TABLE)
    Hold("mails", 1).write(tmp_path / ".demo" / HOLD)
    for name in ("duly.db", "mailbox/001.eml", "tables/mails.csv", "notes.txt"):
        (tmp_path / name).write_text("old")
    folder.build(TABLE)
    assert (tmp_path / "notes.txt").read_text() == "old"
    assert not (tmp_path / ".demo" / HOLD).exists()
    assert not (tmp_path / "duly.db").exists()
    assert (folder.mails(), folder.rows(PYTHON)) == ([], [])


@pytest.mark.parametrize(
    "name",
    [
        *[
            "workflows/mine.py",
            "workflows/mail_to_table.py",
            "mailbox/mine.eml",
            "mailbox/archive/x",
        ],
        *["tables/mine.csv", "duly.toml", "post/mine.txt", "post/workflows/mine.py"],
        "post/workflows/mail_desk.py",
        *["live/mine.txt", "live/duly/workflows/mine.py", "live/duly/workflows/invoices.py"],
    ],
)
def test_what_a_person_made_in_an_earlier_demo_is_not_taken_away(tmp_path: Path, name: str) -> None:
    """The folder is his to play with; a second demo would have deleted his work."""
    folder = DemoFolder(tmp_path)
    folder.build(TABLE)
    folder.deliver(write_mails(2, 1))
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RequestRefused, match="is not as a demo makes it"):
        folder.build(TABLE)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / name).read_text() == "mine"


def test_a_copy_of_the_database_of_an_earlier_demo_stays(tmp_path: Path) -> None:
    DemoFolder(tmp_path).build(TABLE)
    (tmp_path / "duly.db.old").write_text("mine")
    DemoFolder(tmp_path).build(TABLE)
    assert (tmp_path / "duly.db.old").read_text() == "mine"


async def test_a_folder_whose_host_is_at_work_is_left_alone(tmp_path: Path) -> None:
    folder = DemoFolder(tmp_path / "duly-demo")
    folder.build(TABLE)
    project = folder.project()
    async with build_host(project) as host, Control(host, project.socket):
        child = start("demo", folder=tmp_path)
        _, err = await asyncio.to_thread(child.communicate, timeout=PATIENCE_S)
    assert child.returncode == 1
    assert f"A host is running in {folder.path} (process {os.getpid()})" in err


def test_the_demo_s_workflows_stand_among_the_examples() -> None:
    for file in (*(flow.file for flow in FLOWS), "mail_desk.py", "invoices.py"):
        text = (house.SOURCE / "faces/demo/text" / f"{file}.txt").read_text(encoding="utf-8")
        assert (house.ROOT / "examples/demo" / file).read_text(encoding="utf-8") == text


# -- The mails ------------------------------------------------------------------------------------


def test_a_seed_means_the_same_mails_and_another_seed_others() -> None:
    assert write_mails(20, 1) == write_mails(20, 1)
    assert list(write_mails(5, 1).items()) == list(write_mails(20, 1).items())[:5]
    assert write_mails(5, 2) != write_mails(5, 1)


def test_every_mail_can_be_read_and_nobody_in_it_is_real() -> None:
    for seed in range(5):
        for data in write_mails(30, seed).values():
            mail = read_mail(data)
            assert (mail.problem, mail.to) == (None, "office@desk.example")
            assert re.search(r"@[a-z]+\.example>?$", mail.sender)
            assert message_from_bytes(data)["Message-ID"].endswith("@desk.example>")


# -- The account ----------------------------------------------------------------------------------

KEY = "k1"
ROW = Row("mails", 1, "001.eml", "a@b.example", "Hello", KEY)
ENTRY = Entry("mutation_1", KEY, MutationStatus.APPLIED, 1, {"row": {"mail": "001.eml"}})
SECOND = replace(ROW, number=2, key="k2")
FAILED = replace(ENTRY, id="mutation_0", status=MutationStatus.FAILED)
OPEN = replace(ENTRY, status=MutationStatus.NEEDS_RECONCILE)


@pytest.mark.parametrize(
    ("rows", "ledger", "said"),
    [
        ([ROW], [ENTRY], []),
        ([ROW], [FAILED, ENTRY], []),
        ([], [], ["001.eml: no row, and 0 applied in the ledger"]),
        ([ROW], [], ["001.eml: row 1, and 0 applied in the ledger"]),
        ([ROW, SECOND], [ENTRY], ["001.eml: rows 1 and 2, and 1 applied in the ledger"]),
        ([ROW], [ENTRY, ENTRY], ["001.eml: row 1, and 2 applied in the ledger"]),
        ([SECOND], [ENTRY], ["001.eml: row 2 bears the key of another call"]),
        ([ROW, replace(SECOND, mail="x")], [ENTRY], ["x: a row for it, and no such mail"]),
        ([ROW], [ENTRY, OPEN], ["001.eml: 1 needs_reconcile in the ledger"]),
    ],
)
def test_every_disagreement_is_named(rows: list[Row], ledger: list[Entry], said: list[str]) -> None:
    assert compare(["001.eml"], rows, ledger) == said


def test_a_call_is_settled_as_it_was() -> None:
    """L3: what the ledger says in the end is what the table had at the crash."""
    assert compare_settled(ENTRY, ROW) == []
    assert compare_settled(FAILED, None) == []
    assert "was there" in compare_settled(FAILED, ROW)[0]
    assert "was not there" in compare_settled(ENTRY, None)[0]
    assert "needs_reconcile" in compare_settled(OPEN, ROW)[0]


def test_a_host_that_ends_by_itself_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    folder = DemoFolder(tmp_path)
    folder.build(TABLE)
    process = Process(folder)
    process.child.wait()
    with pytest.raises(RequestRefused, match="ended unexpectedly with status 1"):
        process.check()
