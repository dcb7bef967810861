"""Adding a connection on the page, and starting the host again: for a person who has it alone.

Law 1  The page knows no file and no kind: the host says what can be added, and writes it.
Law 2  What was typed stays in the form when it is refused, each error beside its field; a secret is
       typed again. Where a page refuses what a command may do, the command is shown, complete.
Law 3  A browser that asked for a new beginning gets its next page from the new host: its answer
       waits until the old one has gone, and its next request waits at the socket that stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from duly.api.clock import Loop
from duly.api.command_text import (
    EXAMPLES,
    is_beyond,
    list_notes,
    write_command,
    write_own_network,
)
from duly.api.registry import Scope
from duly.api.session import Session
from duly.errors import DulyError, Invalid, NotFound, short
from duly.faces.web.body import BODY_BYTES_MAX, Large, read_pairs
from duly.faces.web.form import ONCE, go
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.look import Sheet, render
from duly.faces.web.problem import status_of
from duly.faces.web.sign import read_form
from duly.faces.web.stream import Show
from duly.words.openapi import say_omitted

SETTING: Final = "settings."
SECRET: Final = "secrets."
NAME: Final = "name"
NAME_CODES: Final = frozenset({"connection_there", "name_used_before"})
FORM_CHARS_MAX: Final = 500
LOOK_S: Final = 0.2
LOOKS_MAX: Final = 150
NOTHING_WRONG: Final[Mapping[str, Any]] = {
    "wrong": {},
    "refused": "",
    "command": "",
    "notes": (),
}
GONE_S: Final = 1.0  # until this process lets no browser in any more


def list_entries(still: Callable[[Show], Endpoint]) -> Iterator[Entry]:
    """Make the entries of the kinds, of the form of one, and of the two acts."""
    yield Entry("/add", still(kinds), {"GET": Scope.ADMIN})
    yield Entry("/add/{use}", still(one), {"GET": Scope.ADMIN})
    yield Entry("/add-connection", _form(Large()), {"POST": Scope.ADMIN})
    yield Entry("/restart", restart, {"POST": Scope.ADMIN})


async def ask_settings(session: Session) -> Any:
    """Ask how the settings stand to those of the host; nothing where there is no project."""
    found: Any = await session.call("settings")
    return found if found and found["has_project"] else None


async def list_here(session: Session) -> list[str]:
    """List the connections that are here by name, so that none is added a second time."""
    found: Any = await session.call("connections")
    return [each["name"] for each in found]


async def kinds(request: Request) -> Sheet:
    """Show what can be added."""
    session = visit_of(request).session
    name = _asked_name(request)
    found = await session.call("kinds")
    facts = {"kinds": found, "name": name, "examples": EXAMPLES, "here": await list_here(session)}
    return Sheet("kinds.html", facts)


async def one(request: Request) -> Sheet:
    """Show the form of one kind."""
    kind = await _find(visit_of(request).session, request.path_params["use"])
    typed = {NAME: _asked_name(request) or kind["use"]}
    facts = {"kind": kind, "typed": typed, "own": _own_network(kind, typed)}
    return Sheet("add.html", {**facts, **NOTHING_WRONG})


def _own_network(kind: Mapping[str, Any], typed: Mapping[str, str]) -> tuple[str, str] | None:
    examples = {each["name"]: each["example"] for each in kind["fields"]}
    return write_own_network(kind["use"], typed.get(NAME, ""), examples)


def _form(large: Large) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        form = await read_form(request, BODY_BYTES_MAX)  # the text of a service may be long
        async with large.turn(sum(map(len, form.values()))):
            return await add(request, form)

    return endpoint


async def add(request: Request, form: Mapping[str, str]) -> Response:
    """Add what was typed, or show the form again with all that is wrong (law 2)."""
    session = visit_of(request).session
    kind = await _find(session, form.get("use", ""))
    try:
        made: Any = await session.call(
            "add_connection",
            use=kind["use"],
            name=form.get(NAME, ""),
            settings=_below(form, SETTING),
            secrets=_below(form, SECRET),
            once=form.get(ONCE, ""),
        )
    except DulyError as error:
        typed = {name: text for name, text in form.items() if not name.startswith(SECRET)}
        told = {"kind": kind, "typed": typed, "own": _own_network(kind, typed)}
        told |= _tell(kind, form, error)
        return render(request, "add.html", status_of(error), **told)
    if made["omitted"]:
        said = say_omitted(made["name"], made["omitted"])
        return render(request, "done.html", told=said, place="/tools")
    return go(request, "tools")


def _tell(kind: Mapping[str, Any], form: Mapping[str, str], error: DulyError) -> dict[str, Any]:
    """Say all that is wrong: each error with its field, and the command where there is one."""
    errors = [error, *(Invalid(**each) for each in error.facts.get("also", ()))]
    names = {NAME}
    names |= {f"{SETTING}{each['name']}" for each in kind["fields"]}
    names |= {f"{SECRET}{each['name']}" for each in kind["secrets"]}
    wrong: dict[str, str] = {}
    refused = ""
    for each in errors:
        if (field := _field(each)) in names:
            wrong.setdefault(field, str(each))
        else:
            refused = refused or str(each)
    told = {"wrong": wrong, "refused": refused, "command": "", "notes": []}
    if any(is_beyond(each.code, each.facts.get("wanted")) for each in errors):
        typed = _below(form, SETTING)
        told["command"] = write_command(kind["use"], form.get(NAME, ""), typed)
        told["notes"] = list_notes(kind["use"], typed)
    return told


async def restart(request: Request) -> Response:
    """Let the host begin again, and answer when the old one has gone (law 3)."""
    form = await read_form(request)
    session = visit_of(request).session
    await session.call("restart")
    await _until_gone(session)
    return go(request, form.get("back", "") or "tools")


async def _until_gone(session: Session) -> None:
    """Return when the host does not answer any more, or after half a minute."""
    env = Loop()
    try:
        for _ in range(LOOKS_MAX):
            try:
                await session.call("writes")
            except DulyError as error:
                if error.code == "host_gone":
                    await env.sleep(GONE_S)
                    return
            await env.sleep(LOOK_S)
    finally:
        env.close()


async def _find(session: Session, use: str) -> Any:
    found: Any = await session.call("kinds")
    kind = next((each for each in found if each["use"] == use), None)
    if kind is None:
        raise NotFound(code="no_page", subject=short(use))
    return kind


def _below(form: Mapping[str, str], begin: str) -> dict[str, Any]:
    return {name.removeprefix(begin): text for name, text in form.items() if name.startswith(begin)}


def _field(error: DulyError) -> str:
    """Name the field of the form that is wrong, if the error is about one."""
    if isinstance(error, Invalid):
        return error.path
    if error.code in NAME_CODES:
        return NAME
    if error.facts.get("field"):
        return f"{SETTING}{error.facts['field']}"
    cause = str(error.facts.get("cause", ""))  # a connector names the argument first
    return f"{SETTING}{cause.partition(':')[0].partition(' ')[0]}"


def _asked_name(request: Request) -> str:
    return dict(read_pairs(request.url.query)).get(NAME, "")[:FORM_CHARS_MAX]
