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
)
