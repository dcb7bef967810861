"""Reads the operations of an `http` connector out of its table in the settings.

Law 1: a mistake is told with the key it stands under and what to write instead, before anything is
       asked of the service.
Law 2: a mutation says where its key travels, also when it travels nowhere: `key = "none"` (K1).
Law 3: a read cannot change anything: it is GET, HEAD, or one query of GraphQL (K5).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from duly.connectors.graphql import find_fault, has_mutation
from duly.connectors.key_place import PLAIN, SaidDone
from duly.connectors.named import AFTER
from duly.connectors.place import (
    KINDS,
    TYPES,
    Argument,
    Place,
    check_name,
    read_arguments,
    read_returns,
    read_terms,
)
from duly.connectors.rest import KeyPlace, Paging, Verify
from duly.connectors.status import MULTI, Meaning
from duly.connectors.taken import TakenName
from duly.connectors.template import FIELD, KEY, KEY_NAMES, TAKEN, fields_of, has_key, is_broken
from duly.connectors.transport import CHANGES, READS
from duly.rules.blob import Blob
from duly.rules.value import Json, suggest

WHOLE_MAX: Final = 10_000
VARIABLE: Final = re.compile(r"\$([_A-Za-z][_0-9A-Za-z]*)")
ARGUMENT_TYPES: Final[Mapping[str, Any]] = MappingProxyType({**TYPES, "blob": Blob})
KEY_PLACES: Final = ("header", "field", "query", "marker")
MEANINGS: Final = tuple(each.value for each in Meaning if each is not Meaning.CONFLICT)
KNOWN: Final = (
    *("does", "method", "path", "kind", "arguments", "query", "returns", "result", "capability"),
    *("noun", "timeout_s"),
)
KNOWN_READ: Final = (*KNOWN, "paging", "answer")
KNOWN_GRAPHQL: Final = (*(each for each in KNOWN if each != "query"), "graphql")
KNOWN_MUTATION: Final = (
    *(*KNOWN, "body", "form", "key", "key_lifetime_s", "verify", "risk", "lag_s", "labels"),
    *("editable", "statuses", "trial", "done", "upload", "markdown", "taken"),
)


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
    taken: TakenName | None
    trial: Mapping[str, Json] | None
    paging: Paging | None
    statuses: Mapping[int, Meaning]
    done: SaidDone | None
    result: str
    returns: Any
    terms: Mapping[str, Any]
    upload: str | None = None  # the argument whose bytes are the body (K15)
    answers_blob: bool = False
    markdown: frozenset[str] = frozenset()  # texts that the service would read as Markdown (K12)

    @property
    def is_mutation(self) -> bool:
        """Tell whether it changes something."""
        return self.kind == "mutation"

    @property
    def capability(self) -> str:
        """What a workflow must be granted, without the name of the connector (A1)."""
        named = str(self.terms.get("capability") or "")
        return named.partition(".")[2] or named or (self.name if self.is_mutation else "read")

    @property
    def timeout_s(self) -> float:
        """How long it may take."""
        return float(self.terms["timeout_s"])


def read_operations(table: object) -> tuple[HttpOperation, ...]:
    """Read every operation of a connector."""
    place = Place("operations", table)
    return tuple(_read_operation(str(name), place.inner(name)) for name in place.table)


def _read_operation(name: str, place: Place) -> HttpOperation:
    check_name(place, name)
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
    arguments = read_arguments(place, ARGUMENT_TYPES)
    query = {} if graphql is not None else _read_query(place, method, path, arguments)
    key = _read_key(place, arguments) if is_mutation else None
    lifetime_s = _read_lifetime(place, key)
    paging = _read_paging(place, "paging") if "paging" in place.table else None
    if paging is not None and any(each.name == AFTER for each in arguments):
        place.refuse("arguments", f'"{AFTER}" is added by paging. Leave it out.')
    body = place.table.get("body") if is_mutation else None
    upload = _read_upload(place, arguments, key) if "upload" in place.table else None
    found = HttpOperation(
        name=name,
        method=method,
        path=path,
        kind=cast('Literal["read", "read_by_id", "mutation"]', kind),
        does=place.text("does", f"{method} {path}"),
        arguments=arguments,
        query=query,
        graphql=graphql,
        body=_body_of(body, path, query, arguments) if is_mutation and not upload else None,
        is_form=place.flag("form"),
        key=key,
        key_lifetime_s=lifetime_s,
        verify=read_verify(place, key, arguments) if "verify" in place.table else None,
        taken=_read_taken(place, arguments) if "taken" in place.table else None,
        trial=_read_trial(place, arguments),
        paging=paging,
        statuses=_read_statuses(place),
        done=_read_done(place),
        result=place.text("result", "", may_be_empty=True),
        returns=Blob if _read_answer(place) else read_returns(place),
        terms=read_terms(place, is_mutation=is_mutation),
        upload=upload,
        answers_blob=_read_answer(place),
        markdown=_read_markdown(place, arguments),
    )
    _check_names(place, found)
    if has_mutation(found.body) or has_mutation(dict(found.query)):
        _check_said(place, found.done)
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
    inside.only((*KEY_PLACES, "form"))
    kinds = [each for each in inside.table if each != "form"]
    if len(kinds) != 1:
        place.refuse("key", f"name one place: {', '.join(KEY_PLACES)}.")
    (kind,) = kinds
    name = inside.text(kind)
    form = _read_form(inside)
    if kind == "header":
        inside.header(kind, name)
    elif kind != "marker" and any(each.name == name for each in arguments):
        place.refuse(f"key.{kind}", f'"{name}" is an argument too. The key needs its own field.')
    if kind == "marker" and fields_of(form) and not FIELD.sub("", form):
        inside.refuse("form", 'a mark needs words around the key: "[duly:{key}]".')
    return KeyPlace(cast('Literal["header", "field", "query", "marker"]', kind), name, form)


def _read_form(inside: Place) -> str:
    """Read how a key is spelled: a text with one of the names of the key in it."""
    form = inside.text("form", PLAIN)
    if len(fields_of(form)) != 1 or not fields_of(form) <= KEY_NAMES:
        inside.refuse("form", f"write the key in it once: {_braced(KEY_NAMES)}.")
    return form


def _read_done(place: Place) -> SaidDone | None:
    """Read where an answer says that the change was made."""
    given = place.table.get("done")
    if given is None:
        return None
    if isinstance(given, str):
        return SaidDone(place.text("done"))
    inside = place.inner("done")
    inside.only(("place", "is"))
    return SaidDone(inside.text("place"), inside.table.get("is"))


def _check_said(place: Place, done: SaidDone | None) -> None:
    """Refuse a mutation of GraphQL that does not say where its answer tells that it was done."""
    if done is None or not done.place.startswith("data."):
        place.refuse(
            "done",
            "a service of GraphQL answers 200 also to a mutation that failed. Write where its"
            ' answer says that it was done: done = "data.createOrder.id".',
        )


def _braced(names: Iterable[str]) -> str:
    return ", ".join(f"{{{each}}}" for each in sorted(names))


def _read_lifetime(place: Place, key: KeyPlace | None) -> float | None:
    if "key_lifetime_s" not in place.table:
        return None
    if key is None:
        place.refuse("key_lifetime_s", "there is no key that the service could remember.")
    return place.number("key_lifetime_s", math.inf)


def read_verify(place: Place, key: KeyPlace | None, arguments: tuple[Argument, ...]) -> Verify:
    """Read how a call is found again by its key."""
    if key is None:
        place.refuse("verify", "without a key a call cannot be told from another. Say key = …")
    inside = place.inner("verify")
    inside.only(
        (
            "path",
            "query",
            "items",
            "match",
            "result",
            "paging",
            "form",
            "inside",
            "graphql",
            "whole",
            "keeps_deleted",
        )
    )
    paging = _read_paging(inside, "paging") if "paging" in inside.table else None
    items = inside.text("items", "", may_be_empty=True) if "items" in inside.table else None
    if paging is not None and paging.delta:
        inside.refuse("paging", "a question about a call reads the whole list. Say another way.")
    if paging is not None and items is None:
        inside.refuse("paging", "there is no list. Say where it is: items = …")
    found = Verify(
        path=_read_path(inside, inside.text("path")),
        match=inside.text("match"),
        query=inside.texts("query"),
        items=items,
        result=inside.text("result", "", may_be_empty=True),
        paging=paging,
        form=_read_form(inside),
        is_inside=inside.flag("inside"),
        graphql=_read_graphql(inside) if "graphql" in inside.table else None,
        whole=_read_whole(inside),
        keeps_deleted=inside.flag("keeps_deleted"),
    )
    if found.graphql is not None and (items is None or paging is not None or found.query):
        inside.refuse("graphql", "its answer is a list: say items = …, and no paging or query.")
    names = fields_of((found.path, found.query)) | set(VARIABLE.findall(found.graphql or ""))
    for name in sorted(names - TAKEN - {each.name for each in arguments}):
        inside.refuse("path", f"{{{name}}} is no argument and not {{key}}.")
    if KEY_NAMES.isdisjoint(names) and paging is None and not found.whole:
        inside.refuse(
            "path", "the question names the key nowhere. Write {key}, or say how to read all pages."
        )
    return found


def _read_taken(place: Place, arguments: tuple[Argument, ...]) -> TakenName:
    """Read how the thing is asked for whose name a change wanted."""
    is_exact = "verify" in place.table and "items" not in place.inner("verify").table
    if not is_exact or place.table.get("method") != "POST":
        place.refuse("taken", "it follows a POST that is asked about by its key exactly: verify.")
    inside = place.inner("taken")
    inside.only(("path", "query", "shows"))
    needed = {each.name for each in arguments if each.is_required}
    shows = inside.texts("shows")
    if not shows or not needed.issuperset(shows.values()):
        inside.refuse("shows", 'name what shows it: shows = { "email" = "email" }, an argument.')
    found = TakenName(_read_path(inside, inside.text("path")), shows, inside.texts("query"))
    if unknown := fields_of((found.path, found.query)) - needed:
        inside.refuse("path", f"{{{min(unknown)}}} is no argument that is always there.")
    return found


def _read_whole(inside: Place) -> int:
    """Read below how many items a list is known to be all of it."""
    value = inside.table.get("whole", 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= WHOLE_MAX:
        inside.refuse("whole", f"it is {value!r}. Write the most items that one answer has.")
    if value and ("items" not in inside.table or "paging" in inside.table):
        inside.refuse("whole", "it is about one list: say items = …, and no paging.")
    return value


def _read_markdown(place: Place, arguments: tuple[Argument, ...]) -> frozenset[str]:
    """Read which arguments the service would take for Markdown: they are escaped (K12)."""
    names = place.table.get("markdown", [])
    texts = {each.name for each in arguments if each.annotation in (str, str | None)}
    if not isinstance(names, list) or not texts.issuperset(names):
        place.refuse("markdown", 'name arguments that are a string: ["text"].')
    return frozenset(names)


def _read_upload(place: Place, arguments: tuple[Argument, ...], key: KeyPlace | None) -> str:
    """Read which argument is the blob that is sent as the body (K15)."""
    name = place.text("upload")
    if not any(each.name == name and each.annotation is Blob for each in arguments):
        place.refuse(
            "upload", f'name an argument that is a blob: arguments = {{ {name} = "blob" }}'
        )
    for other in ("body", "form"):
        if other in place.table:
            place.refuse(other, "the blob is the body. Leave it out.")
    if key is not None and key.kind in ("field", "marker"):
        place.refuse(
            f"key.{key.kind}", "a blob has no fields. Put the key into a header or the query."
        )
    return name


def _read_answer(place: Place) -> bool:
    """Read whether the answer is a blob, and not JSON (K15)."""
    if "answer" not in place.table:
        return False
    place.word("answer", ("blob",))
    for other in ("paging", "result", "returns"):
        if other in place.table:
            place.refuse(other, "the answer is a blob. Leave it out.")
    return True


def _read_trial(place: Place, arguments: tuple[Argument, ...]) -> Mapping[str, Json] | None:
    """Read the arguments with which `duly connect` may try the operation once (K10)."""
    if "trial" not in place.table:
        return None
    if "verify" not in place.table:
        place.refuse("trial", "there is no verify request that a trial could show to work.")
    inside = place.inner("trial")
    inside.only(each.name for each in arguments)
    for each in arguments:
        if each.is_required and each.name not in inside.table:
            inside.refuse(each.name, "it is missing. A trial is a whole call.")
    return dict(inside.table)


def _read_paging(place: Place, key: str) -> Paging:
    inside = place.inner(key)
    inside.only(("items", "cursor", "parameter", "link", "page", "delta", "grows"))
    ways = [name for name in ("cursor", "link", "page", "delta") if name in inside.table]
    if len(ways) != 1:
        place.refuse(key, "say one of cursor (with parameter), link = true, page, delta = true.")
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
        delta=inside.flag("delta"),
        is_growing=inside.flag("grows"),
    )


def _read_statuses(place: Place) -> Mapping[int, Meaning]:
    found = {}
    for code, word in place.texts("statuses").items():
        is_status = code.isdecimal() and (int(code) == MULTI or 300 <= int(code) <= 599)
        if not is_status:
            place.refuse(f"statuses.{code}", f"write {MULTI} or a status from 300 to 599.")
        if word not in MEANINGS:
            said = f'"{word}" is none of {", ".join(MEANINGS)}.'
            place.refuse(f"statuses.{code}", f"{said} {suggest(word, MEANINGS)}")
        found[int(code)] = Meaning(word)
    return found


def _check_names(place: Place, found: HttpOperation) -> None:
    """Refuse a template that names no argument, and an argument that stands in no template."""
    names = {each.name for each in found.arguments}
    is_in_path = found.key is not None and found.key.kind == "path"
    if is_in_path and not has_key(found.path):
        place.refuse("path", 'the key travels in it. Write {key}, as in "/orders/{key}".')
    templates = {"path": found.path, "query": found.query, "body": found.body}
    spelled = KEY_NAMES - {KEY} if found.key is not None else frozenset()
    for each in found.arguments:
        if each.annotation is Blob and (found.upload != each.name or _is_in(each, templates)):
            place.refuse(f"arguments.{each.name}", f'a blob is the body: upload = "{each.name}".')
    for key, template in templates.items():
        known = names | {KEY} if is_in_path and key == "path" else names
        known |= spelled if key != "query" else frozenset()
        for name in sorted(fields_of(template) - known):
            said = "Say key = … for the key." if name == KEY else suggest(name, names)
            place.refuse(key, f"{{{name}}} is no argument. {said}")
    variables = set(VARIABLE.findall(found.graphql or ""))
    # What only the question needs is an argument too: the board on which a card is looked for.
    asked = fields_of((found.verify.path, found.verify.query)) if found.verify else frozenset()
    for each in found.arguments:
        if each.name in asked or (found.graphql is not None and each.name in variables):
            continue
        if each.name != found.upload and not _is_in(each, templates):
            place.refuse(
                f"arguments.{each.name}", "it is sent nowhere: not in path, query or body."
            )
    missing = [each.name for each in found.arguments if not each.is_required]
    for name in sorted(fields_of(found.path) & set(missing)):
        place.refuse(f"arguments.{name}", "it stands in the path, so it cannot be left out.")


def _is_in(argument: Argument, templates: Mapping[str, Any]) -> bool:
    return argument.name in frozenset().union(*map(fields_of, templates.values()))
