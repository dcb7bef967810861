"""Names of servers, mails and cursors of a mail account, as settings and scripts write them.

Law: a mail is named by its folder, the validity of the ids of that folder, and its id there. A
cursor is such a name without the folder.
"""

from __future__ import annotations

import re
from typing import Final, TypedDict, cast

from duly.connectors.imap import OpenFolder
from duly.connectors.line_wire import LineServer, Tls
from duly.connectors.mail import Mail
from duly.connectors.need import Need
from duly.errors import ConfigError, Invalid, Refused
from duly.rules.url import read_host

MAIL_NEEDS: Final = (
    Need("address", "the address that sends", "Ada <ada@example.com>"),
    Need("imap", "the server to read from", "imap.example.com", is_required=False),
    Need("smtp", "the server to send with", "smtp.example.com", is_required=False),
)

ID_MARK: Final = "#"
IDS: Final = re.compile(r"([0-9]{1,10})\.([0-9]{1,10})")  # both have 32 bits
PORTS: Final[dict[int, Tls]] = {993: "direct", 465: "direct", 143: "starttls", 587: "starttls"}
WAYS: Final = ("direct", "starttls", "off")

# One of its keys is a word of Python's own.
PostItem = TypedDict(
    "PostItem",
    {
        "id": str,
        "folder": str,
        "message_id": str | None,
        "from": str,
        "subject": str,
        "date": str | None,
        "snippet": str,
        "problem": str | None,
    },
)


class WholePost(PostItem):
    """A mail with its text and the names of what is attached."""

    to: str
    text: str
    attachments: list[str]


class SentMail(TypedDict):
    """The result of a send or a draft: the id by which mail programs know the mail."""

    message_id: str


class FiledMail(TypedDict):
    """The result of a move or a flag."""

    id: str


def read_server(
    text: object, key: str, port: int, tls: str | None, allow: frozenset[str]
) -> LineServer:
    """Read a host with its port; how TLS begins is known by the port, or said."""
    given = str(text)
    host, colon, number = given.rpartition(":") if not given.endswith("]") else (given, "", "")
    host, number = (host, number) if colon else (given, str(port))
    if not number.isdecimal() or not 0 < int(number) < 65_536:
        raise ConfigError(f"{key}: {given!r} has no port. Write {key}.example.com:{port}.")
    try:
        named = read_host(host, path=key)
    except Invalid as error:
        raise ConfigError(str(error)) from None
    way = tls or PORTS.get(int(number))
    if way not in WAYS:
        raise ConfigError(f'tls: say how it begins at port {number}: "direct" or "starttls".')
    if way == "off" and named not in allow:
        raise ConfigError(
            f'tls: "off" would send the password in the clear. Name {named} in allow if it is on'
            " your own network."
        )
    return LineServer(named, int(number), cast("Tls", way), allow)


def read_id(id: str) -> tuple[str, int, int]:  # noqa: A002  # the seeds' own word
    """Read the name of a mail."""
    folder, mark, rest = id.rpartition(ID_MARK)
    found = IDS.fullmatch(rest)
    if not mark or not folder or found is None:
        raise Refused(f"{id[:100]!r} is no id of a mail. Take it from a search.")
    return folder, int(found[1]), int(found[2])


def last_of(after: str | None, opened: OpenFolder) -> int:
    """Return the last id that was seen; a folder whose ids are new begins anew (K11).

    So does one whose next id went back: it was restored, and gives known ids to other mails.
    """
    if after is None:
        return 0
    found = IDS.fullmatch(after)
    if found is None:
        raise Refused(f"after is {after[:50]!r}, which is no cursor of a search.")
    last = int(found[2])
    is_same = int(found[1]) == opened.validity and last < opened.next_id
    return last if is_same else 0


def item_of(opened: OpenFolder, uid: int, mail: Mail) -> PostItem:
    """Describe a mail that was found."""
    return {
        "id": f"{opened.name}{ID_MARK}{opened.validity}.{uid}",
        "folder": opened.name,
        "message_id": mail.message_id,
        "from": mail.sender,
        "subject": mail.subject,
        "date": mail.date,
        "snippet": mail.snippet,
        "problem": mail.problem,
    }
