"""Google on loopback: the sign-in, Gmail, Sheets, Calendar and Drive in one server.

    with GoogleDouble() as google:
        Gmail("client-1", "ada@example.com", url=google.url, allow=["127.0.0.1"])

The sign-in is https://developers.google.com/identity/protocols/oauth2/native-app: exact loopback
redirects, PKCE, codes that work once, refresh tokens that are kept. The redirect names Google
(RFC 9207), and a token comes with an id token where `openid` was asked for:
https://developers.google.com/identity/openid-connect/reference. Errors are those of
https://cloud.google.com/apis/design/errors, with the older list of reasons beside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from duly.rules.oauth import TokenGrant, challenge_of
from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceReply, route
from duly.testing.doubles.google_mail import AUTH, GmailRoutes, new_mail
from duly.testing.doubles.google_office import (
    CalendarRoutes,
    DriveRoutes,
    SheetsRoutes,
    new_office,
)
from duly.testing.doubles.id_token import write_id_token
from duly.testing.doubles.shape import needed

CLIENT: Final = "client-1.apps.googleusercontent.com"
CLIENT_SECRET: Final = "GOCSPX-of-the-client"
LIFETIME_S: Final = 3599
LOOPBACK: Final = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]|localhost):[0-9]{1,5}(?:/[^?#]*)?")
SCOPES: Final = frozenset(
    f"{AUTH}{each}"
    for each in (
        *("gmail.readonly", "gmail.compose", "gmail.modify", "gmail.send"),
        *("spreadsheets", "spreadsheets.readonly"),
        *("calendar.events", "calendar.events.readonly"),
        *("drive.file", "drive.readonly", "drive", "userinfo.email"),
    )
) | {"openid"}
STATUSES: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
}
ASKED: Final = {
    **dict.fromkeys(("response_type", "client_id", "redirect_uri", "scope", "state"), needed(str)),
    **dict.fromkeys(("code_challenge", "code_challenge_method"), needed(str)),
    **dict.fromkeys(("access_type", "prompt", "login_hint", "include_granted_scopes"), str),
}
TOKEN: Final = {
    "grant_type": needed(str),
    "client_id": needed(str),
    **dict.fromkeys(("client_secret", "code", "code_verifier", "redirect_uri"), str),
    "refresh_token": str,
}


class GoogleDouble(GmailRoutes, SheetsRoutes, CalendarRoutes, DriveRoutes):
    """Everything of Google that the connectors use."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, dict[str, str]] = {}
        self.refreshes: dict[str, tuple[frozenset[str], str]] = {}
        self.denied: set[str] = set()  # scopes that the person does not tick
        self.person = "ada"  # the account that signs in
        self._number = 0

    def new_account(self) -> dict[str, Any]:
        """Return an empty account."""
        return {"changes": 0, "count": 0, **new_mail(), **new_office()}

    def effects(self, account: dict[str, Any]) -> int:
        """Count the mails sent, rows and events written, files made and labels changed."""
        return int(account["changes"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a rejection as Google does."""
        status, reason, message = rejected.status, rejected.reason, rejected.message
        if reason in ("invalid_grant", "invalid_client", "invalid_scope"):
            return ServiceReply({"error": reason, "error_description": message}, status)
        headers = {}
        if reason == "insufficient_scope":
            reason = "insufficientPermissions"
            headers["WWW-Authenticate"] = 'Bearer realm="google", error="insufficient_scope"'
        errors = [{"domain": "global", "reason": reason, "message": message}]
        said = {"code": status, "message": message, "errors": errors}
        known = STATUSES.get(status, "UNKNOWN")
        return ServiceReply({"error": {**said, "status": known}}, status, headers)

    def grant(self, account: str, *scopes: str) -> str:
        """Return what a sign-in of this account is kept as: the value of the secret `sign_in`."""
        full = tuple(f"{AUTH}{each}" for each in scopes) or tuple(sorted(SCOPES))
        with self._door:
            token = f"ya29.{account}"
            self.give_token(token, full, account)
            self.refreshes[f"1//{account}"] = (frozenset(full), account)
        return TokenGrant(token, f"1//{account}", scopes=full).text

    def end_sign_in(self, account: str) -> None:
        """Forget every token of an account: its user took it back, or seven days are over."""
        with self._door:
            for token, (_, owner) in [*self.tokens.items()]:
                if owner == account:
                    self.revoke(token)
            kept = {name: each for name, each in self.refreshes.items() if each[1] != account}
            self.refreshes = kept

    def agree(self, address: str) -> str:
        """Be the person who agrees; return where the browser is sent."""
        fields = dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))
        return self._agreed(fields)

    @route("GET", "/o/oauth2/v2/auth", is_open=True, query=ASKED)
    def authorize(self, ask: ServiceAsk) -> ServiceReply:
        """Agree at once, as a person would, and send the browser back."""
        return ServiceReply("", 302, {"Location": self._agreed(dict(ask.query))})

    def _agreed(self, fields: dict[str, str]) -> str:
        if fields.get("client_id") != CLIENT:
            raise Rejected(401, "invalid_client", "The OAuth client was not found.")
        if missing := [n for n in ASKED if n not in fields and ASKED[n] is not str]:
            raise Rejected(400, "invalid_request", f"Missing parameter: {missing[0]}")
        if not LOOPBACK.fullmatch(fields["redirect_uri"]):
            raise Rejected(400, "redirect_uri_mismatch")
        asked = fields["scope"].split()
        if not asked or not SCOPES.issuperset(asked):
            raise Rejected(400, "invalid_scope", "Some requested scopes were invalid.")
        if fields["code_challenge_method"] != "S256" or fields["response_type"] != "code":
            raise Rejected(400, "invalid_request")
        with self._door:
            self._number += 1
            code = f"4/code-{self._number}"
            self.codes[code] = fields
        granted = " ".join(each for each in asked if each not in self.denied)
        back = {"state": fields["state"], "code": code, "scope": granted, "iss": self.url}
        if not granted:
            back = {"state": fields["state"], "error": "access_denied"}
        return f"{fields['redirect_uri']}?{urlencode(back)}"

    @route("POST", "/token", is_open=True, query=())
    def token(self, ask: ServiceAsk) -> ServiceReply:
        """Exchange a code or a refresh token."""
        fields = self.form_of(ask, TOKEN)
        if fields["client_id"] != CLIENT or fields.get("client_secret") != CLIENT_SECRET:
            raise Rejected(401, "invalid_client", "Unauthorized")
        if fields["grant_type"] == "refresh_token":
            found = self.refreshes.get(fields.get("refresh_token", ""))
            if found is None:
                raise Rejected(400, "invalid_grant", "Token has been expired or revoked.")
            return self._granted(*found)
        asked = self.codes.pop(fields.get("code", ""), None)
        is_same = asked is not None and (
            asked["redirect_uri"] == fields.get("redirect_uri")
            and asked["code_challenge"] == challenge_of(fields.get("code_verifier", ""))
        )
        if asked is None or not is_same or fields["grant_type"] != "authorization_code":
            raise Rejected(400, "invalid_grant", "Bad Request")
        scopes = frozenset(asked["scope"].split()) - self.denied
        refresh = f"1//{self.person}-{self._number}"
        self.refreshes[refresh] = (scopes, self.person)
        reply = self._granted(scopes, self.person)
        is_offline = asked.get("access_type") == "offline"
        more = {"refresh_token": refresh} if is_offline else {}
        return ServiceReply({**reply.body, **more})

    def _granted(self, scopes: frozenset[str], account: str) -> ServiceReply:
        self._number += 1
        token = self.give_token(f"ya29.{account}-{self._number}", scopes, account)
        answer = {"access_token": token, "expires_in": LIFETIME_S, "token_type": "Bearer"}
        if "openid" in scopes:
            email = f"{account}@example.com" if f"{AUTH}userinfo.email" in scopes else None
            answer["id_token"] = write_id_token(self.url, CLIENT, account, email=email)
        return ServiceReply({**answer, "scope": " ".join(sorted(scopes))})
