"""The pages of one workflow: what came in, what came of it, its versions, how it is set up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request

from duly.api.page import PAGE_ROWS_MAX, HookSender
from duly.api.registry import VERBS, Scope
from duly.api.session import Session
from duly.errors import DulyError, NotFound, see, short
from duly.faces.web.body import read_pairs
from duly.faces.web.drawing import mutation_of
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.look import Sheet
from duly.faces.web.query import ROWS, older, read_query
from duly.faces.web.stream import Show, still

PAIR: Final = ".."  # between two versions that are compared
TIMES: Final = 10
FORMS_MAX: Final = 10  # of changes that one page asks for, to show each in the form of its tool


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entries of the pages of a workflow."""
    read = {"GET": Scope.READ}
    yield Entry("/w/{name}", live(inputs), read)
    yield Entry("/w/{name}/outputs", live(outputs), read)
    yield Entry("/w/{name}/runs", live(runs), read)
    yield Entry("/w/{name}/versions", live(versions), read)
    yield Entry("/w/{name}/versions/{pair}", still(version), read)
    yield Entry("/w/{name}/setup", live(setup), read)


async def _waiting(session: Session, name: str) -> dict[str, Any]:
    """Ask what of a workflow needs a person; it stands on its first page."""
    found: Any = await session.call("attention", limit=PAGE_ROWS_MAX)
    waiting = [each for each in found if each["workflow"] == name]
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


async def ask_unknown(
    session: Session, waiting: Sequence[Mapping[str, Any]], approvals: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask for the form of calls whose outcome a person is to settle: they wait for no yes (A3)."""
    found = [mutation_of(each["offers"]) for each in waiting if each["observed"]]
    lacking = [each for each in found if each and each not in approvals]
    told: list[Any] = [await session.call("mutation", id=each) for each in lacking[:FORMS_MAX]]
    return {each["id"]: each["form"] for each in told}


async def inputs(request: Request) -> Sheet:
    """Show what came into a workflow and what came of each."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["inputs"], ("status", "before"))
    text = dict(read_pairs(request.url.query)).get("text", "")
    facts = {"each": each, **await _waiting(session, name), "text": text, "query": query}
    if text:
        found: Any = await session.call("find", text=text, workflow=name, limit=ROWS)
        return Sheet("inputs.html", {**facts, "hits": found["hits"], "inputs": [], "older": ""})
    came: Any = await session.call("inputs", workflow=name, limit=ROWS, **query)
    more = {"hits": [], "inputs": came, "older": older(query, came, "seq")}
    return Sheet("inputs.html", {**facts, **more})


async def outputs(request: Request) -> Sheet:
    """Show what a workflow made, and what each goes back to."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["outputs"], ("before",))
    made: Any = await session.call("outputs", workflow=name, limit=ROWS, **query)
    more = {"outputs": made, "older": older(query, made, "key"), "query": query}
    return Sheet("outputs.html", {"each": each, **more})


async def runs(request: Request) -> Sheet:
    """Show the runs of a workflow."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["runs"], ("status", "handler", "before"))
    found: Any = await session.call("runs", workflow=name, limit=ROWS, **query)
    more = {"runs": found, "older": older(query, found, "id"), "query": query}
    return Sheet("runs.html", {"each": each, **more})


async def versions(request: Request) -> Sheet:
    """Show the versions of a workflow; one that was proposed can be adopted."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    found: Any = await session.call("versions", workflow=name, limit=ROWS)
    source = await session.call("source", workflow=name)
    more = {"versions": found, "source": source}
    return Sheet("versions.html", {"each": each, **more})


async def version(request: Request) -> Sheet:
    """Show one version, or what is different between two: text, capabilities, past runs."""
    session, name = visit_of(request).session, request.path_params["name"]
    each: Any = await session.call("workflow", name=name)
    old, _, new = request.path_params["pair"].partition(PAIR)
    found: Any = await session.call("versions", workflow=name, limit=PAGE_ROWS_MAX)
    known = {one["version"]: one for one in found}
    if (new or old) not in known:
        facts = {"workflow": name}
        raise NotFound(
            code="no_version", subject=short(new or old), facts=facts, next=see("versions")
        )
    told: dict[str, Any] = {"each": each, "old": old, "new": new, "what_if": None, "diff": ""}
    told["version"] = known[new or old]
    told["source"] = await session.call("source", workflow=name, version=new or old)
    told["uses"], told["uses_before"] = await _uses(session, name, new or old), None
    if new:
        told["diff"] = await session.call("diff", workflow=name, a=old, b=new)
        told["uses_before"] = await _uses(session, name, old)
        if dict(read_pairs(request.url.query)).get("what_if"):
            source = {"language": told["version"]["language"], "text": told["source"]}
            told["what_if"] = await session.call("what_if", workflow=name, source=source)
    return Sheet("version.html", told)


async def _uses(session: Session, name: str, version: str) -> list[str] | None:
    """Ask which capabilities a version uses; None, if its text cannot be examined here."""
    try:
        found: Any = await session.call("uses", workflow=name, version=version)
    except DulyError:
        return None
    return list(found)


async def setup(request: Request) -> Sheet:
    """Show what a workflow may do, when it runs, and the form that publishes something."""
    session, name = visit_of(request).session, request.path_params["name"]
    facts = {
        "each": await session.call("workflow", name=name),
        "grants": await session.call("grants", workflow=name),
        "allowances": await session.call("allowances", workflow=name, limit=ROWS),
        "upcoming": await session.call("upcoming", workflow=name, times=TIMES),
        "senders": [*map(str, HookSender)],
    }
    return Sheet("setup.html", facts)
