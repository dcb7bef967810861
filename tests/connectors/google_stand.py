"""A double of Google for an exam: every token has an account with a mail, two events and a sheet.

The network breaks on the way of the change itself: what a tool asks before, and its draft, go
straight to the double.
"""

from __future__ import annotations

import re
from dataclasses import replace
from email.message import EmailMessage
from typing import Any

from duly.connectors.drive import Drive
from duly.connectors.gmail import Gmail
from duly.connectors.google import Google
from duly.connectors.google_calendar import GoogleCalendar
from duly.connectors.response import HttpResponse
from duly.connectors.sheets import Sheets
from duly.connectors.transport import HttpRequest, Transport, Until
from duly.rules.oauth import TokenGrant
from duly.testing.doubles.base import HOST
from duly.testing.doubles.google import CLIENT, CLIENT_SECRET, SCOPES, GoogleDouble

BOOK = "1abcdefghijklmnop"
COLUMNS = ["customer", "total", "paid", "duly_key"]
TOKENS = "ya29.exam-"
MAILS = ("0000000000000001", "0000000000000002")
ADDRESS = "Ada <ada@example.com>"


class StockedGoogle(GoogleDouble):
    """Google, with something in every new account."""

    def new_account(self) -> dict[str, Any]:
        made = super().new_account()
        rows = [[*COLUMNS], ["Bob", 1, True, "k1"], ["Eve", 2, False, "k2"]]
        made["books"][BOOK] = {"Bills": rows}
        for own in ("event1", "event2"):
            times = {"start": {"date": "2026-05-01"}, "end": {"date": "2026-05-02"}}
            event = {"id": own, "summary": own, "status": "confirmed", "etag": '"1"', **times}
            made["events"]["primary", own] = event
        made["labels"]["Bills"] = "Label_1"
        return made

    def account(self, name: str) -> dict[str, Any]:
        with self._door:
            is_new = name not in self.accounts
            found = super().account(name)
            if is_new:
                for each in ("Invoice 1", "Hello"):
                    self.put_mail(name, write_mail(each))
            return found


class Detour(Transport):
    """Sends the changes whose path fits by another port, and what it asks if it `asks`."""

    def __init__(self, port: int, path: str, *, asks: bool = False) -> None:
        super().__init__(allow=[HOST])
        self._port, self._path, self._asks = port, path, asks

    async def read(self, request: HttpRequest, **more: Any) -> HttpResponse:
        return await super().read(self._moved(request) if self._asks else request, **more)

    async def change(
        self, request: HttpRequest, *, timeout_s: float, until: Until | None = None
    ) -> HttpResponse:
        fits = re.search(self._path, request.url.path)
        own = self._moved(request) if fits else request
        return await super().change(own, timeout_s=timeout_s, until=until)

    def _moved(self, request: HttpRequest) -> HttpRequest:
        url = replace(request.url, port=self._port)
        assert request.credentials is not None
        own = replace(request.credentials, origin=url.origin)
        return replace(request, url=url, credentials=own)


def write_mail(subject: str, sender: str = "bob@example.org") -> bytes:
    """Write a mail that arrives."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = sender, "ada@example.com", subject
    made["Message-ID"] = f"<{subject.replace(' ', '-')}@example.org>"
    made.set_content(f"{subject}, please.")
    made.add_attachment(b"%PDF-1", maintype="application", subtype="pdf", filename="a.pdf")
    return made.as_bytes()


def make(kind: str, google: GoogleDouble, secrets: dict[str, str], **more: Any) -> Any:
    """Make a connector of a kind that asks the double."""
    args: dict[str, Any] = {"url": google.url, "allow": [HOST], **more}
    made: Google
    match kind:
        case "gmail":
            made = Gmail(CLIENT, ADDRESS, **args)
        case "sheets":
            made = Sheets(CLIENT, BOOK, "Bills", **args)
        case "google_calendar":
            made = GoogleCalendar(CLIENT, **args)
        case _:
            made = Drive(CLIENT, **args)
    made._vault = lambda connector, name: secrets[name]
    return made


def secrets_of(token: str, *scopes: str) -> dict[str, str]:
    """Return the secrets of a connector with this token."""
    granted = scopes or tuple(sorted(SCOPES))
    return {"sign_in": TokenGrant(token, scopes=granted).text, "client_secret": CLIENT_SECRET}
