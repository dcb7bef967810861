"""No error that a caller gets has a secret in it, wherever the caller put it (A5)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.codec import perform
from duly.api.registry import VERBS, Scope
from duly.api.wire import write_error
from duly.errors import DulyError, Invalid, NotDeployed, see
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.fault import mask
from duly.rules.redaction import PART_BYTES, REDACTED, Redactor
from tests.faces.stand import client, project

SECRET = "canary-Zx81-" + "Qw7" * 40  # longer than every place where an error cuts a value


class Vault(duly.Connector):
    """A connector with one secret."""

    name = "vault"

    @duly.read
    async def look(self) -> str:
        return self.secret("token")


def hosted(folder: Path) -> Host:
    return Host(f"sqlite:///{folder / 'duly.db'}", connectors=[Vault()])


def is_clean(text: str) -> bool:
    """Tell whether no piece of the secret can be read that is long enough to betray it."""
    pieces = {SECRET[at : at + PART_BYTES] for at in range(len("canary-Zx81-"))}
    return not any(each in text for each in pieces)


def spoiled(verb: str) -> Iterator[dict[str, Any]]:
    """Put the secret into each argument in every shape; also as a name that does not exist."""
    known = VERBS[verb]
    shapes: tuple[Any, ...] = (
        SECRET,
        f"{SECRET}/x",
        [SECRET],
        {SECRET: SECRET},
        {"language": "python", "text": SECRET, "name": SECRET},
        {"payload": {SECRET: "\ud800"}},
    )
    for parameter in known.parameters:
        for shape in shapes:
            yield {**known.example, parameter.name: shape}
    yield {**known.example, SECRET: 1}
    yield {**known.example, f"x{SECRET}": 1}


@pytest.mark.parametrize("verb", VERBS)
async def test_no_verb_returns_a_secret_in_an_error(verb: str, tmp_path: Path) -> None:
    """A5, U6: message, subject, facts, path, offer and findings, over every face."""
    async with hosted(tmp_path) as host:
        await host.set_secret("vault", "token", SECRET)
        raised = [each for args in spoiled(verb) if (each := await failure(host, verb, args))]
    assert raised
    for each in raised:
        assert is_clean(json.dumps(write_error(each), default=str)), write_error(each)
        assert is_clean(f"{each!r} {vars(each)}")


async def failure(host: Host, verb: str, args: Mapping[str, Any]) -> DulyError | None:
    """Carry out a verb; return the error it raises."""
    try:
        await perform(host, verb, args, by="anna", scope=Scope.ADMIN)
    except DulyError as error:
        return error
    return None


async def test_an_error_of_the_socket_itself_has_no_secret(tmp_path: Path) -> None:
    """A5: of a request that is no request, and of one that cannot be followed."""
    place = project(tmp_path)
    async with hosted(tmp_path) as host, Control(host, place.socket):
        await host.set_secret("vault", "token", SECRET)
        async with client(place.socket) as each:
            told = [
                await each.ask(id=1, verb=SECRET),
                await each.ask(id=1, verb=SECRET, follow=True),
                await each.ask(id=1, verb="why", args={"id": SECRET}),
                await each.ask(id=1, verb="why", scope=SECRET),
                await each.ask(**{"id": 1, SECRET: 1}),
            ]
            await each.say(json.dumps({SECRET: 1})[:-1].encode() + f', "{SECRET}": 2}}\n'.encode())
            told.append(await each.hear())
    assert all("error" in each for each in told)
    assert is_clean(json.dumps(told))
    assert REDACTED in json.dumps(told)


async def test_a_secret_that_is_being_set_is_in_no_error(tmp_path: Path) -> None:
    """A5: the host does not know it yet, so no error repeats a value of this act at all."""
    async with hosted(tmp_path) as host:
        for wrong in (
            {"connector": "nowhere"},
            {"name": ""},
            {"value": [SECRET]},
            {"value": {SECRET: 1}},
            {"value": SECRET + "\ud800"},
            {"value": SECRET * 10_000},
        ):
            args: Mapping[str, Any] = {"connector": "vault", "name": "t", "value": SECRET, **wrong}
            with pytest.raises(DulyError) as raised:
                await perform(host, "set_secret", args, by="anna", scope=Scope.ADMIN)
            assert is_clean(str(write_error(raised.value))), wrong


def test_every_part_of_an_error_is_masked_and_its_code_stays() -> None:
    """A5: also a secret that was cut in the middle, inside quotes, before the error was made."""
    secrets = Redactor([SECRET])
    cut = SECRET[:40]
    offer = see("why", id=SECRET)
    error = Invalid(
        code="not_one_of",
        path=f"x['{cut}'].y",
        facts={"given": SECRET[:100], SECRET: {"deep": [(SECRET,)]}, "known": ["a"], "n": 3},
        next=offer,
    )
    assert not is_clean(str(error))
    mask(error, secrets)
    assert error.code == "not_one_of"
    assert error.path == f"x['{REDACTED}'].y"
    assert error.facts == {
        "given": REDACTED,
        REDACTED: {"deep": [(REDACTED,)]},
        "known": ["a"],
        "n": 3,
    }
    assert error.next is not None
    assert (error.next.verb, error.next.args) == ("why", {"id": REDACTED})
    assert str(error) == f"x['{REDACTED}'].y is '{REDACTED}'. Use one of a."


def test_findings_and_foreign_words_are_masked_too() -> None:
    """A5: what a source was refused for, and a message that `words` did not make."""
    error = NotDeployed(f"It says {SECRET}.", findings=(SECRET,))
    mask(error, Redactor([SECRET]))
    assert str(error) == f"It says {REDACTED}."
    assert error.findings == (REDACTED,)
