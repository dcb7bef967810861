"""The files for containers, as far as they can be tried where no engine for containers runs."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly.rules.page import PORT
from tests.image import FILES as SHARED
from tests.image import check_of, first_of, instructions

FOLDERS = ("container", "fleet")
# What lies beside a compose file or in a project and may be in no image (A5).
PRIVATE = (
    *(
        ".env",
        ".env.production",
        "db.env",
        "duly.db",
        "duly.db-wal",
        "duly.db.key",
        "duly.db.key.old",
    ),
    *("duly.db.v1.backup", "id_rsa", "tls.key", "tls.pem", ".git/config", "backups/monday.db"),
)


def is_left_out(folder: str, name: str) -> bool:
    """Judge a name by a .dockerignore, as docker does: the last line that fits counts."""
    found = False
    for line in (SHARED / folder / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        above = ("/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 2))
        if line and not line.startswith("#") and any(fnmatchcase(each, pattern) for each in above):
            found = not line.startswith("!")
    return found


def copied(folder: str) -> list[str]:
    """List what an image copies from beside its file."""
    words = (rest.split() for word, rest in instructions(folder) if word in ("COPY", "ADD"))
    return [each for line in words for each in line[:-1] if not each.startswith("--")]


def test_every_folder_with_an_image_is_looked_at() -> None:
    assert {each.parent.name for each in SHARED.rglob("Dockerfile*")} == {*FOLDERS}


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_image_has_a_python_on_which_all_tests_run(folder: str) -> None:
    """U6: those are the classifiers (decision 564)."""
    project = tomllib.loads((SHARED.parent / "pyproject.toml").read_text(encoding="utf-8"))
    told = (each.split(" :: ") for each in project["project"]["classifiers"])
    tested = {words[-1] for words in told if words[1] == "Python"}
    (base,) = (rest for word, rest in instructions(folder) if word == "FROM")
    assert base.removeprefix("python:").removesuffix("-slim") in tested


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_image_has_no_key_and_no_store(folder: str) -> None:
    """A5: what is copied is named, and `.env` with the key is not sent to the builder at all."""
    sources = copied(folder)
    assert sources
    for each in sources:
        assert each not in (".", "./", "*", "/"), "a whole folder"
        assert not is_left_out(folder, each.replace("*", "1")), "the build would not find it"
    assert [each for each in PRIVATE if not is_left_out(folder, each)] == []


def test_a_key_beside_an_image_is_not_committed_either() -> None:
    """A5: the compose files tell a person to write `.env`."""
    names = [f"examples/{folder}/{each}" for folder in FOLDERS for each in (".env", "duly.db.key")]
    lines = (SHARED.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert all(any(fnmatchcase(Path(name).name, each) for each in lines) for name in names)


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_image_runs_as_an_ordinary_user_and_gets_its_signals(folder: str) -> None:
    """G1: CMD is a list, so that SIGTERM reaches the host and not a shell."""
    found = instructions(folder)
    words = [word for word, _ in found]
    (user,) = (rest for word, rest in found if word == "USER")
    assert user not in ("root", "0")
    assert words.index("USER") < words.index("CMD")
    assert not any(word == "RUN" for word in words[words.index("USER") :])
    (command,) = (json.loads(rest) for word, rest in found if word == "CMD")
    assert command[:2] == ["duly", "serve"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_image_installs_this_wheel_and_no_package_of_that_name(folder: str) -> None:
    """A5: another author's package of that name would be given the key."""
    found = instructions(folder)
    assert ("COPY", "duly-*.whl /tmp/") in found
    installs = [rest for word, rest in found if word == "RUN" and "pip install" in rest]
    (words,) = (shlex.split(rest.split("pip install", 1)[1].split("&&")[0]) for rest in installs)
    assert [each for each in words if not each.startswith("-")] == ["$1[postgres]"]
    assert installs[0].startswith("set -- /tmp/duly-*.whl ")


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_exactly_one_wheel_is_installed_or_the_build_says_why_not(
    folder: str, count: int, tmp_path: Path
) -> None:
    """U6: of several wheels none is taken without a word."""
    names = [f"duly-0.{each}.0-py3-none-any.whl" for each in range(count)]
    for each in names:
        (tmp_path / each).touch()
    for program in ("pip", "useradd", "install"):
        (tmp_path / program).write_text('#!/bin/sh\necho "$0 $*"\n', encoding="utf-8")
        (tmp_path / program).chmod(0o755)
    (line,) = (rest for word, rest in instructions(folder) if word == "RUN" and "pip " in rest)
    done = subprocess.run(
        ["sh", "-c", line.replace("/tmp/duly", f"{tmp_path}/duly")],
        env={"PATH": f"{tmp_path}:{os.defpath}"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    if count == 1:
        assert (done.returncode, f"{tmp_path}/{names[0]}[postgres]" in told) == (0, True)
    else:
        assert (done.returncode, "install --no-cache-dir" in told) == (1, False)
        assert "exactly one wheel of Duly" in told
        assert all(each in told for each in names)


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_says_what_the_page_says(status: int, is_well: bool) -> None:
    """G13: it asks where the page is by default, and fails where the host is silent."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    place = f":{PORT}/"
    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            for folder in FOLDERS:
                _, *words = check_of(folder)
                assert place in words[-1]
                words[-1] = words[-1].replace(place, f":{server.server_port}/")
                asked = subprocess.run([sys.executable, *words], capture_output=True, check=False)
                assert (asked.returncode == 0) == is_well
        finally:
            server.shutdown()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_compose_file_stops_a_host_as_slowly_as_it_needs(folder: str) -> None:
    """L6: and its variables without a default are refused with a sentence."""
    whole = (SHARED / folder / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(whole)["services"]
    hosts = [each for name, each in services.items() if name.startswith("host")]
    assert hosts
    for each in hosts:
        assert int(each["stop_grace_period"].removesuffix("s")) >= 150
        assert each["init"] is True
        assert each["read_only"] is True
        assert each["tmpfs"] == ["/tmp"]
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert each["environment"]["DULY_KEY"].startswith("${DULY_KEY:?")
    assert Path(SHARED / folder / "Dockerfile").exists()


def test_the_first_command_makes_a_project_where_the_volume_is_empty(tmp_path: Path) -> None:
    """U6: `duly serve` in an empty folder ends with 1, so both say what to type first."""
    duly, *words = first_of("container")
    page = (SHARED.parent / "docs/deployment.md").read_text(encoding="utf-8")
    assert f"docker compose run --rm host {shlex.join([duly, *words])}\ndocker compose up\n" in page
    environ = {**os.environ, "DULY_PROJECT": str(tmp_path)}
    command = [sys.executable, "-m", duly]
    for each, status in (["serve"], 1), (words, 0), (["check", "workflows/welcome.py"], 0):
        done = subprocess.run([*command, *each], cwd=tmp_path, env=environ, check=False)
        assert done.returncode == status, each
    assert (tmp_path / "duly.toml").exists()


def test_a_container_without_the_host_network_publishes_no_port() -> None:
    """G1: a published port never reaches a loopback address; the page says what does."""
    for folder in FOLDERS:
        whole = (SHARED / folder / "compose.yaml").read_text(encoding="utf-8")
        assert all("ports" not in each for each in yaml.safe_load(whole)["services"].values())
    page = (SHARED.parent / "docs/deployment.md").read_text(encoding="utf-8")
    assert re.search(r"published port does not reach that address.*network_mode: host", page)


def test_the_commands_of_the_image_are_those_of_this_version(tmp_path: Path) -> None:
    """U6: an option that is renamed is noticed here."""
    (command,) = (json.loads(rest) for word, rest in instructions("container") if word == "CMD")
    asked = [sys.executable, "-m", *command, "--help"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, shlex.join(asked)
