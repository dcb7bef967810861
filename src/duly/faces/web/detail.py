"""The pages of one thing: an input, a run, a change, and why something stands as it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.requests import Request

from duly.api.page import PAGE_ROWS_MAX
from duly.api.registry import Scope
from duly.api.session import Session
from duly.api.value import Json
from duly.api.word import MutationStatus
from duly.errors import DulyError, NotFound, see, short
from duly.faces.web.connect import ask_foreign
from duly.faces.web.drawing import mutation_of
from duly.faces.web.flow import FORMS_MAX, ask_forms, ask_unknown
from duly.faces.web.guard import Endpoint, Entry, Visit, visit_of
from duly.faces.web.look import Sheet
from duly.faces.web.stream import Show, still

NUMBER_DIGITS_MAX: Final = 18
BUS: Final = "bus:"  # before the number of an event of the bus
PREVIEW: Final = "/api/v1/preview"
SETTINGS: Final = "/settings"
ADOPT: Final = "adopt"
TRIED: Final = "tried"  # asks for examples with the data of today
PROPOSED: Final = str(MutationStatus.PROPOSED)


def list_entries(live: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entries of the pages of one thing."""
    yield Entry("/i/{name}/{seq}", live(event), {"GET": Scope.READ})
    yield Entry("/runs/{id}", live(run), {"GET": Scope.READ})
    yield Entry("/m/{id}", live(mutation), {"GET": Scope.READ})
    # It is tried for its viewer, so that it is not made anew at every change.
    yield Entry("/proposals/{id}", still(proposal), {"GET": Scope.READ})
    yield Entry("/why/{id}", live(why), {"GET": Scope.READ})


async def event(request: Request) -> Sheet:
    """Show one input with all that came of it, or an event that was made of inputs."""
    session, name = visit_of(request).session, request.path_params["name"]
    given = request.path_params["seq"]
    seq = int(given) if _is_number(given) else -1
    events: Any = []
    if seq > 0:
        events = await session.call("events", workflow=name, limit=1, after=seq - 1)
    if not events or events[0]["seq"] != seq:
        facts = {"workflow": name}
        raise NotFound(
            code="no_input", subject=short(given), facts=facts, next=see("events", workflow=name)
        )
    each = events[0]
    came: Any = await session.call("inputs", workflow=name, limit=1, before=seq + 1)
    certificate = await session.call(
        "certificate", id=each["message_id"], workflow=name, topic=each["topic"]
    )
    is_input = bool(came) and came[0]["seq"] == seq
    made = [one["id"] for one in came[0]["outputs"] if one["observed"]] if is_input else []
    forms = {one: await _form(session, one) for one in made[:FORMS_MAX]}
    told = {"workflow": name, "each": each, "certificate": certificate, "forms": forms}
    return Sheet("input.html", {**told, "came": came[0] if is_input else None})


async def _form(session: Session, change: str) -> Any:
    """Ask how the tool of a change shows it (A3)."""
    told: Any = await session.call("mutation", id=change)
    return told["form"]


async def run(request: Request) -> Sheet:
    """Show one run: why it stands as it does, what happened in which order, its error, its log."""
    session = visit_of(request).session
    each: Any = await session.call("run", id=request.path_params["id"])
    error = each["error"]
    source: Any = ""
    if error is not None and error["line"] is not None:
        source = await session.call("source", workflow=each["workflow"], version=each["version"])
    history: Any = await session.call("history", id=each["id"])
    told: Any = await session.call("why", id=each["id"])
    approvals = await ask_forms(session, [told])
    facts = {
        "each": each,
        "why": told,
        "approval": approvals.get(mutation_of(told["offers"])),
        "history": history,
        "form": await _form(session, history["mutation"]) if history["mutation"] else (),
        "logs": await session.call("logs", run=each["id"]),
        "source": source,
    }
    return Sheet("run.html", facts)


async def mutation(request: Request) -> Sheet:
    """Show one change: the call that was observed, and how its outcome became known."""
    session = visit_of(request).session
    each: Any = await session.call("mutation", id=request.path_params["id"])
    waiting: Any = []
    if each["status"] == PROPOSED:
        given = {"workflow": each["workflow"], "limit": PAGE_ROWS_MAX}
        waiting = await session.call("approvals", **given)
    facts = {
        "each": each,
        "folder": await _find_folder(visit_of(request), each["tool"]),
        "approval": next((one for one in waiting if one["mutation"] == each["id"]), None),
        "why": await session.call("why", id=each["id"]),
        "history": await session.call("history", id=each["id"]),
        "certificate": await session.call("certificate", id=each["id"]),
    }
    return Sheet("mutation.html", facts)


async def _find_folder(visit: Visit, tool: str) -> str | None:
    """Find the folder of the files that a tool works on, for a person who may see settings."""
    if not visit.may(SETTINGS):
        return None
    try:
        found: Any = await visit.session.call("connection", connector=tool.partition(".")[0])
    except NotFound:  # the connection was taken out of the settings since
        return None
    folder: str | None = found["folder"]
    return folder


async def proposal(request: Request) -> Sheet:
    """Show a source that is proposed: what it will do in words, what is different, its text."""
    visit = visit_of(request)
    told: Any = await visit.session.call("proposal", proposal=request.path_params["id"])
    each = told["proposal"]
    may_try = visit.may(f"/act/{ADOPT}")
    is_tried = may_try and request.query_params.get(TRIED) == "1"
    shown: Any = await _preview(visit, told, is_tried=is_tried) if visit.may(PREVIEW) else {}
    lacks = [one for one in shown.get("capabilities", ()) if not one["is_granted"]]
    past: Any = None
    if is_tried and each["current"] and each["replaces"]:
        past = await visit.session.call("what_if", workflow=each["workflow"], source=_source(told))
    facts = {"each": each, **told, "preview": shown.get("text", ""), "past": past, "lacks": lacks}
    facts["rights"] = {one["capability"]: one["seen"] for one in lacks}
    facts["foreign"] = await ask_foreign(visit)
    return Sheet("proposal.html", {**facts, "may_try": may_try, "is_tried": is_tried})


async def _preview(visit: Visit, told: Any, *, is_tried: bool) -> Any:
    """Say in words what a proposed source will do; where it cannot be read, say why (M9)."""
    given = {"text_only": not is_tried, "grant": is_tried}
    try:
        return await visit.session.call("preview", source=_source(told), **given)
    except DulyError as error:
        return {"text": str(error)}


def _source(told: Any) -> dict[str, Json]:
    each = told["proposal"]
    name = f"{each['workflow']} {each['hash'][:8]}"
    return {"language": each["language"], "text": told["source"], "name": name}


async def why(request: Request) -> Sheet:
    """Say why a run, a change, a workflow or an event of the bus stands as it does."""
    name = request.path_params["id"]
    session = visit_of(request).session
    told: Any = await session.call("why", id=name)
    approvals = await ask_forms(session, [told])
    forms = await ask_unknown(session, [told], approvals)
    change = mutation_of(told["offers"])
    approval = approvals.get(change)
    form = approval["form"] if approval else forms.get(change, ())
    facts = {"id": name, "why": told, "approval": approval, "form": form}
    return Sheet("why.html", {**facts, "event": await _bus_event(session, name)})


async def _bus_event(session: Session, name: str) -> Any:
    """Ask for the event of the bus that a name means, if it means one: its payload stands here."""
    number = name.removeprefix(BUS)
    if number == name or not _is_number(number):
        return None
    found: Any = await session.call("bus.journal", limit=1, before=int(number) + 1)
    return next((each for each in found if each["id"] == int(number)), None)


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= NUMBER_DIGITS_MAX
