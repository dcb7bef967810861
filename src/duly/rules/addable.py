"""What of a connection may be set from a page: the kinds, their keys, and what each key may be.

Law 1  What stands in no row is refused. A page sets no program, no class, no statement, no file of
       another folder, no address of this network (`allow`), no certificate of its own (`ca`) and
       nothing that weakens TLS: those widen what this machine gives away, and are written on it.
       An operation is a method and a path below an address that may be set, and so widens nothing.
Law 2  An address is one of https. A folder is named from the folder of the project, lies strictly
       below it, and no part of its name begins with a dot.
Law 3  A secret is no setting: it is named here, and what it says is never written into a file.
Law 4  All that is wrong with a form is told at once: the first error has the others as its fact
       `also`, each with its code, its field and its facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from duly.errors import DulyError, Invalid, RequestRefused, parts_of, short
from duly.rules.addable_kind import Addable, AddableKey, Group, Takes
from duly.rules.addable_operation import (
    KEYS,
    METHODS,
    NONE,
    OPERATIONS,
    SIGN_INS,
    field_of,
    read_sign_in,
    read_small_operations,
)
from duly.rules.openapi import Omission
from duly.rules.url import is_name, read_host, read_url
from duly.rules.value import is_text, nearest

VALUE_CHARS_MAX: Final = 500
OPENAPI_CHARS_MAX: Final = 200_000
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
ALSO: Final = "also"
OPENAPI: Final = "openapi"
HTTP: Final = "http"
TLS_WAYS: Final = ("direct", "starttls")  # "off" is none of them
# What a person may call a kind, by the word that it has here.
OTHER_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("database", "db", "mariadb", "mysql", "postgres", "postgresql"), "sql"),
        **dict.fromkeys(("directory", "file", "filesystem", "folder"), "files"),
        **dict.fromkeys(("csv", "rows", "spreadsheet"), "table"),
        **dict.fromkeys(("email", "e-mail", "imap", "mails", "smtp"), "mail"),
        **dict.fromkeys(("api", "https", "openapi", "rest", "url", "web"), HTTP),
        **dict.fromkeys(("atom", "rss"), "feed"),
        "google": "gmail",
        "hook": "webhook",
        "model": "llm",
        "sqlite": "sql",
    }
)
SECURE: Final = "https"


@dataclass(frozen=True, slots=True)
class Added:
    """A connection as it is written: its table, where its service is, and the settings before.

    `folder` is made when it is written; `seen` is a digest of the file as it was read; `described`
    names the operations that a description brought, `omitted` what of it makes none.
    """

    name: str
    table: Mapping[str, Any]
    origin: str | None
    file: str
    seen: str
    folder: str | None = None
    described: frozenset[str] = frozenset()
    omitted: tuple[Omission, ...] = ()


@dataclass(frozen=True, slots=True)
class AddedConnection:
    """A connection that was added; scripts can use it when the host was started again.

    `signs_in` says that its account is chosen at the provider, after that. `omitted` is what of a
    description could make no operation.
    """

    name: str
    use: str
    file: str
    folder: str | None
    signs_in: bool
    omitted: tuple[Omission, ...] = ()


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


@dataclass(frozen=True, slots=True)
class NewConnection:
    """A connection as a form describes it, read: its settings and its secrets."""

    use: str
    name: str
    settings: Mapping[str, str | list[str]]
    secrets: Mapping[str, str]


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


def _maybe(
    name: str,
    takes: Takes = Takes.TEXT,
    group: Group = Group.MAIN,
    choices: tuple[str, ...] = (),
) -> AddableKey:
    return AddableKey(name, takes, is_required=False, group=group, choices=choices)


def _one_of(name: str, choices: tuple[str, ...], group: Group) -> AddableKey:
    return _maybe(name, Takes.CHOICE, group, choices)


def _operation(number: int) -> tuple[AddableKey, ...]:
    group = (Group.OPERATION, Group.OPERATION_2, Group.OPERATION_3)[number - 1]
    chosen = {"method": METHODS, "key": KEYS}
    parts = ("operation", "method", "path", "arguments", "key", "key_name")
    return tuple(
        _one_of(field_of(number, part), chosen[part], group)
        if part in chosen
        else _maybe(field_of(number, part), group=group)
        for part in (*parts, "found_by", "found_in", "found_as")
    )


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
        HTTP: _kind(
            _URL,
            _one_of("sign_in", SIGN_INS, Group.SIGN_IN),
            _maybe("sign_in_name", group=Group.SIGN_IN),
            *(key for number in range(1, OPERATIONS + 1) for key in _operation(number)),
            _maybe(OPENAPI, Takes.DOCUMENT, Group.OPENAPI),
            _maybe("hosts", Takes.HOSTS, Group.MORE),
            secrets=_TOKEN,
            optional=_TOKEN,
        ),
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
            _one_of("tls", TLS_WAYS, Group.MORE),
            _maybe("sent", group=Group.MORE),
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
        facts = {"of": "use", **nearest_kind(str(use), ADDABLE)}
        raise RequestRefused(code=BEYOND, subject=short(use), facts=facts)
    return found


def nearest_kind(use: str, known: Iterable[str]) -> dict[str, object]:
    """Return the facts about a kind that is not known: the one that was probably meant."""
    names, meant = tuple(known), OTHER_WORDS.get(use.lower(), "")
    return {"near": meant} if meant in names else nearest(use, names)


def read_new(
    use: str, name: object, settings: Mapping[str, str], secrets: Mapping[str, str]
) -> NewConnection:
    """Read a whole form, or refuse it with all that is wrong with it (law 4)."""
    wrong: list[DulyError] = []
    kind = find_addable(use)
    for each in (*settings, *secrets):
        if each not in {*(key.name for key in kind.keys), *kind.secrets}:
            raise RequestRefused(code=BEYOND, subject=short(each), facts={"of": use})
    checks: tuple[Callable[[], Any], ...] = (
        lambda: check_new_name(name),
        lambda: read_settings(use, settings),
        lambda: check_secrets(use, secrets),
    )
    found = []
    for check in checks:
        try:
            found.append(check())
        except Invalid as error:
            wrong += [error, *_also(error)]
    if not wrong and use == HTTP and secrets.get("token") and not _signs_in(settings):
        facts = {"wanted": "way_of_sign_in"}
        path = "settings.sign_in"
        wrong.append(Invalid(code="wrong_value", path=path, subject="sign_in", facts=facts))
    if not wrong and use == HTTP and _signs_in(settings) and not secrets.get("token"):
        wrong.append(Invalid(code="missing", path="secrets.token", subject="token", facts={}))
    _raise_all(wrong)
    return NewConnection(use, *found)


def check_new_name(name: object) -> str:
    """Return the name of a new connection, or refuse it."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None or name in TAKEN:
        # What was typed is not repeated: it may be a secret in the wrong field.
        facts = {"wanted": "connection_name", "most": NAME_CHARS_MAX}
        raise Invalid(code="wrong_value", path="name", facts=facts)
    return name


def read_settings(use: str, given: Mapping[str, str]) -> dict[str, str | list[str]]:
    """Return what a form says of a new connection, or refuse what may not be set."""
    kind = find_addable(use)
    keys = {each.name: each for each in kind.keys}
    for name in given:
        if name not in keys:
            raise RequestRefused(code=BEYOND, subject=short(name), facts={"of": use})
    found: dict[str, str | list[str]] = {}
    wrong: list[DulyError] = []
    for name, key in keys.items():
        text = given.get(name, "").strip()
        if text:
            try:
                found[name] = _read(key, text)
            except Invalid as error:
                # A person reads the name of the field, a program its place.
                wrong.append(Invalid(**parts_of(error), path=f"settings.{name}"))
        elif key.is_required:
            facts = {"of": use}
            path = f"settings.{name}"
            wrong.append(Invalid(code="missing", path=path, subject=name, facts=facts))
    if use == HTTP:
        wrong += _check_service(found)
    _raise_all(wrong)
    return found


def make_table(use: str, found: Mapping[str, str | list[str]]) -> dict[str, Any]:
    """Return the table of a connection that a form describes, without what a document brings."""
    if use != HTTP:
        return {"use": use, **found}
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    table: dict[str, Any] = {"use": use, "url": found["url"]}
    if (auth := read_sign_in(texts)) is not None:
        table["auth"] = auth
    if "hosts" in found:
        table["hosts"] = found["hosts"]
    if operations := read_small_operations(texts, []):
        table["operations"] = operations
    return table


def check_secrets(use: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets that were typed; refuse one that the kind does not have, or that lacks."""
    kind = find_addable(use)
    for name in given:
        if name not in kind.secrets:
            raise RequestRefused(code=BEYOND, subject=short(name), facts={"of": use})
    wrong: list[DulyError] = [
        Invalid(code="missing", path=f"secrets.{name}", subject=name, facts={"of": use})
        for name in kind.secrets
        if not given.get(name) and name not in kind.optional
    ]
    _raise_all(wrong)
    return {name: value for name, value in given.items() if value}


def _signs_in(settings: Mapping[str, str]) -> bool:
    return settings.get("sign_in", "").strip() not in ("", NONE)


def _check_service(found: Mapping[str, str | list[str]]) -> list[DulyError]:
    """Return what is wrong with the sign-in and the operations of a web service."""
    texts = {name: text for name, text in found.items() if isinstance(text, str)}
    wrong: list[DulyError] = []
    try:
        read_sign_in(texts)
    except Invalid as error:
        wrong.append(error)
    operations = read_small_operations(texts, wrong)
    if not wrong and not operations and not found.keys() & {OPENAPI, "hosts"}:
        facts = {"of": HTTP}
        path = "settings.operation"
        wrong.append(Invalid(code="no_operation", path=path, subject="operation", facts=facts))
    return wrong


def _raise_all(wrong: list[DulyError]) -> None:
    """Raise the first of several errors, with the others as a fact (law 4)."""
    if not wrong:
        return
    first, *others = wrong
    also = [
        {"code": each.code, "subject": each.subject, "path": _path_of(each), "facts": each.facts}
        for each in others
    ]
    if not also:
        raise first
    facts = {**first.facts, ALSO: also}
    raise Invalid(**{**parts_of(first), "facts": facts}, path=_path_of(first))


def _also(error: DulyError) -> list[DulyError]:
    return [Invalid(**each) for each in error.facts.get(ALSO, ())]


def _path_of(error: DulyError) -> str:
    return error.path if isinstance(error, Invalid) else ""


def _read(key: AddableKey, text: str) -> str | list[str]:
    path, is_document = key.name, key.takes is Takes.DOCUMENT
    most = OPENAPI_CHARS_MAX if is_document else VALUE_CHARS_MAX
    if len(text) > most:
        raise Invalid(code="too_long", path=path, facts={"limit": most, "unit": "characters"})
    if is_document and is_text(text):
        return text  # it is read when the connector is built
    if not is_text(text) or not text.isprintable():
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "one_line"})
    if key.choices and text not in key.choices:
        raise Invalid(code="wrong_value", path=path, facts={"wanted": "word", "known": key.choices})
    return _READERS[key.takes](text, path)


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
    is_bare = text.endswith("]") or ":" not in text
    host, port = (text, "1") if is_bare else text.rsplit(":", 1)
    if not is_name(read_host(host, path=path)) or not port.isdecimal():
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
        Takes.CHOICE: lambda text, _: text,
    }
)
