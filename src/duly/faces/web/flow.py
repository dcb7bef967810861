"""The pages of one workflow: what came in, what came of it, its versions, how it is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from duly.api.page import GIVES_SECRET, PAGE_ROWS_MAX, HookSender, IdFrom
from duly.api.registry import VERBS, Scope
from duly.api.session import Session
from duly.api.word import InputStatus, OutputStatus, Status
from duly.errors import DulyError, NotFound, see, short
from duly.faces.web.body import read_pairs
from duly.faces.web.connect import ask_foreign
from duly.faces.web.drawing import mutation_of
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.hook import find_reach
from duly.faces.web.lack import Lacks
from duly.faces.web.look import Sheet
from duly.faces.web.query import (
    DID,
    NARROWING,
    ROWS,
    SOUGHT,
    further,
    look_empty,
    older,
    read_query,
)
from duly.faces.web.stream import Show, still
from duly.words.page import name_event

PAIR: Final = ".."  # between two versions that are compared
TIMES: Final = 10
SEARCHES_MAX: Final = 10  # of one text, to fill a page whose status few have
FORMS_MAX: Final = 10  # of changes that one page asks for, to show each in the form of its tool


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entries of the pages of a workflow."""
    read, lacks = {"GET": Scope.READ}, Lacks()
    first, last = partial(inputs, lacks), partial(setup, lacks)
    yield Entry("/w/{name}", _unless(live(first), still(first), *NARROWING), read)
    filtered = _unless(live(outputs), still(outputs), "text", "status")
    yield Entry("/w/{name}/outputs", filtered, read)
    yield Entry("/w/{name}/runs", live(runs), read)
    yield Entry("/w/{name}/versions", live(versions), read)
    yield Entry("/w/{name}/versions/{pair}", still(version), read)
    yield Entry("/w/{name}/setup", live(last), read)


def _unless(followed: Endpoint, searched: Endpoint, *names: str) -> Endpoint:
    """Follow a page, unless its address searches: then it is made once, because that costs more."""

    async def endpoint(request: Request) -> Response:
        asked = dict(read_pairs(request.url.query))
        return await (searched if any(map(asked.get, names)) else followed)(request)

    return endpoint


async def _waiting(session: Session, name: str) -> dict[str, Any]:
    """Ask what of a workflow needs a person; it stands on its first page."""
    waiting: list[Any] = []
    after: str | None = name  # keys begin with the name, so that what waits there comes first
    while after is not None:
        found: Any = await session.call("attention", limit=ROWS, after=after)
        own = [each for each in found if each["workflow"] == name]
        waiting += own
        after = found[-1]["key"] if len(own) == ROWS else None
    approvals = await ask_forms(session, waiting, workflow=name)
    forms = await ask_unknown(session, waiting, approvals)
    return {"waiting": waiting, "approvals": approvals, "forms": forms}


async def ask_forms(
    session: Session, waiting: Sequence[Mapping[str, Any]], **narrow: str
) -> dict[str, Any]:
    """Ask for the calls that wait, in the form of their tools; nothing is asked if none does."""
    if not any(each["observed"] for each in waiting):
        return {}
    found: Any = await session.call("approvals", limit=PAGE_ROWS_MAX, **narrow)
    return {each["mutation"]: each for each in found}


async def ask_did(request: Request) -> dict[str, Any] | None:
    """Ask what became of the call that was just decided; it stands above what waits now."""
    did = dict(read_pairs(request.url.query)).get(DID)
    if not did:
        return None
    session = visit_of(request).session
    try:
        each: Any = await session.call("mutation", id=did)
        told: Any = await session.call("why", id=each["id"])
    except DulyError:  # an address that a person wrote
        return None
    decided = {"status": each["status"], "is_approved": each["approved_by"] is not None}
    return {"id": each["id"], "decided": decided, "text": told["reason"]["text"]}


async def ask_unknown(
    session: Session, waiting: Sequence[Mapping[str, Any]], approvals: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask for the form of calls whose outcome a person is to settle: they wait for no yes (A3)."""
    found = [mutation_of(each["offers"]) for each in waiting if each["observed"]]
    lacking = [each for each in found if each and each not in approvals]
    told: list[Any] = [await session.call("mutation", id=each) for each in lacking[:FORMS_MAX]]
    return {each["id"]: each["form"] for each in told}


@dataclass(frozen=True, slots=True)
class Found:
    """What a search met; `after` says where it goes on, if it did not see everything."""

    hits: list[Any]
    after: str | None


async def _search(session: Session, name: str, status: object, sought: dict[str, Any]) -> Found:
    """Search a workflow for a text or for days; a status narrows what is found."""
    found: Any = await session.call("find", workflow=name, limit=ROWS, **sought)
    hits = [each for each in found["hits"] if status in (None, name_event(each))]
    for _ in range(SEARCHES_MAX - 1):
        # What ended before it was full has looked at as much as one question may.
        if found["after"] is None or len(hits) >= ROWS or len(found["hits"]) < ROWS:
            break
        args = {**sought, "after": found["after"]}
        found = await session.call("find", workflow=name, limit=ROWS, **args)
        hits += [each for each in found["hits"] if status in (None, name_event(each))]
    return Found(hits, found["after"])


async def inputs(lacks: Lacks, request: Request) -> Sheet:
    """Show what came into a workflow and what came of each."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["inputs"], ("status", "before"))
    sought = read_query(request, VERBS["find"], SOUGHT)
    text = sought.get("text", "")
    is_asked = any(map(sought.get, NARROWING))
    statuses = [*map(str, InputStatus)]
    facts = {"each": each, **await _waiting(session, name), "text": text, "sought": sought}
    facts["did"] = await ask_did(request)
    facts |= {"query": query, "is_asked": is_asked}
    facts |= {"statuses": statuses, "hits": [], "inputs": [], "older": "", "empty": "match"}
    facts["lacks"] = await lacks.find(session, each)
    facts["hooks"] = await session.call("hooks", workflow=name)
    if is_asked:
        query.pop("before", None)
        found = await _search(session, name, query.get("status"), sought)
        empty = look_empty(found.after, is_later="after" in sought)
        told = {"hits": found.hits, "empty": empty}
        return Sheet(
            "inputs.html", {**facts, **told, "older": further({**query, **sought}, found.after)}
        )
    came: Any = await session.call("inputs", workflow=name, limit=ROWS, **query)
    return Sheet("inputs.html", {**facts, "inputs": came, "older": older(query, came, "seq")})


async def outputs(request: Request) -> Sheet:
    """Show what a workflow made, and what each goes back to."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["outputs"], ("before",))
    asked = dict(read_pairs(request.url.query))
    wanted = {field: asked[field] for field in ("text", "status") if asked.get(field)}
    limit = PAGE_ROWS_MAX if wanted else ROWS
    made: Any = await session.call("outputs", workflow=name, limit=limit, **query)
    shown = [one for one in made if _is_wanted(one, wanted)]
    last = None
    if len(shown) >= ROWS or len(made) == limit:
        shown = shown[:ROWS]
        last = shown[-1]["key"] if len(shown) == ROWS else made[-1]["key"]
    query |= wanted
    facts = {
        "outputs": shown,
        "older": urlencode({**query, "before": last}) if last else "",
        "query": query,
        "statuses": [*map(str, OutputStatus)],
        "empty": look_empty(last, is_later="before" in query),
    }
    return Sheet("outputs.html", {"each": each, **facts})


def _is_wanted(output: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Tell whether an output has a status, and a text in its tool, its claim or its inputs."""
    if wanted.get("status", output["status"]) != output["status"]:
        return False
    tool = output["observed"]["tool"] if output["observed"] else output["id"]
    told = (tool, output["claimed"] or "", *output["inputs"])
    text = wanted.get("text", "").casefold()
    return any(text in each.casefold() for each in told)


async def runs(request: Request) -> Sheet:
    """Show the runs of a workflow."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["runs"], ("status", "handler", "before"))
    found: Any = await session.call("runs", workflow=name, limit=ROWS, **query)
    more = {"runs": found, "older": older(query, found, "id"), "query": query}
    statuses = [*map(str, Status)]
    return Sheet("runs.html", {"each": each, "statuses": statuses, **more})


async def versions(request: Request) -> Sheet:
    """Show the versions of a workflow; one that was proposed can be adopted."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["versions"], ("before",))
    found: Any = await session.call("versions", workflow=name, limit=ROWS, **query)
    newest: Any = found
    if query:  # what a version was adopted as is a newer one
        newest = await session.call("versions", workflow=name, limit=PAGE_ROWS_MAX)
    facts = {
        "versions": found,
        "newest": newest,
        "older": older(query, found, "version"),
        "source": await session.call("source", workflow=name),
    }
    return Sheet("versions.html", {"each": each, **facts})


async def version(request: Request) -> Sheet:
    """Show one version, or what is different between two: text, capabilities, past runs."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    old, _, new = request.path_params["pair"].partition(PAIR)
    told: dict[str, Any] = {"each": each, "old": old, "new": new, "what_if": None, "diff": ""}
    told["version"] = await _find_version(session, name, new or old)
    told["source"] = await session.call("source", workflow=name, version=new or old)
    told["uses"], told["uses_before"] = await _uses(session, name, new or old), None
    if new:
        told["diff"] = await session.call("diff", workflow=name, a=old, b=new)
        told["uses_before"] = await _uses(session, name, old)
        if dict(read_pairs(request.url.query)).get("what_if"):
            source = {"language": told["version"]["language"], "text": told["source"]}
            told["what_if"] = await session.call("what_if", workflow=name, source=source)
    return Sheet("version.html", told)


async def _find_version(session: Session, name: str, wanted: str) -> Any:
    """Find a version among all of a workflow, the newest first."""
    query: dict[str, Any] = {}
    while True:
        args = {"workflow": name, "limit": PAGE_ROWS_MAX, **query}
        found: Any = await session.call("versions", **args)
        for one in found:
            if one["version"] == wanted:
                return one
        if len(found) < PAGE_ROWS_MAX:
            facts = {"workflow": name}
            raise NotFound(
                code="no_version", subject=short(wanted), facts=facts, next=see("versions")
            )
        query = {"before": found[-1]["version"]}


async def _uses(session: Session, name: str, version: str) -> list[str] | None:
    """Ask which capabilities a version uses; None, if its text cannot be examined here."""
    try:
        found: Any = await session.call("uses", workflow=name, version=version)
    except DulyError:
        return None
    return list(found)


async def setup(lacks: Lacks, request: Request) -> Sheet:
    """Show what a workflow may do, when it runs, and the form that publishes something."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    facts = {
        "each": each,
        "lacks": await lacks.find(session, each),
        "grants": await session.call("grants", workflow=name),
        "allowances": await session.call("allowances", workflow=name, limit=ROWS),
        "upcoming": await session.call("upcoming", workflow=name, times=TIMES),
        "hooks": await session.call("hooks", workflow=name),
        "senders": [*map(str, HookSender)],
        "gives_secret": [*map(str, GIVES_SECRET)],
        "ids_from": [*map(str, IdFrom)],
        "reach": asdict(find_reach(request)),
        "foreign": await ask_foreign(visit_of(request)),
    }
    return Sheet("setup.html", facts)
