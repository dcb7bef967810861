"""The workflows the product was described by run unchanged, and so do our own examples."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duly.rules.access import Step
from duly.rules.prepared import parse_prepared
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import MISSING, Missing, Sandbox, World
from tests.sandbox import seeds
from tests.sandbox.contract import FROZEN, LIMITS, MAKERS, WORLD, Answers, Story, play
from tests.sandbox.seeds import CATALOG, Mailing

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
NINE_MS = 20_833 * DAY_MS + 9 * 3_600_000
MAILS: Json = [
    {"id": "m1", "from": "alice@example.com", "subject": "Invoice December"},
    {"id": "m2", "from": "bob@example.com", "subject": 'The "last" one'},
]
PAGE: Json = {"$page": True, "items": MAILS, "last_cursor": "c9"}


@pytest.fixture(scope="module")
async def javascript() -> AsyncIterator[Sandbox]:
    made = await MAKERS["javascript"](LIMITS)
    yield made
    await made.close()


@pytest.fixture(scope="module")
async def python() -> AsyncIterator[Sandbox]:
    made = await MAKERS["python"](LIMITS)
    yield made
    await made.close()


@pytest.fixture
def sandboxes(javascript: Sandbox, python: Sandbox) -> dict[str, Sandbox]:
    return {".js": javascript, ".py": python}


async def step(
    sandbox: Sandbox,
    source: Source,
    handler: str,
    which: Step,
    args: tuple[Json | Missing, ...],
    answers: Answers | None = None,
    world: World = WORLD,
) -> Story:
    """Play one step of a workflow."""
    loaded = await sandbox.load(source, CATALOG)
    async with sandbox.open(loaded, handler, which, args, world) as script:
        return await play(script, answers)


def mailing_source(mailing: Mailing) -> Source:
    return Source(Language.JAVASCRIPT, mailing.text, mailing.name)


def event_of(mailing: Mailing) -> Json:
    payload: Json = {"id": "m1", "from": "alice@example.com", "subject": "Invoice December"}
    title = 'Email from alice@example.com: "Invoice December"'
    return {"topic": mailing.received, "message_id": "m1", "title": title, "payload": payload}


every_mailing = pytest.mark.parametrize("mailing", seeds.mailings(), ids=str)


@every_mailing
async def test_a_mailing_declares_what_it_says(javascript: Sandbox, mailing: Mailing) -> None:
    """W1: the module loads as it stands."""
    loaded = await javascript.load(mailing_source(mailing), CATALOG)
    declaration = loaded.declaration
    assert declaration.name == mailing.workflow
    assert [topic.name for topic in declaration.topics] == [mailing.received, mailing.created]
    assert [each.name for each in declaration.producers] == [mailing.producer]
    (consumer,) = declaration.consumers
    assert (consumer.name, consumer.subscribe) == (mailing.consumer, (mailing.received,))
    assert consumer.steps == (Step.PREPARE, Step.MUTATE, Step.NEXT)


@every_mailing
async def test_a_mailing_s_producer_publishes_every_mail(
    javascript: Sandbox, mailing: Mailing
) -> None:
    """W1, P2: search, publish each, keep the cursor; without and with a state."""
    source = mailing_source(mailing)
    for state, after in ((MISSING, None), ({"cursor": "c8"}, "c8")):
        story = await step(
            javascript,
            source,
            mailing.producer,
            Step.PRODUCE,
            (state,),  # type: ignore[arg-type]
            {"gmail.search": PAGE},
        )
        assert story.paths == ["gmail.search", "publish", "publish"]
        assert story.calls[0].kwargs.get("after") == after
        assert [call.args for call in story.calls[1:]] == [(mailing.received,)] * 2
        assert [call.kwargs["message_id"] for call in story.calls[1:]] == ["m1", "m2"]
        assert "Invoice December" in str(story.calls[1].kwargs["title"])
        assert story.value == {"cursor": "c9"}


@every_mailing
async def test_a_mailing_s_prepare_reserves_the_first_mail(
    javascript: Sandbox, mailing: Mailing
) -> None:
    """W1, C4: nothing pending reserves nothing; else the first mail is reserved."""
    source = mailing_source(mailing)
    prepare = (source, mailing.consumer, Step.PREPARE, (MISSING,))
    nothing = await step(javascript, *prepare, answers={"peek": []})
    assert nothing.value == {"reservations": [], "data": {}}
    something = await step(javascript, *prepare, answers={"peek": [event_of(mailing)]})
    assert something.calls[0].args == (mailing.received,)
    (reservation,) = parse_prepared(something.value, [mailing.received]).reservations
    assert (reservation.topic, reservation.message_ids) == (mailing.received, ("m1",))


@every_mailing
async def test_a_mailing_s_mutate_and_next_add_one_row_and_tell_it(
    javascript: Sandbox, mailing: Mailing
) -> None:
    """W1, C10: one row is added; only an applied mutation is told."""
    source, sandbox = mailing_source(mailing), javascript
    answers: dict[str, Json] = {"peek": [event_of(mailing)]}
    prepared = (
        await step(sandbox, source, mailing.consumer, Step.PREPARE, (MISSING,), answers)
    ).value
    mutated = await step(sandbox, source, mailing.consumer, Step.MUTATE, (prepared,), world=FROZEN)
    (call,) = mutated.calls
    assert call.path == "sheets.append_row"
    assert call.kwargs["values"] == ["alice@example.com", "Invoice December"]
    assert set(call.kwargs) == {"spreadsheet_id", "values"}
    for result, published in (
        ({"status": "applied", "result": {"rowId": 7}}, [mailing.created]),
        ({"status": "none"}, []),
        ({"status": "skipped"}, []),
    ):
        told = await step(
            sandbox,
            source,
            mailing.consumer,
            Step.NEXT,
            (prepared, result, MISSING),  # type: ignore[arg-type]
            world=FROZEN,
        )
        assert [call.args[0] for call in told.calls] == published
        assert told.value is MISSING


@pytest.mark.parametrize("name", seeds.digests())
async def test_a_digest_s_prepare_wakes_at_nine(javascript: Sandbox, name: str) -> None:
    """W1, S6: before nine it sleeps until nine; at nine it takes everything and sets the next."""
    source = Source(Language.JAVASCRIPT, seeds.digests()[name], name)
    notes: Json = [
        {"topic": "notifications", "message_id": f"n{n}", "title": f"Note {n}", "payload": {"n": n}}
        for n in (1, 2)
    ]
    for now_ms, ids in ((NINE_MS - 1, []), (NINE_MS, ["n1", "n2"])):
        story = await step(
            javascript,
            source,
            "digest",
            Step.PREPARE,
            (MISSING,),
            {"peek": notes},
            World(now_ms, frozen=True, seed=1),
        )
        prepared = parse_prepared(story.value, ["notifications"])
        reserved = [each for part in prepared.reservations for each in part.message_ids]
        assert (reserved, prepared.wake_at_raw) == (ids, "2027-01-16T09:00:00.000Z")


def test_every_example_stands_in_both_languages() -> None:
    """W1: two languages, the same workflows."""
    names = ["batch_or_timeout", "correlation", "daily_digest", "fifo", "invoice_archive"]
    assert seeds.examples() == [*names, "mail_to_table", "time_window"]
    for name in seeds.examples():
        assert seeds.example(name, ".js").text
        assert seeds.example(name, ".py").text


@pytest.mark.parametrize("name", seeds.examples())
async def test_an_example_declares_the_same_in_both_languages(
    sandboxes: dict[str, Sandbox], name: str
) -> None:
    """W1, W7: one workflow, whichever language it is written in."""
    first, second = [
        (await sandbox.load(seeds.example(name, suffix), CATALOG)).declaration
        for suffix, sandbox in sandboxes.items()
    ]
    assert first == second


ROWS: Json = {"status": "applied", "result": {"rowId": 7}}
PREPARED: Json = {"reservations": [], "data": {"id": "m1", "from": "a@b", "subject": "S"}}
DIGEST: Json = {
    "reservations": [],
    "data": {"at": NINE_MS, "day": "2027-01-16", "titles": ["One", "Two"]},
}
NOTES: Json = [
    {"topic": "note.written", "message_id": "n1", "title": "One", "payload": None},
    {"topic": "note.written", "message_id": "n2", "title": "Two", "payload": None},
]
MAIL_EVENT: Json = {
    "topic": "mail.received",
    "message_id": "m1",
    "title": "Mail",
    "payload": {"id": "m1", "from": "a@b", "subject": "S"},
}
STEPS: list[tuple[str, str, Step, tuple[Json | Missing, ...], dict[str, Json]]] = [
    ("mail_to_table", "poll", Step.PRODUCE, (MISSING,), {"gmail.search": PAGE}),
    ("mail_to_table", "poll", Step.PRODUCE, ({"cursor": "c1"},), {"gmail.search": PAGE}),
    ("mail_to_table", "file", Step.PREPARE, (MISSING,), {"peek": [MAIL_EVENT]}),
    ("mail_to_table", "file", Step.PREPARE, (MISSING,), {"peek": []}),
    ("mail_to_table", "file", Step.MUTATE, (PREPARED,), {}),
    ("mail_to_table", "file", Step.NEXT, (PREPARED, ROWS, MISSING), {}),
    ("mail_to_table", "file", Step.NEXT, (PREPARED, {"status": "skipped"}, MISSING), {}),
    ("daily_digest", "digest", Step.PREPARE, (MISSING,), {"peek": NOTES}),
    ("daily_digest", "digest", Step.MUTATE, (DIGEST,), {}),
    ("daily_digest", "digest", Step.NEXT, (DIGEST, ROWS, MISSING), {}),
    ("daily_digest", "digest", Step.NEXT, (DIGEST, {"status": "none"}, MISSING), {}),
]


@pytest.mark.parametrize(("name", "handler", "which", "args", "answers"), STEPS)
async def test_an_example_does_the_same_in_both_languages(
    sandboxes: dict[str, Sandbox],
    name: str,
    handler: str,
    which: Step,
    args: tuple[Json | Missing, ...],
    answers: dict[str, Json],
) -> None:
    """W1: the same calls in the same words, and the same result, step by step."""
    world = World(NINE_MS, frozen=True, seed=1)
    first, second = [
        await step(sandbox, seeds.example(name, suffix), handler, which, args, answers, world)
        for suffix, sandbox in sandboxes.items()
    ]
    assert [_plain(call.kwargs) for call in first.calls] == [
        _plain(call.kwargs) for call in second.calls
    ]
    assert (first.paths, _times(first.value)) == (second.paths, _times(second.value))


def _plain(kwargs: object) -> dict[str, Json]:
    """Drop what is absent in one language and null in the other: both mean the default."""
    return {name: value for name, value in dict(kwargs).items() if value is not None}  # type: ignore[call-overload]


def _times(value: object) -> object:
    """Read a digest's keys and times alike: each language has its own way to write them."""
    if not isinstance(value, dict):
        return value
    same = {name.replace("digestAt", "digest_at"): each for name, each in value.items()}
    if "wake_at" in same:
        same["wake_at"] = same["wake_at"].replace(".000Z", "+00:00")
    return same


@pytest.mark.parametrize("suffix", [".js", ".py"])
async def test_the_digest_is_posted_once_a_day_at_nine(
    sandboxes: dict[str, Sandbox], suffix: str
) -> None:
    """S6: the first run waits for nine; at nine all notes are taken; then not before tomorrow."""
    source, key = seeds.example("daily_digest", suffix), {".js": "digestAt", ".py": "digest_at"}
    yesterday: Json = {key[suffix]: NINE_MS - DAY_MS}
    today: Json = {key[suffix]: NINE_MS}
    for now_ms, state, ids in (
        (NINE_MS - 1, MISSING, []),
        (NINE_MS - 1, yesterday, []),
        (NINE_MS, yesterday, ["n1", "n2"]),
        (NINE_MS + 1, today, []),
    ):
        story = await step(
            sandboxes[suffix],
            source,
            "digest",
            Step.PREPARE,
            (state,),
            {"peek": NOTES},
            World(now_ms, frozen=True, seed=1),
        )
        prepared = parse_prepared(story.value, ["note.written"])
        assert [each for part in prepared.reservations for each in part.message_ids] == ids
