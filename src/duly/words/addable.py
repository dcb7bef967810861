"""What a page says about the kinds of connections that it can add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# One line for each kind, in the words of docs/settings.md.
KINDS: Final[Mapping[str, str]] = {
    "airtable": "one base of Airtable: records are listed, made and changed",
    "calendar": "a calendar of a CalDAV server: events are read, made, changed and deleted",
    "discord": "a bot of Discord, without code",
    "documents": "reads what is in a document: PDF, CSV, ZIP, HTML, text, pictures",
    "drive": "files of Google Drive: listed, read and made",
    "feed": "one feed of the web: RSS, Atom or JSON Feed; only read",
    "files": "the files below one folder",
    "github": "an account of GitHub: issues, comments, labels, pull requests, releases",
    "gmail": (
        "a Gmail account by Google's own interface: mails are found, read, sent, labelled and"
        " archived"
    ),
    "google_calendar": "a Google calendar: events are listed, made and changed",
    "http": "a web service: what it can do is described by you, or by its OpenAPI text",
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
    ("http", "sign_in"): ("how the service is told who asks; the token is typed below", ""),
    ("http", "sign_in_name"): (
        "for header, the name of the header; for basic, the name you sign in with",
        "X-Api-Key",
    ),
    ("http", "openapi"): ("the OpenAPI text of the service (JSON or YAML)", ""),
    ("http", "hosts"): (
        "hosts that scripts may read without a sign-in, with spaces between",
        "shop.example",
    ),
    ("ics", "url"): (
        "the address of the calendar; write *** for its secret part",
        "https://calendar.example.com/***/basic.ics",
    ),
    ("ics", "timezone"): ("the time zone of events that name none", "Europe/Berlin"),
    ("llm", "model"): ("the name of a model in the settings, if not the usual one", ""),
    ("mail", "imap"): (
        "the server to read from, with its port if that is not 993",
        "imap.example.com:143",
    ),
    ("mail", "smtp"): (
        "the server to send with, with its port if that is not 465",
        "smtp.example.com:587",
    ),
    ("mail", "tls"): (
        "how TLS begins, at a port where that is not known; nothing is sent without TLS",
        "",
    ),
    ("mail", "sent"): (
        "the folder of sent mails, if the server does not mark one itself",
        "Sent",
    ),
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
# What the fields of an operation are for; the second and third have the same.
OPERATION: Final[Mapping[str, tuple[str, str]]] = {
    "operation": ("its name, which scripts call", "add_task"),
    "method": ("its method; GET reads, each other changes something", ""),
    "path": ("its path below the address of the service", "/tasks"),
    "arguments": (
        "its arguments and their types, with commas between; ? says that one may be left out",
        "title string, due string?, urgent boolean?",
    ),
    "key": (
        "what makes a call unique: where its key travels; none if there is no place for it",
        "",
    ),
    "key_name": (
        "the name of this header or field (for header, Idempotency-Key if empty)",
        "reference",
    ),
    "found_by": (
        "how the call is found again by its key: a path to read, with {key}",
        "/tasks?reference={key}",
    ),
    "found_in": (
        (
            "where the answer has the list: a dot if the answer itself is the list, empty if it is"
            " one thing"
        ),
        "tasks",
    ),
    "found_as": ("the field of what is found in which the key stands", "reference"),
}
# What a choice means, where its word does not say it.
CHOICES: Final[Mapping[tuple[str, str], str]] = {
    ("sign_in", "none"): "no sign-in",
    ("sign_in", "bearer"): "bearer: Authorization: Bearer and the token",
    ("sign_in", "header"): "header: the token in a header",
    ("sign_in", "basic"): "basic: a name and a password",
    ("key", "none"): "none: the service has no place for it",
    ("key", "header"): "header",
    ("key", "field"): "field of the body",
    ("key", "query"): "field of the query",
    ("tls", "direct"): "direct: at once",
    ("tls", "starttls"): "starttls: by STARTTLS",
}
# The heading of each part of a form, and what it says.
GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "sign_in": ("Sign-in", ""),
    "operation": (
        "An operation",
        (
            "One thing that scripts can ask of the service or change there. Arguments that stand"
            " neither in the path nor in its query are sent as JSON. With a key and a way to find"
            " it again, Duly finds out by itself whether a change was made when its answer is lost;"
            " without them you are asked."
        ),
    ),
    "operation_2": ("A second operation", ""),
    "operation_3": ("A third operation", ""),
    "openapi": (
        "Or its OpenAPI text",
        (
            "Every operation of it that can be used becomes one that scripts can call. Its address"
            " and its sign-in are those that you typed above, not those of the text."
        ),
    ),
    "more": ("More settings", ""),
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
SIGN_IN_SECRET: Final = "The token, or the password of basic; empty without a sign-in"
ADD: Final = "Add a connection"
ADDS: Final = (
    "Choose what it leads to. Duly writes it into the settings of the project; scripts can use it"
    " when the host was started again."
)
WHY_COMMAND: Final = (
    "A page does not set this: with a stolen sign-in, a stranger could read folders of this"
    " machine, or reach your own network. This command does, typed in the folder of the project on"
    " the machine of the host:"
)
OWN_NETWORK: Final = (
    "An address of this machine or of your own network is not taken here. In duly.toml, the table"
    " of the connection needs a line that allows this address:"
)
OWN_COMMAND: Final = (
    "This command adds such a connection, with the line. Change what is yours, and type it in the"
    " folder of the project on the machine of the host:"
)
BY_COMMAND: Final = "By a command"
TO_COMMANDS: Final = "A database, a folder elsewhere and your own network are added by a command:"
ADDS_HERE: Final = (
    "A page starts no program, writes no statement, and opens neither a folder elsewhere nor an"
    " address of your own network: a stolen sign-in would do it too. Copy a command, change what is"
    " yours, and type it in the folder of the project on the machine of the host:"
)
AFTER_COMMAND: Final = (
    "Then press Start again on the page Tools. Secrets are in no command: it asks for them, or"
    " you set them on the page of the connection."
)
NAME: Final = "Its name, by which scripts use this connection"
USED_BY: Final = (
    "These workflows were allowed something of it. Without it they stop at their next call and wait"
    " for a person; deploy them without it, or remove them, first:"
)
USED_BY_MORE: Final = "Further workflows were allowed something of it too."
USED_BY_NONE: Final = "No workflow is allowed anything of it."
REMOVES: Final = (
    "A page removes none. On the machine of the host, take this table and those below it out of"
    " duly.toml; then the page Tools lets the host begin again without it:"
)
FORGETS: Final = "Forget its secrets, for good"
HERE_ALREADY: Final = "These connections are here already; use them before you add another one:"
LIST_KIND: Final = "These name every kind, and all settings of one:"
TYPED_AGAIN: Final = "Type it again: a page never shows a secret."
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


def find_label(use: str, key: str) -> tuple[str, str] | None:
    """Return what a field is for and an example, where the connector itself does not say it."""
    return LABELS.get((use, key)) or (OPERATION.get(plain_key(key)) if use == "http" else None)


def plain_key(key: str) -> str:
    """Name a field of an operation without its number."""
    return key.rstrip("0123456789").removesuffix("_") if key[-1:].isdigit() else key


def say_choice(key: str, choice: str) -> str:
    """Say what a choice means."""
    return CHOICES.get((plain_key(key), choice), choice)


def is_filled(
    fields: Sequence[Mapping[str, Any]], typed: Mapping[str, str], wrong: Mapping[str, str]
) -> bool:
    """Tell whether a part of a form that is folded away has something to be seen."""
    for each in fields:
        name = f"settings.{each['name']}"
        usual = () if each["group"] == "more" else each["choices"][:1]
        if name in wrong or typed.get(name, "") not in ("", *usual):
            return True
    return False


def say_wrong(count: int) -> str:
    """Say how many fields are wrong."""
    return "One field is wrong." if count == 1 else f"{count} fields are wrong."


def say_field(field: Mapping[str, Any]) -> str:
    """Say what a field is for, with an example."""
    label, example = field["label"], field["example"]
    like = f", such as {example}" if example else ""
    # A choice has a word for none, and an operation is described as a whole or not at all.
    is_told = not field["choices"] and field["group"] in ("main", "more")
    left = f" ({OPTIONAL})" if is_told and not field["is_required"] else ""
    return f"{label[0].upper()}{label[1:]}{like}{left}"


def say_secret(secret: Mapping[str, Any]) -> str:
    """Say what a secret is."""
    left = "" if secret["is_required"] else f" ({OPTIONAL})"
    return f"{SECRETS.get(secret['name'], secret['name'])}{left}"
