"""1,000 mails out of a large mailbox: how long, and how much memory of the host.

Law: the mailbox lies on Dovecot (pymap, where there is none), the host is a process of its own, and
its memory is what the kernel counted at its highest. A mailbox with just those 1,000 mails is read
beside it: what differs is what the size of a mailbox costs.
"""

from __future__ import annotations

import asyncio
import imaplib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duly
from duly.env import Loop
from tests.connectors.post_office import HOST, PASSWORD, USER, PostOffice

BATCH = 1_000
FOLDER = "Large"
SCRIPT = """
from duly import workflow

flow = workflow("reader", topics=["mail.received"])


@flow.producer(every="1s", publishes=["mail.received"])
async def look(ctx, state):
    mails = await ctx.mail.search(after=state["cursor"] if state else AFTER, folder="Large")
    for mail in mails["items"]:
        await ctx.publish("mail.received", message_id=mail["id"], title=mail["subject"], payload=mail)
    return {"cursor": mails["last_cursor"]}
"""  # noqa: E501  # a script of its own


def mail_of(number: int) -> bytes:
    """Write a mail of about 2 KB."""
    head = f"From: guest@example.org\r\nSubject: Mail {number}\r\n"
    return (
        f"{head}Message-ID: <{number}@example.org>\r\n\r\n{'A line of a mail.' * 110}\r\n".encode()
    )


def fill(office: PostOffice, count: int) -> float:
    """Put so many mails into the folder, many with one command; return how long it took."""
    begun_s = time.monotonic()
    with office.signed_in() as client:
        client.create(FOLDER)
        for first in range(0, count, BATCH):
            _append(client, range(first, min(first + BATCH, count)))
    return time.monotonic() - begun_s


def _append(client: imaplib.IMAP4, numbers: range) -> None:
    """Append mails with one command (RFC 3502), without waiting between them (RFC 7888)."""
    pieces = [b"b%d APPEND %s" % (numbers.start, FOLDER.encode())]
    for number in numbers:
        data = mail_of(number)
        pieces.append(b" {%d+}\r\n" % len(data) + data)
    client.send(b"".join(pieces) + b"\r\n")
    while not (line := client.readline()).startswith(b"b%d " % numbers.start):
        assert line, "the mail server hung up"
    assert b" OK" in line, line


def read_in_host(
    office: PostOffice, folder: Path, wanted: int, after: str | None
) -> dict[str, Any]:
    """Let a host in a process of its own read so many mails; return what it counted."""
    told = {
        "imap": f"{HOST}:{office.imap_port}",
        "ca": str(office.authority.ca),
        "folder": str(folder),
        "wanted": wanted,
        "after": after,
    }
    words = [sys.executable, "-m", "bench.connectors.mailbox", json.dumps(told)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def _be_host(told: dict[str, Any]) -> dict[str, Any]:
    from duly.connectors.mail_account import MailAccount

    mail = MailAccount(
        "ada@example.com",
        imap=told["imap"],
        user=USER,
        tls="starttls",
        allow=[HOST],
        ca=told["ca"],
    )
    url = f"sqlite:///{told['folder']}/duly.db"
    script = SCRIPT.replace("AFTER", repr(told["after"]))
    async with duly.Host(url, connectors=[mail]) as host:
        source = Path(told["folder"]) / "reader.py"
        source.write_text(script)
        await host.set_secret("mail", "password", PASSWORD, by="bench")
        await host.deploy(source, by="bench", grant=True)
        idle_bytes = _highest_bytes()
        begun_s, cpu_s = time.monotonic(), time.process_time()
        async with host.running():
            env = Loop()
            while await _count(host) < told["wanted"]:
                await env.sleep(0.2)
        spent_s = time.monotonic() - begun_s
        return {
            "seconds": spent_s,
            "cpu_s": time.process_time() - cpu_s,
            "idle_bytes": idle_bytes,
            "host_bytes": _highest_bytes(),
            "reader_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        }


async def _count(host: duly.Host) -> int:
    found = 0
    after = -1
    while page := await host.events("reader", limit=1000, after=after):
        found, after = found + len(page), page[-1].seq
    return found


def _highest_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(total: int, wanted: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read from a small mailbox, and from the beginning and the end of a large one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with closing(PostOffice(folder / "office")) as office:
            fill(office, wanted)
            yield f"all {wanted:,} mails of a mailbox", _read(office, folder / "a", wanted, None)
            office.delete(FOLDER)
            filled_s = fill(office, total)
            where = f"{wanted:,} mails of {total:,}"
            first = _read(office, folder / "b", wanted, None)
            yield f"the first {where}", {**first, "filled_s": filled_s}
            after = _cursor(office, total - wanted)
            yield f"the last {where}", _read(office, folder / "c", wanted, after)


def _read(office: PostOffice, folder: Path, wanted: int, after: str | None) -> dict[str, Any]:
    folder.mkdir()
    return read_in_host(office, folder, wanted, after)


def _cursor(office: PostOffice, last: int) -> str:
    with office.signed_in() as client:
        client.select(FOLDER, readonly=True)
        validity = client.response("UIDVALIDITY")[1][0].decode()
    return f"{validity}.{last}"


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_be_host(json.loads(sys.argv[1])))))
