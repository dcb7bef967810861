"""Microsoft on loopback: the sign-in, and what Microsoft Graph has of Outlook.

    with DeclaredDesk() as desk:
        OutlookAccount(
            f"{desk.url}/outlook",
            client_id=CLIENT,
            login=f"{desk.url}/login/common",
            allow=["127.0.0.1"],
        )

The sign-in is https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow and
…/v2-oauth2-device-code, for a public client: a redirect to 127.0.0.1 at any port, PKCE, codes that
work once. A scope in an answer has the address of Graph before it, `offline_access` is named in
none, and a refresh token that was used works on. With `openid` a sign-in has an id token
(…/id-tokens); a refresh that names no scopes has none. Mails and events are
https://learn.microsoft.com/graph/api/user-post-messages, …/message-send, …/message-delta,
…/user-post-events and …/singlevaluelegacyextendedproperty-get.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from duly.rules.oauth import challenge_of
from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.id_token import write_id_token
from duly.testing.doubles.shape import TextOf, needed

CLIENT: Final = "11111111-2222-3333-4444-555555555555"
GRAPH: Final = "https://graph.microsoft.com/"
LIFETIME_S: Final = 3599
DEVICE_S: Final = 900
INTERVAL_S: Final = 5
DEVICE_PAGE: Final = "https://microsoft.com/devicelogin"
DEVICE: Final = "urn:ietf:params:oauth:grant-type:device_code"
LOOPBACK: Final = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/duly")
SCOPES: Final = frozenset(
    {
        *("Mail.Read", "Mail.ReadBasic", "Mail.ReadWrite", "Mail.Send"),
        *(
            "Calendars.Read",
            "Calendars.ReadWrite",
            "User.Read",
            "offline_access",
            "openid",
            "profile",
        ),
    }
)
UNNAMED: Final = frozenset({"offline_access", "openid", "profile"})
READS: Final = ("Mail.Read", "Mail.ReadWrite")
WRITES: Final = ("Mail.ReadWrite",)
SENDS: Final = ("Mail.Send",)
EVENTS: Final = ("Calendars.ReadWrite",)
ASKED: Final = {
    **dict.fromkeys(("response_type", "client_id", "redirect_uri", "scope", "state"), needed(str)),
    **dict.fromkeys(("code_challenge", "code_challenge_method"), needed(str)),
    **dict.fromkeys(("response_mode", "prompt", "login_hint", "domain_hint"), str),
}
TOKEN: Final = {
    "grant_type": needed(str),
    "client_id": needed(str),
    **dict.fromkeys(("scope", "code", "code_verifier", "redirect_uri"), str),
    **dict.fromkeys(("refresh_token", "device_code", "client_secret"), str),
}
# The numbers of the errors, as the pages list them.
CODES: Final[Mapping[str, int]] = {
    "invalid_grant": 70008,
    "invalid_client": 700025,
    "invalid_scope": 70011,
    "invalid_request": 9002313,
    "unauthorized_client": 700016,
    "authorization_pending": 70016,
    "authorization_declined": 70017,
    "expired_token": 70020,
    "bad_verification_code": 70018,
    "unsupported_grant_type": 70003,
}

AT: Final = {"dateTime": needed(str), "timeZone": needed(str)}
EXTENDED: Final = {"id": needed(str), "value": needed(str)}
BODY: Final = {"contentType": needed(str), "content": needed(str)}
DRAFT: Final = {
    "subject": TextOf(255),
    "body": BODY,
    "toRecipients": [{"emailAddress": {"address": needed(str), "name": str}}],
    "singleValueExtendedProperties": [EXTENDED],
}
EVENT: Final = {
    "subject": TextOf(255),
    "body": BODY,
    "start": needed(AT),
    "end": needed(AT),
    "singleValueExtendedProperties": [EXTENDED],
}
GRAPH_FILTER: Final = re.compile(
    r"singleValueExtendedProperties/any\(ep: ep/id eq '([^']+)' and ep/value eq '([^']*)'\)"
)
GRAPH_EXPAND: Final = re.compile(r"singleValueExtendedProperties\(\$filter=id eq '([^']+)'\)")
SINCE: Final = re.compile(
    r"receivedDateTime (?:ge|gt) ([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]+)?Z)"
)
PAGE: Final = 10  # where the header says no other number
PAGE_WISH: Final = re.compile(r"odata\.maxpagesize=([0-9]+)")
DELTA_FIELDS: Final = ("$filter", "$select", "$skiptoken", "$deltatoken", "changeType")


class MicrosoftRoutes(ServiceDouble):
    """The sign-in of Microsoft, and the mailbox and the calendar of each account."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, dict[str, str]] = {}
        self.devices: dict[str, dict[str, str]] = {}
        self.refreshes: dict[str, tuple[frozenset[str], str]] = {}
        self.denied: set[str] = set()  # scopes that the person does not allow
        self.person = "ada"  # the account that signs in
        self.device_says = "authorization_pending"  # until the person has agreed
        self._signed = 0

    def new_mailbox(self) -> dict[str, Any]:
        """Return a mailbox to which nothing came."""
        return {"inbox": [], "arrived": 0}

    def put_mail(self, account: str, subject: str, at: str = "2026-05-01T08:00:00Z") -> str:
        """Let a mail come in; return its id."""
        with self._door:
            found = self.account(account)
            found["arrived"] += 1
            name = f"AAk{found['arrived']:06}"
            sender = {"emailAddress": {"name": "Ada", "address": "ada@example.com"}}
            mail = {"id": name, "subject": subject, "from": sender, "receivedDateTime": at}
            mail |= {"bodyPreview": subject, "number": found["arrived"]}
            found["inbox"].append(mail)
        return name

    def end_sign_in(self, account: str) -> None:
        """Forget every token of an account."""
        with self._door:
            for token, (_, owner) in [*self.tokens.items()]:
                if owner == account:
                    self.revoke(token)
            kept = {name: each for name, each in self.refreshes.items() if each[1] != account}
            self.refreshes = kept

    # -- The sign-in ------------------------------------------------------------------------------

    def agree(self, address: str) -> str:
        """Be the person who agrees; return where the browser is sent."""
        return self._agreed(dict(parse_qsl(urlsplit(address).query, keep_blank_values=True)))

    def agree_on_device(self, user_code: str) -> None:
        """Be the person who types a code at another device and agrees."""
        (found,) = (each for each in self.devices.values() if each["user_code"] == user_code)
        found["agreed"] = "yes"

    @route("GET", "/login/{tenant}/oauth2/v2.0/authorize", is_open=True, query=ASKED)
    def authorize(self, ask: ServiceAsk, tenant: str) -> ServiceReply:
        """Agree at once, as a person would, and send the browser back."""
        return ServiceReply("", 302, {"Location": self._agreed(dict(ask.query))})

    def _agreed(self, fields: dict[str, str]) -> str:
        if fields.get("client_id") != CLIENT:
            raise Rejected(400, "unauthorized_client", "Application was not found.")
        if missing := [n for n in ASKED if n not in fields and ASKED[n] is not str]:
            raise Rejected(400, "invalid_request", f"The request must contain {missing[0]}.")
        if not LOOPBACK.fullmatch(fields["redirect_uri"]):
            raise Rejected(400, "invalid_request", "The redirect URI is not one of the client's.")
        if fields["code_challenge_method"] != "S256" or fields["response_type"] != "code":
            raise Rejected(400, "invalid_request", "PKCE is wanted.")
        granted = self._grantable(fields["scope"])
        if not granted:
            said = "the user canceled the authentication"
            back = {"error": "access_denied", "error_description": said, "state": fields["state"]}
            return f"{fields['redirect_uri']}?{urlencode(back)}"
        with self._door:
            self._signed += 1
            code = f"0.AX-code-{self._signed}"
            self.codes[code] = fields
        back = {"code": code, "state": fields["state"], "session_state": "5f2c"}
        return f"{fields['redirect_uri']}?{urlencode(back)}"

    @route("POST", "/login/{tenant}/oauth2/v2.0/devicecode", is_open=True, query=())
    def device(self, ask: ServiceAsk, tenant: str) -> ServiceReply:
        """Begin a sign-in on another device."""
        fields = self.form_of(ask, {"client_id": needed(str), "scope": needed(str)})
        self._check_client(fields)
        self._grantable(fields["scope"])
        with self._door:
            self._signed += 1
            code, shown = f"GAQ-device-{self._signed}", f"FJC3LWBZ{self._signed}"
            self.devices[code] = {**fields, "user_code": shown}
        said = f"To sign in, use a web browser to open {DEVICE_PAGE} and enter {shown}."
        answer = {"user_code": shown, "device_code": code, "verification_uri": DEVICE_PAGE}
        return ServiceReply(
            {**answer, "expires_in": DEVICE_S, "interval": INTERVAL_S, "message": said}
        )

    @route("POST", "/login/{tenant}/oauth2/v2.0/token", is_open=True, query=())
    def token(self, ask: ServiceAsk, tenant: str) -> ServiceReply:
        """Exchange a code, a device code or a refresh token."""
        fields = self.form_of(ask, TOKEN)
        self._check_client(fields)
        match fields["grant_type"]:
            case "authorization_code":
                asked = self.codes.pop(fields.get("code", ""), None)
                is_same = asked is not None and (
                    asked["redirect_uri"] == fields.get("redirect_uri")
                    and asked["code_challenge"] == challenge_of(fields.get("code_verifier", ""))
                )
                if asked is None or not is_same:
                    raise Rejected(400, "invalid_grant", "The code or its verifier is not valid.")
            case str(kind) if kind == DEVICE:
                asked = self.devices.get(fields.get("device_code", ""))
                if asked is None:
                    raise Rejected(400, "bad_verification_code", "The device_code is not known.")
                if not asked.get("agreed"):
                    raise Rejected(400, self.device_says, "The user has not agreed.")
                self.devices.pop(fields["device_code"])
            case "refresh_token":
                found = self.refreshes.get(fields.get("refresh_token", ""))
                if found is None:
                    raise Rejected(400, "invalid_grant", "The refresh token is not valid.")
                return self._signed_in(*found, is_offline=True)
            case _:
                raise Rejected(400, "unsupported_grant_type")
        is_offline = "offline_access" in asked["scope"].split()
        granted = self._grantable(asked["scope"])
        reply = self._signed_in(granted, self.person, is_offline=is_offline)
        if "openid" not in asked["scope"].split():
            return reply
        name = f"{self.person}@example.com" if "profile" in asked["scope"].split() else None
        who = write_id_token(self.url, CLIENT, self.person, preferred_username=name)
        return ServiceReply({**reply.body, "id_token": who})

    def _check_client(self, fields: Mapping[str, str]) -> None:
        if fields["client_id"] != CLIENT:
            raise Rejected(400, "unauthorized_client", "Application was not found.")
        if "client_secret" in fields:
            raise Rejected(401, "invalid_client", "Client is public: no secret may be presented.")

    def _grantable(self, scope: str) -> frozenset[str]:
        asked = {each.removeprefix(GRAPH) for each in scope.split()}
        if not asked or not SCOPES.issuperset(asked):
            raise Rejected(400, "invalid_scope", "The provided value for scope is not valid.")
        return frozenset(asked - self.denied - UNNAMED)

    def _signed_in(self, scopes: frozenset[str], account: str, *, is_offline: bool) -> ServiceReply:
        self._signed += 1
        token = self.give_token(f"eyJ0.{account}.{self._signed}", scopes, account)
        named = " ".join(f"{GRAPH}{each}" for each in sorted(scopes))
        answer: dict[str, Any] = {"token_type": "Bearer", "scope": named, "expires_in": LIFETIME_S}
        answer |= {"ext_expires_in": LIFETIME_S, "access_token": token}
        if is_offline:
            answer["refresh_token"] = f"M.C5-{account}-{self._signed}"
            self.refreshes[answer["refresh_token"]] = (scopes, account)
        return ServiceReply(answer)

    def said_of_sign_in(self, rejected: Rejected) -> ServiceReply | None:
        """Spell a rejection of the sign-in; None if it is another one."""
        number = CODES.get(rejected.reason)
        if number is None:
            return None
        said = {"error": rejected.reason, "error_codes": [number], "timestamp": "2026-05-01Z"}
        said |= {"error_description": f"AADSTS{number}: {rejected.message}", "trace_id": "0"}
        return ServiceReply({**said, "correlation_id": "0"}, rejected.status)

    # -- Graph ------------------------------------------------------------------------------------

    @route("POST", "/outlook/me/messages", query=(), scopes=WRITES)
    def outlook(self, ask: ServiceAsk) -> ServiceReply:
        """Write a draft."""
        return self._write(ask, DRAFT)

    @route("POST", "/outlook/me/events", query=(), scopes=EVENTS)
    def outlook_event(self, ask: ServiceAsk) -> ServiceReply:
        """Add an event."""
        return self._write(ask, EVENT)

    def _write(self, ask: ServiceAsk, shape: Any) -> ServiceReply:
        made = {**self.json_of(ask, shape), "webLink": "https://outlook.example/x"}
        made["id"] = f"AAM{len(ask.account['made']) + 1:06}"
        ask.account["made"].append(made)
        return ServiceReply(made, 201)

    @route("POST", "/outlook/me/messages/{name}/send", query=(), scopes=SENDS)
    def outlook_send(self, ask: ServiceAsk, name: str) -> ServiceReply:
        """Send a draft; the answer has no body."""
        ask.account["made"].append({"sent": name, "id": name})
        return ServiceReply(b"", 202)

    @route("GET", "/outlook/me/events", query=("$filter", "$expand"), scopes=EVENTS)
    @route("GET", "/outlook/me/messages", query=("$filter", "$expand"), scopes=READS)
    def drafts(self, ask: ServiceAsk) -> ServiceReply:
        """List the drafts or events with a key; an extended property is shown if it is expanded.

        A filter names the id and the value; the name in an id is compared exactly, the value
        without regard to case.
        """
        found, shown = (
            pattern.fullmatch(ask.query.get(name, ""))
            for name, pattern in (("$filter", GRAPH_FILTER), ("$expand", GRAPH_EXPAND))
        )
        if found is None:
            raise Rejected(400, "ErrorInvalidUrlQueryFilter")
        own, is_event = "singleValueExtendedProperties", ask.path.endswith("/events")
        value = []
        for each in ask.account["made"]:
            kept = [one for one in each.get(own, ()) if one["id"] == found[1]]
            is_fit = any(one["value"].lower() == found[2].lower() for one in kept)
            if is_fit and ("start" in each) is is_event:
                plain = {name: each[name] for name in each if name != own}
                is_shown = shown is not None and shown[1] == found[1]
                value.append({**plain, own: kept} if is_shown else plain)
        return ServiceReply({"value": value})

    @route(
        "GET",
        "/outlook/me/mailFolders/inbox/messages/delta",
        query=DELTA_FIELDS,
        scopes=READS,
    )
    def delta(self, ask: ServiceAsk) -> ServiceReply:
        """List what came into the inbox since a token; the token holds the query (message-delta).

        The address of the next page names the folder by its id, as Graph does.
        """
        tokens = [ask.query[name] for name in ("$skiptoken", "$deltatoken") if name in ask.query]
        if tokens and len(ask.query) > 1:
            raise Rejected(400, "ErrorInvalidUrlQuery", "A token holds the whole query.")
        try:
            since, names, last = json.loads(tokens[0]) if tokens else self._delta_of(ask)
        except ValueError:
            raise Rejected(400, "SyncStateInvalid") from None
        found = [
            each
            for each in ask.account["inbox"]
            if each["number"] > last and each["receivedDateTime"] >= since
        ]
        wish = PAGE_WISH.search(ask.headers.get("prefer", ""))
        page = found[: int(wish[1]) if wish else PAGE]
        is_more = len(found) > len(page)
        end = page[-1]["number"] if is_more else ask.account["arrived"]
        token = quote(json.dumps([since, names, end]))
        place = f"{self.url}/outlook/me/mailfolders('AQMkADNkNAAAgEMAAAA')/messages/delta"
        kind = "nextLink" if is_more else "deltaLink"
        field = "$skiptoken" if is_more else "$deltatoken"
        value = [{each: mail[each] for each in ("id", *names)} for mail in page]
        return ServiceReply({"value": value, f"@odata.{kind}": f"{place}?{field}={token}"})

    def _delta_of(self, ask: ServiceAsk) -> tuple[str, list[str], int]:
        since = SINCE.fullmatch(ask.query.get("$filter", ""))
        if "$filter" in ask.query and since is None:
            raise Rejected(400, "ErrorInvalidUrlQueryFilter")
        if ask.query.get("changeType", "created") != "created":
            raise Rejected(400, "ErrorInvalidUrlQuery")
        known = {"id", "subject", "from", "receivedDateTime", "bodyPreview"}
        names = ask.query.get("$select", ",".join(sorted(known))).split(",")
        if not known.issuperset(names):
            raise Rejected(400, "RequestBroker--ParseUri", "Could not find a property.")
        return since[1] if since else "", [each for each in names if each != "id"], 0
