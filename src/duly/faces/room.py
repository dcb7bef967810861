"""How much room the clients of a control socket get: places, and bytes both ways (G10, H3).

Law 1: a client that says nothing takes no place from another: where places are short, the one that
       has been quiet longest gives way, those that never said a word first.
Law 2: no user takes every place: root and the host's own user do not lock each other out.
Law 3: what clients have sent and is not answered yet is counted, for each and in all. A small
       request always has room; large ones share what there is.
Law 4: answers that a client has not read yet are counted too. Past its own limit it gets an error
       in place of the answer; past the limit of all, the client that holds most is hung up on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from duly.errors import RequestRefused

KIB: Final = 1024
MIB: Final = 1024 * KIB
CONNECTIONS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Room:
    """The limits of one socket; tests give smaller ones."""

    connections: int = CONNECTIONS_MAX
    user_connections: int = 48
    first_line_s: float = 30.0  # until the first whole line of a client
    request_s: float = 30.0  # from the first byte of a line to its last
    client_bytes: int = 16 * MIB
    total_bytes: int = 64 * MIB
    free_bytes: int = 16 * KIB  # of each client, besides the total
    unread_bytes: int = 64 * MIB  # of answers to one client; a single answer may be as long
    unread_total_bytes: int = 256 * MIB


class Clock(Protocol):
    """What a pause is waited by; a host's own, unless a test gives another."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""


class Guest(Protocol):
    """What is to be known of a client in order to find it a place."""

    user: int
    is_leaving: bool
    has_spoken: bool
    quiet_since: int  # a number that grows

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing of it is under way."""

    def give_way(self) -> None:
        """Hang up."""


def make_place(guests: Iterable[Guest], user: int, room: Room) -> RequestRefused | None:
    """See that there is a place for one more client of a user; return why there is none."""
    present = [each for each in guests if not each.is_leaving]
    own = [each for each in present if each.user == user]
    for taken, most, whose in (
        (own, room.user_connections, {"user": user}),
        (present, room.connections, {}),
    ):
        if len(taken) < most:
            continue
        quiet = [each for each in taken if each.is_quiet]
        if not quiet:
            return RequestRefused(code="too_many_clients", facts={"count": most, **whose})
        min(quiet, key=lambda each: (each.has_spoken, each.quiet_since)).give_way()
        present = [each for each in present if not each.is_leaving]
    return None


def _unanswered(whose: str, limit_bytes: int) -> RequestRefused:
    facts = {"limit": limit_bytes, "unit": "bytes"}
    return RequestRefused(code="unanswered", subject=whose, facts=facts)


class Taker(Protocol):
    """A client, as far as it reads what it is sent."""

    def hang_up(self) -> None:
        """Drop the client, and what it has not read."""


class Answers:
    """The bytes of answers that clients have not read yet."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held: dict[Taker, int] = {}

    def held_bytes(self, client: Taker) -> int:
        """Return how much of its answers a client has not read."""
        return self._held.get(client, 0)

    def put(self, client: Taker, size: int, *, is_owed: bool) -> None:
        """Note an answer that is about to be sent, or refuse it unless it is owed."""
        held, room = self.held_bytes(client), self._room
        if held and not is_owed and held + size > room.unread_bytes:
            raise _unanswered("connection", room.unread_bytes)
        self._held[client] = held + size
        while len(self._held) > 1 and sum(self._held.values()) > room.unread_total_bytes:
            worst = max(self._held, key=self.held_bytes)
            del self._held[worst]
            worst.hang_up()

    def take(self, client: Taker, size: int) -> None:
        """Forget an answer that was read, or whose client is gone."""
        left = self.held_bytes(client) - size
        if left > 0:
            self._held[client] = left
        else:
            self._held.pop(client, None)


class Shelf:
    """The bytes that clients have sent and that are not answered yet."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held: dict[object, int] = {}
        self.total_bytes = 0  # beyond what is free for each

    def put(self, client: object, size: int) -> None:
        """Note how many bytes a client holds by now, or refuse them."""
        room = self._room
        if size > room.client_bytes:
            raise _unanswered("connection", room.client_bytes)
        more = self._counted(size) - self._counted(self._held.get(client, 0))
        if more > 0 and self.total_bytes + more > room.total_bytes:
            raise _unanswered("connections", room.total_bytes)
        self.total_bytes += more
        self._held[client] = size

    def clear(self, client: object) -> None:
        """Forget a client that has gone."""
        self.total_bytes -= self._counted(self._held.pop(client, 0))

    def _counted(self, size: int) -> int:
        return max(0, size - self._room.free_bytes)
