"""What the page for authors teaches runs: its examples and the drafts written from it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duly.rules.access import Step
from duly.rules.prepared import Prepared, parse_prepared, script_text
from duly.rules.source import SUFFIXES, Language, Source
from duly.rules.value import Json, decode
from duly.sandbox.base import MISSING, Loaded, Returned, Sandbox, ScriptCall
from tests.authoring.test_drafts import DRAFTS
from tests.sandbox.contract import FROZEN, LIMITS, MAKERS, WORLD, Story, play
from tests.script.catalogue import CATALOG
from tests.script.test_page import SOURCES

pytestmark = pytest.mark.anyio

TAUGHT = [
    *SOURCES,
    *(
        Source(SUFFIXES[Path(each.stem).suffix], each.read_text(encoding="utf-8"), each.name)
        for each in DRAFTS
    ),
]
# Whatever a workflow keeps of a mail, a ticket, an issue or a meeting, it finds here.
THING: dict[str, Json] = {
    "id": "m1",
    "from": "alice@example.com",
    "subject": "Order 7 invoice",
    "date": "2026-11-16",
    "title": "Door broken",
    "body": "It is.",
    "number": 7,
    "labels": ["bug"],
    "text": "Hello",
    "start": "2026-11-16T10:00:00Z",
    "attendees": ["a", "b", "c", "d"],
    "thread": "m1",
    "user": "bob",
    "count": 3,
    "quantity": 3,
    "item": "Tea",
    "customer": "Ada",
    "events": [],
    "lines": ["one"],
    "day": "2026-11-16",
}


@pytest.fixture(scope="module")
async def sandboxes() -> AsyncIterator[dict[Language, Sandbox]]:
    made = {language: await MAKERS[language](LIMITS) for language in Language}
    yield made
    for sandbox in made.values():
        await sandbox.close()


def answer(call: ScriptCall) -> Json:
    """Answer any call as a small world would."""
    if call.path in ("peek", "get_by_ids"):
        topic = call.args[0]
        return [{"topic": topic, "message_id": "m1", "title": "Email from alice", "payload": THING}]
    if call.path == "clock.next":
        return "2026-11-16T08:00:00Z"
    if call.path == "publish":
        return None
    return {"$page": True, "items": [], "last_cursor": "c1", "has_more": False}


async def step(sandbox: Sandbox, loaded: Loaded, handler: str, which: Step, *args: Any) -> Story:
    world = FROZEN if which in (Step.MUTATE, Step.NEXT) else WORLD
    async with sandbox.open(loaded, handler, which, args, world) as script:
        return await play(script, answer)


@pytest.mark.parametrize("source", TAUGHT, ids=[source.name for source in TAUGHT])
async def test_every_step_of_what_is_taught_runs(
    source: Source, sandboxes: dict[Language, Sandbox]
) -> None:
    """W1, C4: it loads, its producers and prepares return, and what they return is well formed."""
    sandbox = sandboxes[source.language]
    loaded = await sandbox.load(source, CATALOG)
    for producer in loaded.declaration.producers:
        story = await step(sandbox, loaded, producer.name, Step.PRODUCE, MISSING)
        assert isinstance(story.end, Returned), story.end
    for consumer in loaded.declaration.consumers:
        story = await step(sandbox, loaded, consumer.name, Step.PREPARE, MISSING)
        prepared: Prepared = parse_prepared(story.value, consumer.subscribe, LIMITS)
        if Step.NEXT in consumer.steps:
            told: Json = {"status": "none"}
            seen = decode(script_text(prepared))
            story = await step(sandbox, loaded, consumer.name, Step.NEXT, seen, told, MISSING)
            assert isinstance(story.end, Returned), story.end
