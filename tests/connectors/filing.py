"""Mails that an exam files: each point has folders of its own, and names a mail by its number."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from duly.connectors.base import Call, Verdict
from duly.connectors.mail_account import MailAccount
from tests.connectors.post_office import PostOffice

MAILS = 3
TO_BOB: dict[str, Any] = {
    "to": ["Bob <bob@example.org>"],
    "subject": "Hello",
    "text": "One\n.\nTwo",
}


def mail_of(number: int, subject: str = "", sender: str = "eve@example.org") -> bytes:
    """Write a mail."""
    return (
        f"From: {sender}\r\nSubject: {subject or number}\r\nMessage-ID: <{number}@example.org>\r\n"
        f"\r\nText {number}\r\n"
    ).encode()


class Filing(MailAccount):
    """Files mails that an exam names by their number, in the folders of one point."""

    point = ""
    ids: tuple[str, ...] = ()

    def _named(self, call: Call) -> Call:
        known = {"id": self.ids[int(str(call.args["id"]))]}
        if "folder" in call.args:
            known["folder"] = f"{self.point}done"
        return replace(call, args={**call.args, **known})

    async def move(self, call: Call, id: str, folder: str) -> Any:  # noqa: A002
        named = self._named(call)
        return await super().move(named, **named.args)  # type: ignore[arg-type]

    async def move_happened(self, call: Call) -> Verdict:
        return await super().move_happened(self._named(call))

    async def flag(self, call: Call, id: str, flag: str) -> Any:  # type: ignore[override]  # noqa: A002
        named = self._named(call)
        return await super().flag(named, **named.args)  # type: ignore[arg-type]

    async def flag_happened(self, call: Call) -> Verdict:
        return await super().flag_happened(self._named(call))


@dataclass(frozen=True, slots=True)
class Filed:
    """What an exam sends, and where it sees what came of it: a folder, and a search in it."""

    args: dict[str, Any]
    other_args: dict[str, Any]
    folder: str
    term: str


FILED = {
    "move": Filed({"id": "0", "folder": "done"}, {"id": "1", "folder": "done"}, "done", "ALL"),
    "flag": Filed({"id": "0", "flag": "flagged"}, {"id": "1", "flag": "flagged"}, "in", "FLAGGED"),
    "draft": Filed(TO_BOB, TO_BOB, "in", "ALL"),
}


def make_filing(office: PostOffice, tool: str, prefix: str, folder: Path, **more: Any) -> Filing:
    """Make a connector of one point; the first one makes its folders and puts mails into one."""
    point, known = f"{prefix}{folder.name}-", folder / "ids.json"
    if not known.exists():
        for each in ("in", "done"):
            office.make_folder(f"{point}{each}")
        for number in range(0 if tool == "draft" else MAILS):
            office.put(f"{point}in", mail_of(number))
        known.write_text(json.dumps(office.known_ids(f"{point}in")))
    made = office.account(drafts=f"{point}in", kind=Filing, **more)
    object.__setattr__(made, "point", point)
    object.__setattr__(made, "ids", tuple(json.loads(known.read_text())))
    assert isinstance(made, Filing)
    return made


def count_filed(office: PostOffice, tool: str, prefix: str) -> Callable[[Path], int]:
    """Make a function that counts the mails that were really filed."""
    filed = FILED[tool]
    return lambda folder: len(office.ids(f"{prefix}{folder.name}-{filed.folder}", filed.term))
