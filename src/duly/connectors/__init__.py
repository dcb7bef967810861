"""What scripts may touch: the outside, one connector per service.

The ready-made ones are here by name: `from duly.connectors import Files, Mailbox, Sql, Table`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duly.connectors.airtable import Airtable
    from duly.connectors.calendar import Calendar, CalendarFeed
    from duly.connectors.clock import Clock
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
    from duly.connectors.notion import Notion
    from duly.connectors.rest import Auth, KeyPlace, Paging, Rest, Verify
    from duly.connectors.s3 import S3
    from duly.connectors.sheets import Sheets
    from duly.connectors.slack import Slack
    from duly.connectors.sql import Sql
    from duly.connectors.stripe import Stripe
    from duly.connectors.table import Table
    from duly.connectors.telegram import Telegram
    from duly.connectors.webhook import Webhook

__all__ = [
    "S3",
    "Airtable",
    "Auth",
    "Calendar",
    "CalendarFeed",
    "Clock",
    "Documents",
    "Drive",
    "Feed",
    "Files",
    "Github",
    "Gmail",
    "GoogleCalendar",
    "Http",
    "KeyPlace",
    "Llm",
    "MailAccount",
    "Mailbox",
    "Mcp",
    "Notion",
    "Paging",
    "Rest",
    "Sheets",
    "Slack",
    "Sql",
    "Stripe",
    "Table",
    "Telegram",
    "Verify",
    "Webhook",
]

# Every import of `duly` comes through here, and most programs need none of these.
_WHERE: Final = {
    **dict.fromkeys(("Auth", "KeyPlace", "Paging", "Rest", "Verify"), "duly.connectors.rest"),
    **dict.fromkeys(("Calendar", "CalendarFeed"), "duly.connectors.calendar"),
    "Clock": "duly.connectors.clock",
    "Stripe": "duly.connectors.stripe",
    "Slack": "duly.connectors.slack",
    "Notion": "duly.connectors.notion",
    "Github": "duly.connectors.github",
    "Airtable": "duly.connectors.airtable",
    "Documents": "duly.connectors.documents",
    "Drive": "duly.connectors.drive",
    "Feed": "duly.connectors.feed",
    "Files": "duly.connectors.files",
    "Gmail": "duly.connectors.gmail",
    "GoogleCalendar": "duly.connectors.google_calendar",
    "Http": "duly.connectors.http",
    "Llm": "duly.connectors.llm",
    "MailAccount": "duly.connectors.mail_account",
    "Mailbox": "duly.connectors.mailbox",
    "Mcp": "duly.connectors.mcp",
    "S3": "duly.connectors.s3",
    "Sheets": "duly.connectors.sheets",
    "Sql": "duly.connectors.sql",
    "Table": "duly.connectors.table",
    "Telegram": "duly.connectors.telegram",
    "Webhook": "duly.connectors.webhook",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a connector when its name is used."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
