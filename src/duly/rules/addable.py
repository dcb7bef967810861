"""What of a connection may be set from a page: the kinds, their keys, and what each key may be.

Law 1  What stands in no row is refused. A page sets no program, no class, no statement, no file of
       another folder, no address of this network (`allow`), no certificate of its own (`ca`) and
       nothing that weakens TLS: those widen what this machine gives away, and are written on it.
Law 2  An address is one of https. A folder is named from the folder of the project, lies strictly
       below it, and no part of its name begins with a dot.
Law 3  A secret is no setting: it is named here, and what it says is never written into a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from duly.errors import Invalid, RequestRefused, parts_of, short
from duly.rules.url import is_name, read_host, read_url
from duly.rules.value import is_text, nearest

VALUE_CHARS_MAX: Final = 500
NAME_CHARS_MAX: Final = 50
HOSTS_MAX: Final = 20
FOLDER_PARTS_MAX: Final = 8
PART_BYTES_MAX: Final = 255  # what file systems take
ONCE_CHARS_MAX: Final = 64
# A name is what scripts write behind `ctx.`, in two languages, and a bare key of the settings.
NAME: Final = re.compile(rf"[a-z][a-z0-9_]{{0,{NAME_CHARS_MAX - 1}}}")
# What is kept under these names is the host's: secrets of channels and of webhooks, and the clock.
TAKEN: Final = frozenset({"channels", "clock", "hooks"})
PART: Final = re.compile(r"[^\W_][\w .()+-]{0,99}")
BEYOND: Final = "beyond_page"
SECURE: Final = "https"


class Takes(StrEnum):
    """What a key may be."""

    TEXT = "text"
    ADDRESS = "address"
    HOST = "host"
    HOSTS = "hosts"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class AddableKey:
    """One key that a page may set."""

    name: str
    takes: Takes = Takes.TEXT
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Addable:
    """One kind: its keys, and its secrets that a person types; some may be left empty.

    `signs_in` says that its account is chosen at the provider, when the connection is there.
    """

    keys: tuple[AddableKey, ...] = ()
    secrets: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    signs_in: bool = False


@dataclass(frozen=True, slots=True)
class AddableField:
    """One field of the form that adds a connection; `label` says what it is for."""

    name: str
    label: str
    example: str
    takes: Takes
    is_required: bool


@dataclass(frozen=True, slots=True)
class AddableSecret:
    """A secret of a kind, to be typed in its form."""

    name: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class AddableKind:
    """A kind of connection that can be added on a page, and what it must be told."""

    use: str
    fields: tuple[AddableField, ...]
    secrets: tuple[AddableSecret, ...]
    signs_in: bool


@dataclass(frozen=True, slots=True)
class Added:
    """A connection as it is written: its table, where its service is, and the settings before.

    `folder` is made when it is written; `seen` is a digest of the file as it was read.
    """

    name: str
    table: Mapping[str, str | list[str]]
    origin: str | None
    file: str
    seen: str
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class AddedConnection:
    """A connection that was added; scripts can use it when the host was started again.

    `signs_in` says that its account is chosen at the provider, after that.
    """

    name: str
    use: str
    file: str
    folder: str | None
    signs_in: bool


@dataclass(frozen=True, slots=True)
class SettingsState:
    """How the settings of a project stand to those that its host was started with.

    `added`, `changed` and `gone` name connections; `is_changed` counts every other setting as well.
    `fault` says why they cannot be read now. `is_alone` is false where several hosts share the
    store, each with settings of its own. A host that a program embeds has no project. `has_model`
    says that the host itself can ask a model.
    """

    has_project: bool
    is_changed: bool = False
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    fault: str | None = None
    can_restart: bool = False
    is_alone: bool = True
    has_model: bool = False


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What settings came to when they were built: where the service of each connector is."""

    origins: Mapping[str, str]


def _kind(
    *keys: AddableKey,
    secrets: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    signs_in: bool = False,
) -> Addable:
    return Addable(keys, secrets, frozenset(optional), signs_in)


_TOKEN: Final = ("token",)
_URL: Final = AddableKey("url", Takes.ADDRESS)
_FOLDER: Final = AddableKey("path", Takes.FOLDER)
_CLIENT: Final = AddableKey("client_id")
_CLIENT_SECRET: Final = ("client_secret",)
_ZONE: Final = AddableKey("timezone", is_required=False)


def _maybe(name: str, takes: Takes = Takes.TEXT) -> AddableKey:
    return AddableKey(name, takes, is_required=False)


# Kinds that ship with Duly and that a page may add (law 1). `sql` has statements, and `clock` is
# always there. Of `mcp` only a server at an address can be added, never a program.
ADDABLE: Final[Mapping[str, Addable]] = MappingProxyType(
    {
        "airtable": _kind(AddableKey("base"), secrets=_TOKEN),
        "calendar": _kind(_URL, AddableKey("user"), _ZONE, secrets=("password",)),
        "discord": _kind(secrets=_TOKEN),
        "documents": _kind(),
        "drive": _kind(_CLIENT, _maybe("folder"), secrets=_CLIENT_SECRET, signs_in=True),
        "feed": _kind(_URL),
        "files": _kind(_FOLDER),
        "github": _kind(secrets=_TOKEN),
        "gmail": _kind(_CLIENT, AddableKey("address"), secrets=_CLIENT_SECRET, signs_in=True),
        "google_calendar": _kind(
            _CLIENT, _maybe("calendar"), secrets=_CLIENT_SECRET, signs_in=True
        ),
        "http": _kind(_URL, AddableKey("hosts", Takes.HOSTS)),
        "hubspot": _kind(secrets=_TOKEN),
        "ics": _kind(_URL, _ZONE, secrets=_TOKEN, optional=_TOKEN),
        "jira": _kind(_URL, AddableKey("user"), secrets=_TOKEN),
        "linear": _kind(secrets=_TOKEN),
        "llm": _kind(_maybe("model")),
        "mail": _kind(
            AddableKey("address"),
            _maybe("imap", Takes.HOST),
            _maybe("smtp", Takes.HOST),
            _maybe("user"),
            secrets=("password",),
        ),
        "mailbox": _kind(_FOLDER),
        "mcp": _kind(_URL),
        "notion": _kind(secrets=_TOKEN),
        "outlook": _kind(_CLIENT, signs_in=True),
        "s3": _kind(
            _URL, AddableKey("bucket"), _maybe("region"), secrets=("access_key", "secret_key")
        ),
        "sheets": _kind(
            _CLIENT,
            AddableKey("spreadsheet"),
            AddableKey("sheet"),
            secrets=_CLIENT_SECRET,
            signs_in=True,
        ),
        "slack": _kind(secrets=_TOKEN),
        "stripe": _kind(secrets=_TOKEN),
        "table": _kind(_FOLDER, _maybe("key")),
        "telegram": _kind(secrets=_TOKEN),
        "todoist": _kind(secrets=_TOKEN),
        "trello": _kind(secrets=_TOKEN),
        "webhook": _kind(_URL, secrets=("signing",)),
    }
)


def find_addable(use: str) -> Addable:
    """Return what a page may set of a kind, or say where the kind is added instead (law 1)."""
    found = ADDABLE.get(use)
    if found is None:
        facts = {"of": "use", **nearest(str(use), ADDABLE)}
        raise RequestRefused(code=BEYOND, subject=short(use), facts=facts)
    return found


def check_new_name(name: object) -> str:
    """Return the name of a new connection, or refuse it."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None or name in TAKEN:
        # What was typed is not repeated: it may be a secret in the wrong field.
        facts = {"wanted": "connection_name", "most": NAME_CHARS_MAX}
        raise Invalid(code="wrong_value", path="name", facts=facts)
    return name


def read_settings(use: str, given: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Return the keys of a new connection as they are written, or refuse what may not be set."""
    kind = find_addable(use)
    keys = {each.name: each for each in kind.keys}
    for name in given:
        if name not in keys:
            raise RequestRefused(code=BEYOND, subject=short(name), facts={"of": use})
    found: dict[str, str | list[str]] = {}
    for name, key in keys.items():
        text = given.get(name, "").strip()
        if text:
            try:
                found[name] = _read(key.takes, text, name)
            except Invalid as error:
                # A person reads the name of the field, a program its place.
                raise Invalid(**parts_of(error), path=f"settings.{name}") from None
        elif key.is_required:
            raise Invalid(code="missing", path=f"settings.{name}", subject=name, facts={"of": use})
    return found


def check_secrets(use: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that were typed; refuse one that the kind does not have, or that lacks."""
    kind = find_addable(use)
    for name in given:
        if name not in kind.secrets:
            raise RequestRefused(code=BEYOND, subject=short(name), facts={"of": use})
    for name in kind.secrets:
        if not given.get(name) and name not in kind.optional:
            raise Invalid(code="missing", path=f"secrets.{name}", subject=name, facts={"of": use})
    return {name: value for name, value in given.items() if value}


def _read(takes: Takes, text: str, path: str) -> str | list[str]:
    if len(text) > VALUE_CHARS_MAX:
        facts = {"limit": VALUE_CHARS_MAX, "unit": "characters"}
        raise Invalid(code="too_long", path=path, facts=facts)
    if not is_text(text) or not text.isprintable():
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "one_line"})
    return _READERS[takes](text, path)


def _read_text(text: str, path: str) -> str:
    # A text that a connector reads as an address of a file, or of another server, is none.
    if "://" in text:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "no_address"})
    return text


def _read_address(text: str, path: str) -> str:
    url = read_url(text, path=path)
    if url.scheme != SECURE or not is_name(url.host):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "secure_address"})
    return text


def _read_server(text: str, path: str) -> str:
    host, colon, port = text.partition(":")
    if not is_name(read_host(host, path=path)) or (colon and not port.isdecimal()):
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "host_name"})
    return text


def _read_hosts(text: str, path: str) -> list[str]:
    found = [each for each in re.split(r"[ ,]+", text) if each]
    if len(found) > HOSTS_MAX:
        raise Invalid(code="too_many", path=path, facts={"limit": HOSTS_MAX, "unit": "hosts"})
    for each in found:
        if not is_name(read_host(each, path=path)):
            raise Invalid(code="wrong_value", path=path, facts={"wanted": "host_name"})
    return found


def _read_folder(text: str, path: str) -> str:
    parts = text.removesuffix("/").split("/")
    is_plain = all(PART.fullmatch(each) and not each.endswith((".", " ")) for each in parts)
    is_long = len(parts) > FOLDER_PARTS_MAX or max(map(_bytes, parts)) > PART_BYTES_MAX
    if not is_plain or is_long:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "folder_below"})
    return "/".join(parts)


def _bytes(text: str) -> int:
    return len(text.encode())


_READERS: Final[Mapping[Takes, Callable[[str, str], str | list[str]]]] = MappingProxyType(
    {
        Takes.TEXT: _read_text,
        Takes.ADDRESS: _read_address,
        Takes.HOST: _read_server,
        Takes.HOSTS: _read_hosts,
        Takes.FOLDER: _read_folder,
    }
)
