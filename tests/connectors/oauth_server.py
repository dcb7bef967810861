"""A provider and a service on loopback: OAuth 2 as RFC 6749, 7636 and 8628 write it.

Law 1: it rejects what they say must be rejected: a code used twice, another redirect, a wrong
       verifier, a refresh token that was replaced, a client that it does not know.
Law 2: what it does wrong is decided by the test, for the next requests to its token endpoint.
Law 3: `POST /orders` makes an order for a valid access token; every request is counted.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from duly.rules.oauth import challenge_of

CLIENT = "client-1"
SCOPES = "orders.read orders.write"
WAIT_S = 30.0


class OAuthServer:
    """The server, in threads of this process."""

    def __init__(self) -> None:
        self.manners: list[str] = []
        self.asked: list[dict[str, str]] = []  # of the token endpoint
        self.calls: list[str] = []  # of the service: its method and the token
        self.orders: list[str] = []
        self.valid: set[str] = set()
        self.refresh = "refresh-1"
        self.before = ""  # the refresh token that was replaced last
        self.has_grace = False  # the replaced one works once more
        self.is_rotating = True
        self.scope: str | None = None
        self.lifetime: object = 3600
        self.codes: dict[str, dict[str, str]] = {}
        self.device: list[str] = []  # what a question for the device is answered with
        self.arrived, self.go_on = threading.Event(), threading.Event()
        self._count = 1
        self._door = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.serve(self, "GET", b"")

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", "0"))
                server.serve(self, "POST", self.rfile.read(length))

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(WAIT_S)

    def agree(self, address: str, *, state: str | None = None) -> str:
        """Be the person who agrees; return the address that the browser is sent to."""
        fields = dict(parse_qsl(urlsplit(address).query))
        assert fields["response_type"] == "code"
        assert fields["client_id"] == CLIENT
        assert fields["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes) + 1}"
        self.codes[code] = fields
        more = {"code": code, "state": fields["state"] if state is None else state}
        return f"{fields['redirect_uri']}?{urlencode(more)}"

    def revoke(self) -> None:
        """Forget every token."""
        self.valid.clear()
        self.refresh = self.before = ""

    # -- In a thread ------------------------------------------------------------------------------

    def serve(self, handler: Any, method: str, body: bytes) -> None:
        """Answer a request, well or as the test says."""
        path = urlsplit(handler.path).path
        if path == "/orders":
            self._order(handler, method)
            return
        fields = dict(parse_qsl(body.decode()))
        if path == "/device":
            answer = {"device_code": "device-1", "user_code": "AB-CD", "expires_in": 60}
            _say(handler, 200, {**answer, "verification_uri": f"{self.url}/on", "interval": 1})
            return
        with self._door:
            self.asked.append(fields)
            manner = self.manners.pop(0) if self.manners else "well"
        self._token(handler, manner, fields)

    def _token(self, handler: Any, manner: str, fields: dict[str, str]) -> None:
        if manner == "slow":
            self.arrived.set()
            self.go_on.wait(WAIT_S)
        if manner == "html":
            _say(handler, 200, b"<html>Sign in, please</html>")
        elif manner == "redirect":
            _say(handler, 302, b"", location="http://127.0.0.1:9/elsewhere")
        elif manner in ("500", "503"):
            _say(handler, int(manner), {"error": "server_error"})
        elif manner == "cut":  # before anything was done
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            with self._door:
                status, answer = self._answer(fields)
            if manner == "lost":  # it was done, and the answer never comes
                with suppress(OSError):
                    handler.connection.shutdown(socket.SHUT_RDWR)
                return
            if manner == "mac":
                answer["token_type"] = "mac"
            _say(handler, status, answer)

    def _answer(self, fields: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if fields.get("client_id") != CLIENT:
            return 401, {"error": "invalid_client"}
        match fields.get("grant_type"):
            case "authorization_code":
                asked = self.codes.pop(fields.get("code", ""), None)
                is_same = asked is not None and (
                    asked["redirect_uri"] == fields.get("redirect_uri")
                    and asked["code_challenge"] == challenge_of(fields.get("code_verifier", ""))
                )
                return self._grant() if is_same else (400, {"error": "invalid_grant"})
            case "refresh_token":
                given = fields.get("refresh_token")
                if given and given == self.before and self.has_grace:
                    self.has_grace = False
                elif not given or given != self.refresh:
                    self.revoke()  # as RFC 9700 advises when a replaced token comes back
                    return 400, {"error": "invalid_grant"}
                return self._grant()
            case "urn:ietf:params:oauth:grant-type:device_code":
                said = self.device.pop(0)
                return self._grant() if said == "well" else (400, {"error": said})
        return 400, {"error": "unsupported_grant_type"}

    def _grant(self) -> tuple[int, dict[str, Any]]:
        self._count += 1
        token = f"access-{self._count}"
        self.valid = {token}
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if self.scope is not None:
            answer["scope"] = self.scope
        if self.is_rotating:
            self.before, self.refresh = self.refresh, f"refresh-{self._count}"
            answer["refresh_token"] = self.refresh
        return 200, answer

    def _order(self, handler: Any, method: str) -> None:
        token = handler.headers.get("authorization", "").removeprefix("Bearer ")
        with self._door:
            self.calls.append(f"{method} {token}")
            if token not in self.valid:
                _say(handler, 401, {"error": "invalid_token"})
                return
            if method == "POST":
                self.orders.append(handler.headers.get("idempotency-key", ""))
        if "lost order" in self.manners:
            self.manners.remove("lost order")
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        _say(handler, 200, {"orders": len(self.orders)})


def _say(handler: Any, status: int, answer: object, **headers: str) -> None:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    handler.send_response(status)
    kind = "text/html" if isinstance(answer, bytes) else "application/json"
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    with suppress(OSError):
        handler.wfile.write(body)
