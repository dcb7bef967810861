"""docs/http.md: every command and every request on it is carried out, in its order."""

from __future__ import annotations

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Final

import httpx2

from tests import house
from tests.faces.real import call, make_project, running
from tests.web.test_process import url_of

PAGE: Final = house.ROOT / "docs" / "http.md"
BLOCK: Final = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTES: Final = """\
from duly import workflow

flow = workflow("notes", topics={"note.came": {"ingress": True}})


@flow.consumer("note.came")
class keep:
    async def prepare(self, ctx, state):
        return {"reservations": []}
"""


class Reader:
    """Types what the page says, and remembers what the next line needs of it."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._known = {"URL": url}
        self.heard = ""

    def type(self, line: str) -> None:
        for name, value in self._known.items():
            line = line.replace(f"${name}", value)
        program, *words = shlex.split(line)
        if program == "duly":
            self._command(words)
        else:
            assert program == "curl"
            self._request(words)

    def _command(self, words: list[str]) -> None:
        place = [each.replace("notes.py", str(self._folder / "notes.py")) for each in words]
        done = call(self._folder, *place, "--json")
        assert done.exit_code == 0, done.output
        told = json.loads(done.stdout)
        if isinstance(told, dict):
            self._known |= {"TOKEN": told["token"]} if "token" in told else {}
            self._known |= {"KEY": told["key"]} if told.get("key") else {}

    def _request(self, words: list[str]) -> None:
        method, headers, body, url = "GET", {}, "", ""
        rest = iter(words)
        for word in rest:
            if word == "-X":
                method = next(rest)
            elif word == "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            elif word == "-d":
                body = next(rest)
            else:
                url = word
        assert "$" not in url, url
        reply = httpx2.request(method, url, headers=headers, content=body.encode(), timeout=30)
        self.heard = f"{reply.status_code}\n{reply.text}"


def test_what_the_page_shows_is_what_happens(tmp_path: Path) -> None:
    """U6: tokens, questions, acts, problems, links and webhooks, as a reader would try them."""
    folder = make_project(tmp_path / "project")
    (folder / "notes.py").write_text(NOTES, encoding="utf-8")
    assert call(folder, "deploy").exit_code == 0
    asked = 0
    with running(folder, "serve", "--page-port", "0") as host:
        reader = Reader(folder, url_of(host))
        for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
            for line in text.splitlines():
                if kind == "sh":
                    reader.type(line)
                else:
                    assert line in reader.heard, reader.heard
                    asked += 1
        host.tell(signal.SIGTERM)
        assert host.end() == 0
    assert asked > 15
