"""What a page says about the kinds of connections that it can add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
# What a secret is, by its name.
SECRETS: Final[Mapping[str, str]] = {
    "access_key": "The id of the access key",
    "client_secret": "The secret of your own application",
    "password": "The password",
    "secret_key": "The secret key",
    "signing": "The secret that signs what is sent",
    "token": "The token",
}
ADD: Final = "Add a connection"
ADDS: Final = (
    "Choose what it leads to. Duly writes it into the settings of the project; scripts can use it"
    " when the host was started again."
)
ADDS_HERE: Final = (
    "What names a program, a statement, a folder elsewhere or an address of your own network is"
    " not added on a page, but on this machine:"
)
NAME: Final = "Its name, which scripts write behind ctx."
SIGNS_IN: Final = "You sign in at the provider afterwards, on the page of the connection."
ONLY_NAME: Final = "It needs nothing but a name."
OPTIONAL: Final = "may be empty"
START_AGAIN: Final = "Start again"
RESTARTS: Final = (
    "The host tries the new settings out, lets what is being sent end, and begins again. That takes"
    " some seconds; then this page goes on."
)
STARTS_BY_HAND: Final = (
    "This host cannot start again by itself: stop its program on its machine and start it again."
)
ALONE: Final = (
    "Several hosts share this store, each with settings of its own. Only this one has what was"
    " added here."
)
BROKEN: Final = "The settings cannot be used as they are now:"
LACKS: Final = "It uses a connection that is not here."
NOT_HERE: Final = "A connection is not here"
NOT_DEPLOYED: Final = "Nothing was deployed. Add the connection, then deploy the script again."
ANYWAY: Final = "Deploy it all the same"
WILL_FAIL: Final = "It stops where it uses the connection, and waits for a person."


def say_changed(state: Mapping[str, Any]) -> str:
    """Say what of the settings this host does not use yet."""
    told = [
        f"{word}: {', '.join(state[name])}."
        for name, word in (("added", "Added"), ("changed", "Changed"), ("gone", "Taken out"))
        if state[name]
    ]
    what = " ".join(told) or "The settings have changed."
    return f"{what} Start the host again to use {'it' if len(told) == 1 else 'them'}."


def say_field(field: Mapping[str, Any]) -> str:
    """Say what a field is for, with an example."""
    label, example = field["label"], field["example"]
    like = f", such as {example}" if example else ""
    left = "" if field["is_required"] else f" ({OPTIONAL})"
    return f"{label[0].upper()}{label[1:]}{like}{left}"


def say_secret(secret: Mapping[str, Any]) -> str:
    """Say what a secret is."""
    left = "" if secret["is_required"] else f" ({OPTIONAL})"
    return f"{SECRETS.get(secret['name'], secret['name'])}{left}"
