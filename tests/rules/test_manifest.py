"""What a manifest may say, where it is refused, and in which order extensions load."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules.manifest import (
    DEPENDENCIES_MAX,
    ENTRYPOINT_CHARS,
    INSTRUCTIONS_BYTES,
    LABEL_CHARS,
    SUBSCRIPTIONS_MAX,
    AgentSettings,
    BuiltIn,
    Manifest,
    Subscribes,
    check,
    order,
)
from duly.rules.value import DEFAULT_LIMITS

LEAST = {"id": "reminders", "name": "Reminders", "version": "1.0", "entrypoint": "main:Reminders"}
AGENT = {"instructions": "Be brief."}


def tree(**more: object) -> dict[str, Any]:
    return {**LEAST, **more}


def subscribing(*entries: object, **more: object) -> dict[str, Any]:
    return tree(events={"subscribes": list(entries)}, **more)


def refusal(given: object) -> Invalid:
    with pytest.raises(Invalid) as caught:
        check(given)
    return caught.value


# -- One manifest ---------------------------------------------------------------------------------


def test_every_key_of_a_manifest_is_read() -> None:
    """B9: id, name, version, entrypoint, depends_on, agent and subscriptions, and a config."""
    manifest = check(
        subscribing(
            {"topic": "reminder.due", "handler": "invoke_agent"},
            {"topic": "alert.urgent", "handler": "notify_user"},
            {"topic": "task.received", "handler": "custom"},
            depends_on=["assistant"],
            agent={"integration_mode": "tool", "model": "small", "instructions": "Be brief."},
            config={"snooze_s": 300, "words": ["soon"]},
        )
    )
    assert manifest == Manifest(
        "reminders",
        "Reminders",
        "1.0",
        "main",
        "Reminders",
        ("assistant",),
        AgentSettings("Be brief.", "small", "tool"),
        (
            Subscribes("reminder.due", BuiltIn.INVOKE_AGENT),
            Subscribes("alert.urgent", BuiltIn.NOTIFY_USER),
            Subscribes("task.received", BuiltIn.CUSTOM),
        ),
        {"snooze_s": 300, "words": ["soon"]},
    )


def test_four_keys_are_enough() -> None:
    """B9: an extension may depend on nobody and subscribe to nothing by its manifest."""
    assert check(LEAST) == Manifest("reminders", "Reminders", "1.0", "main", "Reminders")


@pytest.mark.parametrize("key", LEAST)
def test_a_missing_key_is_named(key: str) -> None:
    """B9: what must be there and is not is refused by its name."""
    given = {name: value for name, value in LEAST.items() if name != key}
    error = refusal(given)
    assert error.path == f"manifest.{key}"
    assert "is missing" in str(error)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (tree(topics=[]), "manifest.topics"),
        (tree(agent={**AGENT, "temperature": 1}), "manifest.agent.temperature"),
        (tree(events={"publishes": []}), "manifest.events.publishes"),
        (
            subscribing({"topic": "a", "handler": "custom", "retry": 3}),
            "manifest.events.subscribes[0].retry",
        ),
    ],
)
def test_an_unknown_key_is_refused_by_its_name(given: object, path: str) -> None:
    """B9: a key that nobody reads is a mistake, wherever it stands."""
    error = refusal(given)
    assert error.path == path
    assert str(error).startswith(f"{path} is not known.")


def test_an_unknown_handler_is_refused_with_the_one_that_was_meant() -> None:
    """B9: a handler is one of three words."""
    error = refusal(subscribing({"topic": "a", "handler": "notify_users"}))
    assert error.path == "manifest.events.subscribes[0].handler"
    assert "'notify_users'" in str(error)
    assert "Use one of notify_user, invoke_agent, custom" in str(error)


WRONG: list[tuple[object, str]] = [
    (None, "manifest"),
    ([], "manifest"),
    ({"id": "a", 1: 2}, "manifest"),
    (tree(id=7), "manifest.id"),
    (tree(id="two words"), "manifest.id"),
    (tree(id="a:b"), "manifest.id"),
    (tree(id="ü"), "manifest.id"),
    (tree(id="duly"), "manifest.id"),
    (tree(id="Duly"), "manifest.id"),
    (tree(name=" "), "manifest.name"),
    (tree(name="a\nb"), "manifest.name"),
    (tree(version=1.0), "manifest.version"),
    (tree(version=True), "manifest.version"),
    (tree(entrypoint="main"), "manifest.entrypoint"),
    (tree(entrypoint="main.py:Reminders()"), "manifest.entrypoint"),
    (tree(entrypoint="../main:Reminders"), "manifest.entrypoint"),
    (tree(entrypoint="..main:Reminders"), "manifest.entrypoint"),
    (tree(entrypoint="/etc/main:Reminders"), "manifest.entrypoint"),
    (tree(entrypoint="main:Reminders.inner"), "manifest.entrypoint"),
    (tree(depends_on="assistant"), "manifest.depends_on"),
    (tree(depends_on=["a b"]), "manifest.depends_on[0]"),
    (tree(depends_on=["reminders"]), "manifest.depends_on"),
    (tree(agent=None), "manifest.agent"),
    (tree(agent={"model": "small"}), "manifest.agent.instructions"),
    (tree(agent={"instructions": "\ud800"}), "manifest.agent.instructions"),
    (tree(agent={**AGENT, "model": 5}), "manifest.agent.model"),
    (tree(agent={**AGENT, "integration_mode": []}), "manifest.agent.integration_mode"),
    (tree(events=[]), "manifest.events"),
    (tree(events={"subscribes": {}}), "manifest.events.subscribes"),
    (subscribing("reminder.due"), "manifest.events.subscribes[0]"),
    (subscribing({"handler": "custom"}), "manifest.events.subscribes[0].topic"),
    (subscribing({"topic": "a b", "handler": "custom"}), "manifest.events.subscribes[0].topic"),
    (subscribing({"topic": "a", "handler": None}), "manifest.events.subscribes[0].handler"),
    (subscribing({"topic": "a", "handler": []}), "manifest.events.subscribes[0].handler"),
    (subscribing(*[{"topic": "a", "handler": "custom"}] * 2), "manifest.events.subscribes[1]"),
    (tree(config=[]), "manifest.config"),
    (tree(config={"at": object()}), "manifest.config.at"),
]


@pytest.mark.parametrize(("given", "path"), WRONG)
def test_a_wrong_value_is_refused_where_it_stands(given: object, path: str) -> None:
    """B9: the place is named, and what to do about it."""
    error = refusal(given)
    assert error.path == path
    assert str(error).startswith(path)
    assert str(error).endswith((".", "?"))


def test_a_version_that_is_a_number_is_told_to_be_put_in_quotes() -> None:
    """B9: YAML reads 1.0 as a number, which every first manifest does."""
    assert 'Put it in quotes: version: "1.0".' in str(refusal(tree(version=1.0)))


def test_who_invokes_an_agent_must_say_what_the_agent_is_told() -> None:
    """B9: invoke_agent without instructions would ask for nothing."""
    entry = {"topic": "reminder.due", "handler": "invoke_agent"}
    assert refusal(subscribing(entry)).path == "manifest.events.subscribes[0].handler"
    assert check(subscribing(entry, agent=AGENT)).agent == AgentSettings("Be brief.")


NAME_CHARS = DEFAULT_LIMITS.name_chars
STATE_BYTES = DEFAULT_LIMITS.state_bytes


@pytest.mark.parametrize(
    ("most", "make"),
    [
        (NAME_CHARS, lambda size: tree(id="i" * size)),
        (LABEL_CHARS, lambda size: tree(name="n" * size)),
        (LABEL_CHARS, lambda size: tree(version="1" * size)),
        (ENTRYPOINT_CHARS, lambda size: tree(entrypoint="m:" + "C" * (size - 2))),
        (DEPENDENCIES_MAX, lambda size: tree(depends_on=[f"e{each}" for each in range(size)])),
        (LABEL_CHARS, lambda size: tree(agent={**AGENT, "model": "m" * size})),
        (INSTRUCTIONS_BYTES, lambda size: tree(agent={"instructions": "i" * size})),
        (
            SUBSCRIPTIONS_MAX,
            lambda size: subscribing(
                *({"topic": f"t{each}", "handler": "custom"} for each in range(size))
            ),
        ),
        (NAME_CHARS, lambda size: subscribing({"topic": "t" * size, "handler": "custom"})),
        (STATE_BYTES, lambda size: tree(config={"k": "v" * (size - len('{"k":""}'))})),
    ],
)
def test_a_limit_holds_at_its_end_and_not_one_past(most: int, make: Any) -> None:
    """B9: everything in a manifest has a limit, and it is exactly that."""
    check(make(most))
    refusal(make(most + 1))


def test_the_config_is_a_copy_that_cannot_be_exchanged() -> None:
    """B9: what the host keeps is not what the file's reader still holds."""
    words = {"words": ["soon"]}
    manifest = check(tree(config=words))
    words["words"].append("late")
    assert manifest.config == {"words": ["soon"]}
    with pytest.raises(TypeError):
        manifest.config["words"] = []  # type: ignore[index]


# -- Which load, and in which order ---------------------------------------------------------------


def extension(name: str, *depends_on: str) -> Manifest:
    return Manifest(name, name, "1", "main", "Main", depends_on)


def ids(manifests: tuple[Manifest, ...]) -> list[str]:
    return [each.id for each in manifests]


def test_an_extension_loads_after_all_it_depends_on() -> None:
    """B9: and who needs nothing keeps the place it was given."""
    found = order([extension("c", "b"), extension("b", "a"), extension("a"), extension("d")])
    assert ids(found.loads) == ["a", "b", "c", "d"]
    assert found.left_out == {}


def test_a_missing_dependency_leaves_out_its_dependents_alone() -> None:
    """B9: the missing one is named with the nearest that is there; the others load."""
    found = order(
        [extension("tasks", "asistant"), extension("daily", "tasks"), extension("assistant")]
    )
    assert ids(found.loads) == ["assistant"]
    assert 'depends on "asistant", which is not there' in str(found.left_out["tasks"])
    assert 'Did you mean "assistant"?' in str(found.left_out["tasks"])
    assert 'needs "tasks", which is not loaded' in str(found.left_out["daily"])


def test_a_circle_is_named_and_the_others_load() -> None:
    """B9: an extension in it sees the whole circle, one that needs it sees which to ask for."""
    circle = [extension("a", "b"), extension("b", "c"), extension("c", "a")]
    found = order([*circle, extension("d", "a"), extension("e")])
    assert ids(found.loads) == ["e"]
    assert "a → b → c → a" in str(found.left_out["a"])
    assert "c → a → b → c" in str(found.left_out["c"])
    assert 'needs "a"' in str(found.left_out["d"])


@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=9))
def test_every_extension_is_loaded_in_order_or_left_out_with_a_reason(edges: list[Any]) -> None:
    """B9: no graph of dependencies hangs, loses an extension, or loads one too early."""
    manifests = [
        extension(f"e{number}", *(f"e{needed}" for needed in needs if needed != number))
        for number, needs in enumerate(edges)
    ]
    found = order(manifests)
    assert sorted([*ids(found.loads), *found.left_out]) == [each.id for each in manifests]
    loaded: set[str] = set()
    for each in found.loads:
        assert loaded.issuperset(each.depends_on)
        loaded.add(each.id)
    for each in manifests:
        if each.id in found.left_out:
            assert not loaded.issuperset(each.depends_on)
