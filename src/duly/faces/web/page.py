"""The pages: what needs a person, workflows, runs, changes, acts, and the forms of all of them.

Law 1  A form posts one verb and is followed by a 303, so that a reload sends nothing again. An
       approval carries the hash that was shown (G11).
Law 2  Facts come from verbs, sentences from `words` with the answer; a page adds labels alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from duly.api.page import PAGE_ROWS_MAX
from duly.api.registry import VERBS, Scope, Verb
from duly.errors import DulyError
from duly.faces.web.body import read_arguments, read_pairs
from duly.faces.web.guard import OPEN, Endpoint, Entry, visit_of
from duly.faces.web.look import refuse, render, style_sheet
from duly.faces.web.sign import SEE_OTHER, read_form
from duly.faces.web.verb import compare

ROWS: Final = 50  # of what came in, was done or was found, on one page
BACK: Final = "back"  # the workflow that a form was on; a name, never an address


def list_entries(verbs: Mapping[str, Verb]) -> Iterator[Entry]:
    """Make the entries of pages, and a form for every act."""
    yield Entry("/static/page.css", style, {"GET": OPEN})
    yield Entry("/", home, {"GET": Scope.READ})
    yield Entry("/w/{name}", workflow, {"GET": Scope.READ})
    yield Entry("/runs/{id}", run, {"GET": Scope.READ})
    yield Entry("/m/{id}", mutation, {"GET": Scope.READ})
    yield Entry("/find", find, {"GET": Scope.READ})
    yield Entry("/actions", actions, {"GET": Scope.READ})
    yield Entry("/settings", settings, {"GET": Scope.ADMIN})
    for verb in verbs.values():
        if not verb.is_question:
            yield Entry(f"/act/{verb.name}", _form_of(verb), {"POST": verb.scope})


async def style(request: Request) -> Response:
    """Send the style sheet."""
    headers = {"Cache-Control": "public, max-age=3600"}
    return Response(style_sheet(), headers=headers, media_type="text/css")


async def home(request: Request) -> Response:
    """Show what needs a person, and all workflows."""
    session = visit_of(request).session
    waiting: Any = await session.call("attention", limit=ROWS)
    workflows: Any = await session.call("workflows", limit=PAGE_ROWS_MAX)
    return render(request, "home.html", waiting=waiting, workflows=workflows)


async def workflow(request: Request) -> Response:
    """Show one workflow: how it stands, what came in and what came of it."""
    session = visit_of(request).session
    name = request.path_params["name"]
    found: Any = await session.call("workflow", name=name)
    query = read_query(request, VERBS["inputs"], ("status", "before"))
    inputs: Any = await session.call("inputs", workflow=name, limit=ROWS, **query)
    waiting: Any = await session.call("attention", limit=PAGE_ROWS_MAX)
    own = [each for each in waiting if each["workflow"] == name]
    older = _older(query, inputs, "seq")
    return render(request, "workflow.html", each=found, inputs=inputs, older=older, waiting=own)


async def run(request: Request) -> Response:
    """Show one run: why it stands as it does, what its script said, its error."""
    session = visit_of(request).session
    each: Any = await session.call("run", id=request.path_params["id"])
    why: Any = await session.call("why", id=each["id"])
    logs: Any = await session.call("logs", run=each["id"])
    return render(request, "run.html", each=each, why=why, logs=logs)


async def mutation(request: Request) -> Response:
    """Show one change: the call that was observed, and how its outcome became known."""
    session = visit_of(request).session
    each: Any = await session.call("mutation", id=request.path_params["id"])
    why: Any = await session.call("why", id=each["id"])
    return render(request, "mutation.html", each=each, why=why)


async def find(request: Request) -> Response:
    """Find events by the beginning of their message id, or by a text in their title."""
    query = read_query(request, VERBS["find"], ("text", "after"))
    found: Any = {"hits": [], "after": None}
    if query.get("text"):
        found = await visit_of(request).session.call("find", limit=ROWS, **query)
    older = urlencode({**query, "after": found["after"]}) if found["after"] else ""
    text = query.get("text", "")
    return render(request, "find.html", hits=found["hits"], text=text, older=older)


async def actions(request: Request) -> Response:
    """Show who did what."""
    query = read_query(request, VERBS["actions"], ("workflow", "before"))
    done: Any = await visit_of(request).session.call("actions", limit=ROWS, **query)
    return render(request, "actions.html", actions=done, older=_older(query, done, "id"))


def read_query(request: Request, verb: Verb, known: Sequence[str]) -> dict[str, Any]:
    """Read what of a query a page gives on to its question; an empty field says nothing."""
    pairs = read_pairs(request.url.query)
    return read_arguments(verb, [pair for pair in pairs if pair[0] in known and pair[1]])


def _older(query: Mapping[str, Any], entries: Sequence[Any], field: str) -> str:
    """Return the query of the next page, if this one is full."""
    if len(entries) < ROWS:
        return ""
    return urlencode({**query, "before": entries[-1][field]})


async def settings(request: Request) -> Response:
    """Show the tokens and the devices, each of which can be revoked."""
    tokens: Any = await visit_of(request).session.call("tokens")
    return render(request, "settings.html", tokens=tokens)


def _form_of(verb: Verb) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        session = visit_of(request).session
        form = await read_form(request)
        back = form.pop(BACK, "")
        try:
            args = read_arguments(verb, form.items())
            await session.call(verb.name, **args)
        except DulyError as error:
            is_changed = error.code == "not_as_shown"
            sides = await compare(session, args) if is_changed else {}
            return refuse(request, error, sides)
        root = request.scope.get("root_path", "")
        place = f"/w/{quote(back, safe='')}" if back else "/"
        return RedirectResponse(f"{root}{place}", SEE_OTHER)

    return endpoint
