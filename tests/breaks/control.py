"""The breaks of the control socket: who may speak, who is waited for, and who still looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.breaks import Break

TESTS = ("tests/faces/test_socket.py", "tests/faces/test_socket_manners.py")


def _nothing(*_: object) -> None:
    """Check nothing."""


@contextmanager
def _watched_for_ever(self: Any, told: Any) -> Iterator[None]:
    """Tell a watcher of every write, also when it has gone."""
    self._watchers.add(told)
    yield


BREAKS = (
    Break(
        rule="A5",
        module="duly.api.wire",
        attribute="MODE",
        replacement=0o666,
        tests=TESTS,
        says="every user of the machine can open the socket",
    ),
    Break(
        rule="A5",
        module="duly.faces.socket",
        attribute="Control._refuse",
        replacement=_nothing,
        tests=TESTS,
        says="nobody asks the kernel who speaks",
    ),
    Break(
        rule="A5",
        module="duly.api.wire",
        attribute="_check_listener",
        replacement=_nothing,
        tests=TESTS,
        says="a stranger who listens is told secrets",
    ),
    Break(
        rule="A6",
        module="duly.faces.socket",
        attribute="name_actor",
        replacement=lambda user, scope: "somebody",
        tests=("tests/faces/test_socket_room.py",),
        says="an act over the socket is nobody's",
    ),
    Break(
        rule="H3",
        module="duly.faces.socket",
        attribute="make_place",
        replacement=lambda guests, user, room: None if len([*guests]) < 3 else "full",
        tests=("tests/faces/test_socket_room.py",),
        says="silent clients lock others out",
    ),
    Break(
        rule="H3",
        module="duly.faces.room",
        attribute="Shelf.put",
        replacement=_nothing,
        tests=("tests/faces/test_socket_room.py",),
        says="half a line may be as long as it likes",
    ),
    Break(
        rule="X3",
        module="duly.api.wire",
        attribute="_refuse_twins",
        replacement=lambda pairs: dict(pairs),
        tests=("tests/faces/test_socket_room.py",),
        says="of two equal keys the last one wins",
    ),
    Break(
        rule="A6",
        module="duly.faces.socket",
        attribute="Talk._is_act",
        replacement=lambda self, request: False,
        tests=TESTS,
        says="closing cuts off an act that was begun",
    ),
    Break(
        rule="S9",
        module="duly.host",
        attribute="Host.watched_by",
        replacement=_watched_for_ever,
        tests=TESTS,
        says="a host goes on telling followers that have gone",
    ),
)
