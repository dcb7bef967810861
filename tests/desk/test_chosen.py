"""What a person chose with a grant: when they are asked before a change of it (A3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.config import Policy, WorkflowPolicy
from duly.desk import deploy as deploying
from duly.desk.base import Desk
from duly.desk.grant import read_row
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.permission import fits, read_grant, write_matching
from duly.testing import Stage
from tests.desk.situation import ASKED
from tests.engine.stand import NAME, TOOL, Play, flow, opened

ALWAYS = {TOOL: "always"}
ANNA = "anna"


async def waiting(play: Play) -> list[str]:
    return [each.observed.tool for each in await play.host.approvals()]


async def come(play: Play, *names: str) -> None:
    await play.publish(*names)
    await play.drain()


async def test_a_choice_asks_from_the_next_call_on_and_is_taken_back_only_by_name(
    duly_world: Stage,
) -> None:
    """A3, A6: no start of the host; a later grant that does not speak of it leaves it."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await come(play, "a")
    assert (play.sends(), await waiting(play)) == (1, [])
    await play.host.grant(NAME, TOOL, asks=ALWAYS, by=ANNA)
    done = (await play.host.actions(limit=1))[0]
    assert (done.by, done.verb) == (ANNA, "grant")
    assert done.detail == {"mutations_per_day": None, "where": {}, "asks": ALWAYS}
    await come(play, "b")
    assert (play.sends(), await waiting(play)) == (1, [TOOL])
    await play.host.grant(NAME, TOOL, mutations_per_day=9)
    (granted,) = [e for e in await play.host.grants(NAME) if e.capability == TOOL]
    assert (granted.mutations_per_day, granted.where) == (9, {})
    assert [(each.tool, each.chosen, each.each_time) for each in granted.asks] == [
        (TOOL, "always", True)
    ]
    await play.host.reject((await play.host.approvals())[0].mutation)
    await play.host.grant(NAME, TOOL, asks={})
    done = (await play.host.actions(limit=1))[0]
    assert done.detail == {"mutations_per_day": None, "where": {}, "asks": {}}
    await play.drain()
    await come(play, "c")
    assert (play.sends(), await waiting(play)) == (2, [])


async def test_the_first_calls_of_a_version_ask_and_the_next_do_not(duly_world: Stage) -> None:
    """A3: as `first:n` of the settings does."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, asks={TOOL: "first:1"})
    await come(play, "a")
    (shown,) = await play.host.approvals()
    assert shown.rules == ((f"asks:{TOOL}", "first:1"),)
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    await come(play, "b")
    assert (play.sends(), await waiting(play)) == (2, [])


@pytest.mark.parametrize(
    "policy", [ASKED, Policy(workflows={NAME: WorkflowPolicy(approvals={TOOL: "always"})})]
)
async def test_a_choice_asks_no_less_than_the_settings(duly_world: Stage, policy: Policy) -> None:
    """A3: of all rules the strictest holds."""
    play = await opened(duly_world, policy=policy)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, asks={TOOL: "first:1"})
    for name in ("a", "b"):
        await come(play, name)
        (shown,) = await play.host.approvals()
        await play.host.approve(shown.mutation, shown.hash)
        await play.drain()
    (told,) = [e for e in await play.host.grants(NAME) if e.capability == TOOL]
    assert told.asks[0].each_time


async def test_a_choice_is_told_by_a_preview_and_by_what_is_offered(duly_world: Stage) -> None:
    """A3, R9: each says the same as the engine does."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, asks=ALWAYS)
    await come(play, "a")
    why = await play.host.why(NAME)
    assert [e.does for e in why.offers if e.verb == "retry"] == ["retry_asks"]


@pytest.mark.parametrize(
    "asks",
    [
        {TOOL: "never"},
        {TOOL: "above:low"},
        {TOOL: "after_model"},
        {TOOL: "first:0"},
        {"sheet.find": "always"},
        {"*": "always"},
        ["always"],
    ],
)
async def test_a_rule_that_asks_nothing_or_names_no_change_of_the_grant_is_refused(
    duly_world: Stage, asks: object
) -> None:
    """A3: a wrong word would look like safety."""
    play = await opened(duly_world)
    await play.deploy(flow())
    with pytest.raises(Invalid, match="asks"):
        await play.host.grant(NAME, TOOL, asks=asks)  # type: ignore[arg-type]
    (told,) = [e for e in await play.host.grants(NAME) if e.capability == TOOL]
    assert told.asks[0].chosen == ""


async def chosen(play: Play) -> str:
    (told,) = [e for e in await play.host.grants(NAME) if e.capability == TOOL]
    return told.asks[0].chosen


async def test_a_choice_alone_keeps_the_limits_and_who_granted(duly_world: Stage) -> None:
    """A1, A3, A6: it is recorded, and what was not shown is not taken back."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, mutations_per_day=9, where={"text": "*"}, by="ben")
    shown = {TOOL: ""}
    assert await play.host.choose_asks(NAME, TOOL, ALWAYS, shown, by=ANNA)
    done = (await play.host.actions(limit=1))[0]
    assert (done.by, done.verb, done.target) == (ANNA, "choose_asks", TOOL)
    assert done.detail == {"asks": ALWAYS, "seen": shown}
    (told,) = [e for e in await play.host.grants(NAME) if e.capability == TOOL]
    assert (told.mutations_per_day, told.where, told.granted_by) == (9, {"text": "*"}, "ben")
    assert told.asks[0].chosen == "always"
    assert not await play.host.choose_asks(NAME, TOOL, ALWAYS, shown)  # a second click
    with pytest.raises(RequestRefused, match="since it was shown"):
        await play.host.choose_asks(NAME, TOOL, {TOOL: "first:5"}, shown)
    assert await play.host.choose_asks(NAME, TOOL, shown, ALWAYS)
    assert await chosen(play) == ""
    await play.host.revoke(NAME, TOOL)
    with pytest.raises(NotFound, match="no grant"):
        await play.host.choose_asks(NAME, TOOL, ALWAYS, shown)
    assert [e for e in await play.host.grants(NAME) if e.capability == TOOL] == []


@pytest.mark.parametrize(
    ("asks", "seen"),
    [
        ({}, {}),
        (ALWAYS, {}),
        ({}, ALWAYS),
        ({TOOL: "never"}, {TOOL: ""}),
        ({"sheet.find": ""}, {"sheet.find": ""}),
        ({TOOL: None}, {TOOL: ""}),
        ([TOOL], {TOOL: ""}),
    ],
)
async def test_a_choice_says_what_it_changes_and_what_was_shown(
    duly_world: Stage, asks: object, seen: object
) -> None:
    """A3: half a choice is refused."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL)
    with pytest.raises(Invalid):
        await play.host.choose_asks(NAME, TOOL, asks, seen)  # type: ignore[arg-type]


async def test_a_grant_beside_a_choice_does_not_write_it_away(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3: what stands is read in the transaction that writes."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL)
    carry_out, host = Desk.carry_out, play.host

    async def late(desk: Desk, *args: Any, **how: Any) -> Any:
        monkeypatch.setattr(Desk, "carry_out", carry_out)
        await host.grant(NAME, TOOL, asks=ALWAYS)  # all was read for the first one
        return await carry_out(desk, *args, **how)

    monkeypatch.setattr(Desk, "carry_out", late)
    await host.grant(NAME, TOOL, mutations_per_day=9)
    assert await chosen(play) == "always"


async def test_a_deploy_that_grants_leaves_a_grant_that_was_given_meanwhile(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1, A3: of a text that is active already, too."""
    play = await opened(duly_world)
    source = flow().source()
    await play.host.deploy(source)
    host = play.host
    await host.grant(NAME, TOOL, mutations_per_day=9, asks=ALWAYS)
    # As it was read a moment before that grant.
    monkeypatch.setattr(deploying, "missing_capabilities", lambda *_: (TOOL,))
    await host.deploy(source, grant=True, again=False)
    (told,) = [e for e in await host.grants(NAME) if e.capability == TOOL]
    assert (told.mutations_per_day, told.asks[0].chosen) == (9, "always")


async def test_a_host_that_does_not_know_the_rule_sends_nothing(duly_world: Stage) -> None:
    """A3, H11: to an older host a choice is a limit that no call keeps."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.host.grant(NAME, TOOL, asks=ALWAYS, where={"text": "*"})
    (row,) = [
        e for e in await play.store.list_grants(await play.workflow_id()) if "asks" in e.matching
    ]
    kept = json.loads(row.matching)
    tool = play.desk.parts.outside.catalog.find(TOOL)
    assert fits({"text": "*"}, tool, {"text": "a"})
    assert not fits(kept, tool, {"text": "a"})
    assert write_matching(read_row(row)) == kept
    assert read_grant(TOOL, None, kept).where == {"text": "*"}
