"""The files for containers, as far as they can be tried where no engine for containers runs."""

from __future__ import annotations

import http.server
import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from duly.config import PageSettings
from tests.image import FILES as SHARED
from tests.image import check_of, instructions

FOLDERS = ("container", "fleet")


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
    assert installs[0].startswith("set -- /tmp/duly-*.whl &&")


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_says_what_the_page_says(status: int, is_well: bool) -> None:
    """G13: it asks where the page is by default, and fails where the host is silent."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    place = f":{PageSettings().port}/"
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
        assert each["environment"]["DULY_KEY"].startswith("${DULY_KEY:?")
    assert Path(SHARED / folder / "Dockerfile").exists()


def test_the_commands_of_the_image_are_those_of_this_version(tmp_path: Path) -> None:
    """U6: an option that is renamed is noticed here."""
    (command,) = (json.loads(rest) for word, rest in instructions("container") if word == "CMD")
    asked = [sys.executable, "-m", *command, "--help"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, shlex.join(asked)
