"""What a session may do: every verb of the registry with every scope (G4, G5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.api import session
from duly.api.codec import perform
from duly.api.registry import VERBS, Scope
from duly.api.session import connect
from duly.errors import DulyError, RequestRefused
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.redaction import Redactor
from tests.faces.stand import client, listening, project

SIZES = list(Scope)
PAIRS = [(verb, scope) for verb in VERBS for scope in Scope]


class Reached(BaseException):
    """The verb itself was called."""


class Recorder:
    """In place of a host: each of its verbs only says that it was called."""

    class connectors:  # noqa: N801  # as a host has it
        @staticmethod
        def secrets() -> Redactor:
            return Redactor()

    @property
    def bus(self) -> Recorder:
        return self

    def __getattr__(self, name: str) -> Any:
        async def reached(**given: Any) -> None:
            raise Reached

        return reached


@pytest.mark.parametrize(("verb", "scope"), PAIRS)
async def test_a_verb_is_called_with_its_own_scope_and_refused_with_a_smaller_one(
    verb: str, scope: Scope
) -> None:
    """G4: the registry decides; the verb is not reached, whatever the arguments are."""
    known = VERBS[verb]
    host: Any = Recorder()
    may = SIZES.index(scope) >= SIZES.index(known.scope)
    expected = Reached if may else RequestRefused
    with pytest.raises(expected) as raised:
        await perform(host, verb, known.example, by="anna", scope=scope)
    if isinstance(raised.value, DulyError):
        facts = {"scope": str(scope), "needed": str(known.scope)}
        told = raised.value
        assert (told.code, told.subject, told.facts) == ("beyond_scope", verb, facts)
        with pytest.raises(RequestRefused):  # before its arguments are read
            await perform(host, verb, {"no": "argument"}, by="anna", scope=scope)


def test_a_scope_covers_itself_and_every_smaller_one() -> None:
    """G4: read, agent, decide, admin."""
    for one in Scope:
        for other in Scope:
            assert one.covers(other) is (SIZES.index(one) >= SIZES.index(other))
            assert one.lowered_to(other) is SIZES[min(SIZES.index(one), SIZES.index(other))]


async def test_a_client_of_the_socket_can_lower_its_scope_and_not_raise_it(tmp_path: Path) -> None:
    """G4, G5: the owner's socket allows everything; another one allows what it was made with."""
    async with listening(tmp_path) as (_, path), client(path) as owner:
        assert "answer" in await owner.ask(id=1, verb="secrets")
        refused = await owner.ask(id=2, verb="secrets", scope="decide")
        assert refused["error"]["code"] == "beyond_scope"
        refused = await owner.ask(id=3, verb="secrets", scope="read", follow=True)
        assert refused["error"]["facts"] == {"scope": "read", "needed": "admin"}
        wrong = await owner.ask(id=4, verb="secrets", scope="all")
        assert (wrong["error"]["code"], wrong["error"]["path"]) == ("not_one_of", "scope")
    place = project(tmp_path)  # the same store, with another socket
    async with (
        Host(place.url) as host,
        Control(host, place.socket, scope=Scope.READ),
        client(place.socket) as reader,
    ):
        assert "answer" in await reader.ask(id=1, verb="workflows")
        for scope in (None, *Scope):
            given = {} if scope is None else {"scope": str(scope)}
            told = await reader.ask(id=2, verb="secrets", **given)
            assert told["error"]["facts"] == {"scope": "read", "needed": "admin"}


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_lowered_session_is_refused_the_same_with_a_host_and_without(
    is_running: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4, U6: nothing is changed, and no store is made for an act that is refused."""
    monkeypatch.setattr(session, "PAUSE_S", 0.001)
    place = project(tmp_path)

    async def ask() -> None:
        async with connect(place, scope=Scope.READ) as each:
            assert await each.call("workflows") == []
            for verb in ("bus.resume", "secrets", "sql"):
                with pytest.raises(RequestRefused) as raised:
                    await each.call(verb, **VERBS[verb].example)
                assert raised.value.code == "beyond_scope"
            with pytest.raises(RequestRefused) as raised:
                await anext(aiter(each.follow("secrets")))
            assert raised.value.code == "beyond_scope"

    if is_running:
        async with listening(tmp_path):
            await ask()
    else:
        await ask()
        assert not place.has_store
