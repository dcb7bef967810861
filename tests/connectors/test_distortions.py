"""Services that show something else than what there is: no change is denied that was made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from duly.connectors import google, letter
from duly.connectors.base import Applied, Call, NotApplied, Unsure
from duly.connectors.blob import using_blobs
from duly.connectors.conflict import Theirs
from duly.connectors.key_place import key_values
from duly.connectors.registry import Registry
from duly.errors import DulyError, NotSent, Transient, UnknownOutcome
from duly.rules.asking import Deleted
from duly.testing.distortion import crowded, lagging, rewritten
from duly.testing.doubles.base import ServiceDouble
from duly.testing.doubles.declared import DeclaredDesk
from duly.testing.exam import asker_of
from tests.connectors import test_declared
from tests.connectors.google_stand import TOKENS, StockedGoogle, make, secrets_of
from tests.connectors.service_exam import PREFIX, reach
from tests.connectors.test_deaths import OF_FILES, OF_GOOGLE, OF_SERVICES, PDF, SERVICES, Way

WAYS = OF_SERVICES | OF_GOOGLE | OF_FILES
SHEETS = ("sheets.append", "sheets.update")
PAGED = (
    *("github.create_issue", "github.comment", "github.create_pull", "github.create_release"),
    *("notion.create", "slack.post", "stripe.create"),
)


@contextmanager
def stand(tool: str) -> Iterator[tuple[ServiceDouble, Any]]:
    """Let a connector be at its double."""
    service, _, _ = tool.partition(".")
    token = f"{PREFIX}one"
    if tool in OF_GOOGLE:
        with StockedGoogle() as at_google:
            at_google.give_tokens(TOKENS)
            yield at_google, make(service, at_google, secrets_of(f"{TOKENS}one"))
        return
    double = SERVICES[service].double() if tool in OF_SERVICES else DeclaredDesk()
    with double, using_blobs(PDF):
        double.give_tokens(PREFIX)
        if tool in OF_SERVICES:
            at = SERVICES[service]
            yield double, reach(double, at.kind, token, **at.more)
        else:
            yield double, reach(double, test_declared.at(service), token)


def call_of(tool: str, way: Way, key: str, kept: dict[str, Any]) -> Call:
    async def keep(handle: Any) -> None:
        kept[key] = handle

    return Call(tool, way.args, key, "w", 1, datetime.now(UTC), handle=kept.get(key), keeper=keep)


def send(connector: Any, tool: str, way: Way, key: str, kept: dict[str, Any]) -> None:
    call = call_of(tool, way, key, kept)
    asyncio.run(getattr(connector, tool.partition(".")[2])(call, **call.args))


def ask(connector: Any, tool: str, way: Way, key: str, kept: dict[str, Any]) -> Any:
    """Ask; an error is no answer."""
    call = replace(call_of(tool, way, key, kept), attempt=2)
    try:
        return asyncio.run(_ask(asker_of(connector, tool.partition(".")[2]), call))
    except DulyError as error:
        return Unsure(str(error))


def find(connector: Any, tool: str) -> Any:
    """Return what the tool says of itself."""
    return Registry([connector]).catalog.find(f"{connector.name}.{tool.partition('.')[2]}")


async def _ask(asker: Any, call: Call) -> Any:
    return await asker(call)


@pytest.mark.parametrize("tool", PAGED)
def test_it_is_found_on_a_later_page(tool: str) -> None:
    """L5: others were made before it and after it, and two are on a page."""
    way = WAYS[tool]
    kept: dict[str, Any] = {}
    others = Way({**way.args, **way.other})
    with stand(tool) as (double, connector), crowded(double, 2):
        for key in ("a", "b", "c", "own", "d", "e", "f"):
            with suppress(
                *((DulyError,) if way.other and key != "own" else ())
            ):  # it is there once
                send(connector, tool, way if key == "own" else others, key, kept)
        verdict = ask(connector, tool, way, "own", kept)
        assert isinstance(verdict, Applied), verdict


@pytest.mark.parametrize("tool", WAYS)
def test_it_is_found_when_a_search_has_caught_up(tool: str) -> None:
    """L4, L6: a copy of the request is no refusal, while the search does not show the first."""
    way = WAYS[tool]
    kept: dict[str, Any] = {}
    with stand(tool) as (double, connector):
        with lagging(double):
            send(connector, tool, way, "own", kept)
            with suppress(UnknownOutcome, NotSent, Transient):
                send(connector, tool, way, "own", dict(kept))
            ask(connector, tool, way, "own", kept)
        verdict = ask(connector, tool, way, "own", kept)
        assert not isinstance(verdict, NotApplied), verdict


@pytest.mark.parametrize(
    ("tool", "hidden"), [("github.create_release", "tag_name"), ("google_calendar.update", "etag")]
)
def test_an_answer_that_shows_no_such_thing_is_of_no_other(tool: str, hidden: str) -> None:
    """L4: only what is certainly of another refuses after a conflict."""
    way = WAYS[tool]
    kept: dict[str, Any] = {}
    with stand(tool) as (double, connector):
        send(connector, tool, way, "other", kept)
        assert isinstance(ask(connector, tool, way, "own", kept), Theirs)
        with rewritten(double, {hidden: "hidden"}):
            verdict = ask(connector, tool, way, "own", kept)
        assert type(verdict) is Unsure, verdict


@pytest.mark.parametrize("tool", ["airtable.create", "notion.create", "notion.update", *SHEETS])
def test_a_column_of_keys_that_was_renamed_denies_nothing(tool: str) -> None:
    """L5: a person gave the column of keys another name."""
    way = WAYS[tool]
    kept: dict[str, Any] = {}
    with stand(tool) as (double, connector):
        send(connector, tool, way, "own", kept)
        with rewritten(double, {"duly_key": "other", "Duly key": "Other"}):
            verdict = ask(connector, tool, way, "own", kept)
            assert isinstance(verdict, Unsure), verdict
        assert isinstance(ask(connector, tool, way, "own", kept), Applied)


@pytest.mark.parametrize("tool", WAYS)
def test_a_mark_that_is_gone_makes_nothing_twice(tool: str) -> None:
    """L6: a person edited it away, or the service wrote its own. What is denied says so first."""
    way = WAYS[tool]
    kept: dict[str, Any] = {}
    forms = [str(each) for each in key_values("own").values()]
    forms += [google.mark_of("own"), letter.mark_of("own")]
    with stand(tool) as (double, connector):
        send(connector, tool, way, "own", kept)
        with rewritten(double, dict.fromkeys(forms, "edited")):
            verdict = ask(connector, tool, way, "own", kept)
        found = find(connector, tool)
        if isinstance(verdict, NotApplied) and found.idempotent:
            send(connector, tool, way, "own", kept)
            assert double.effects(double.account(f"{PREFIX}one")) == 1
        elif isinstance(verdict, NotApplied):
            # It counts for an hour only, and the table says it of this tool.
            assert found.answering.deleted is Deleted.UNSEEN, verdict
