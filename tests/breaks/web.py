"""The breaks of HTTP: names, origins, cookies, scopes, links, tokens, webhooks, limits (G)."""

from __future__ import annotations

from typing import Any

from duly.faces.web.guard import HEADERS
from tests.breaks import Break

GUARD = ("tests/web/test_guard.py",)
ROUTE = ("tests/web/test_route.py",)
BODY = ("tests/web/test_body.py",)
SIGN_IN = ("tests/web/test_sign_in.py",)
HOOK = ("tests/web/test_hook.py",)
SERVER = ("tests/web/test_server.py",)
PROCESS = ("tests/web/test_process.py",)


def _nothing(*_: object) -> None:
    """Check nothing."""


def _yes(*_: object, **__: object) -> bool:
    """Say yes to everything."""
    return True


class _EveryName:
    """A list that every name is on."""

    def __contains__(self, name: object) -> bool:
        return True


def _first_cookie(headers: Any, name: str) -> str | None:
    """Take the first of several cookies."""
    pairs = (each.partition("=") for line in headers.getlist("cookie") for each in line.split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), None)


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
    _break("G12", "duly.rules.webhook", "is_signed", _yes, HOOK, "no signature is looked at"),
    _break("G12", "duly.rules.webhook", "AWAY_S_MAX", 10**9, HOOK, "a message is never too old"),
    _break("G12", "duly.rules.webhook", "is_key", _yes, HOOK, "any key opens the address"),
"""Breaks of what speaks to web services: where a request goes, what an error says, whose order."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from duly.connectors import status
from duly.connectors.base import NotApplied
from duly.connectors.transport import HttpRequest, Transport
from duly.rules import url
from duly.rules.url import AddressKind
from tests.breaks import Break

URL = "tests/rules/test_url.py"
TRANSPORT = "tests/connectors/test_transport.py"
STATUS = "tests/connectors/test_status.py"
REST = "tests/connectors/test_rest.py"

_exchange = Transport._exchange


async def _send_twice(self: Transport, request: HttpRequest, progress: Any) -> Any:
    try:
        return await _exchange(self, request, progress)
    except OSError:
        return await _exchange(self, request, progress)


async def _connect_by_name(self: Transport, at: Any, addresses: Any) -> Any:
    return await asyncio.open_connection(at.host, at.port)


def _trust_all(ca: object) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _dress_for_all(request: HttpRequest) -> Any:
    own = request.credentials
    headers = {} if own is None else dict(own.headers)
    pairs = {"Host": request.url.authority, "Connection": "close", **request.headers, **headers}
    return list(pairs.items()), request.url.target


def _collect_all(self: Any, piece: bytes) -> None:
    self._coded_bytes += len(piece)
    self._plain += piece if self._decoder is None else self._decoder.decompress(piece)


BREAKS = (
    Break(
        "K2",
        "duly.connectors.transport",
        "Transport._exchange",
        _send_twice,
        (f"{TRANSPORT}::test_a_change_without_a_whole_answer_is_unknown",),
        "a request that broke is sent again",
    ),
    Break(
        "K2",
        "duly.connectors.transport",
        "_Progress.is_sent",
        property(lambda self: False, lambda self, value: None),
        (f"{TRANSPORT}::test_a_change_without_a_whole_answer_is_unknown",),
        "a request that left is said not to have been sent",
    ),
    Break(
        "K2",
        "duly.connectors.transport",
        "_left_s",
        lambda: float("inf"),
        (f"{TRANSPORT}::test_nothing_leaves_after_the_time_of_the_call",),
        "a request leaves after the time of its call",
    ),
    Break(
        "K3",
        "duly.rules.url",
        "OPENABLE",
        frozenset(AddressKind),
        (URL,),
        "a host that is named opens the addresses of metadata services",
    ),
    Break(
        "K3",
        "duly.rules.url",
        "NETWORKS",
        tuple(each for each in url.NETWORKS if each[0] is not AddressKind.MAPPED),
        (URL,),
        "a mapped address is taken for another kind",
    ),
    Break(
        "K3",
        "duly.connectors.transport",
        "Transport._connect",
        _connect_by_name,
        (f"{TRANSPORT}::test_a_name_that_changes_between_check_and_connect_changes_nothing",),
        "the connection goes to a name that is resolved again",
    ),
    Break(
        "K3",
        "duly.connectors.transport",
        "make_context",
        _trust_all,
        (f"{TRANSPORT}::test_a_server_is_verified_by_the_ca_of_the_settings",),
        "every certificate is accepted",
    ),
    Break(
        "K4",
        "duly.connectors.transport",
        "_dress",
        _dress_for_all,
        (f"{TRANSPORT}::test_credentials_go_to_their_origin_alone",),
        "a secret follows a redirect to another origin",
    ),
    Break(
        "K5",
        "duly.connectors.transport",
        "OVERRIDES",
        frozenset(),
        (TRANSPORT,),
        "a read is a change by a field of its query",
    ),
    Break(
        "K6",
        "duly.connectors.response",
        "_Body.add",
        _collect_all,
        (f"{TRANSPORT}::test_what_is_packed_is_unpacked",),
        "a response is unpacked without a limit",
    ),
    Break(
        "L4",
        "duly.connectors.status",
        "STATUSES",
        {**status.STATUSES, 422: status.Meaning.REFUSED},
        (f"{REST}::test_the_second_send_of_a_key_is_judged_with_care",),
        "a key that was used before counts as a refusal",
    ),
    Break(
        "L4",
        "duly.connectors.status",
        "CLASSES",
        {**status.CLASSES, 5: status.Meaning.REFUSED},
        (STATUS,),
        "a server's own error counts as a refusal",
    ),
    Break(
        "K8",
        "duly.connectors.status",
        "retry_after_s",
        lambda response: None,
        (STATUS,),
        "the time a server asks for is not kept",
    ),
    Break(
        "L5",
        "duly.connectors.rest",
        "_judge_one",
        lambda answer, call, verify: NotApplied(),
        (f"{REST}::test_a_call_is_found_by_its_key",),
        "a change that was found counts as not made",
    ),
    Break(
        "L5",
        "duly.connectors.rest",
        "PAGES_MAX",
        1,
        (f"{REST}::test_a_call_on_page_three_is_found",),
        "only the first page is searched",
    ),
    Break(
        "L4",
        "duly.connectors.json_answer",
        "read_answer",
        lambda response, what, *, is_change: None,
        (REST,),
        "an answer that is no JSON counts as one",
    ),
)
