"""The projects that `duly init --template` makes: examples on ready-made connectors, with samples.

Law: the workflow of a template is one of `examples/`: `python -m tests.faces.example_text --write`
brings it here, and a test fails while the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MAIL: Final = """\
From: {sender}
To: office@desk.example
Subject: {subject}
Date: Mon, 04 Jan 2027 08:0{number}:00 +0000
Message-ID: <{number}@desk.example>

Please have a look.
"""


@dataclass(frozen=True, slots=True)
class Example:
    """What a template makes beside its workflow: its connectors, by name, and sample files.

    The folder of a connector bears its name. `seen` is where the outcome is found. `settings` are
    connectors with more than a folder, which a person completes before the first start.
    """

    says: str
    connectors: Mapping[str, str]
    samples: Mapping[str, str]
    seen: str
    settings: str = ""
    approvals: str = '"*" = "never"'


@dataclass(frozen=True, slots=True)
class Template:
    """An example in one language; `file` is that of its workflow."""

    language: str
    file: str
    example: Example


def _mail(number: int, sender: str, subject: str) -> str:
    return MAIL.format(number=number, sender=sender, subject=subject)


INBOX_TO_TABLE: Final = {"inbox": "files", "table": "table"}
INBOX_TO_OUTBOX: Final = {"inbox": "files", "outbox": "files"}

EXAMPLES: Final[Mapping[str, Example]] = {
    "mail-to-table": Example(
        "Every mail in mailbox/ becomes one row of a table, once.",
        {"mailbox": "mailbox", "table": "table"},
        {
            "mailbox/001.eml": _mail(1, "billing@shop.example", "Invoice 4711 is due"),
            "mailbox/002.eml": _mail(2, "desk@hotel.example", "Your room is ready"),
            "mailbox/003.eml": _mail(3, "no-reply@tickets.example", "Ticket 12 is closed"),
        },
        "table/",
    ),
    "fifo": Example(
        "Every file in inbox/ becomes one row of a table, in the order in which they came.",
        INBOX_TO_TABLE,
        {
            "inbox/t1.txt": "The printer is out of paper\n",
            "inbox/t2.txt": "The door does not close\n",
            "inbox/t3.txt": "A lamp is broken\n",
        },
        "table/tickets.csv",
    ),
    "correlation": Example(
        "An order is shipped when both it and its payment are there.",
        {"orders": "files", "payments": "files", "outbox": "files"},
        {
            "orders/o1.txt": "A lamp\n",
            "orders/o2.txt": "A chair\n",
            "payments/p1.txt": "o2\n",
        },
        "outbox/",
    ),
    "time-window": Example(
        "The first alarm opens an hour; what came in it is told in one letter.",
        INBOX_TO_OUTBOX,
        {"inbox/Door open.txt": "", "inbox/Oven too hot.txt": ""},
        "outbox/, after an hour",
    ),
    "batch-or-timeout": Example(
        "Parcels leave ten at a time, or after an hour however few there are.",
        INBOX_TO_TABLE,
        {f"inbox/p{number:02}.txt": "" for number in range(1, 13)},
        "table/vans.csv, the last ones after an hour",
    ),
    "daily-digest": Example(
        "Notes are gathered all day and told in one letter at nine in the morning (UTC).",
        INBOX_TO_OUTBOX,
        {"inbox/Order more paper.txt": "", "inbox/Water the plants.txt": ""},
        "outbox/, at nine",
    ),
}


DESK: Final = """\
# Write your own address and servers; `duly secret set mail password` takes an app password, and
# `duly prove mail.send` tries once whether sent mails can be found again.
[connectors.mail]
use = "mail"
address = "you@example.com"
imap = "imap.example.com"
smtp = "smtp.example.com"

# Make it once: python3 -c "import sqlite3; sqlite3.connect('books.db').executescript(open('books.sql').read())"
[connectors.books]
use = "sql"
url = "sqlite:///books.db"

[connectors.books.operations.add_mail]
sql = "insert into mails (id, sender, subject) values (:id, :sender, :subject)"
arguments = { id = "string", sender = "string", subject = "string" }

# Where messages go: `duly secret set chat signing` takes its whsec_… secret.
[connectors.chat]
use = "webhook"
url = "https://chat.example.com/hooks/mails"
"""  # noqa: E501  # one line to paste

BOOKS: Final = """\
-- Every mail is one row.
create table mails (id text primary key, sender text, subject text);
"""

# Needs an account, so it does not work on samples alone.
MAIL_DESK: Final = Example(
    "Every mail of an account becomes a row of a database, an answer and a webhook.",
    {},
    {"books.sql": BOOKS},
    "books.db",
    DESK,
    '"mail.send" = "always", "*" = "never"',
)

# The demo's two workflows can run in one host, so the files of the two have two names.
STEMS: Final = {"mail-to-table-js": "mail_to_table_js"}

TEMPLATES: Final[Mapping[str, Template]] = {
    name + ending: Template(
        language, STEMS.get(name + ending, name.replace("-", "_")) + suffix, example
    )
    for name, example in EXAMPLES.items()
    for language, ending, suffix in (("Python", "", ".py"), ("JavaScript", "-js", ".js"))
} | {"mail-desk": Template("Python", "mail_desk.py", MAIL_DESK)}
