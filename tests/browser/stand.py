"""The stand of the browser's tests: one host, one Chromium, and a person who walks through pages.

Law 1  Nothing is faked between the person and the disk: `duly serve`, its page, its connectors.
Law 2  Each page that was opened is watched: an error on its console, or a request to another
       place, fails the walk that met it.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import apsw
from click.testing import Result
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.browser.chromium import find
from tests.connectors.test_mcp import command
from tests.faces.real import Running
from tests.faces.real import call as call_here

WAIT_MS: Final = 20_000
EIGHT_DAYS_MS: Final = 8 * 86_400_000
WIDE: Final[ViewportSize] = {"width": 1280, "height": 800}
NARROW: Final[ViewportSize] = {"width": 360, "height": 740}

SETTINGS: Final = """
workflows = "workflows"
extensions = "extensions"

[policy]
approvals = { "post.*" = "always" }

[connectors.mailbox]
use = "mailbox"
path = "mailbox"

[connectors.table]
use = "table"
path = "tables"

[connectors.post]
use = "outside_post:Post"

[connectors.archive]
use = "outside_post:Archive"

[connectors.notes]
use = "mcp"
command = NOTES
reads = ["search-*"]
"""

OUTSIDE: Final = """
from pathlib import Path

import duly

HERE = Path(__file__).parent


class Post(duly.Connector):
    name = "post"

    @duly.mutation(
        risk="high",
        noun="letter",
        editable=("text",),
        labels={"to": "To", "subject": "Subject", "text": "Body"},
    )
    async def send(self, call: duly.Call, to: str, subject: str, text: str) -> dict:
        if subject == "Lost":
            raise duly.UnknownOutcome("the line went dead")
        with (HERE / "posts").open("a") as file:
            file.write(f"{to}: {subject}\\n")
        return {"sent": to}


class Archive(duly.Connector):
    name = "archive"
    kept = HERE / "kept"

    @duly.mutation(lag_s=60, key_in="header", asked="by_search", labels={"what": "What"})
    async def keep(self, call: duly.Call, what: str) -> None:
        self.secret("token")
        with self.kept.open("a") as file:
            file.write(f"{call.key} {what}\\n")

    @keep.reconcile
    async def keep_happened(self, call: duly.Call):
        self.secret("token")
        found = self.kept.exists() and call.key in self.kept.read_text()
        return duly.Applied() if found else duly.NotApplied()

    @keep.trial
    def keep_tried(self):
        '''Keeps one paper of yours.'''
        return {"what": "A trial of Duly"}
"""

# Does nothing with what it hears until a file is there.
LAMP: Final = """
from pathlib import Path

import duly

HERE = Path(__file__).parents[2]


class Main(duly.Extension):
    async def initialize(self, context):
        context.subscribe_event("lamp.lit", self.light)

    async def light(self, event):
        if not (HERE / "mended").exists():
            raise duly.Refused("The lamp is broken")
        with (HERE / "lit").open("a") as file:
            file.write("lit\\n")
"""
LAMP_MANIFEST: Final = """
id: lamp
name: Lamp
version: "1.0"
entrypoint: main:Main
"""

LETTERS: Final = """
from duly import workflow

flow = workflow("NAME", topics={"letter.came": {"ingress": True}})


@flow.consumer("letter.came")
class send:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("letter.came", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        letter = pending[0]["payload"]
        print("writing to", letter.get("to"))
        return {
            "reservations": [{"topic": "letter.came", "ids": [pending[0]["message_id"]]}],
            "data": letter,
            "ui": {"title": letter.get("claim", "Say hello")},
        }

    async def mutate(self, ctx, prepared):
        letter = prepared["data"]
        if "to" not in letter:
            raise ValueError("The letter has no address")
        await ctx.post.send(to=letter["to"], subject=letter["subject"], text=letter["text"])
"""


def call(folder: Path, *words: str) -> Result:
    """Call the command line beside the loop that playwright runs in this thread."""
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(call_here, folder, *words).result()


def is_of(url: str, home: str) -> bool:
    """Tell whether an address has the origin of another one, to the last digit of its port."""
    one, other = urlsplit(url), urlsplit(home)
    return (one.scheme, one.netloc) == (other.scheme, other.netloc)


def age(store: Path, message_ids: str) -> None:
    """Let events be eight days old, in the store of a host that was killed.

    Its log stays where it is: a store that lost it would be taken for a restored copy (H1).
    """
    connection = apsw.Connection(str(store))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.execute(
        "update event set created_at = created_at - ? where message_id like ?",
        (EIGHT_DAYS_MS, message_ids),
    )
    connection.close()


@dataclass
class Person:
    """A person with a browser, signed in; `problems` are what their pages complained about."""

    folder: Path
    url: str
    browser: Browser
    state: Any
    problems: list[str] = field(default_factory=list)
    pictures: Path | None = None
    host: Running | None = None

    def context(self, **more: Any) -> BrowserContext:
        """Open another window, signed in as well."""
        made = self.browser.new_context(
            base_url=self.url, storage_state=self.state, viewport=more.pop("viewport", WIDE), **more
        )
        made.set_default_timeout(WAIT_MS)
        made.on("console", lambda each: self._hear(each.type, each.text))
        made.on("weberror", lambda each: self._hear("error", str(each.error)))
        made.on("request", lambda each: self._see(each.url))
        return made

    def _hear(self, kind: str, text: str) -> None:
        if kind == "error":
            self.problems.append(text)

    def _see(self, url: str) -> None:
        if not is_of(url, self.url):
            self.problems.append(f"a request to {url}")

    def publish(self, workflow: str, title: str, message_id: str, payload: str) -> None:
        """Publish something, as another program would."""
        words = ("publish", workflow, "letter.came", "--title", title, "--message-id", message_id)
        done = call(self.folder, *words, "--payload", payload)
        assert done.exit_code == 0, done.output

    def posts(self) -> list[str]:
        """Read what was really sent."""
        kept = self.folder / "posts"
        return kept.read_text().splitlines() if kept.exists() else []

    def start(self) -> None:
        """Start the host, at the port where it was before."""
        port = self.url.rpartition(":")[2]
        self.host = Running(self.folder, "serve", "--page-port", port)
        self.host.until("Page http://")

    def goes(self, page: Page, path: str) -> None:
        """Open a page; it is there when its main part is."""
        page.goto(path, wait_until="domcontentloaded")
        page.wait_for_selector("main")


@contextmanager
def walking(folder: Path) -> Iterator[Person]:
    """Start a host with three workflows and a browser, and sign in by the link of `duly open`."""
    _make(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    person: Person | None = None
    with sync_playwright() as play:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        browser = play.chromium.launch(executable_path=str(find()), args=options)
        try:
            person = Person(folder, f"http://127.0.0.1:{port}", browser, None)
            person.start()
            done = call(folder, "deploy", "--grant", "--lenient")
            assert done.exit_code == 0, done.output
            _sign_in(person)
            yield person
        finally:
            browser.close()
            if person is not None and person.host is not None:
                person.host.close()


def _make(folder: Path) -> None:
    for name in ("workflows", "mailbox", "tables", "extensions/lamp"):
        (folder / name).mkdir(parents=True)
    (folder / "duly.toml").write_text(SETTINGS.replace("NOTES", json.dumps(command(folder))))
    (folder / "extensions/lamp/main.py").write_text(LAMP)
    (folder / "extensions/lamp/manifest.yaml").write_text(LAMP_MANIFEST)
    (folder / "outside_post.py").write_text(OUTSIDE)
    for name in ("letters", "cards"):
        (folder / "workflows" / f"{name}.py").write_text(LETTERS.replace("NAME", name))
    demo = Path(__file__).parents[2] / "src/duly/faces/demo/text/mail_to_table.py.txt"
    (folder / "workflows" / "mail_to_table.py").write_text(demo.read_text())


def _sign_in(person: Person) -> None:
    link = call(person.folder, "open").stdout.strip()
    assert re.fullmatch(rf"{person.url}/sign-in\?code=[0-9a-f]+", link), link
    window = person.context()
    page = window.new_page()
    page.goto(link)
    page.fill("#name", "Ada's browser")
    page.click("main button")
    page.wait_for_url(f"{person.url}/")
    person.state = window.storage_state()
    window.close()
