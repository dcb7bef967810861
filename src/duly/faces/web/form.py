"""The forms of all pages: each posts one verb, or one verb for each thing that was ticked.

Law 1  A form is followed by a 303, so that a reload sends nothing again; only what is shown once,
       what became of each of several, and what came of an act that changed nothing or something
       else than a person expects, is answered at once.
Law 2  An approval carries the hash that was shown (G11), and each answer to what was shown what
       that was: a form without it decides nothing.
Law 3  Where a browser is sent afterwards is a page of ours: a request names it, and gives no
       address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from duly.api.registry import Scope, Verb
from duly.api.session import Session
from duly.api.value import Json
from duly.errors import DulyError, Invalid, short
from duly.faces.web.body import BODY_BYTES_MAX, Large, read_arguments, read_pairs
from duly.faces.web.guard import Endpoint, Entry, visit_of
from duly.faces.web.hook import find_reach
from duly.faces.web.look import Sheet, refuse, render
from duly.faces.web.query import DID, ROWS
from duly.faces.web.sign import SEE_OTHER, read_form
from duly.faces.web.stream import still
from duly.faces.web.verb import compare
from duly.words.done import say_curl, tell_done

BACK: Final = "back"  # the page that a form was on: its kind, a slash, a name
PLACES: Final = ("w", "runs", "m", "i", "bus", "connect", "settings", "doctor", "tools")
SHOWN_ONCE: Final = frozenset({"new_token", "pair"})
HOOK: Final = "new_hook"  # shown once too, with its address
LINK: Final = "new_link"
DECIDES: Final = ("approve", "reject")
DEPLOY: Final = "deploy"
ANYWAY: Final = "anyway"  # a source is deployed whose connections are not all here
CONFLICT: Final = 409
ADOPT: Final = "adopt"
RIGHT: Final = ("workflow", "capability")  # what names one
PUBLISH: Final = "publish"
WRITE: Final = "write"  # what was written is a proposal, and shown as one
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")  # what a phone cannot reach
CALL: Final = "call."  # before the id of a call that was ticked; its value is the hash shown
INPUT: Final = "input."  # before the number of an input that was ticked
SEEN: Final = "seen"  # what was shown: the hash of a call, or how often it was sent
SOURCE: Final = ("language", "text")
ARGUMENT: Final = "args."  # before the name of an argument of a call that a person amends
ONCE: Final = "once"  # what one form has that no other has: sent twice, it is one event
ONCE_CHARS_MAX: Final = 64
SEQ_DIGITS_MAX: Final = 18
# What came of an act, where the page it goes back to does not show it: it is told (U6).
IS_TOLD: Final[Mapping[str, Callable[[Any], bool]]] = {
    "publish": lambda what: what != "new",
    "deploy": lambda made: not made["new"],
    "run_now": lambda count: count == 0,
    **dict.fromkeys(("bus.cancel", "bus.resume", "decline", "skip"), lambda is_done: not is_done),
}


@dataclass(frozen=True, slots=True)
class Ticked:
    """One of several things that were ticked: where it is shown, what it is, why it was refused."""

    place: str
    name: str
    claimed: str
    refused: str | None


def list_entries(verbs: Mapping[str, Verb]) -> Iterator[Entry]:
    """Make a form for every act, and those of several things at once."""
    large = Large()
    for verb in verbs.values():
        if not verb.is_question:
            yield Entry(f"/act/{verb.name}", _form_of(verb, large), {"POST": verb.scope})
    yield Entry("/right", still(look_at_right), {"GET": Scope.DECIDE})
    yield Entry("/approve", approve, {"POST": Scope.DECIDE})
    yield Entry("/skip", skip, {"POST": Scope.DECIDE})


def _form_of(verb: Verb, large: Large) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        # A script, or a payload, may be as long as over the HTTP interface.
        form = await read_form(request, BODY_BYTES_MAX)
        async with large.turn(sum(map(len, form.values()))):
            return await act(request, form)

    async def act(request: Request, form: dict[str, str]) -> Response:
        session = visit_of(request).session
        back, is_sure = form.pop(BACK, ""), form.pop(ANYWAY, "") == "true"
        args: dict[str, Json] = {}
        try:
            args = _read(verb, _with_id(verb, form))
            _check_unseen(verb, args)
            asks = verb.name == DEPLOY and not is_sure
            if asks and (lacking := await _find_lacking(session, args)):
                given = {"lacking": lacking, "args": args, "back": back}
                return render(request, "lacking.html", CONFLICT, **given)
            answer: Any = await session.call(verb.name, **args)
        except DulyError as error:
            if error.code == "right_changed" and verb.name == "grant":
                facts = await _show_right(session, args, back, is_changed=True)
                return render(request, "grant.html", CONFLICT, **facts)
            is_changed = error.code == "not_as_shown"
            sides = await compare(session, error, args) if is_changed else {}
            return refuse(request, error, sides)
        if verb.name == HOOK:
            return _show_hook(request, answer, place_of(back))
        if verb.name in SHOWN_ONCE:
            told = tell_done(verb.name, answer, args).sentence
            return render(request, "once.html", told=told, answer=answer, place=place_of(back))
        if verb.name in IS_TOLD and IS_TOLD[verb.name](answer):
            told = tell_done(verb.name, answer, args).sentence
            return render(request, "done.html", told=told, place=place_of(back))
        if verb.name == WRITE:
            place = f"/proposals/{answer['proposal']['hash']}?tried=1"
            return RedirectResponse(f"{request.scope.get('root_path', '')}{place}", SEE_OTHER)
        if verb.name == LINK:
            return _show_link(request, answer, place_of(back))
        return go(request, back, did=str(args["mutation"]) if verb.name in DECIDES else "")

    return endpoint


def _check_unseen(verb: Verb, args: Mapping[str, Json]) -> None:
    """Refuse what gives or replaces something without saying what was shown of it (law 2)."""
    path = None
    if verb.name in (DEPLOY, ADOPT) and args.get("grant"):
        path = "rights"
    if verb.name == HOOK and args.get("replace") and args.get("over") is None:
        path = "over"
    if path is not None:
        raise Invalid(code="missing", path=path, facts={"of": verb.name})


async def look_at_right(request: Request) -> Sheet:
    """Show what stands of a right before it is given, or limited in another way."""
    query = dict(read_pairs(request.url.query))
    for each in RIGHT:
        if not query.get(each):
            raise Invalid(code="missing", path=each, facts={"of": "right"})
    back = f"w/{query['workflow']}/setup"
    session = visit_of(request).session
    return Sheet("grant.html", await _show_right(session, query, back, is_changed=False))


async def _show_right(
    session: Session, args: Mapping[str, Any], back: str, *, is_changed: bool
) -> dict[str, Any]:
    each: Any = await session.call("right", **{name: args[name] for name in RIGHT})
    return {"each": each, "back": back, "is_changed": is_changed}


async def _find_lacking(session: Session, args: Mapping[str, Json]) -> list[str]:
    """Name the connections that a source uses, and that the host does not have."""
    try:
        told: Any = await session.call("preview", source=args.get("source"), text_only=True)
    except DulyError:
        return []  # what is wrong with the source is said by the deploy
    return list(told["lacking"]) if told else []


def _with_id(verb: Verb, form: Mapping[str, str]) -> dict[str, str]:
    """Name what is published without a message id: by its form and its content (T3).

    The same form sent twice is one event. Equal contents of two forms, and two contents of one
    form that a browser went back to, are two: none takes the place of the other in silence.
    """
    fields = dict(form)
    once = fields.pop(ONCE, "")
    if verb.name != PUBLISH or fields.get("message_id") or not once:
        return fields
    if len(once) > ONCE_CHARS_MAX:
        facts = {"limit": ONCE_CHARS_MAX, "unit": "characters"}
        raise Invalid(code="too_long", path=ONCE, facts=facts)
    content = msgspec.json.encode([once, sorted(fields.items())])
    return {**fields, "message_id": f"page:{sha256(content).hexdigest()[:32]}"}


def _show_hook(request: Request, hook: Any, place: str) -> Response:
    """Show a webhook that was opened, with the whole address that a sender posts to (G12)."""
    reach = find_reach(request)
    paths = [f"{base}{hook['path']}" for base in reach.bases] or [hook["path"]]
    curl = say_curl({**hook, "path": paths[0]})
    facts: dict[str, Any] = {"hook": hook, "paths": paths, "curl": curl, "place": place}
    return render(request, "hook.html", is_named=reach.is_named, **facts)


def _show_link(request: Request, link: Any, place: str) -> Response:
    """Show a link that signs a browser in, also as a picture that a phone reads (G6)."""
    host = request.headers["host"]
    scheme = "https" if visit_of(request).is_secure else "http"
    query = urlencode({"code": link["code"]})
    url = f"{scheme}://{host}{request.scope.get('root_path', '')}/sign-in?{query}"
    is_only_here = host.startswith(LOOPBACK)
    return render(request, "link.html", url=url, is_only_here=is_only_here, place=place)


def _read(verb: Verb, form: Mapping[str, str]) -> dict[str, Json]:
    """Read the fields of a form; an optional one that was left empty says nothing."""
    optional = {each.name for each in verb.parameters if not each.is_required}
    fields = {name: text for name, text in form.items() if text or name not in optional}
    # A browser sends every line of a field with the line end of Windows.
    source = {
        name: fields.pop(f"source.{name}").replace("\r\n", "\n")
        for name in SOURCE
        if f"source.{name}" in fields
    }
    amended = {
        name.removeprefix(ARGUMENT): fields.pop(name).replace("\r\n", "\n")
        for name in tuple(fields)
        if name.startswith(ARGUMENT)
    }
    args = read_arguments(verb, fields.items())
    if args.get(SEEN) is None and any(each.name == SEEN for each in verb.parameters):
        raise Invalid(code="missing", path=SEEN, facts={"of": verb.name})
    wholes: dict[str, Json] = {"source": dict(source), "args": dict(amended)}
    return {**args, **{name: whole for name, whole in wholes.items() if whole}}


async def approve(request: Request) -> Response:
    """Approve the calls that were ticked, each with the hash that was shown (A3)."""
    form = await read_form(request)
    calls: Json = {
        name.removeprefix(CALL): seen for name, seen in form.items() if name.startswith(CALL)
    }
    if not calls:
        raise Invalid(code="missing", path="calls", facts={"of": "approve_all"})
    answer: Any = await visit_of(request).session.call("approve_all", calls=calls)
    session, rows = visit_of(request).session, []
    for number, each in enumerate(answer):
        about: Any = {"tool": each["mutation"], "title": ""}
        if number < ROWS:  # as many as one page can show
            with suppress(DulyError):  # an id that is none
                about = await session.call("mutation", id=each["mutation"])
        place = place_of(f"m/{each['mutation']}")
        rows.append(Ticked(place, about["tool"], about["title"], each["refused"]))
    return render(request, "several.html", verb="approved", rows=rows, place=place_of(""))


async def skip(request: Request) -> Response:
    """Skip the inputs that were ticked; what one refuses keeps no other from it (U3)."""
    form = await read_form(request)
    session = visit_of(request).session
    rows: list[Ticked] = []
    for name, text in form.items():
        if not name.startswith(INPUT):
            continue
        given = _read_input(name, text)
        refused = None
        try:
            await session.call("skip", **given)
        except DulyError as error:
            refused = str(error)
        seq = name.removeprefix(INPUT)
        place, title = place_of(f"i/{given['workflow']}/{seq}"), str(given["message_id"])
        if len(rows) < ROWS:
            title = await _title(session, given, seq) or title
        rows.append(Ticked(place, title, "", refused))
    if not rows:
        raise Invalid(code="missing", path="input", facts={"of": "skip"})
    place = place_of(form.get(BACK, ""))
    return render(request, "several.html", verb="skipped", rows=rows, place=place)


async def _title(session: Session, given: Mapping[str, Json], seq: str) -> str:
    """Return the title of an input that was ticked; nothing, if its number is that of another."""
    if not (seq.isdecimal() and seq.isascii() and 0 < len(seq) <= SEQ_DIGITS_MAX and int(seq)):
        return ""
    found: Any = []
    with suppress(DulyError):
        found = await session.call(
            "events", workflow=given["workflow"], limit=1, after=int(seq) - 1
        )
    known = (given["topic"], given["message_id"])
    return next((e["title"] for e in found if (e["topic"], e["message_id"]) == known), "")


def _read_input(name: str, text: str) -> dict[str, Json]:
    """Read the topic and the message id of an input that was ticked."""
    try:
        workflow, topic, message_id = msgspec.json.decode(text, type=tuple[str, str, str])
    except msgspec.DecodeError as error:
        facts = {"cause": short(error)}
        raise Invalid(code="wrong_shape", path=name, facts=facts) from None
    return {"workflow": workflow, "topic": topic, "message_id": message_id}


def go(request: Request, back: str, *, did: str = "") -> Response:
    """Send a browser to the page that a form was on; a list says there what became of `did`."""
    place = place_of(back)
    is_list = place == "/" or place.startswith("/w/")
    query = f"?{urlencode({DID: did})}" if did and is_list else ""
    return RedirectResponse(f"{request.scope.get('root_path', '')}{place}{query}", SEE_OTHER)


def place_of(back: str) -> str:
    """Return the path of a page that is named; the first page, if it is none of ours (law 3)."""
    kind, *names = back.split("/")
    if kind not in PLACES or any(each in ("", ".", "..") for each in names):
        return "/"
    return "/" + "/".join([kind, *(quote(each, safe="") for each in names)])
