"""The authoring names: one text, two interpreters, two forms, one declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_monty import Monty, MontyError, MontySession

from duly.rules.declaration import parse
from duly.script import NAMES, names
from duly.script.names import consumer, producer, workflow

TAUGHT = """
flow = workflow("email-to-sheets", topics=["email.received", "row.created"])

@flow.producer(every="5m", publishes=["email.received"])
async def poll_email(ctx, state):
    return state

@flow.producer(cron="0 9 * * *", timezone="Europe/Berlin")
async def remind(ctx, state):
    return state

@flow.producer()
async def by_hand(ctx, state):
    return state

@flow.consumer("email.received", publishes=["row.created"])
class process_email:
    async def prepare(self, ctx, state):
        return {"reservations": []}

    async def mutate(self, ctx, prepared):
        return None
"""
OBJECT = """
async def poll_email(ctx, state):
    return state

async def prepare(ctx, state):
    return {"reservations": []}

async def mutate(ctx, prepared):
    return None

workflow(
    name="email-to-sheets",
    topics=["email.received", "row.created"],
    producers={
        "poll_email": producer(poll_email, every="5m", publishes=["email.received"]),
        "remind": producer(poll_email, cron="0 9 * * *", timezone="Europe/Berlin"),
        "by_hand": producer(poll_email),
    },
    consumers={
        "process_email": consumer(
            subscribe=["email.received"], prepare=prepare, mutate=mutate, publishes=["row.created"]
        ),
    },
)
"""
RAW: dict[str, Any] = {
    "name": "email-to-sheets",
    "topics": ["email.received", "row.created"],
    "producers": {
        "poll_email": {
            "handler": "function",
            "schedule": {"interval": "5m"},
            "publishes": ["email.received"],
        },
        "remind": {
            "handler": "function",
            "schedule": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"},
        },
        "by_hand": {"handler": "function"},
    },
    "consumers": {
        "process_email": {
            "subscribe": ["email.received"],
            "publishes": ["row.created"],
            "prepare": "function",
            "mutate": "function",
        }
    },
}


@pytest.fixture
def declared() -> Iterator[list[names.DulyWorkflow]]:
    """What this test declares; the list is the module's own."""
    names._duly_declared.clear()
    yield names._duly_declared
    names._duly_declared.clear()


@pytest.fixture(scope="module")
def pool() -> Iterator[Monty]:
    with Monty(max_processes=1) as pool:
        yield pool


@pytest.fixture
def monty(pool: Monty) -> Iterator[MontySession]:
    with pool.checkout() as session:
        session.feed_run(NAMES)
        yield session


@pytest.mark.parametrize("text", [TAUGHT, OBJECT], ids=["taught", "object"])
def test_both_forms_declare_the_same_in_both_interpreters(
    text: str, declared: list[names.DulyWorkflow], monty: MontySession
) -> None:
    """W1: the decorators fill in the object form, in CPython and in the interpreter."""
    exec(text, {"workflow": workflow, "producer": producer, "consumer": consumer})
    (flow,) = declared
    here = names._duly_raw(flow)
    monty.feed_run(text)
    there = json.loads(monty.feed_run("import json\njson.dumps(_duly_raw(_duly_declared[0]))"))
    assert here == there == RAW


def test_what_the_names_declare_is_what_the_rules_read(declared: list[names.DulyWorkflow]) -> None:
    """W7: the declaration is sound as it comes."""
    exec(TAUGHT, {"workflow": workflow})
    declaration = parse(names._duly_raw(declared[0]))
    assert [each.name for each in declaration.producers] == ["poll_email", "remind", "by_hand"]
    assert declaration.consumers[0].steps == ("prepare", "mutate")


def test_a_step_is_found_by_handler_and_name(declared: list[names.DulyWorkflow]) -> None:
    """C1: a handler's function is the one that was declared, in either form."""

    async def poll(ctx: object, state: object) -> None:
        return None

    workflow("x", topics=["t"], producers={"bare": poll, "dressed": producer(poll)})
    (flow,) = declared
    assert names._duly_function(flow, "bare", "produce") is poll
    assert names._duly_function(flow, "dressed", "produce") is poll


MISTAKES = {
    "twice": (TAUGHT + "\n@flow.producer('remind')\nasync def other(ctx, state): pass", "twice"),
    "no parentheses": (
        "flow = workflow('x', topics=[])\n@flow.producer\nasync def f(ctx, state): pass",
        "parentheses",
    ),
    "a function as consumer": (
        "flow = workflow('x', topics=[])\n@flow.consumer('t')\nasync def f(ctx, state): pass",
        "a class",
    ),
    "too late": (
        "flow = workflow('x', topics=[])\n_duly_raw(flow)\n@flow.producer()\ndef f(ctx, s): pass",
        "while a step runs",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_refused_where_it_is_made(
    what: str, declared: list[names.DulyWorkflow], monty: MontySession
) -> None:
    """W5: the author is told what to do, by both interpreters in the same words."""
    text, words = MISTAKES[what]
    with pytest.raises(TypeError, match=words):
        exec(text, {"workflow": workflow, "_duly_raw": names._duly_raw})
    with pytest.raises(MontyError, match=words):
        monty.feed_run(text)


def test_a_script_may_use_our_words_for_its_own_things(monty: MontySession) -> None:
    """W1: a function called producer, consumer or next does not break the declaration."""
    monty.feed_run(
        "flow = workflow('x', topics=['t'])\n"
        "async def consumer(ctx, state): pass\n"
        "async def next(ctx, state): pass\n"
        "@flow.producer()\nasync def producer(ctx, state): pass\n"
        "@flow.consumer('t')\nclass workflow:\n    async def prepare(self, ctx, state): pass\n"
    )
    raw = json.loads(monty.feed_run("import json\njson.dumps(_duly_raw(_duly_declared[0]))"))
    assert list(raw["producers"]) == ["producer"]
    assert raw["consumers"]["workflow"]["prepare"] == "function"
