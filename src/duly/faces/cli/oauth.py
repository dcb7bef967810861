"""Signing in at the provider of a service, from the terminal (K9).

Law 1  The browser comes back to 127.0.0.1 at a port that is free, to one exact address, with the
       state of this sign-in. Every other request there is answered with 404 and ends nothing: any
       page and any program of the machine can send one.
Law 2  Without a browser here the person opens the address elsewhere, and brings back the address
       at which the browser ended. Both ways end with the same verb.
Law 3  What must be known before agreeing is said before: the scopes, and what ends a sign-in.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event
from typing import Any, Final

import click

from duly.api.clock import machine_ms
from duly.api.redirect import belongs
from duly.api.text import visible
from duly.faces.cli.base import Face, hint, is_terminal, say
from duly.words.oauth import (
    BACK,
    BY_HAND,
    MAY_CLOSE,
    say_device,
    say_scopes,
    say_signed_in,
)

HOST: Final = "127.0.0.1"
BACK_S: Final = 600.0  # how long the browser is waited for
PATH: Final = "/duly"
GIVEN_CHARS_MAX: Final = 8_000


def sign_in(
    face: Face,
    name: str,
    needed: Mapping[str, Any],
    *,
    is_set: bool,
    way: str = "",
    is_other: bool = False,
) -> None:
    """Sign in, unless that was done and nothing is missing; `way` is browser, paste or device.

    `is_other` says that it may be another account, so a sign-in that stands is no reason to stay.
    """
    more = {"other_account": True} if is_other else {}
    if way == "device":
        _sign_in_on_device(face, name, more)
        return
    with _Listener() as listener:
        begun = _begin(face, name, redirect=listener.redirect)
        listener.expect(begun["address"])
        if is_set and not is_other and not needed["is_over"] and not begun["missing"]:
            return
        _say_before(begun)
        given = None
        if way != "paste" and webbrowser.open(begun["address"]):
            say(BACK)
            given = listener.wait()
        if given is None:
            given = _paste(begun)
    _end(face, name, begun, given=given, **more)


def _begin(face: Face, name: str, **more: Any) -> dict[str, Any]:
    begun = face.call("begin_oauth", connector=name, **more)
    assert isinstance(begun, dict), begun
    return begun


def _say_before(begun: Mapping[str, Any]) -> None:
    if begun["warning"]:
        hint(begun["warning"])
    say(say_scopes(begun["scopes"]))
    # Not wrapped to the width of the terminal: it is copied as a whole.
    click.echo(visible(begun["address"]))


def _paste(begun: Mapping[str, Any]) -> str:
    hint(BY_HAND)
    if not is_terminal():
        return sys.stdin.readline(GIVEN_CHARS_MAX).strip()
    # Hidden: for a moment the code in it is worth a sign-in.
    typed: str = click.prompt("The address", hide_input=True, err=True)
    return typed.strip()


def _end(face: Face, name: str, begun: Mapping[str, Any], **more: Any) -> None:
    ended: Any = face.call("finish_oauth", connector=name, ticket=begun["ticket"], **more)
    say(say_signed_in(ended))


def _sign_in_on_device(face: Face, name: str, more: Mapping[str, Any]) -> None:
    begun = _begin(face, name, device=True)
    if begun["warning"]:
        hint(begun["warning"])
    say(say_scopes(begun["scopes"]))
    say(say_device(begun["address"], begun["user_code"]))
    wait_s = begun["wait_s"]
    while True:
        pause(wait_s)
        ended: Any = face.call("finish_oauth", connector=name, ticket=begun["ticket"], **more)
        if ended["is_done"]:
            say(say_signed_in(ended))
            return
        wait_s = max(wait_s, ended["wait_s"])  # a provider that was asked too often stays slow


def pause(seconds: float) -> None:
    """Wait between two looks at the provider."""
    Event().wait(seconds)


class _Listener:
    """Waits on 127.0.0.1 for the browser to come back (law 1)."""

    def __init__(self) -> None:
        self._given: str | None = None
        self._address = ""
        listener = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0  # for one request, so that a silent one does not hold the port

            def do_GET(self) -> None:
                listener.answer(self)

            def log_message(self, *_: object) -> None:
                """Write nothing: the address holds a code."""

        self._server = HTTPServer((HOST, 0), Handler)
        self.redirect = f"http://{HOST}:{self._server.server_port}{PATH}"

    def __enter__(self) -> _Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def expect(self, address: str) -> None:
        """Take only what comes back from this address of the provider."""
        self._address = address

    def wait(self) -> str | None:
        """Return the address that the browser came back to; None if it did not in time."""
        end_ms = machine_ms() + round(BACK_S * 1000)
        while self._given is None and (left_ms := end_ms - machine_ms()) > 0:
            self._server.timeout = left_ms / 1000
            try:
                self._server.handle_request()
            except (TimeoutError, OSError):
                continue
            except KeyboardInterrupt:
                return None  # the person would rather bring it by hand
        return self._given

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Take the address, if it belongs to this sign-in; the host judges the rest of it."""
        given = f"http://{HOST}:{self._server.server_port}{handler.path}"
        is_it = belongs(given, self.redirect, self._address)
        body = (MAY_CLOSE if is_it else "").encode()
        handler.send_response(200 if is_it else 404)
        handler.send_header("Content-Type", "text/plain; charset=utf-8")
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Cache-Control", "no-store")
        handler.send_header("Referrer-Policy", "no-referrer")
        handler.end_headers()
        handler.wfile.write(body)
        if is_it:
            self._given = given
