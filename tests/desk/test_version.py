"""Versions, and what else a person reviews: diff, rollback, remove, check, tools, actions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

import duly
from duly.errors import DulyError, Invalid, NotDeployed, NotFound, RequestRefused
from duly.host import Host
from duly.rules.catalog import Risk, ToolKind
from duly.rules.source import Language
from duly.rules.word import Status
from duly.store.record import Action, Origin, VersionSpec
from tests.desk.test_whole import FLOW, Sheets

NAME = "mail-to-row"
ANNA = "anna"
BROKEN = FLOW.replace("pending[0]", "pending[1]")
WITHOUT_MUTATE = (
    FLOW[: FLOW.index("    async def mutate")] + FLOW[FLOW.index("    async def next") :]
)


def source(text: str = FLOW) -> duly.Source:
    return duly.Source(Language.PYTHON, text)


async def propose(host: Host, version: str, text: str) -> None:
    """Keep a version as a repair does that was not adopted."""
    store = host._desk().parts.store
    found = await store.find_workflow(NAME)
    assert found is not None
    spec = VersionSpec(version, "python", text, "h", "{}", "[]", "repairer", Origin.REPAIR, "2.0")
    action = Action("action_0", "repairer", "propose")
    await store.keep_version(found.id, spec, action=action, now=host._desk().now_ms)


# -- Versions and differences ---------------------------------------------------------------------


async def test_versions_are_listed_with_all_that_is_known_of_them(url: str) -> None:
    """W8: newest first, in pages; old ones stay, a proposal was never active."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source(), by=ANNA)
        await host.deploy(source(BROKEN), by="ben")
        await propose(host, "2.1", FLOW)
        proposal, second, first = await host.versions(NAME)
        assert (proposal.version, proposal.activated_at, proposal.active) == ("2.1", None, False)
        assert (proposal.origin, proposal.parent) == (Origin.REPAIR, "2.0")
        assert (second.version, second.author, second.active) == ("2.0", "ben", True)
        assert (first.version, first.author, first.active) == ("1.0", ANNA, False)
        assert (first.language, first.origin) == ("python", Origin.DEPLOY)
        assert first.activated_at == first.created_at
        assert await host.versions(NAME, limit=1, before="2.1") == (second,)
        assert await host.versions(NAME, before="1.0") == ()


async def test_a_list_of_versions_has_no_texts_and_one_text_is_asked_for(url: str) -> None:
    """W8: the active one, or the one that is named; also of a workflow out of service."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.deploy(source(BROKEN))
        assert not any(hasattr(each, "source") for each in await host.versions(NAME))
        assert await host.source(NAME) == BROKEN
        assert await host.source(NAME, "1.0") == FLOW
        with pytest.raises(NotFound, match=r'no version "7\.0" of'):
            await host.source(NAME, "7.0")
        await host.remove(NAME)
        assert await host.source(NAME, "1.0") == FLOW


async def test_a_diff_shows_what_changed_between_two_versions(url: str) -> None:
    """W8: unified, either way round; between a version and itself there is none."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.deploy(source(BROKEN))
        shown = await host.diff(NAME, "1.0", "2.0")
        assert shown.startswith("--- mail-to-row 1.0\n+++ mail-to-row 2.0\n@@ ")
        assert "\n-        mail = pending[0]\n+        mail = pending[1]\n" in shown
        assert "\n+        mail = pending[0]\n" in await host.diff(NAME, "2.0", "1.0")
        assert await host.diff(NAME, "1.0", "1.0") == ""


# -- Rollback -------------------------------------------------------------------------------------


async def test_a_rollback_is_a_new_version_with_the_old_text(url: str) -> None:
    """W8, F3, A6: it names the old one, and an open failed run is followed by it."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        await host.deploy(source(), grant=True)
        await host.deploy(source(BROKEN))
        await host.publish(NAME, "mail", message_id="m1", title="Mail 1")
        await host.drain()
        (failed,) = await host.runs(status=Status.FAILED_LOGIC)
        deployed = await host.rollback(NAME, "1.0", by=ANNA)
        assert (deployed.workflow, deployed.version, deployed.missing) == (NAME, "3.0", ())
        newest = (await host.versions(NAME))[0]
        assert (newest.version, newest.active) == ("3.0", True)
        assert await host.source(NAME) == FLOW
        assert (newest.origin, newest.parent, newest.author) == (Origin.ROLLBACK, "1.0", ANNA)
        done = (await host.actions(NAME, limit=1))[0]
        assert (done.by, done.verb, done.target) == (ANNA, "rollback", "3.0")
        assert isinstance(done.detail, dict)
        assert done.detail["parent"] == "1.0"
        await host.drain()
        assert sheets.rows == [["m1"]]
        followed = [each for each in await host.runs() if each.retry_of == failed.id]
        assert [(each.version, each.status) for each in followed] == [("3.0", Status.COMMITTED)]


async def test_a_proposed_version_is_put_to_use_by_naming_it(url: str) -> None:
    """W8, F3: what attention offers does what it says; until then the proposal changes nothing."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        await host.deploy(source(BROKEN), grant=True)
        await host.publish(NAME, "mail", message_id="m1", title="Mail 1")
        await propose(host, "1.1", FLOW)
        await host.drain()
        assert sheets.rows == []
        await host.grant(NAME, "sheets.append")
        deployed = await host.rollback(NAME, "1.1", by=ANNA)
        newest = (await host.versions(NAME))[0]
        assert (newest.version, newest.parent, newest.active) == (deployed.version, "1.1", True)
        await host.drain()
        assert sheets.rows == [["m1"]]


async def test_a_proposal_is_declined_once_and_for_good(url: str) -> None:
    """F3, A6: it is not asked about again, also if an older one is there; its text stays."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source(), grant=True)
        await propose(host, "1.1", BROKEN)
        assert await host.decline(NAME, "1.1", "It takes the wrong mail.", by=ANNA)
        assert await host.attention() == ()
        assert (await host.versions(NAME))[0].declined_by == ANNA
        done = (await host.actions(NAME, limit=1))[0]
        assert (done.by, done.verb, done.target) == (ANNA, "decline", "1.1")
        assert done.detail == {"reason": "It takes the wrong mail."}
        assert not await host.decline(NAME, "1.1")
        assert len(await host.actions(NAME)) == 3
        assert await host.source(NAME, "1.1") == BROKEN
        with pytest.raises(RequestRefused) as active:
            await host.decline(NAME, "1.0")
        assert active.value.code == "no_proposal"
        with pytest.raises(NotFound):
            await host.decline(NAME, "7.0")
        with pytest.raises(Invalid):
            await host.decline(NAME, "1.1", "x" * 1001)


async def test_a_rollback_is_examined_like_any_deploy(url: str) -> None:
    """W8, W5: what this host can no longer load is refused with its findings, nothing stored."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.deploy(source(BROKEN))
    small = duly.Policy(limits=duly.Limits(source_bytes=100))
    async with Host(url, connectors=[Sheets()], policy=small) as host:
        with pytest.raises(NotDeployed, match="refused") as refused:
            await host.rollback(NAME, "1.0")
        assert refused.value.findings
        assert [each.version for each in await host.versions(NAME)] == ["2.0", "1.0"]
        assert [each.verb for each in await host.actions(NAME)] == ["deploy", "deploy"]


async def test_a_rollback_grants_nothing(url: str) -> None:
    """W8, A2: what its text needs and nobody granted is asked for."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.deploy(source(WITHOUT_MUTATE))
        assert (await host.rollback(NAME, "1.0")).missing == ("sheets.append",)


async def test_of_two_rollbacks_at_once_one_is_refused(url: str) -> None:
    """W8: nobody replaces a version without the chance to have seen it."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.deploy(source(BROKEN))
        answers = await asyncio.gather(
            host.rollback(NAME, "1.0"), host.rollback(NAME, "1.0"), return_exceptions=True
        )
        assert [isinstance(each, RequestRefused) for each in answers].count(True) == 1
        assert len(await host.versions(NAME)) == 3


# -- Remove ---------------------------------------------------------------------------------------


async def test_a_removed_workflow_leaves_its_history_and_its_name(url: str) -> None:
    """W10, A6: the name begins again as another workflow, with its own events and versions."""
    sheets = Sheets()
    async with Host(url, connectors=[sheets]) as host:
        await host.deploy(source(), grant=True)
        await host.publish(NAME, "mail", message_id="m1", title="Mail 1")
        await host.drain()
        ran = await host.runs()
        await host.remove(NAME, by=ANNA)
        assert await host.workflows() == ()
        with pytest.raises(NotFound, match="no workflow"):
            await host.workflow(NAME)
        assert (await host.runs(), len(await host.mutations())) == (ran, 1)
        done = (await host.actions(limit=1))[0]
        assert (done.by, done.verb, done.workflow) == (ANNA, "remove", NAME)
        assert (await host.deploy(source())).version == "1.0"
        assert (await host.events(NAME), await host.runs(NAME)) == ((), ())
        assert [each.version for each in await host.versions(NAME)] == ["1.0"]
        await host.publish(NAME, "mail", message_id="m1", title="Mail 1")
        await host.drain()
        assert (await host.runs(NAME))[0].status is Status.PAUSED_APPROVAL  # its own grants, too
        assert sheets.rows == [["m1"]]


async def test_a_workflow_with_an_open_run_is_not_removed(url: str) -> None:
    """W10: refused by name; after the run was ended it goes."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await host.publish(NAME, "mail", message_id="m1", title="Mail 1")
        await host.drain()
        with pytest.raises(RequestRefused, match='"mail-to-row" has an open run'):
            await host.remove(NAME)
        assert len(await host.workflows()) == 1
        await host.abandon((await host.runs(NAME))[0].id)
        await host.remove(NAME)
        await host.drain()
        assert await host.workflows() == ()


# -- Check, tools, actions ------------------------------------------------------------------------


async def test_check_says_all_that_is_wrong_and_stores_nothing(url: str, tmp_path: Path) -> None:
    """W5: warnings, refusals and problems alike; a path or a source."""
    async with Host(url, connectors=[Sheets()]) as host:
        assert await host.check(source()) == ()
        warned = await host.check(source(FLOW.replace('"ui"', '"u"')))
        refused = await host.check(source('flow = workflow("x", topics=["a b"])'))
        path = tmp_path / "flow.py"
        path.write_text(FLOW)
        assert await host.check(path) == ()
        assert warned
        assert refused
        assert (await host.workflows(), await host.actions()) == ((), ())


async def test_tools_are_listed_with_capability_and_risk(url: str) -> None:
    """A1: by name, as a person decides on them."""
    async with Host(url, connectors=[Sheets()]) as host:
        *built_in, tool = await host.tools()
        assert [each.name for each in built_in] == ["clock.next", "clock.now"]
        assert (tool.name, tool.kind) == ("sheets.append_row", ToolKind.MUTATION)
        assert (tool.capability, tool.risk, tool.noun) == ("sheets.append", Risk.LOW, "row")


async def test_every_act_is_listed_with_who_when_and_what(url: str) -> None:
    """A6: newest first, in pages, of one workflow or of all."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source(), by=ANNA, grant=True)
        await host.pause(NAME, by="ben")
        await host.reconnect("sheets", by="cleo")
        third, second, first = await host.actions()
        assert [each.by for each in (third, second, first)] == ["cleo", "ben", ANNA]
        assert [each.workflow for each in (third, second, first)] == [None, NAME, NAME]
        assert first.target == "1.0"
        assert isinstance(first.detail, dict)
        assert first.detail["granted"] == ["sheets.append"]
        assert first.at <= second.at <= third.at
        assert first.at.utcoffset() == timedelta(0)
        assert await host.actions(limit=1, before=third.id) == (second,)
        assert await host.actions(NAME) == (second, first)


# -- Refusals -------------------------------------------------------------------------------------

Ask = Callable[[Host], Awaitable[object]]
REFUSALS: dict[str, tuple[Ask, type[DulyError], str]] = {
    "versions of nobody": (lambda h: h.versions("x"), NotFound, "no workflow"),
    "versions past a page": (lambda h: h.versions(NAME, limit=1001), Invalid, "1 to 1000"),
    "versions of no page": (lambda h: h.versions(NAME, limit=0), Invalid, "1 to 1000"),
    "versions before none": (lambda h: h.versions(NAME, before="9.0"), NotFound, "no version"),
    "a key of another kind": (
        lambda h: h.versions(NAME, before=1),  # type: ignore[arg-type]
        Invalid,
        "id or name",
    ),
    "diff of nobody": (lambda h: h.diff("x", "1.0", "1.0"), NotFound, "no workflow"),
    "diff of no version": (lambda h: h.diff(NAME, "1.0", "1.1"), NotFound, '"1.1"'),
    "rollback of nobody": (lambda h: h.rollback("x", "1.0"), NotFound, "no workflow"),
    "rollback to nothing": (lambda h: h.rollback(NAME, "7.0"), NotFound, "no version"),
    "rollback to what is": (lambda h: h.rollback(NAME, "1.0"), RequestRefused, "active already"),
    "rollback by nobody": (lambda h: h.rollback(NAME, "1.0", by=""), Invalid, "by must be"),
    "remove nobody": (lambda h: h.remove("x"), NotFound, "no workflow"),
    "actions past a page": (lambda h: h.actions(limit=1001), Invalid, "1 to 1000"),
    "actions of nobody": (lambda h: h.actions("x"), NotFound, "no workflow"),
    "check of nothing": (lambda h: h.check("nowhere.py"), Invalid, "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_question_says_why(url: str, name: str) -> None:
    """W8, W10, A6: what is not there is named, and nothing was stored."""
    ask, error, words = REFUSALS[name]
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source())
        await propose(host, "2.1", BROKEN)
        before = (await host.actions(), await host.versions(NAME))
        with pytest.raises(error, match=words):
            await ask(host)
        assert (await host.actions(), await host.versions(NAME)) == before
