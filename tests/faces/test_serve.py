"""`duly serve` as a process: it begins, it is spoken to, it is stopped in order."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import pty
import re
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import pytest

import duly
from duly.api.build import build_host
from duly.api.project import find_project
from duly.bus.record import Journaled
from duly.errors import StoreUnavailable
from duly.faces.cli import completion
from duly.faces.cli import serve as module
from duly.faces.cli.again import Again
from duly.faces.cli.completion import complete_workflow
from duly.faces.cli.serve_log import logging_to_stderr
from duly.faces.cli.stop import Stop
from duly.host import Host
from duly.rules.announcement import Topic
from duly.rules.delivery import JournalStatus
from duly.store.migrate import SCHEMA_VERSION
from tests.faces import cli_stand
from tests.faces.real import (
    PATIENCE_S,
    call,
    make_project,
    make_slow_project,
    running,
    wait_for,
)


def test_a_host_is_deployed_to_over_its_socket_and_stopped_with_nothing_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6, H1, H4: the commands speak to the process that serves; SIGTERM ends it with status 0."""
    folder = make_project(tmp_path / "project")
    settings = folder / "duly.toml"
    settings.write_text(settings.read_text().replace("above:low", "never"))
    monkeypatch.setattr(completion, "PATIENCE_S", PATIENCE_S)
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        deployed = call(folder, "deploy", "--grant", str(folder / "workflows"))
        assert deployed.exit_code == 0, deployed.output
        assert "No host is running" not in deployed.output
        host.until("welcome.answer committed (applied)")
        second = call(folder, "serve", "--no-page")
        assert names(folder, "wel") == ["welcome"]
        assert names(folder, "x") == []
        looked = call(folder, "doctor")
        assert f"`duly serve` runs (process {host.process.pid}, " in looked.stdout, looked.output
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert second.exit_code == 1
    assert f"{folder / 'duly.db'}" in second.output
    assert (folder / "outbox" / "ada.txt").read_text() == "Welcome, Ada!\n"
    assert not (folder / "duly.db.socket").exists()
    assert f"Store {folder / 'duly.db'}" in host.said
    assert f"Duly {duly.__version__}, store version {SCHEMA_VERSION}\n" in host.said
    assert "Sandbox: scripts are locked in" in host.said
    # A word where the host runs as root, and none where it does not (X1).
    assert ("This is root" in host.said) is (os.geteuid() == 0)
    assert "welcome 1.0 deployed by" in host.said
    assert host.said.rstrip().endswith("Stopped.")


def test_a_stop_waits_for_a_send_and_says_so_each_time_it_is_asked(tmp_path: Path) -> None:
    """R7, L2: no signal cuts a send short; what is waited for is named, and it happens once."""
    folder = make_slow_project(tmp_path / "project")
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        for words in (
            ("deploy", "--grant", str(folder / "workflows" / "posts.py")),
            ("publish", "posts", "note.came", "--title", "Tea", "--message-id", "1"),
            ("bus", "schedule", "3600", "reminder.due", '{"text": "Tea"}'),
        ):
            assert call(folder, *words).exit_code == 0
        wait_for((folder / "called").exists, "the call", host)
        host.tell(signal.SIGINT)
        host.until("Stopping; waiting for the answer to slow.post (posts).")
        host.tell(signal.SIGINT)
        host.until("Still stopping; waiting for the answer to slow.post (posts).\n")
        host.tell(signal.SIGTERM)
        host.until(f"`kill -9 {host.process.pid}`")
        assert host.process.poll() is None
        (folder / "go").touch()
        assert host.end() == 0, host.said
    assert (folder / "posts").read_text() == "Tea\n"
    assert "committed (applied)" in host.said, "what happened while it stopped is told too"
    assert "Left: 1 event is scheduled, the first for " in host.said
    mutations = call(folder, "mutations", "--json")
    assert '"status": "applied"' in mutations.output


# A connector whose thread never returns, or that ends the process, as its title says.
BAD: Final = """
import sys
import threading
from pathlib import Path

import duly
import duly.host

HERE = Path(__file__).parent
if "pytest" not in sys.modules:
    duly.host.CLOSE_S = 0.2  # a test has no half minute


class Slow(duly.Connector):
    name = "slow"

    @duly.mutation(lag_s=1, timeout_s=0.2, noun="post")
    async def post(self, call: duly.Call, text: str) -> dict:
        (HERE / "called").write_text(text)
        if text == "Exit":
            await self.in_thread(sys.exit)
        await self.in_thread(threading.Event().wait)
        return {}

    @post.reconcile
    async def post_happened(self, call: duly.Call):
        return duly.Unsure("it is not counted here")
"""


def statuses(folder: Path) -> list[str]:
    return [each["status"] for each in json.loads(call(folder, "mutations", "--json").output)]


@pytest.mark.parametrize(
    ("title", "last"),
    [
        ("Hang", "Stopped while sending slow.post; the next host asks what became of it."),
        ("Exit", "Stopped."),
    ],
)
def test_a_host_outlives_its_connector_and_not_its_send(
    tmp_path: Path, title: str, last: str
) -> None:
    """L6, L13: a send that never returns dies with the process; `sys.exit` in one ends nothing."""
    folder = make_slow_project(tmp_path / "project")
    (folder / "outside_slow.py").write_text(BAD)
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        for words in (
            ("deploy", "--grant", str(folder / "workflows" / "posts.py")),
            ("publish", "posts", "note.came", "--title", title, "--message-id", "1"),
        ):
            assert call(folder, *words).exit_code == 0

        def is_given_up() -> bool:
            return statuses(folder) not in ([], ["in_flight"])

        wait_for(is_given_up, "the end of its time", host)
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert host.said.rstrip().endswith(last)
    # The lock went with the process, and nothing was believed on its way out.
    assert statuses(folder) in (["needs_reconcile"], ["indeterminate"])


def test_a_callback_that_ends_the_host_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13: what no task of a call runs cannot be held; its end is said, and is a failure."""

    async def exit_in_a_callback(*_: object) -> None:
        asyncio.get_running_loop().call_soon(sys.exit)
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "_serve", exit_in_a_callback)
    ended = call(make_project(tmp_path / "project"), "serve", "--no-page")
    assert (ended.exit_code, "called sys.exit(None), which ended" in ended.output) == (1, True)


def test_what_is_left_is_told_with_its_sentence(tmp_path: Path) -> None:
    """U7: a call that waits for a person is named when the host stops."""
    folder = make_project(tmp_path / "project")
    assert call(folder, "deploy", "--grant", str(folder / "workflows")).exit_code == 0
    with running(folder, "serve", "--no-page") as host:
        host.until("Needs you: welcome: ")
        host.tell(signal.SIGHUP)
        assert host.end() == 0, host.said
    assert "Left: welcome needs attention: " in host.said


def test_on_a_terminal_one_line_says_how_everything_stands(tmp_path: Path) -> None:
    """U1: workflows, running, attention, waiting work and the next check, on one line."""
    folder = make_project(tmp_path / "project")
    assert call(folder, "deploy", "--grant", str(folder / "workflows")).exit_code == 0
    ours, theirs = pty.openpty()
    said = bytearray()
    try:
        with running(folder, "serve", "--page-port", "0", tty=theirs) as host:
            os.close(theirs)
            os.set_blocking(ours, False)

            def has_said(words: bytes) -> bool:
                with suppress(OSError):
                    said.extend(os.read(ours, 65536))
                return words in said

            wait_for(lambda: has_said(b"1 need attention"), "the approval that waits")
            wait_for(lambda: has_said(b"Next check in"), "the next check")
            host.tell(signal.SIGTERM)
            wait_for(lambda: has_said(b"Stopped."), "the end")
            assert host.end() == 0
    finally:
        os.close(ours)
    # Only a terminal gets a link: what is kept would hold it for others. It is whole, on one line.
    assert re.search(rb"minute: http://127.0.0.1:\d+/sign-in\?code=[0-9a-f]{64}\r\n", said)
    line = "1 workflow · 0 running · 1 need attention · 0 with work pending · Next check in"
    assert line in said.decode()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"verbose": True, "quiet": False}, ["fine", "well", "wrong"]),
        ({"verbose": False, "quiet": False}, ["well", "wrong"]),
        ({"verbose": False, "quiet": True}, ["wrong"]),
    ],
)
def test_how_much_is_logged_is_said_by_an_option(
    settings: dict[str, bool], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """U5: to stderr, and the loggers are afterwards as they were before."""
    root = logging.getLogger("duly")
    before = (root.level, root.propagate, [*root.handlers])
    with logging_to_stderr(**settings) as show_status:
        assert show_status is None
        module.log.debug("fine")
        module.log.info("well")
        module.log.warning("wrong")
    assert [line.split()[-1] for line in capsys.readouterr().err.splitlines()] == told
    assert (root.level, root.propagate, [*root.handlers]) == before


async def test_what_the_start_made_is_not_looked_at_again_while_serving(tmp_path: Path) -> None:
    """A full collection would stop the event loop for tens of milliseconds (decision 098)."""
    folder = make_project(tmp_path)
    project = find_project(str(folder), {}, folder)
    stop, frozen = Stop(), []

    async def look(host: Host) -> None:
        frozen.append(gc.get_freeze_count())
        stop.ask()

    await module._serve_host(build_host(project), project, stop, None, None, look, Again())
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("trouble", [StoreUnavailable("no disk"), KeyError("a bug")])
async def test_who_only_tells_does_not_stop_who_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Exception,
) -> None:
    """H3: a store that cannot be read for a moment is said, and looked at again."""
    looks = asyncio.Semaphore(0)

    async def fail(host: Host, last_id: int) -> list[Journaled]:
        looks.release()
        raise trouble

    monkeypatch.setattr(module, "_journal_since", fail)
    monkeypatch.setattr(module, "PAUSE_S", 0)
    folder = make_project(tmp_path)
    async with build_host(find_project(str(folder), {}, folder)) as host:
        telling = asyncio.ensure_future(module._tell_events(host, module.Journal(host, 0), None))
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(2):
                await host.bus.emit("task.received", {"text": "x"}, source="test")
                await looks.acquire()
        assert not telling.done()
        telling.cancel()
    assert str(trouble) in caplog.text


def test_every_announcement_is_a_line_and_what_a_script_said_steers_no_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B10, L11: one line for each topic of the engine; an escape code is spelled out."""
    caplog.set_level(logging.DEBUG, "duly.serve")
    payload = {"workflow": "w", "handler": "h", "text": "\x1b[31mred", "message": "boo"}
    payload |= {"version": "2.0", "by": "ada", "outcome": "applied"}
    for number, topic in enumerate(Topic):
        module._tell(event(number, topic, {**payload, "missing": ["a.b"]}))
    module._tell(event(9, "run.committed", {**payload, "outcome": "none"}))
    module._tell(event(10, "run.committed", payload, source="somebody"))
    told = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert ("WARNING", "w 2.0 deployed by ada; not granted: a.b") in told
    assert ("WARNING", "Needs you: \\x1b[31mred See `duly attention`.") in told
    assert ("WARNING", "w.h failed: boo") in told
    assert ("INFO", "w.h committed (applied)") in told
    assert ("DEBUG", "w.h committed (none)") in told
    assert ("DEBUG", "Event 10 run.committed of somebody") in told
    assert len(told) == len(Topic) + 2
    caplog.clear()
    observed = {"observed": {"tool": "table.insert", "args": {}}}
    for number, word in enumerate(("applied", "failed", "skipped")):
        settled = {**payload, **observed, "mutation_status": word}
        module._tell(event(number, Topic.SETTLED, settled))
    assert [each.getMessage() for each in caplog.records] == [
        "w: table.insert did happen, and is not made again",
        "w: table.insert did not happen",
        "w: table.insert is skipped; whether it happened is left open",
    ]


def test_a_line_of_json_has_the_id_that_why_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """U7: and no payload; what a script said is spelled out there too."""
    payload = {"workflow": "w", "handler": "h", "run": "run_1", "text": "\x1b[31m", "message": "m"}
    with logging_to_stderr(verbose=False, quiet=False, as_json=True):
        module._tell(event(7, Topic.RUN_FAILED, payload))
        module._tell(event(8, Topic.SETTLED, {**payload, "mutation": "mutation_1"}))
        module.log.warning("plain\nwords")
    failed, settled, plain = map(json.loads, capsys.readouterr().err.splitlines())
    about = {"event": "bus:7", "topic": "run.failed", "workflow": "w", "run": "run_1"}
    assert failed.items() >= (about | {"why": "run_1", "level": "warning"}).items()
    assert settled["why"] == settled["mutation"] == "mutation_1"
    assert plain.keys() == {"at", "level", "logger", "message"}
    assert "text" not in failed


def test_duly_why_takes_each_id_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U7: a run that failed, a call that waits, a lost outcome, a deploy: `why` explains each."""
    folder = tmp_path / "project"
    facts = cli_stand.prepare(folder)

    async def journal() -> list[Journaled]:
        async with build_host(cli_stand.project(folder)) as host:
            return await module._journal_since(host, 0)

    told = asyncio.run(journal())
    capsys.readouterr()
    with logging_to_stderr(verbose=True, quiet=False, as_json=True):
        for each in told:
            module._tell(each)
    lines = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    ids = {each["why"] for each in lines if "why" in each}
    assert ids >= {facts.proposed, facts.unknown, facts.failed_run, "checks"}
    for each in sorted(ids):
        assert cli_stand.answer(folder, "why", each)["reason"]["detail"], each


def names(folder: Path, incomplete: str) -> list[str]:
    """Press Tab where the name of a workflow stands."""
    root = click.Context(click.Command("duly"))
    root.params["project"] = str(folder)
    found = complete_workflow(root, click.Argument(["workflow"]), incomplete)
    return [str(each.value) for each in found]


def event(number: int, topic: str, payload: dict[str, Any], source: str = "duly") -> Journaled:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    status = JournalStatus.DONE
    return Journaled(number, topic, source, payload, None, None, 0, status, False, None, at, at)
