"""Reads the operations of an `http` connector out of its table in the settings.

Law 1: a mistake is told with the key it stands under and what to write instead, before anything is
       asked of the service.
Law 2: a mutation says where its key travels, also when it travels nowhere: `key = "none"` (K1).
Law 3: a read cannot change anything: it is GET, HEAD, or one query of GraphQL (K5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, cast

from duly.connectors.graphql import find_fault
from duly.connectors.rest import Auth, KeyPlace, Paging, Verify
from duly.connectors.signature import Address
from duly.connectors.status import Meaning
from duly.connectors.template import KEY, fields_of, is_broken
from duly.connectors.transport import CHANGES, READS, check_header
from duly.errors import ConfigError, Refused
from duly.rules.catalog import SNAKE
from duly.rules.value import Json, suggest

KINDS: Final = ("read", "read_by_id", "mutation")
RISKS: Final = ("low", "medium", "high")
# The types of arguments and results, by the words of the settings; with a `?` it may be left out.
TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "string": str,
        "integer": int,
        "number": float,
        "boolean": bool,
        "list": list,
        "object": dict,
        "address": Address,
        "any": Any,
    }
)
VARIABLE: Final = re.compile(r"\$([_A-Za-z][_0-9A-Za-z]*)")
AFTER: Final = "after"  # the argument of a list that goes on
KEY_PLACES: Final = ("header", "field", "query")
MEANINGS: Final = tuple(each.value for each in Meaning if each is not Meaning.KEY)
AUTH_KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"bearer": (), "basic": ("user",), "header": ("name",), "query": ("name",)}
)
KNOWN: Final = (
    *("does", "method", "path", "kind", "arguments", "query", "returns", "result", "capability"),
    *("noun", "timeout_s"),
)
KNOWN_READ: Final = (*KNOWN, "paging")
KNOWN_GRAPHQL: Final = (*(each for each in KNOWN if each != "query"), "graphql")
KNOWN_MUTATION: Final = (
    *(*KNOWN, "body", "form", "key", "key_lifetime_s", "verify", "risk", "lag_s", "labels"),
    *("editable", "statuses"),
)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operation."""

    name: str
    annotation: Any
    is_required: bool


@dataclass(frozen=True, slots=True)
class HttpOperation:
    """One named request: what scripts call as `ctx.shop.create_order(…)`."""

    name: str
    method: str
    path: str
    kind: Literal["read", "read_by_id", "mutation"]
    does: str
    arguments: tuple[Argument, ...]
    query: Mapping[str, Json]
    graphql: str | None
    body: Json | None
    is_form: bool
    key: KeyPlace | None
    key_lifetime_s: float | None
    verify: Verify | None
    paging: Paging | None
    statuses: Mapping[int, Meaning]
    result: str
    returns: Any
    terms: Mapping[str, Any]

    @property
    def is_mutation(self) -> bool:
        """Tell whether it changes something."""
        return self.kind == "mutation"

    @property
    def timeout_s(self) -> float:
        """How long it may take."""
        return float(self.terms["timeout_s"])


class Place:
    """A table of the settings and where it stands, for errors that name both."""

    def __init__(self, where: str, table: object) -> None:
        self.where = where
        if not isinstance(table, Mapping):
            raise ConfigError(f"{where} must be a table, not {_kind(table)}.")
        self.table: Mapping[str, Any] = table

    def refuse(self, key: str, said: str) -> NoReturn:
        """Raise what is wrong with one key."""
        raise ConfigError(f"{self.where}.{key}: {said}")

    def only(self, known: Iterable[str]) -> None:
        """Refuse a key that is not known."""
        names = tuple(known)
        for key in self.table:
            if key not in names:
                self.refuse(str(key), f"there is no such key. {suggest(str(key), names)}")

    def text(self, key: str, default: str | None = None, *, may_be_empty: bool = False) -> str:
        """Return a text; without a default it must be there."""
        value = self.table.get(key, default)
        if value is None:
            self.refuse(key, "it is missing. Write a text.")
        if not isinstance(value, str) or not (value or may_be_empty):
            self.refuse(key, f"it is {_kind(value)}. Write a text.")
        return value

    def word(self, key: str, known: Collection[str], default: str | None = None) -> str:
        """Return one of a few words."""
        value = self.text(key, default)
        if value not in known:
            self.refuse(key, f'"{value}" is none of {", ".join(known)}. {suggest(value, known)}')
        return value

    def number(self, key: str, default: float, *, may_be_zero: bool = False) -> float:
        """Return a number of seconds."""
        value = self.table.get(key, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value > 0 or (may_be_zero and value == 0)) or math.isnan(value):
            self.refuse(key, f"it is {value!r}. Write a positive number of seconds.")
        return float(value)

    def flag(self, key: str) -> bool:
        """Return true or false; false if it is not there."""
        value = self.table.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, f"it is {_kind(value)}. Write true or false.")
        return value

    def inner(self, key: str) -> Place:
        """Return the table under a key; an empty one if it is not there."""
        return Place(f"{self.where}.{key}", self.table.get(key, {}))

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts."""
        inside = self.inner(key)
        return {str(name): inside.text(str(name)) for name in inside.table}


def read_operations(table: object) -> tuple[HttpOperation, ...]:
    """Read every operation of a connector."""
    place = Place("operations", table)
    return tuple(_read_operation(str(name), place.inner(name)) for name in place.table)


def read_auth(table: object) -> Auth:
    """Read how a service is told who asks."""
    place = Place("auth", table)
    kind = place.word("type", tuple(AUTH_KINDS))
    place.only(("type", "secret", *AUTH_KINDS[kind]))
    more = {name: place.text(name) for name in AUTH_KINDS[kind]}
    if kind == "header":
        _check_header(place, "name", more["name"])
    known = cast('Literal["bearer", "basic", "header", "query"]', kind)
    return Auth(known, place.text("secret", "token"), **more)


def _read_operation(name: str, place: Place) -> HttpOperation:
    if not SNAKE.fullmatch(name):
        raise ConfigError(
            f"{place.where}: a script cannot call this name. Use lower-case letters, digits and"
            " single underscores."
        )
    graphql = _read_graphql(place) if "graphql" in place.table else None
    methods = ("POST",) if graphql is not None else (*sorted(READS), *sorted(CHANGES))
    method = place.word("method", methods, methods[0] if graphql is not None else "GET")
    is_asking = method in READS or graphql is not None
    kind = place.word("kind", KINDS, "read" if is_asking else "mutation")
    is_mutation = kind == "mutation"
    if is_mutation == is_asking:
        fitting = ", ".join(sorted(CHANGES if is_mutation else READS))
        what = "graphql query" if graphql is not None else method
        place.refuse("kind" if graphql else "method", _misfit(kind, what, fitting))
    if graphql is not None:
        place.only(KNOWN_GRAPHQL)
    else:
        place.only(KNOWN_MUTATION if is_mutation else KNOWN_READ)
    path = _read_path(place, place.text("path"))
    arguments = _read_arguments(place)
    query = {} if graphql is not None else _read_query(place, method, path, arguments)
    key = _read_key(place, arguments) if is_mutation else None
    lifetime_s = _read_lifetime(place, key)
    paging = _read_paging(place, "paging") if "paging" in place.table else None
    if paging is not None and any(each.name == AFTER for each in arguments):
        place.refuse("arguments", f'"{AFTER}" is added by paging. Leave it out.')
    body = place.table.get("body") if is_mutation else None
    found = HttpOperation(
        name=name,
        method=method,
        path=path,
        kind=cast('Literal["read", "read_by_id", "mutation"]', kind),
        does=place.text("does", f"{method} {path}"),
        arguments=arguments,
        query=query,
        graphql=graphql,
        body=_body_of(body, path, query, arguments) if is_mutation else None,
        is_form=place.flag("form"),
        key=key,
        key_lifetime_s=lifetime_s,
        verify=_read_verify(place, key, arguments) if "verify" in place.table else None,
        paging=paging,
        statuses=_read_statuses(place),
        result=place.text("result", "", may_be_empty=True),
        returns=_read_returns(place),
        terms=_read_terms(place, is_mutation=is_mutation),
    )
    _check_names(place, found)
    return found


def _misfit(kind: str, what: str, fitting: str) -> str:
    return f"a {kind} cannot be a {what}. Write one of {fitting}."


def _read_graphql(place: Place) -> str:
    document = place.text("graphql")
    if (fault := find_fault(document)) is not None:
        place.refuse("graphql", f"{fault}. Write one query; a change is a mutation with a body.")
    return document


def _read_path(place: Place, path: str, key: str = "path") -> str:
    if not path.startswith("/") or "?" in path or "#" in path:
        place.refuse(key, f'it is "{path}". Begin it with / and write the query under query.')
    if is_broken(path):
        place.refuse(key, f'"{path}" has a brace too many. Write an argument as {{order_id}}.')
    return path


def _read_arguments(place: Place) -> tuple[Argument, ...]:
    found = []
    for name, word in place.texts("arguments").items():
        if name == KEY or not SNAKE.fullmatch(name):
            place.refuse(
                f"arguments.{name}",
                'use lower-case letters, digits and single underscores, and not "key".',
            )
        kind = word.removesuffix("?")
        if kind not in TYPES:
            said = f'"{word}" is no type. {suggest(kind, TYPES)} A ? behind it: may be left out.'
            place.refuse(f"arguments.{name}", said)
        is_required = not word.endswith("?")
        annotation = TYPES[kind] if is_required else TYPES[kind] | None
        found.append(Argument(name, annotation, is_required))
    return tuple(found)


def _read_query(
    place: Place, method: str, path: str, arguments: tuple[Argument, ...]
) -> Mapping[str, Json]:
    """Return the templates of the query; of a read they are, unless given, all other arguments."""
    if "query" in place.table:
        return dict(place.texts("query"))
    if method not in READS:
        return {}
    inside = fields_of(path)
    return {each.name: f"{{{each.name}}}" for each in arguments if each.name not in inside}


def _body_of(
    body: Json, path: str, query: Mapping[str, Json], arguments: tuple[Argument, ...]
) -> Json | None:
    """Return the template of the body: as given, or every argument that stands nowhere else."""
    if body is not None:
        return body
    elsewhere = fields_of(path) | fields_of(query)
    rest: dict[str, Json] = {
        each.name: f"{{{each.name}}}" for each in arguments if each.name not in elsewhere
    }
    return rest or None


def _read_key(place: Place, arguments: tuple[Argument, ...]) -> KeyPlace | None:
    given = place.table.get("key")
    if given == "none":
        return None
    if given == "path":
        return KeyPlace("path")
    if given is None or isinstance(given, str):
        place.refuse(
            "key",
            "say where the idempotency key travels:"
            ' { header = "Idempotency-Key" }, { field = "external_id" }, { query = "key" },'
            ' "path" if it stands there as {key}, or "none" if the service has no place for it.',
        )
    inside = place.inner("key")
    inside.only(KEY_PLACES)
    if len(inside.table) != 1:
        place.refuse("key", f"name one place: {', '.join(KEY_PLACES)}.")
    ((kind, _),) = inside.table.items()
    name = inside.text(kind)
    if kind == "header":
        _check_header(inside, kind, name)
    elif any(each.name == name for each in arguments):
        place.refuse(f"key.{kind}", f'"{name}" is an argument too. The key needs its own field.')
    return KeyPlace(cast('Literal["header", "field", "query"]', kind), name)


def _read_lifetime(place: Place, key: KeyPlace | None) -> float | None:
    if "key_lifetime_s" not in place.table:
        return None
    if key is None:
        place.refuse("key_lifetime_s", "there is no key that the service could remember.")
    return place.number("key_lifetime_s", math.inf)


def _read_verify(place: Place, key: KeyPlace | None, arguments: tuple[Argument, ...]) -> Verify:
    if key is None:
        place.refuse("verify", "without a key a call cannot be told from another. Say key = …")
    inside = place.inner("verify")
    inside.only(("path", "query", "items", "match", "result", "paging"))
    paging = _read_paging(inside, "paging") if "paging" in inside.table else None
    items = inside.text("items", "", may_be_empty=True) if "items" in inside.table else None
    if paging is not None and items is None:
        inside.refuse("paging", "there is no list. Say where it is: items = …")
    found = Verify(
        path=_read_path(inside, inside.text("path")),
        match=inside.text("match"),
        query=inside.texts("query"),
        items=items,
        result=inside.text("result", "", may_be_empty=True),
        paging=paging,
    )
    names = fields_of((found.path, found.query))
    for name in sorted(names - {KEY} - {each.name for each in arguments}):
        inside.refuse("path", f"{{{name}}} is no argument and not {{key}}.")
    if KEY not in names and paging is None:
        inside.refuse(
            "path", "the question names the key nowhere. Write {key}, or say how to read all pages."
        )
    return found


def _read_paging(place: Place, key: str) -> Paging:
    inside = place.inner(key)
    inside.only(("items", "cursor", "parameter", "link", "page"))
    ways = [name for name in ("cursor", "link", "page") if name in inside.table]
    if len(ways) != 1:
        place.refuse(key, "say one of cursor (with parameter), link = true, page.")
    if ("cursor" in ways) != ("parameter" in inside.table):
        place.refuse(
            key, "cursor and parameter go together: where it is found, and how it is sent."
        )
    return Paging(
        items=inside.text("items", "", may_be_empty=True),
        cursor=inside.text("cursor") if "cursor" in ways else None,
        parameter=inside.text("parameter") if "cursor" in ways else None,
        link=inside.flag("link"),
        page=inside.text("page") if "page" in ways else None,
    )


def _read_statuses(place: Place) -> Mapping[int, Meaning]:
    found = {}
    for code, word in place.texts("statuses").items():
        if not code.isdecimal() or not 300 <= int(code) <= 599:
            place.refuse(f"statuses.{code}", "write a status from 300 to 599.")
        if word not in MEANINGS:
            said = f'"{word}" is none of {", ".join(MEANINGS)}.'
            place.refuse(f"statuses.{code}", f"{said} {suggest(word, MEANINGS)}")
        found[int(code)] = Meaning(word)
    return found


def _read_returns(place: Place) -> Any:
    """Return the shape of the result: a type by its word, or the names and types of the fields."""
    given = place.table.get("returns", "any")
    if isinstance(given, str):
        place.word("returns", tuple(TYPES), "any")
        return TYPES[given]
    inside = place.inner("returns")
    fields = {}
    for name in inside.table:
        word = inside.text(name)
        kind = word.removesuffix("?")
        if kind not in TYPES:
            inside.refuse(name, f'"{word}" is no type. {suggest(kind, TYPES)}')
        fields[name] = TYPES[kind] | None if word.endswith("?") else TYPES[kind]
    return fields


def _read_terms(place: Place, *, is_mutation: bool) -> Mapping[str, Any]:
    terms: dict[str, Any] = {"timeout_s": place.number("timeout_s", 30)}
    for name in ("capability", "noun"):
        if name in place.table:
            terms[name] = place.text(name)
    if not is_mutation:
        return terms
    editable = place.table.get("editable", [])
    if not isinstance(editable, list) or not all(isinstance(each, str) for each in editable):
        place.refuse("editable", "write a list of arguments.")
    return terms | {
        "risk": place.word("risk", RISKS, "medium"),
        "lag_s": place.number("lag_s", 60, may_be_zero=True),
        "labels": place.texts("labels"),
        "editable": tuple(editable),
    }


def _check_names(place: Place, found: HttpOperation) -> None:
    """Refuse a template that names no argument, and an argument that stands in no template."""
    names = {each.name for each in found.arguments}
    is_in_path = found.key is not None and found.key.kind == "path"
    if is_in_path and KEY not in fields_of(found.path):
        place.refuse("path", 'the key travels in it. Write {key}, as in "/orders/{key}".')
    templates = {"path": found.path, "query": found.query, "body": found.body}
    for key, template in templates.items():
        known = names | {KEY} if is_in_path and key == "path" else names
        for name in sorted(fields_of(template) - known):
            said = "Say key = … for the key." if name == KEY else suggest(name, names)
            place.refuse(key, f"{{{name}}} is no argument. {said}")
    variables = set(VARIABLE.findall(found.graphql or ""))
    for each in found.arguments:
        if found.graphql is not None and each.name in variables:
            continue
        if each.name not in frozenset().union(*map(fields_of, templates.values())):
            place.refuse(
                f"arguments.{each.name}", "it is sent nowhere: not in path, query or body."
            )
    missing = [each.name for each in found.arguments if not each.is_required]
    for name in sorted(fields_of(found.path) & set(missing)):
        place.refuse(f"arguments.{name}", "it stands in the path, so it cannot be left out.")


def _check_header(place: Place, key: str, name: str) -> None:
    try:
        check_header(name, "x")
    except Refused as error:
        place.refuse(key, str(error))


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
