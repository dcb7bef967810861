"""The table of docs/connectors.md that says how each ready-made change can be asked (K1).

    python -m tests.connectors.asking_page --write

writes it from what the connectors declare; a test fails while the two differ.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from duly.connectors.airtable import Airtable
from duly.connectors.base import Connector
from duly.connectors.calendar import Calendar, CalendarFeed
from duly.connectors.clock import Clock
from duly.connectors.declared import Discord, Hubspot, Jira, Linear, OutlookAccount, Todoist, Trello
from duly.connectors.documents import Documents
from duly.connectors.drive import Drive
from duly.connectors.feed import Feed
from duly.connectors.files import Files
from duly.connectors.github import Github
from duly.connectors.gmail import Gmail
from duly.connectors.google_calendar import GoogleCalendar
from duly.connectors.http import Http
from duly.connectors.llm import Llm
from duly.connectors.mail_account import MailAccount
from duly.connectors.mailbox import Mailbox
from duly.connectors.mcp import Mcp
from duly.connectors.mcp_lock import write_lock
from duly.connectors.notion import Notion
from duly.connectors.registry import Registry
from duly.connectors.s3 import S3
from duly.connectors.sheets import Sheets
from duly.connectors.slack import Slack
from duly.connectors.sql import Sql
from duly.connectors.stripe import Stripe
from duly.connectors.table import Table
from duly.connectors.telegram import Telegram
from duly.connectors.webhook import Webhook
from duly.rules.asking import Answering
from duly.rules.catalog import Tool
from duly.rules.pin import ServedTool
from duly.words.asking import write_row

PAGE: Final = Path(__file__).parents[2] / "docs" / "connectors.md"
BEGIN: Final = "<!-- what can be asked: python -m tests.connectors.asking_page --write -->\n"
END: Final = "<!-- end of what can be asked -->"
HEAD: Final = """\
| tool | where its key travels | can answer | what shows it | what a person deleted meanwhile |
|---|---|---|---|---|
"""
URL: Final = "https://shop.example"


def _http(_: Path) -> Connector:
    """Make a service whose operations have each of the places and questions."""
    made: dict[str, Any] = {"method": "POST", "path": "/orders", "arguments": {"item": "string"}}
    by_list = {"path": "/orders", "query": {"key": "{key}"}, "items": "", "match": "key"}
    by_id = {"path": "/orders/{key}", "match": "key"}
    operations = {
        "with_verify": {**made, "key": {"field": "key"}, "verify": by_id},
        "with_verify_of_a_list": {**made, "key": {"header": "Key"}, "verify": by_list},
        "with_key_in_path": {
            **made,
            "method": "PUT",
            "path": "/orders/{key}",
            "key": "path",
            "verify": by_id,
        },
        "with_key_lifetime": {**made, "key": {"header": "Key"}, "key_lifetime_s": 86400},
        "with_key_alone": {**made, "key": {"header": "Key"}},
        "without_key": {**made, "key": "none"},
    }
    return Http(URL, operations=operations, writes=["hooks.example"])


def _sql(folder: Path) -> Connector:
    (folder / "books.db").touch()
    insert = {"sql": "insert into a (b) values (:b)", "arguments": {"b": "string"}}
    return Sql(f"sqlite:///{folder}/books.db", operations={"each_change": insert})


def _mcp(folder: Path) -> Connector:
    tool = ServedTool("each_change", "", "", {"type": "object"})
    write_lock(folder / "mcp.lock.json", {"each_change": tool})
    return Mcp(lock=folder / "mcp.lock.json", url=URL)


def _webhooks(_: Path) -> Sequence[Connector]:
    verify = {"path": "/taken/{key}", "match": "id"}
    return (
        Webhook(URL),
        Webhook(URL, verify=verify, name="webhook_with_verify"),
        Webhook(URL, key_lifetime_s=86400, name="webhook_with_key_lifetime"),
    )


# Each kind of connector that settings can name, as it is built for the table.
SAMPLES: Final[Mapping[str, Callable[[Path], Connector | Sequence[Connector]]]] = {
    "airtable": lambda _: Airtable(base="appTea123"),
    "calendar": lambda _: Calendar(URL, "ada"),
    "clock": lambda _: Clock(),
    "discord": lambda _: Discord(),
    "documents": lambda _: Documents(),
    "drive": lambda _: Drive("client"),
    "feed": lambda _: Feed(URL),
    "files": Files,
    "github": lambda _: Github(),
    "gmail": lambda _: Gmail("client", "a@shop.example"),
    "google_calendar": lambda _: GoogleCalendar("client"),
    "http": _http,
    "hubspot": lambda _: Hubspot(),
    "ics": lambda _: CalendarFeed(URL),
    "jira": lambda _: Jira(URL, user="ada@shop.example"),
    "linear": lambda _: Linear(),
    "llm": lambda _: Llm(),
    "mail": lambda _: MailAccount("a@shop.example", imap="shop.example", smtp="shop.example"),
    "mailbox": Mailbox,
    "mcp": _mcp,
    "notion": lambda _: Notion(),
    "outlook": lambda _: OutlookAccount(client_id="client"),
    "s3": lambda _: S3(URL, "invoices"),
    "sheets": lambda _: Sheets("client", "1abcdefghijklmnop", "Bills"),
    "slack": lambda _: Slack(),
    "sql": _sql,
    "stripe": lambda _: Stripe(),
    "table": Table,
    "telegram": lambda _: Telegram(),
    "todoist": lambda _: Todoist(),
    "trello": lambda _: Trello(),
    "webhook": _webhooks,
}


def list_tools(folder: Path) -> tuple[Tool, ...]:
    """List every ready-made tool."""
    made = [make(folder) for make in SAMPLES.values()]
    several = [each if isinstance(each, Sequence) else (each,) for each in made]
    return Registry([one for each in several for one in each]).catalog.tools


def list_answering() -> list[Answering]:
    """List how each ready-made change can be asked."""
    with tempfile.TemporaryDirectory() as place:
        tools = list_tools(Path(place))
        return [found for each in tools if (found := each.answering) is not None]


def write_table() -> str:
    """Write the table."""
    return HEAD + "".join(f"{write_row(each)}\n" for each in list_answering())


def replace_table(page: str) -> str:
    """Put the table into the page."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{write_table()}{END}{after}"


if __name__ == "__main__":
    page = replace_table(PAGE.read_text())
    if "--write" in sys.argv:
        PAGE.write_text(page)
    else:
        print(write_table(), end="")
