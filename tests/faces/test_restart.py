"""A host that begins again: real processes, their number, sockets, and what they were sending."""

from __future__ import annotations

import http.client
import json
import signal
from pathlib import Path
from typing import Any

from tests.faces.real import Running, call, make_project, make_slow_project, running, wait_for
from tests.faces.test_serve import BAD, statuses

AGAIN = "Stopped; beginning again."


def asked(folder: Path, *words: str) -> Any:
    result = call(folder, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def until_begun(host: Running, count: int) -> None:
    """Wait until the host listens for the second time."""

    def is_there() -> bool:
        return host.said.count("Page http://") == count

    wait_for(is_there, "the new beginning", host)


def port_of(host: Running, count: int) -> int:
    line = [each for each in host.said.splitlines() if "Page http://" in each][count - 1]
    return int(line.partition("http://127.0.0.1:")[2].partition(" ")[0])


def test_a_host_begins_again_in_its_own_process_with_its_page_and_its_new_settings(
    tmp_path: Path,
) -> None:
    """R7, G1: the same number, the same port; a browser that comes in between waits."""
    folder = make_project(tmp_path)
    with running(folder, "serve", "--page-port", "0") as host:
        until_begun(host, 1)
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        asked(folder, "add-connection", "files", "notes", "--settings", '{"path": "notes"}')
        assert asked(folder, "settings")["added"] == ["notes"]
        port = port_of(host, 1)
        assert asked(folder, "restart") is None
        host.until(AGAIN)
        # Between the two programs: the socket stays, and a browser is let in by the new one.
        web = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
        web.request("GET", "/sign-in?code=0")
        assert web.getresponse().status == 200
        web.close()
        until_begun(host, 2)
        assert port_of(host, 2) == port
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        assert host.process.poll() is None
        assert f"process {host.process.pid}" in call(folder, "doctor").stdout
        assert not asked(folder, "settings")["is_changed"]
        assert "notes" in [each["name"] for each in asked(folder, "connections")]
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert host.said.rstrip().endswith("Stopped.")


def test_a_send_that_is_out_ends_before_the_host_begins_again_and_is_made_once(
    tmp_path: Path,
) -> None:
    """R7, L6: not twice, and not lost."""
    folder = make_slow_project(tmp_path / "project")
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        asked(folder, "deploy", "--grant", str(folder / "workflows" / "posts.py"))
        asked(folder, "publish", "posts", "note.came", "--title", "Tea", "--message-id", "1")
        wait_for((folder / "called").exists, "the call", host)
        asked(folder, "restart")
        host.until("Stopping; waiting for the answer to slow.post (posts).")
        assert AGAIN not in host.said
        (folder / "go").touch()
        host.until(AGAIN)
        wait_for(lambda: host.said.count("Duly ") == 2, "the new beginning", host)
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        assert statuses(folder) == ["applied"]
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert (folder / "posts").read_text() == "Tea\n"


def test_a_send_that_never_returns_ends_with_the_program_and_the_next_one_asks(
    tmp_path: Path,
) -> None:
    """L6: the process begins again all the same, as it would end."""
    folder = make_slow_project(tmp_path / "project")
    (folder / "outside_slow.py").write_text(BAD)
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        asked(folder, "deploy", "--grant", str(folder / "workflows" / "posts.py"))
        asked(folder, "publish", "posts", "note.came", "--title", "Hang", "--message-id", "1")
        wait_for(lambda: statuses(folder) not in ([], ["in_flight"]), "the end of its time", host)
        asked(folder, "restart")
        host.until("Stopped while sending slow.post; the next host asks what became of it.")
        wait_for(lambda: host.said.count("Duly ") == 2, "the new beginning", host)
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        assert statuses(folder) in (["needs_reconcile"], ["indeterminate"])
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert (folder / "called").read_text() == "Hang"


def test_a_host_that_is_told_to_stop_meanwhile_stops(tmp_path: Path) -> None:
    """R7: a signal is stronger than a wish to begin again."""
    folder = make_slow_project(tmp_path / "project")
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        asked(folder, "deploy", "--grant", str(folder / "workflows" / "posts.py"))
        asked(folder, "publish", "posts", "note.came", "--title", "Tea", "--message-id", "1")
        wait_for((folder / "called").exists, "the call", host)
        asked(folder, "restart")
        host.until("Stopping; waiting for the answer to slow.post (posts).")
        host.tell(signal.SIGTERM)
        host.until("Still stopping; waiting for the answer to slow.post (posts).")
        (folder / "go").touch()
        host.until("Stopped")
        assert AGAIN not in host.said
        assert host.end() == 0, host.said
    assert AGAIN not in host.said
    assert host.said.rstrip().endswith("Stopped.")


def test_settings_that_are_wrong_leave_the_host_as_it_is(tmp_path: Path) -> None:
    """R7: a mistake in a file ends no host."""
    folder = make_project(tmp_path)
    with running(folder, "serve", "--no-page") as host:
        wait_for((folder / "duly.db.socket").exists, "the socket", host)
        with (folder / "duly.toml").open("a") as file:
            file.write('\n[connectors.x]\nuse = "files"\npath = "nowhere"\n')
        told = call(folder, "restart", "--json")
        assert told.exit_code == 1
        error = json.loads(told.stderr.splitlines()[-1])["error"]
        assert error["code"] == "settings_broken", told.stderr
        assert "nowhere" in error["message"]
        assert host.process.poll() is None
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    assert AGAIN not in host.said
