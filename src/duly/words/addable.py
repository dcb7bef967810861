"""What a page says about the kinds of connections that it can add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# One line for each kind, in the words of docs/settings.md.
KINDS: Final[Mapping[str, str]] = {
    "airtable": "one base of Airtable: records are listed, made and changed",
    "calendar": "a calendar of a CalDAV server: events are read, made, changed and deleted",
    "discord": "a bot of Discord, without code",
    "documents": "reads what is in a document: PDF, CSV, ZIP, HTML, text, pictures",
    "drive": "files of Google Drive: listed, read and made",
    "feed": "one feed of the web: RSS, Atom or JSON Feed; only read",
    "files": "the files below one folder, which must exist",
    "github": "an account of GitHub: issues, comments, labels, pull requests, releases",
    "gmail": (
        "a Gmail account by Google's own interface: mails are found, read, sent, labelled and"
        " archived"
    ),
    "google_calendar": "a Google calendar: events are listed, made and changed",
    "http": "a web service",
    "hubspot": "a private app of HubSpot, without code",
    "ics": "a calendar behind an address; only read",
    "jira": "a site of Jira Cloud, without code",
    "linear": "a workspace of Linear, without code",
    "llm": "a language model that reads texts: classify, extract, summarize, write",
    "mail": "a mail account: IMAP to read and file mails, SMTP to send them",
    "mailbox": "a folder of `.eml` files, or a Maildir; only read",
    "mcp": "the tools of an MCP server, as you agreed to them",
    "notion": "an integration of Notion: pages are found, made and changed",
    "outlook": "a mailbox and a calendar of Microsoft 365 or Outlook.com",
    "s3": "the objects of a bucket on any S3-compatible server",
    "sheets": "one sheet of a Google spreadsheet: rows are read, appended and changed",
    "slack": "an app in a workspace of Slack: posts, reactions, history, files",
    "stripe": "an account of Stripe: objects are listed, read and made",
    "table": "a folder of CSV files",
    "telegram": "a bot of Telegram: sends messages, reads updates",
    "todoist": "an account of Todoist, without code",
    "trello": "an account of Trello, without code",
    "webhook": "sends signed webhooks to one address",
}
# What a field is for and an example, where the connector itself does not say it.
LABELS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("calendar", "url"): ("the address of the calendar", "https://dav.example.com/calendars/ada/"),
    ("calendar", "user"): ("the name you sign in with", "ada@example.com"),
    ("calendar", "timezone"): ("the time zone of events that name none", "Europe/Berlin"),
    ("drive", "folder"): ("the id of the folder for new files", ""),
    ("files", "path"): (
        "the folder, below that of the project; it is made if it is missing",
        "inbox",
    ),
    ("http", "url"): ("the address of the service", "https://shop.example/api/v1"),
    ("http", "hosts"): ("the hosts that scripts may read, with spaces between", "shop.example"),
    ("ics", "url"): (
        "the address of the calendar; write *** for its secret part",
        "https://calendar.example.com/***/basic.ics",
    ),
    ("ics", "timezone"): ("the time zone of events that name none", "Europe/Berlin"),
    ("llm", "model"): ("the name of a model in the settings, if not the usual one", ""),
    ("mail", "user"): ("the name you sign in with, if it is not the address", ""),
    ("mailbox", "path"): (
        "the folder of mails, below that of the project; it is made if it is missing",
        "mails",
    ),
    ("mcp", "url"): ("the address of the server", "https://notes.example/mcp"),
    ("s3", "url"): ("the address of the server", "https://s3.eu-central-1.amazonaws.com"),
    ("s3", "bucket"): ("the name of the bucket", "invoices"),
    ("s3", "region"): ("the region, if the server has several", "eu-central-1"),
    ("table", "path"): (
        "the folder of CSV files, below that of the project; it is made if it is missing",
        "tables",
    ),
    ("table", "key"): ("the column whose values are unique", "number"),
}
