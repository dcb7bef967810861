"""Errors cross the control socket whole: class, code, subject, facts, next and message."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from duly import errors
from duly.api.wire import read_error, write_error
from duly.errors import DulyError, Invalid, see
from duly.rules.value import Json

KINDS = [
    each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, DulyError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_crosses_whole(kind: type[DulyError]) -> None:
    """U6: what is raised over there is what was raised here."""
    facts = {"near": "mail", "count": 3, "known": ["a", "b"]}
    offer = see("what_if", "source", workflow="mail")
    error = kind(code="no_workflow", subject="mial", facts=facts, next=offer)
    line = msgspec.json.encode(write_error(error))
    made = read_error(msgspec.json.decode(line))
    assert type(made) is kind
    assert {**vars(made)} == {**vars(error)}
    assert (made.next, str(made)) == (offer, str(error))


def test_an_unknown_kind_of_error_keeps_its_sentence() -> None:
    """U6: a client that is older than its host tells at least what happened."""
    made = read_error({"kind": "FromLater", "message": "It broke."})
    assert (type(made), str(made)) == (DulyError, "It broke.")


@pytest.mark.parametrize(
    "more",
    [
        {"next": {"verb": "why", "args": {}}},
        {"more": 1},
        {"facts": [], "subject": 3, "path": None},
    ],
    ids=["offer", "field", "types"],
)
def test_an_error_of_another_version_is_still_that_error(more: dict[str, Json]) -> None:
    """U6: what cannot be read of it is left out; a refused act must not become an unknown one."""
    made = read_error({"kind": "Invalid", "code": "blank", "message": "No.", **more})
    assert (type(made), made.code, str(made)) == (Invalid, "blank", "No.")
