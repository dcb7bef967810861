"""Declarations: every problem named, and what is stored is what was read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import NotDeployed
from duly.rules.access import Step
from duly.rules.declaration import (
    ConsumerDeclaration,
    Declaration,
    Problem,
    ProducerDeclaration,
    TopicDeclaration,
    parse,
    to_json,
)
from duly.rules.schedule import MANUAL, Schedule
from duly.rules.value import decode, encode

PROPERTY = settings(derandomize=True, deadline=None, max_examples=150)

CONSUMER: dict[str, Any] = {"subscribe": ["mail"], "prepare": "function"}


def workflow(**fields: Any) -> dict[str, Any]:
    plain = {"name": "w", "topics": ["mail", "row"], "producers": {"poll": "function"}}
    return {**plain, **fields}


def problems(raw: object) -> list[Problem]:
    with pytest.raises(NotDeployed) as refused:
        parse(raw)
    found = [each for each in refused.value.findings if isinstance(each, Problem)]
    assert len(found) == len(refused.value.findings)
    assert all(each.path in each.sentence and each.suggestion for each in found)
    return found


def paths(raw: object) -> list[str]:
    return [problem.path for problem in problems(raw)]


# -- Reading (W1 to W5) -------------------------------------------------------------------------


def test_a_full_declaration_is_read_as_it_is() -> None:
    """W1, W2, W3: topics with options, producers of every kind, a consumer of three steps."""
    raw = {
        "name": "email-to-sheets",
        "topics": {
            "mail": {"ingress": True},
            "chat": {"ingress": {"bus": "user.message"}},
            "r": {},
        },
        "producers": {
            "byHand": "function",
            "poll": {
                "schedule": {"interval": "5m"},
                "handler": "function",
                "publishes": ["mail"],
            },
            "daily": {
                "schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
                "handler": "function",
            },
        },
        "consumers": {
            "process": {
                "subscribe": ["mail", "chat"],
                "prepare": "function",
                "mutate": "function",
                "next": "function",
                "publishes": ["r", "mail"],
            }
        },
    }
    assert parse(raw) == Declaration(
        "email-to-sheets",
        (
            TopicDeclaration("mail", ingress=True),
            TopicDeclaration("chat", bus="user.message"),
            TopicDeclaration("r"),
        ),
        (
            ProducerDeclaration("byHand"),
            ProducerDeclaration("poll", Schedule(interval_ms=300_000), ("mail",)),
            ProducerDeclaration("daily", Schedule(cron="0 9 * * *", timezone="Europe/Berlin")),
        ),
        (
            ConsumerDeclaration(
                "process",
                ("mail", "chat"),
                (Step.PREPARE, Step.MUTATE, Step.NEXT),
                ("r", "mail"),
            ),
        ),
    )


def test_a_bare_function_and_a_handler_without_schedule_run_by_hand() -> None:
    """W2: a producer without a schedule is manual only."""
    read = parse(workflow(producers={"a": "function", "b": {"handler": "function"}}))
    assert [producer.schedule for producer in read.producers] == [MANUAL, MANUAL]


def test_a_consumer_needs_only_subscribe_and_prepare() -> None:
    """W3: mutate and next are optional, and publishes is enforced only when present."""
    read = parse(workflow(consumers={"c": CONSUMER}))
    assert read.consumers == (ConsumerDeclaration("c", ("mail",), (Step.PREPARE,), None),)
    empty = parse(workflow(consumers={"c": {**CONSUMER, "publishes": []}}))
    assert empty.consumers[0].publishes == ()


def test_a_consumer_may_publish_to_its_own_topic() -> None:
    """W4: a topic a consumer subscribes to may be one it publishes to."""
    read = parse(workflow(consumers={"c": {**CONSUMER, "publishes": ["mail"]}}))
    assert read.consumers[0].publishes == read.consumers[0].subscribe


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"extra": 1}, "workflow.extra"),
        ({"topics": "mail"}, "topics"),
        ({"topics": None}, "topics"),
        ({"topics": ["mail", "mail"]}, "topics"),
        ({"topics": ["a b"]}, "topics"),
        ({"topics": {"a/b": {}}}, "topics"),
        ({"topics": [5]}, "topics"),
        ({"topics": {"mail": None}}, "topics.mail"),
        ({"topics": {"mail": {"ingres": True}}}, "topics.mail.ingres"),
        ({"topics": {"mail": {"ingress": "yes"}}}, "topics.mail.ingress"),
        ({"topics": {"mail": {"ingress": {"bus": "a b"}}}}, "topics.mail.ingress.bus"),
        ({"topics": {"mail": {"ingress": {}}}}, "topics.mail.ingress.bus"),
        ({"producers": ["poll"]}, "producers"),
        ({"producers": {"": "function"}}, "producers"),
        ({"producers": {"p": "a function"}}, "producers.p"),
        ({"producers": {"p": None}}, "producers.p"),
        ({"producers": {"p": {"schedule": {"interval": "5m"}}}}, "producers.p.handler"),
        ({"producers": {"p": {"handler": 5}}}, "producers.p.handler"),
        ({"producers": {"p": {"handler": "function", "every": "5m"}}}, "producers.p.every"),
        (
            {"producers": {"p": {"handler": "function", "schedule": {"interval": "0m"}}}},
            "producers.p.schedule.interval",
        ),
        (
            {"producers": {"p": {"handler": "function", "publishes": ["rows"]}}},
            "producers.p.publishes",
        ),
        ({"consumers": {"c": "function"}}, "consumers.c"),
        ({"consumers": {"c": {"prepare": "function"}}}, "consumers.c.subscribe"),
        ({"consumers": {"c": {"subscribe": ["mail"]}}}, "consumers.c.prepare"),
        ({"consumers": {"c": {**CONSUMER, "subscribe": []}}}, "consumers.c.subscribe"),
        ({"consumers": {"c": {**CONSUMER, "subscribe": "mail"}}}, "consumers.c.subscribe"),
        ({"consumers": {"c": {**CONSUMER, "subscribe": ["male"]}}}, "consumers.c.subscribe"),
        (
            {"consumers": {"c": {**CONSUMER, "subscribe": ["mail", "mail"]}}},
            "consumers.c.subscribe",
        ),
        ({"consumers": {"c": {**CONSUMER, "mutate": None}}}, "consumers.c.mutate"),
        ({"consumers": {"c": {**CONSUMER, "next": 5}}}, "consumers.c.next"),
        ({"consumers": {"c": {**CONSUMER, "publishes": "row"}}}, "consumers.c.publishes"),
        ({"consumers": {"poll": CONSUMER}}, "consumers.poll"),
        ({"consumers": {"a": CONSUMER, "b": CONSUMER}}, "consumers.b.subscribe"),
        ({"producers": {}}, "workflow"),
    ],
)
def test_a_wrong_part_is_refused_by_its_path(fields: dict[str, Any], path: str) -> None:
    """W4, W5: structure, names, schedules, unknown keys, undeclared and doubled topics."""
    assert path in paths(workflow(**fields))


@pytest.mark.parametrize("raw", [None, [], "w", 5])
def test_what_is_no_workflow_is_refused(raw: object) -> None:
    """W5: a source that exports something else is refused."""
    assert "workflow" in paths(raw)


def test_every_problem_is_reported_not_only_the_first() -> None:
    """W5: an author sees all at once, each with its rule, place, sentence and suggestion."""
    raw = {
        "topics": ["mail"],
        "producers": {"p": {"handler": 1, "schedule": {"interval": "5x"}, "publishes": ["mial"]}},
        "consumers": {"c": {"subscribe": [], "prepare": "function", "mutatee": "function"}},
    }
    found = problems(raw)
    assert sorted((problem.rule, problem.path) for problem in found) == [
        ("W3", "consumers.c.subscribe"),
        ("W4", "producers.p.publishes"),
        ("W5", "consumers.c.mutatee"),
        ("W5", "producers.p.handler"),
        ("W5", "producers.p.schedule.interval"),
        ("W5", "workflow.name"),
    ]
    hints = {problem.path: problem.suggestion for problem in found}
    assert 'Did you mean "mutate"?' in hints["consumers.c.mutatee"]
    assert 'Did you mean "mail"?' in hints["producers.p.publishes"]
    with pytest.raises(NotDeployed, match="has 6 problems, so nothing was stored"):
        parse(raw)


@pytest.mark.parametrize("name", ["w", "Mail → Tabelle", "x" * 100, "a.b", "é"])
def test_a_workflow_name_of_printable_characters_is_kept(name: str) -> None:
    """N: a workflow name has 1 to 100 printable characters."""
    assert parse(workflow(name=name)).name == name


@pytest.mark.parametrize(
    "name",
    ["", "  ", "a/b", "a\\b", ".", "..", "a\nb", "x" * 101, 5, None, "\ud800", "a\0"],
)
def test_a_workflow_name_that_is_none_is_refused(name: object) -> None:
    """N: not blank, not too long, no slash or dots alone, nothing that does not print."""
    assert paths(workflow(name=name)) == ["name"]
    with pytest.raises(NotDeployed, match="has 1 problem, so nothing was stored"):
        parse(workflow(name=name))


def test_a_topic_or_handler_name_of_100_characters_is_the_longest() -> None:
    """N: topic and handler names have 1 to 100 letters, digits, dots, underscores, hyphens."""
    name = "aZ0._-" + "x" * 94
    assert parse(workflow(topics=[name])).topics == (TopicDeclaration(name),)
    assert parse(workflow(producers={name: "function"})).producers[0].name == name
    assert paths(workflow(topics=[name + "x"])) == ["topics"]
    assert paths(workflow(producers={name + "x": "function"})) == ["producers"]
    for none in ("mail\n", ".", ".."):
        assert paths(workflow(topics=[none])) == ["topics"]


def test_a_workflow_of_1000_names_is_the_largest() -> None:
    """W6, N: a declaration made by a loop is refused before it can keep the host busy."""
    topics = [f"t{number}" for number in range(999)]
    assert len(parse(workflow(topics=topics)).topics) == 999
    assert "producers" in paths(workflow(topics=[*topics, "one.more"]))
    assert "topics" in paths(workflow(topics=["t"] * 1_000_000))
    many = {f"p{number}": "function" for number in range(1001)}
    assert "producers" in paths(workflow(topics=[], producers=many))


# -- Storing (W7) -------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", "d", "e.f", "g-h"])
SCHEDULES = st.sampled_from(
    [MANUAL, Schedule(interval_ms=5000), Schedule(cron="0 9 * * *", timezone="Europe/Berlin")]
)


@st.composite
def declarations(draw: st.DrawFn) -> Declaration:
    names = draw(st.lists(NAMES, unique=True, min_size=1))
    topics = tuple(
        draw(
            st.sampled_from(
                [
                    TopicDeclaration(name),
                    TopicDeclaration(name, True),
                    TopicDeclaration(name, bus="user.message"),
                ]
            )
        )
        for name in names
    )
    publishes = st.none() | st.lists(st.sampled_from(names), unique=True).map(tuple)
    producers = tuple(
        ProducerDeclaration(f"p{each}", draw(SCHEDULES), draw(publishes))
        for each in range(draw(st.integers(0, 3)))
    )
    consumers = tuple(
        ConsumerDeclaration(
            f"c.{name}",
            (name,),
            draw(st.sampled_from([(Step.PREPARE,), (Step.PREPARE, Step.MUTATE, Step.NEXT)])),
            draw(publishes),
        )
        for name in draw(st.lists(st.sampled_from(names), unique=True, min_size=not producers))
    )
    return Declaration("w", topics, producers, consumers)


@PROPERTY
@given(declarations())
def test_what_is_stored_is_what_was_declared(declaration: Declaration) -> None:
    """W7: a declaration comes back from its stored text as it went in."""
    text = encode(to_json(declaration), limit_bytes=1_000_000)
    assert parse(decode(text)) == declaration


# -- How much of it (W6) --------------------------------------------------------------------------


def test_a_declaration_full_of_mistakes_is_refused_with_the_first_twenty() -> None:
    """W6: an author who writes a thousand mistakes is told of enough of them, and soon."""
    unknown = {f"key{number}": 1 for number in range(100_000)}
    with pytest.raises(NotDeployed) as refused:
        parse({**workflow(), **unknown})
    assert len(refused.value.findings) == 20


def test_a_thousand_near_names_are_looked_up_no_more_than_twenty_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W6: looking for the nearest name is the dear part of a refusal."""
    looked_up: list[str] = []

    def nearest(name: str, known: object) -> dict[str, object]:
        looked_up.append(name)
        return {}

    monkeypatch.setattr("duly.rules.declaration.nearest", nearest)
    topics = [f"topic.number.{number}" for number in range(490)]
    near = [f"topic.numbre.{number}" for number in range(490)]
    with pytest.raises(NotDeployed):
        parse(workflow(topics=topics, consumers={"c": {**CONSUMER, "subscribe": near}}))
    assert len(looked_up) == 20
