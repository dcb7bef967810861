"""The breaks of HTTP: names, origins, cookies, scopes, links, tokens, webhooks, limits (G)."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from duly.api.page import PAGE_ROWS_MAX
from duly.desk.offer import OFFERS, Place
from duly.faces.web.guard import HEADERS
from duly.faces.web.stream import Written
from duly.fact import Offer
from duly.rules.catalog import has_lines
from duly.rules.verb import Scope
from duly.rules.word import Act
from tests.breaks import Break

GUARD = ("tests/web/test_guard.py",)
ROUTE = ("tests/web/test_route.py",)
BODY = ("tests/web/test_body.py",)
SIGN_IN = ("tests/web/test_sign_in.py",)
HOOK = ("tests/web/test_hook.py",)
TERMS = ("tests/web/test_hook_terms.py",)
ASKED = ("tests/web/test_when_asked.py",)
PASTE = ("tests/web/test_paste.py",)
SERVER = ("tests/web/test_server.py",)
PROCESS = ("tests/web/test_process.py",)
VERB = ("tests/web/test_verb.py",)
STREAM = ("tests/web/test_stream.py",)
RATE = ("tests/web/test_rate.py",)
ACT = ("tests/web/test_act.py",)
CONNECT = ("tests/web/test_connect.py",)
PACE = ("tests/web/test_pace.py",)
REPLAY = ("tests/web/test_replay.py",)
FORM = ("tests/words/test_form.py",)
CATALOG = "duly.rules.catalog"
SEARCH = ("tests/web/test_search.py",)
TRIAL = ("tests/web/test_trial.py",)


def _nothing(*_: object) -> None:
    """Check nothing."""


def _yes(*_: object, **__: object) -> bool:
    """Say yes to everything."""
    return True


def _same_digest(found: Any) -> dict[str, str]:
    """Take every trial for the one that was shown."""
    return {each["tool"]: "shown" for each in found["tools"]}


def _hash_without_choices(asked: Any) -> str:
    return repr([(each.capability, each.changes, each.taken_back) for each in asked])


async def _write_once(request: Any, sheet: Any) -> Written:
    """Write a page as it was in the beginning."""
    return Written("as it was", b'event: page\ndata: "<main>as it was</main>"\n\n')


def _reject_unseen(place: Place) -> list[Offer]:
    """Offer a no without what was shown."""
    return [Offer("reject", {"mutation": place.call.id}, "reject")]


class _EveryName:
    """A list that every name is on."""

    def __contains__(self, name: object) -> bool:
        return True


def _first_cookie(headers: Any, name: str) -> str | None:
    """Take the first of several cookies."""
    pairs = (each.partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), None)


async def _first_only(session: Any, name: str) -> dict[str, Any]:
    """Look for what a workflow waits for among the first of all that waits."""
    found = await session.call("attention", limit=PAGE_ROWS_MAX)
    waiting = [each for each in found if each["workflow"] == name]
    return {"waiting": waiting, "approvals": {}, "forms": {}}


def _break(
    rule: str, module: str, attribute: str, replacement: Any, tests: Any, says: str
) -> Break:
    return Break(
        rule=rule,
        module=module,
        attribute=attribute,
        replacement=replacement,
        tests=tests,
        says=says,
    )


WEB = "duly.faces.web"
BREAKS = (
    _break("G1", "duly.rules.page", "is_loopback", _yes, SERVER, "every address is a loopback one"),
    _break(
        "G2",
        f"{WEB}.guard",
        "list_names",
        lambda *_: _EveryName(),
        GUARD,
        "a page is called by any name",
    ),
    _break("G2", f"{WEB}.guard", "_is_own", _yes, GUARD, "an act may come from another page"),
    _break(
        "G2",
        f"{WEB}.guard",
        "OWN_SITE",
        frozenset({"same-origin", "none", "same-site", "cross-site"}),
        GUARD,
        "a cookie counts that came along with another page",
    ),
    _break("G3", f"{WEB}.guard", "_check_path", _nothing, GUARD, "a path is taken as it comes"),
    _break(
        "G4", "duly.rules.verb", "Scope.covers", _yes, ROUTE, "every scope covers every other one"
    ),
    _break(
        "G5",
        "duly.faces.socket",
        "Talk.names_actor",
        True,
        PROCESS,
        "a client of the socket says who acts",
    ),
    _break("G6", f"{WEB}.guard", "_read_cookie", _first_cookie, GUARD, "one of two cookies counts"),
    _break("G6", "duly.rules.token", "LINK_MS", 10**9, SIGN_IN, "a link lasts for days"),
    _break(
        "G6", "duly.rules.token", "is_proven", _yes, SIGN_IN, "a token is known by its id alone"
    ),
    _break(
        "G6",
        "duly.rules.token",
        "is_over",
        lambda *_: False,
        SIGN_IN,
        "a device never ends",
    ),
    _break(
        "G7",
        f"{WEB}.guard",
        "HEADERS",
        {**HEADERS, "Content-Security-Policy": "default-src 'self' 'unsafe-inline'"},
        GUARD,
        "a script may stand in a page",
    ),
    _break(
        "G10", f"{WEB}.body", "BODY_BYTES_MAX", 2**30, BODY, "a body may be as long as it likes"
    ),
    _break(
        "G6",
        "duly.rules.token",
        "OpenLink.is_by_token",
        False,
        SIGN_IN,
        "a link outlives the token that made it",
    ),
    _break(
        "G6",
        "duly.rules.token",
        "OpenLink.is_over",
        lambda self, now_ms, tick_ms: now_ms >= self.until_ms,
        SIGN_IN,
        "a link that is over lives again when the clock is set back",
    ),
    _break(
        "G6",
        "duly.store.token",
        "was_device",
        lambda *_: False,
        SIGN_IN,
        "a device takes the name of one that was revoked",
    ),
    _break(
        "G8",
        f"{WEB}.watch",
        "list_given",
        lambda environ: dict(environ),
        PROCESS,
        "the page gets every variable of the host",
    ),
    _break(
        "G8",
        f"{WEB}.watch",
        "Pulse.beat",
        _nothing,
        PROCESS,
        "a page that speaks is taken for one that stands still",
    ),
    _break("G3", f"{WEB}.guard", "_check_head", _nothing, SERVER, "chunks come in HTTP/1.0"),
    _break(
        "G3",
        f"{WEB}.guard",
        "ESCAPED_LETTER",
        re.compile(rb"(?!)"),
        SERVER,
        "a path is written in two ways",
    ),
    _break(
        "G4",
        "duly.store.workflow",
        "right_to_resume",
        lambda **_: Scope.AGENT,
        ("tests/desk/test_restored.py",),
        "an agent resumes what was restored",
    ),
    _break(
        "G9",
        "duly.rules.shown",
        "LOOKALIKES",
        frozenset(),
        ("tests/rules/test_shown.py",),
        "a domain that only looks Latin is not marked",
    ),
    _break(
        "G12",
        "duly.desk.secret",
        "Vault.forget",
        _nothing,
        HOOK,
        "a webhook outlives its workflow",
    ),
    _break("G10", f"{WEB}.verb", "refuse_query", _nothing, VERB, "a query of an act is dropped"),
    _break(
        "G10",
        f"{WEB}.stream",
        "Lives._take_seat",
        lambda self, token: lambda: None,
        STREAM,
        "one viewer opens as many streams as it likes",
    ),
    _break(
        "G6",
        f"{WEB}.stream",
        "Life.admits",
        _yes,
        STREAM,
        "a viewer whose token was revoked is shown what comes",
    ),
    _break(
        "G6",
        "duly.desk.token",
        "_lets_in",
        _yes,
        SIGN_IN,
        "a token that is over, or guessed in part, goes on looking",
    ),
    _break("G10", f"{WEB}.rate", "Rates.take", _nothing, RATE, "no client is counted"),
    _break(
        "G10",
        f"{WEB}.server",
        "LimitedProtocol._make_place",
        _nothing,
        SERVER,
        "clients that say nothing keep the others out",
    ),
    _break(
        "G10",
        f"{WEB}.server",
        "LimitedProtocol.pause_writing",
        H11Protocol.pause_writing,
        SERVER,
        "a client that does not read is waited for",
    ),
    _break(
        "G11",
        "duly.store.approval",
        "proposal_hash",
        lambda *_: "",
        VERB,
        "a conflict does not show what was seen",
    ),
    _break(
        "G12",
        "duly.rules.webhook",
        "DECOY",
        None,
        HOOK,
        "a refused webhook costs more where a hook is open",
    ),
    _break("G12", "duly.rules.webhook", "is_signed", _yes, HOOK, "no signature is looked at"),
    _break("G12", "duly.rules.webhook", "AWAY_S_MAX", 10**9, HOOK, "a message is never too old"),
    _break("G12", "duly.rules.webhook", "is_key", _yes, HOOK, "any key opens the address"),
    _break(
        "G12",
        "duly.rules.webhook",
        "find_chosen",
        lambda *given: given[-1],
        TERMS,
        "a post without its id is taken as a new one",
    ),
    _break(
        "A5",
        "duly.rules.webhook",
        "secret_of",
        lambda _, kept: kept,
        TERMS,
        "what an owner says of a webhook hides its secret from those who take secrets out",
    ),
    _break(
        "M9",
        "duly.faces.web.script",
        "sha256",
        lambda data=b"", **_: sha256(b"any"),
        PASTE,
        "another text is deployed than the one that was shown",
    ),
    _break(
        "A1",
        "duly.faces.web.script",
        "_hash",
        lambda asked: str(sorted(each.capability for each in asked)),
        PASTE,
        "a form that is sent again gives back what was revoked meanwhile",
    ),
    _break(
        "G12",
        "duly.faces.web.hook",
        "TOLD_MAX",
        10_000,
        ("tests/web/test_hook_open.py",),
        "strangers have the page tell the host of each of their posts",
    ),
    _break("G1", "duly.rules.page", "PORTS_TRIED_MAX", 1, SERVER, "a port in use means no page"),
    _break(
        "G11",
        "duly.store.statements",
        "check_sends",
        _nothing,
        ("tests/desk/test_commands.py", *ACT),
        "an answer about one send settles a second one",
    ),
    _break(
        "G11",
        "duly.desk.offer",
        "OFFERS",
        {**OFFERS, Act.REJECT: _reject_unseen},
        ACT,
        "a no declines a call that was not shown",
    ),
    _break(
        "T3",
        f"{WEB}.form",
        "_with_id",
        lambda verb, form: {name: each for name, each in form.items() if name != "once"},
        ACT,
        "an input of the page replaces another one",
    ),
    _break("U6", f"{WEB}.form", "IS_TOLD", {}, ACT, "an act that changed nothing says nothing"),
    _break(
        "G13",
        f"{WEB}.stream",
        "_write",
        _write_once,
        STREAM,
        "a stream says something else than its page",
    ),
    _break(
        "G13",
        f"{WEB}.stream",
        "Life.end",
        _nothing,
        STREAM,
        "a page is made although nobody looks at it",
    ),
    _break(
        "G14",
        f"{WEB}.form",
        "go",
        lambda request, back, did="": Response(status_code=204),
        ACT,
        "a form leads nowhere without JavaScript",
    ),
    _break(
        "G15", f"{WEB}.problem", "BY_CODE", {}, VERB, "every refusal has the status of its class"
    ),
    _break(
        "G16",
        f"{WEB}.export",
        "guard_parts",
        list,
        ("tests/web/test_export.py",),
        "a text from outside is a formula in a file",
    ),
    _break(
        "K10",
        f"{WEB}.connect",
        "_digests",
        _same_digest,
        CONNECT,
        "a trial is made that was not shown, and again by a second click",
    ),
    _break(
        "U6",
        f"{WEB}.query",
        "look_empty",
        lambda place, *, is_later: "match",
        SEARCH,
        "a search that did not end says that nothing matches",
    ),
    _break("U6", f"{WEB}.query", "further", lambda *_: "", SEARCH, "a search does not go on"),
    _break("U6", f"{WEB}.flow", "_is_wanted", _yes, SEARCH, "a filter of outputs is not applied"),
    _break("F8", f"{WEB}.flow", "_waiting", _first_only, SEARCH, "a thousand wait before it"),
    _break("U6", f"{WEB}.form", "ROWS", 0, TRIAL, "what came of several is said by ids alone"),
    _break(
        "U3",
        f"{WEB}.drawing",
        "titles_of",
        lambda reason, titles: titles,
        TRIAL,
        "the input that may be the cause is named by its id",
    ),
    _break("G9", f"{WEB}.drawing", "FIRST", "", TRIAL, "what helps a paused workflow stands last"),
    _break(
        "A3",
        f"{WEB}.script",
        "_hash",
        _hash_without_choices,
        ASKED,
        "a form that is sent again takes back in silence what was chosen since",
    ),
    _break("G13", f"{WEB}.stream", "PAUSE_S", 0.3, PACE, "a page is made three times a second"),
    _break("G13", f"{WEB}.stream", "SAVED_MS_MAX", 0, PACE, "a page holds up the next ones"),
    _break("G13", f"{WEB}.stream", "REST", 6, PACE, "pages take a seventh of the time"),
    _break("G13", f"{WEB}.stream", "SAVED_LOOKS", 99, PACE, "pages save more than they need"),
    _break("G11", f"{WEB}.form", "SEEN", "none", REPLAY, "a form need not say what was shown"),
    _break(
        "A3",
        CATALOG,
        "_name_of",
        lambda name: name,
        FORM,
        "a name within an object looks like a field",
    ),
    _break("A3", CATALOG, "has_fields", has_lines, FORM, "a row of a table is one line of JSON"),
)
