"""The demo's servers in a thread, and a project of the template `mail-desk` that uses them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from duly.faces.demo.post import MAILS
from duly.faces.demo.post_server import HOST, INBOX, Post
from tests.faces.real import call

LIMIT_S = 60.0


@contextmanager
def posting() -> Iterator[Post]:
    """Run the servers, with three mails in the inbox."""
    loop, made = asyncio.new_event_loop(), Post()
    over, ready = asyncio.Event(), threading.Event()

    async def serve() -> None:
        async with made:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(LIMIT_S)
    for number, (sender, subject) in enumerate(MAILS):
        head = f"From: {sender}\r\nSubject: {subject}\r\nMessage-ID: <{number}@x.example>"
        made.folders[INBOX].append(f"{head}\r\n\r\nHello\r\n".encode())
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(LIMIT_S)
        loop.close()


def make_desk(folder: Path, post: Post) -> None:
    """Make the project, and fill in what the template leaves to a person."""
    told = call(None, "init", "--template", "mail-desk", str(folder))
    assert told.exit_code == 0, told.output
    imap, smtp, http = post.ports
    settings = folder / "duly.toml"
    text = settings.read_text()
    own = f'tls = "off"\nallow = ["{HOST}"]\n'
    for old, new in (
        ('imap = "imap.example.com"\n', f'imap = "{HOST}:{imap}"\n{own}'),
        ('"smtp.example.com"', f'"{HOST}:{smtp}"'),
        (
            '"https://chat.example.com/hooks/mails"\n',
            f'"http://{HOST}:{http}/x"\nallow = ["{HOST}"]\n',
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    settings.write_text(text)
    with closing(sqlite3.connect(folder / "books.db")) as books:
        books.executescript((folder / "books.sql").read_text())
    signing = f"whsec_{b64encode(bytes(24)).decode()}"
    for words, secret in ((("mail", "password"), "demo"), (("chat", "signing"), signing)):
        told = call(folder, "secret", "set", *words, given=secret)
        assert told.exit_code == 0, told.output


def rows_of(folder: Path) -> list[tuple[str, str]]:
    """Read the table past everything of ours."""
    with closing(sqlite3.connect(folder / "books.db")) as books:
        return list(books.execute("select sender, subject from mails order by rowid"))
