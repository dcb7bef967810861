"""The commands that add what no page adds, each complete, to be copied.

Law 1  No secret is in a command: what was typed as one is left out, and the command asks for it.
Law 2  A value is written as the command reads it, and quoted for a shell. A value with a character
       that a person would not see is left out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from shlex import quote
from typing import Any, Final
from urllib.parse import urlsplit

from duly.errors import Invalid
from duly.rules.addable import ADDABLE, HTTP, NAME, OPENAPI, VALUE_CHARS_MAX
from duly.rules.addable_kind import Takes
from duly.rules.addable_operation import read_sign_in, read_small_operations
from duly.rules.toml_text import write_value
from duly.rules.url import is_name, read_host
from duly.words.addable import find_label

ANY_NAME: Final = "NAME"
# What a page refuses because it would widen what the machine gives away, by the word of the rule.
BEYOND: Final = frozenset({"secure_address", "host_name", "folder_below", "real_folder"})
CODES: Final = frozenset({"url_host", "url_form"})  # an address that is no name of a host
# Names that a network of one's own gives; every other name without a dot is one too.
COMMAND_NAME: Final = re.compile(r"(?<=^duly connect )\S+")
# Of these the example here is the special way, and the usual one is made of what they need.
OWN_WAY: Final = frozenset({HTTP, "files", "mail", "table"})
OWN: Final = (".home.arpa", ".internal", ".lan", ".local", ".localhost")
OWN_HOST: Final = "127.0.0.1"  # in examples
TLS_PORTS: Final = frozenset({"993", "465", "143", "587"})
CERTIFICATE: Final = (
    "If the server has a certificate of its own, add --set ca=/path/to/its/certificate.pem."
)
DOCUMENT: Final = (
    "Save the OpenAPI text into a file, and put --openapi and the name of the file behind it."
)
# What no page adds: what it is, and a command that is complete but for the names.
EXAMPLES: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "sql",
        (
            "a database (SQLite or PostgreSQL): each of your statements is a tool. The file and its"
            " table must exist. Duly makes its own table duly_calls there with the first change."
        ),
        (
            "duly connect rows --use sql --set url=sqlite:///rows.db --set 'operations={add={"
            'arguments={name="string"}, sql="insert into people (name) values (:name)"}}\''
        ),
    ),
    (
        "files",
        "a folder that is not below that of the project; it must exist",
        "duly connect inbox --use files --set path=/srv/inbox",
    ),
    (
        "table",
        "tables of a SQLite file, which is made if it is missing",
        "duly connect lists --use table --set url=sqlite:///lists.db",
    ),
    (
        HTTP,
        "a web service of your own network",
        (
            "duly connect tasks --use http --set url=http://127.0.0.1:8765"
            " --set 'allow=[\"127.0.0.1\"]' --set 'auth={type=\"bearer\"}' --set 'operations={add={"
            'method="POST", path="/tasks", arguments={title="string"}, key="none"}}\''
        ),
    ),
    (
        "mail",
        "a mail server of your own network",
        (
            "duly connect post --use mail --set address=ada@example.com --set imap=127.0.0.1:1143"
            " --set smtp=127.0.0.1:1025 --set tls=starttls --set 'allow=[\"127.0.0.1\"]'"
        ),
    ),
    (
        "mcp",
        "an MCP server that is a program",
        "duly connect notes --use mcp --set command=/usr/bin/notes-server",
    ),
)

ON_A_SERVICE: Final = (
    "duly connect tasks --use http --set url=https://tasks.example/api"
    ' --set \'auth={type="bearer"}\' --set \'operations={add={method="POST", path="/tasks",'
    ' arguments={title="string"}, key="none"}}\''
)
# What a setting is for, where its connector does not say it, and an example.
SETTINGS: Final[Mapping[str, tuple[str, str]]] = {
    "allow": ("hosts that may be of your own network", '["127.0.0.1"]'),
    "auth": ("how the service is told who asks", '{type="bearer"}'),
    "ca": ("a file with the certificates to trust", "ca.pem"),
    "client_id": ("the id of your own application at the provider", ""),
    "drafts": ("the folder of drafts", "Drafts"),
    "headers": ("headers that are sent with every request", '{Accept="application/json"}'),
    "operations": (
        "what scripts can do, each with its name",
        '{add={sql="insert into people (name) values (:name)", arguments={name="string"}}}',
    ),
    "path": ("the folder", "inbox"),
    "secret": ("the name of its secret, if it is another than usual", ""),
    "sent": ("the folder of sent mails", "Sent"),
    "socket": ("the folder of the socket of a server on this machine", "/run/postgresql"),
    "timezone": ("the time zone of events that name none", "Europe/Berlin"),
    "tls": ("how TLS begins, or is checked", ""),
    "user": ("the name for the sign-in", "ada@example.com"),
    "writes": ("hosts at which scripts may change something, without a sign-in", '["a.example"]'),
}
SETTINGS_OF: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    (HTTP, "operations"): (
        "what scripts can do, each with its name; --openapi FILE writes them",
        '{add={method="POST", path="/tasks", arguments={title="string"}, key="none"}}',
    ),
    (HTTP, "hosts"): ("hosts that scripts may read without a sign-in", '["shop.example"]'),
    ("mail", "tls"): ("how TLS begins at other ports: direct or starttls", "starttls"),
    ("sql", "tls"): ("verify, or off for a host that allow names", "verify"),
    ("sql", "url"): (
        "the database: a SQLite file that exists, or postgresql://user@host/name",
        "sqlite:///rows.db",
    ),
    ("table", "path"): ("a folder of CSV files; or give url", "tables"),
    ("table", "url"): ("a SQLite file, in place of path", "sqlite:///rows.db"),
}
NEEDED: Final = "needed"
ASKED_LATER: Final = "Secrets are no settings: the command asks for them."


def describe_setting(use: str, key: str, label: str, example: str) -> tuple[str, str]:
    """Return what a setting is for, and an example: as its connector says it, or as told here."""
    if label:
        return label, example
    known = SETTINGS_OF.get((use, key)) or find_label(use, key) or SETTINGS.get(key)
    return known or (key.replace("_", " "), example)


def tell_settings(use: str, name: str, rows: Sequence[tuple[str, str, str, bool]]) -> list[str]:
    """Name every setting of a kind, what it is for, and a command that is complete.

    A row is a setting: its key, its label, an example, and whether it must be given.
    """
    told = [f"Settings of {use}:"]
    width = max((len(key) for key, *_ in rows), default=0)
    examples = {}
    for key, given_label, given, is_required in rows:
        label, example = describe_setting(use, key, given_label, given)
        like = f", such as {example}" if example else ""
        told.append(f"  {key:{width}}  {NEEDED if is_required else '':6}  {label}{like}")
        if is_required or (use == "mail" and given):
            examples[key] = example or "…"
    return [*told, ASKED_LATER, "An example:", f"  {_example_of(use, name, examples)}"]


def _example_of(use: str, name: str, examples: Mapping[str, str]) -> str:
    ready = {
        HTTP: ON_A_SERVICE,
        **{each: told for each, _, told in EXAMPLES if each not in OWN_WAY},
    }
    if use in ready:
        return COMMAND_NAME.sub(lambda _: name, ready[use], count=1)
    words = [f"{key}={each}" for key, each in examples.items()]
    sets = [part for each in words for part in ("--set", each)]
    return " ".join(map(quote, ["duly", "connect", name, "--use", use, *sets]))


def is_beyond(code: str, wanted: object) -> bool:
    """Tell whether a page refuses a value that a command may set."""
    return code in CODES or (code == "wrong_value" and wanted in BEYOND)


def write_command(use: str, name: str, typed: Mapping[str, str]) -> str:
    """Write the command that adds what was typed into a form (laws 1 and 2)."""
    named = name if NAME.fullmatch(name) else ANY_NAME
    words = ["duly", "connect", named, "--use", use]
    for key, value in _settings(use, typed):
        words += ["--set", f"{key}={_write(value)}"]
    return " ".join(map(quote, words))


def write_own_network(use: str, name: str, examples: Mapping[str, str]) -> tuple[str, str] | None:
    """Write the line that opens an address of one's own network, and the command that sets it.

    A kind whose form asks for no address has none. `examples` are those of the fields of its form.
    """
    keys = ADDABLE[use].keys
    if all(each.takes not in (Takes.ADDRESS, Takes.HOST) for each in keys):
        return None
    line = f"allow = {write_value([OWN_HOST])}"
    named = name if NAME.fullmatch(name) else ANY_NAME
    ready = next((told for each, _, told in EXAMPLES if each == use and "allow=" in told), None)
    if ready is not None:
        return line, COMMAND_NAME.sub(lambda _: named, ready, count=1)
    typed = {}
    for each in keys:
        if each.takes is Takes.ADDRESS:
            typed[each.name] = f"http://{OWN_HOST}:8080/"
        elif each.is_required:
            typed[each.name] = examples.get(each.name) or "…"
    return line, write_command(use, named, typed)


def list_notes(use: str, typed: Mapping[str, str]) -> list[str]:
    """Say what a command leaves to a person."""
    told = [DOCUMENT] if typed.get(OPENAPI) and use == HTTP else []
    is_own = any(_is_own(host) for host, _ in _hosts(use, typed))
    is_plain = typed.get("url", "").lower().startswith("http://")
    return [*told, *([CERTIFICATE] if is_own and not is_plain else [])]


def _settings(use: str, typed: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    given = {name: text.strip() for name, text in typed.items()}
    shown = {name: text for name, text in given.items() if _may_be_shown(text)}
    for key in ADDABLE[use].keys:
        if key.name in shown and (use != HTTP or key.name in ("url", "hosts")):
            text = shown[key.name]
            yield key.name, text.replace(",", " ").split() if key.takes is Takes.HOSTS else text
    hosts = list(_hosts(use, shown))
    if use == "mail" and "tls" not in shown and any(port not in TLS_PORTS for _, port in hosts):
        yield "tls", "starttls"
    if own := sorted({host for host, _ in hosts if _is_own(host)}):
        yield "allow", own
    if use == HTTP:
        with suppress(Invalid):
            if (auth := read_sign_in(shown)) is not None:
                yield "auth", auth
        if operations := read_small_operations(shown, []):
            yield "operations", operations


def _may_be_shown(text: str) -> bool:
    """Tell whether a value is whole on a line, and holds no password of an address (laws 1, 2)."""
    is_short = 0 < len(text) <= VALUE_CHARS_MAX
    return is_short and text.isprintable() and "@" not in _at(text)


def _at(text: str) -> str:
    """Return the host of an address with what stands before it, which may be a password."""
    return text.partition("://")[2].partition("/")[0]


def _hosts(use: str, typed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name the hosts of the addresses that were typed, each with its port."""
    for key in ADDABLE[use].keys:
        text = typed.get(key.name, "").strip()
        if not text or key.takes not in (Takes.ADDRESS, Takes.HOST):
            continue
        with suppress(Invalid, ValueError):
            if key.takes is Takes.ADDRESS:
                found = urlsplit(text)
                yield read_host(found.hostname or ""), "993"
            else:
                is_bare = text.endswith("]") or ":" not in text
                host, port = (text, "993") if is_bare else text.rsplit(":", 1)
                yield read_host(host), port


def _is_own(host: str) -> bool:
    """Tell whether a host is probably one of a network of one's own."""
    return not is_name(host) or "." not in host or host.endswith(OWN)


def _write(value: Any) -> str:
    """Write a value as `duly connect` reads it: a text as it is, unless TOML reads it too."""
    if not isinstance(value, str):
        return write_value(value)
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return value
    return write_value(value)
