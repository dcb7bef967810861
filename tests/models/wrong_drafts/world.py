"""The small office that the drafts are written for: mail, a table, appointments, a shop, a chat."""

from __future__ import annotations

from typing import Any

import duly

MAILS = (
    ("m1", "billing@acme.example", "Invoice 1041", 120, 131),
    ("m2", "newsletter@shop.example", "Newsletter: sale this week", 0, 0),
    ("m3", "ben@home.example", "Dinner on Friday?", 0, 0),
    ("m4", "billing@globex.example", "Invoice 77", 90, 98),
    ("m5", "newsletter@news.example", "Newsletter: ten things", 0, 0),
    ("m6", "hr@work.example", "Your new contract", 0, 0),
)
APPOINTMENTS = {
    "today": ("09:00 Dentist", "11:00 Planning", "16:00 School"),
    "tomorrow": ("10:00 Bank",),
}
LETTER = {"to": "To", "subject": "Subject", "text": "Text"}
ORDERS = (("o1", "carla@customer.example", 40), ("o2", "dora@customer.example", 250))


class Mail(duly.Connector):
    """A mailbox."""

    name = "mail"

    @duly.read(capability="mail.read")
    async def search(self, folder: str, query: str = "") -> list[dict[str, Any]]:
        keys = ("id", "from", "subject", "total_eur", "total_usd")
        found = [dict(zip(keys, each, strict=True)) for each in MAILS]
        return [each for each in found if query.lower() in str(each["subject"]).lower()]

    @duly.mutation(capability="mail.send", risk="medium", lag_s=0, labels=LETTER)
    async def send(self, call: duly.Call, to: str, subject: str, text: str) -> None:
        raise AssertionError("A preview sends nothing.")

    @duly.mutation(capability="mail.file", risk="low", lag_s=0)
    async def archive(self, call: duly.Call, id: str) -> None:  # noqa: A002
        raise AssertionError("A preview sends nothing.")

    @duly.mutation(capability="mail.delete", risk="high", lag_s=0)
    async def delete(self, call: duly.Call, id: str) -> None:  # noqa: A002
        raise AssertionError("A preview sends nothing.")


class Table(duly.Connector):
    """A table of rows."""

    name = "table"

    @duly.mutation(capability="table.write", risk="low", noun="row", lag_s=0)
    async def insert(self, call: duly.Call, table: str, row: dict[str, Any]) -> None:
        raise AssertionError("A preview sends nothing.")


class Calendar(duly.Connector):
    """Appointments."""

    name = "calendar"

    @duly.read(capability="calendar.read")
    async def appointments(self, day: str) -> list[str]:
        return list(APPOINTMENTS[day])


class Shop(duly.Connector):
    """Orders."""

    name = "shop"

    @duly.read(capability="shop.read")
    async def orders(self) -> list[dict[str, Any]]:
        return [dict(zip(("id", "customer", "total_eur"), each, strict=True)) for each in ORDERS]

    @duly.mutation(capability="shop.refund", risk="high", lag_s=0)
    async def refund(self, call: duly.Call, order: str) -> None:
        raise AssertionError("A preview sends nothing.")


class Chat(duly.Connector):
    """Messages to a team, and to any address."""

    name = "chat"

    @duly.mutation(capability="chat.post", risk="medium", lag_s=0)
    async def post(self, call: duly.Call, channel: str, text: str) -> None:
        raise AssertionError("A preview sends nothing.")

    @duly.mutation(capability="chat.hook", risk="medium", lag_s=0)
    async def hook(self, call: duly.Call, url: str, text: str) -> None:
        raise AssertionError("A preview sends nothing.")


CONNECTORS = (Mail, Table, Calendar, Shop, Chat)
