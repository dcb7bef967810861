"""Declared services: a file of operations each, which makes tools that tell the truth."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.api.build import CONNECTORS
from duly.connectors import declared
from duly.connectors.declared import DeclaredService, Discord, Jira, Linear, OutlookAccount, Todoist
from duly.connectors.key_place import key_values
from duly.connectors.registry import Registry
from duly.errors import AuthNeeded, ConfigError, Refused, Transient, UnknownOutcome
from duly.rules.asking import AskedHow, ProofBy
from duly.testing.doubles.base import HOST, Mishap, PlannedMishap
from duly.testing.doubles.declared import DeclaredDesk
from tests.connectors.service_exam import TOKEN, happened, secret_of, send, take_exam

pytestmark = pytest.mark.anyio

MORE: dict[str, dict[str, Any]] = {
    "jira": {"url": "https://acme.atlassian.net", "user": "ada@acme.com"},
    "outlook": {"client_id": "client"},
}
KINDS = {
    each._service: each for each in DeclaredService.__subclasses__() if "_service" in vars(each)
}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "discord": ("send", {"channel": "1", "text": "@everyone"}),
    "hubspot": ("create_contact", {"email": "ada@acme.com", "lastname": "L"}),
    "jira": ("create_issue", {"project": "T", "type": "Bug", "summary": "S", "description": "D"}),
    "linear": ("create_issue", {"team": "t", "title": "Tea"}),
    "outlook": ("create_draft", {"to": "ada@acme.com", "subject": "S", "text": "T"}),
    "todoist": ("create_task", {"content": "Tea"}),
    "trello": ("create_card", {"board": "b", "list": "l", "name": "Tea", "description": "D"}),
}
# What another call of the same tool has: no two contacts have one address.
OTHER: dict[str, dict[str, Any]] = {"hubspot.create_contact": {"email": "eve@acme.com"}}
READS: dict[str, dict[str, Any]] = {
    "discord.messages": {"channel": "1"},
    "hubspot.contacts": {},
    "jira.search": {"jql": "labels = x"},
    "linear.issues": {"team": "t"},
    "outlook.messages": {"received_after": "2026-05-01T00:00:00Z"},
    "todoist.tasks": {},
    "trello.cards": {"board": "b"},
    "trello.lists": {"board": "b"},
}


@pytest.fixture(scope="module")
def desk() -> Iterator[DeclaredDesk]:
    with DeclaredDesk() as made:
        made.give_token(TOKEN)
        yield made


def at(service: str) -> Any:
    """Return what makes the service at its double."""
    kind = KINDS[service]

    def make(url: str, **more: Any) -> Any:
        return kind(**{**MORE.get(service, {}), "url": f"{url}/{service}", **more})

    return make


def reach(desk: DeclaredDesk, service: str, token: str = TOKEN) -> Any:
    made = at(service)(f"http://{HOST}:{desk.port}", allow=[HOST])
    made._vault = lambda connector, name: secret_of(made, token)
    return made


def test_every_file_is_a_service_that_settings_can_name() -> None:
    """K1: each change says where its key travels, and all but one can be asked."""
    names = {each.name for each in files(declared).iterdir() if each.name.endswith(".toml")}
    assert names == {f"{name}.toml" for name in KINDS}
    assert KINDS.keys() <= CONNECTORS.keys()
    mute = []
    for service, kind in KINDS.items():
        tools = Registry([kind(**MORE.get(service, {}))]).catalog.tools
        changes = [each.answering for each in tools if each.answering is not None]
        assert changes
        assert len(changes) < len(tools)
        mute += [each.tool for each in changes if each.asked is AskedHow.NOT_AT_ALL]
    assert mute == ["outlook.send_draft"]


@pytest.mark.parametrize("service", [*CALLS])
def test_a_change_passes_the_exam_for_the_network(
    desk: DeclaredDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    tool, args = CALLS[service]
    other = OTHER.get(f"{service}.{tool}")
    report = take_exam(desk, at(service), tool, args, tmp_path, monkeypatch, other=other)
    said = "Unsure" if service == "todoist" else "Applied"
    assert f"it said unknown, it was done, reconcile said {said}" in str(report)


FURTHER: dict[str, dict[str, Any]] = {
    "jira.comment": {"issue": "T-1", "text": "x"},
    "linear.comment": {"issue": "T-1", "text": "x"},
    "todoist.complete_task": {"task_id": "7"},
    "hubspot.create_deal": {"name": "Tea", "stage": "new"},
    "outlook.create_event": {
        "subject": "Tea",
        "timezone": "UTC",
        "text": "x",
        "start": "2026-05-01T10:00:00",
        "end": "2026-05-01T11:00:00",
    },
    "outlook.send_draft": {"id": "7"},
}

CALLED = {f"{service}.{tool}": args for service, (tool, args) in CALLS.items()} | FURTHER


@pytest.mark.parametrize("tool", [*FURTHER])
def test_every_other_change_passes_it_too(
    desk: DeclaredDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """L4, K1: also one that cannot be asked; what it says of itself is true."""
    service, _, name = tool.partition(".")
    report = take_exam(desk, at(service), name, FURTHER[tool], tmp_path, monkeypatch)
    assert report.points > 20


def test_no_change_is_left_out_of_the_exam() -> None:
    """K1: each mutation of a file is in one of the two lists."""
    found = {
        each.name
        for service, kind in KINDS.items()
        for each in Registry([kind(**MORE.get(service, {}))]).catalog.tools
        if each.answering is not None
    }
    assert found == CALLED.keys()


TRIED = ("hubspot.create_contact", "outlook.create_draft", "outlook.create_event")
NO_TRIAL = ("todoist.create_task", "todoist.complete_task", "outlook.send_draft")


@pytest.mark.parametrize("service", [*KINDS])
async def test_each_change_is_proven_by_a_trial(
    desk: DeclaredDesk, tmp_path: Path, service: str
) -> None:
    """K10: a host makes one call of each change that can be asked, and finds it again."""
    desk.accounts.clear()
    more = {**MORE.get(service, {}), "url": f"{desk.url}/{service}", "allow": [HOST]}
    connector: Any = KINDS[service](**more)
    secret = secret_of(connector, TOKEN)
    tools = [each for each in Registry([connector]).catalog.tools if each.answering is not None]
    async with duly.Host(f"sqlite:///{tmp_path}/duly.db", connectors=[connector]) as host:
        await host.set_secret(service, "token", secret)
        for tool in tools:
            if tool.name in NO_TRIAL:
                assert tool.proof is not ProofBy.TRIAL
                continue
            args = FURTHER.get(tool.name) or CALLS[service][1]
            count = desk.effects(desk.account(TOKEN))
            proven = await host.prove(tool.name, None if tool.name in TRIED else args)
            assert proven.answering.is_believed, proven
            assert desk.effects(desk.account(TOKEN)) == count + 1


HOSTILE = (
    "# Hi @all <@1> **b** _i_ [x](http://evil.example/a_b) :tea: `c`\n- one\n    code\n1. two\n> q"
)


@pytest.mark.parametrize(
    ("tool", "name", "place"),
    [
        ("discord.send", "text", "content"),
        ("linear.create_issue", "description", "description"),
        ("linear.comment", "text", "body"),
        ("trello.create_card", "description", "desc"),
        ("todoist.create_task", "content", "content"),
    ],
)
async def test_a_text_never_becomes_markdown(
    desk: DeclaredDesk, tool: str, name: str, place: str
) -> None:
    """K12: nor a mention, an emoji, a list or a block of code."""
    service, _, short = tool.partition(".")
    desk.accounts.clear()
    args = {**(FURTHER.get(tool) or CALLS[service][1]), name: HOSTILE}
    await send(reach(desk, service), short, **args)
    assert desk.account(TOKEN)["made"][-1][place].startswith(
        "\\# Hi @\u2060all \\<@\u20601\\> \\*\\*b\\*\\* \\_i\\_"
        " \\[x\\](<http://evil.example/a_b)> \\:tea: \\`c\\`\n"
        "\\- one\n\u00a0\u00a0\u00a0\u00a0code\n1\\. two\n\\> q"
    )


def test_every_read_is_called() -> None:
    """Each read of a file is in the list of those that the tests below call."""
    found = {
        each.name
        for service, kind in KINDS.items()
        for each in Registry([kind(**MORE.get(service, {}))]).catalog.tools
        if each.answering is None
    }
    assert found == READS.keys()


async def read(desk: DeclaredDesk, tool: str, token: str = TOKEN) -> Any:
    service, _, name = tool.partition(".")
    return await getattr(reach(desk, service, token), name)(**READS[tool])


@pytest.mark.parametrize("tool", [*READS])
async def test_a_list_is_read(desk: DeclaredDesk, tool: str) -> None:
    """K8: an answer 429 says when to ask again, and 401 that a person is needed."""
    desk.accounts.clear()
    desk.plan(PlannedMishap(Mishap.STATUS, status=429, headers={"Retry-After": "30"}))
    with pytest.raises(Transient) as caught:
        await read(desk, tool)
    assert caught.value.retry_after_s == 30
    with pytest.raises(AuthNeeded):
        await read(desk, tool, "none")
    assert len(desk.mishaps) == 0
    assert await read(desk, tool) is not None


@pytest.mark.parametrize("tool", [*CALLED])
async def test_a_change_that_may_not_be_made_now_is_not_made(desk: DeclaredDesk, tool: str) -> None:
    """K8, K9: 429 is a refusal with a time; a token that is not known is one AuthNeeded."""
    service, _, name = tool.partition(".")
    desk.accounts.clear()
    desk.plan(PlannedMishap(Mishap.STATUS, status=429, headers={"Retry-After": "30"}))
    with pytest.raises(Transient) as caught:
        await send(reach(desk, service), name, **CALLED[tool])
    assert (caught.value.retry_after_s, caught.value.outcome) == (30, "refused")
    with pytest.raises(AuthNeeded):
        await send(reach(desk, service, "none"), name, **CALLED[tool])
    assert desk.effects(desk.account(TOKEN)) == desk.effects(desk.account("none")) == 0


async def test_a_contact_whose_address_is_known_is_refused_at_once(desk: DeclaredDesk) -> None:
    """K1, L4: the contact of that address has no key of this call; what shows no contact is no no.

    Of two copies of one request the first makes the contact, and the second says that it is there.
    """
    desk.accounts.clear()
    made = desk.account(TOKEN)["made"]
    made.append({"id": "7", "properties": {"email": "ada@acme.com", "duly_key": None}})
    email = {"email": "Ada@acme.com"}
    with pytest.raises(Refused, match="409") as told:
        await send(reach(desk, "hubspot"), "create_contact", **email)
    assert "Contact already exists. Existing ID: 7" in str(told.value)
    assert len(made) == 1
    unsure: tuple[dict[str, Any], ...] = ({}, {"properties": 7})
    of_another, without_key = ({"email": f"{each}@acme.com"} for each in ("eve", "ada"))
    for body in (*unsure, {"properties": of_another}, {"properties": without_key}):
        desk.plan(PlannedMishap(Mishap.STATUS, "GET .*acme.com", status=200, body=body))
        with pytest.raises(UnknownOutcome, match="409"):
            await send(reach(desk, "hubspot"), "create_contact", **email)
    made[0]["properties"]["duly_key"] = "k1"
    with pytest.raises(UnknownOutcome, match="409"):
        await send(reach(desk, "hubspot"), "create_contact", **email)


async def test_a_task_that_was_completed_is_open_no_more(desk: DeclaredDesk) -> None:
    desk.accounts.clear()
    await send(reach(desk, "todoist"), "create_task", content="Tea")
    (task,) = (await read(desk, "todoist.tasks")).items
    await send(reach(desk, "todoist"), "complete_task", key="k2", task_id=task["id"])
    assert (await read(desk, "todoist.tasks")).items == []


async def test_the_lists_of_a_board_are_those_a_card_can_be_added_to(desk: DeclaredDesk) -> None:
    found = await read(desk, "trello.lists")
    assert [(each["id"], each["name"]) for each in found] == [("l", "To do"), ("l2", "Done")]


async def test_an_answer_that_does_not_say_it_was_done_leaves_it_unknown(
    desk: DeclaredDesk,
) -> None:
    """L4: a mistake of GraphQL and of a command comes with the status 200."""
    tool, args = CALLS["linear"]
    said = {"errors": [{"message": "no"}], "data": None}
    desk.plan(PlannedMishap(Mishap.STATUS, status=200, body=said))
    with pytest.raises(UnknownOutcome, match="does not say it was done"):
        await send(reach(desk, "linear"), tool, **args)
    with pytest.raises(UnknownOutcome, match="expected int"):
        await send(reach(desk, "todoist"), "create_task", content="Tea", priority="x")
    desk.plan(PlannedMishap(Mishap.STATUS, status=400))
    with pytest.raises(UnknownOutcome, match="400"):
        await send(reach(desk, "linear"), tool, **args)


async def test_no_name_in_a_message_of_discord_tells_a_person(desk: DeclaredDesk) -> None:
    """K12: and the key is short enough for its nonce."""
    tool, args = CALLS["discord"]
    await send(reach(desk, "discord"), tool, **args)
    made = desk.account(TOKEN)["made"][-1]
    assert made["allowed_mentions"] == {"parse": []}
    assert made["embeds"][0]["footer"]["text"] == f"duly {made['nonce']}"


async def test_a_whole_list_without_the_key_says_no(desk: DeclaredDesk) -> None:
    """L5: and a full one says nothing."""
    tool, args = CALLS["discord"]
    desk.accounts.clear()
    await send(reach(desk, "discord"), tool, "k1", **args)
    assert "NotApplied" in repr(await happened(reach(desk, "discord"), tool, "k2", **args))
    desk.account(TOKEN)["made"] *= 100
    assert "Unsure" in repr(await happened(reach(desk, "discord"), tool, "k2", **args))


def test_what_a_service_needs_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="url: it is missing"):
        Jira()
    with pytest.raises(ConfigError, match="client_id: it is missing"):
        OutlookAccount()
    more = {"me": {"path": "/me"}}
    tools = Registry([Linear(operations=more, name="tasks")]).catalog.tools
    assert "tasks.me" in [each.name for each in tools]
    assert Discord().name == "discord"
    assert Todoist(name="x").name == "x"


def test_a_key_has_forms_that_services_take() -> None:
    """L7: each send spells it alike."""
    found = key_values("k1")
    assert found == key_values("k1") != key_values("k2")
    assert len(str(found["key_short"])) == 24
    assert [len(each) for each in str(found["key_uuid"]).split("-")] == [8, 4, 4, 4, 12]
    assert str(found["key_uuid"])[14] == "4"


ASKED: dict[str, Any] = {"verify": {"path": "/a/{key}", "match": "x"}}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": {"marker": "text", "form": "{key}"}}, "a mark needs words"),
        ({"key": {"field": "x", "form": "none"}}, "write the key in it once"),
        ({"verify": {"path": "/a", "match": "x", "items": "", "whole": True}}, "whole"),
        ({"verify": {"path": "/a/{key}", "match": "x", "whole": 5}}, "about one list"),
        ({"verify": {"path": "/a", "match": "x", "graphql": "{ a }"}}, "its answer is a list"),
        ({"done": {"place": "x", "was": 1}}, "no such key"),
        ({"markdown": ["other"]}, "name arguments that are a string"),
        ({"arguments": {"key_uuid": "string"}}, "none of"),
        ({"taken": {"path": "/a/{text}", "shows": {"a": "text"}}}, "verify"),
        ({**ASKED, "taken": {"path": "/a/{text}", "shows": {"a": "other"}}}, "name what shows"),
        ({**ASKED, "taken": {"path": "/a/{text}", "shows": {}}}, "name what shows"),
        ({**ASKED, "taken": {"path": "/a/{other}", "shows": {"a": "text"}}}, "always there"),
        ({**ASKED, "taken": {"path": "/a", "shows": {"a": "text"}, "x": 1}}, "no such key"),
        (
            {
                "verify": {"path": "/a", "items": "", "whole": 9, "match": "x"},
                "taken": {"path": "/a/{text}", "shows": {"a": "text"}},
            },
            "by its key exactly",
        ),
    ],
)
def test_a_mistake_is_told_by_its_key(changed: dict[str, Any], said: str) -> None:
    made = {"method": "POST", "path": "/a", "arguments": {"text": "string"}, "key": "none"}
    if "verify" in changed:
        made["key"] = {"field": "x"}
    with pytest.raises(ConfigError, match=said):
        Linear(operations={"add": {**made, **changed}})
