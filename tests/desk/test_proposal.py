"""A source that an agent proposes grants nothing; a person adopts it by its hash (M6, G4)."""

from __future__ import annotations

from pathlib import Path

import pytest

import duly
from duly.errors import Invalid, NotDeployed, NotFound, RequestRefused
from duly.host import Host
from duly.rules.proposal import NOTE_CHARS_MAX, PROPOSALS_MAX
from duly.rules.source import Language
from duly.rules.standing import Standing
from duly.store import proposal as stored
from duly.store.base import Durability
from duly.store.proposal import SourceProposal
from duly.store.record import Action, Origin, VersionSpec
from tests.desk.test_version import BROKEN, NAME
from tests.desk.test_whole import FLOW, Sheets

AGENT, ANNA = "token:laptop", "anna"


def source(text: str = FLOW) -> duly.Source:
    return duly.Source(Language.PYTHON, text, path="/home/anna/flow.py")


async def test_a_proposal_changes_nothing_and_a_person_adopts_it_by_its_hash(url: str) -> None:
    """M6: there is no workflow before, and it is allowed nothing after."""
    async with Host(url, connectors=[Sheets()]) as host:
        made = await host.propose(source(), note="Rows from mail", by=AGENT)
        assert (made.workflow, made.replaces, made.author) == (NAME, None, AGENT)
        assert made.uses
        assert await host.workflows() == ()
        (entry,) = await host.attention()
        assert entry.reason.code == "proposed_source"
        assert entry.reason.facts["workflow"] == NAME  # the sentence says for which it is
        assert [each.verb for each in entry.offers] == ["proposal", "adopt", "decline"]
        shown = await host.proposal(made.hash)
        assert shown.source == FLOW
        assert f"+{FLOW.splitlines()[0]}" in shown.diff

        deployed = await host.adopt(made.hash, by=ANNA)
        assert (deployed.version, set(deployed.missing)) == ("1.0", set(made.uses))
        assert await host.grants(NAME) == ()
        (version,) = await host.versions(NAME)
        assert version.author == AGENT
        newest = (await host.actions(limit=1))[0]
        assert (newest.by, newest.verb) == (ANNA, "adopt")
        assert await host.proposals() == ()
        with pytest.raises(NotFound, match="no proposal"):
            await host.adopt(made.hash, by=ANNA)


async def test_its_author_cannot_adopt_it_but_the_owner_can(url: str) -> None:
    """G4: a token that proposed a version cannot adopt it; nor one that a repair proposed."""
    async with Host(url, connectors=[Sheets()]) as host:
        made = await host.propose(source(), by=AGENT)
        with pytest.raises(RequestRefused) as caught:
            await host.adopt(made.hash, by=AGENT)
        assert caught.value.code == "own_proposal"
        own = await host.propose(source(BROKEN), by=ANNA)
        await host.adopt(own.hash, by=ANNA)
        await keep_repair(host)
        with pytest.raises(RequestRefused) as caught:
            await host.rollback(NAME, "1.1", by=AGENT)
        assert caught.value.code == "own_proposal"
        assert (await host.rollback(NAME, "1.1", by=ANNA)).version == "2.0"


async def keep_repair(host: Host) -> None:
    """Keep a version as a repair does that was not adopted."""
    store = host._desk().parts.store
    found = await store.find_workflow(NAME)
    assert found is not None
    spec = VersionSpec("1.1", "python", FLOW, "h", "{}", "[]", AGENT, Origin.REPAIR, "1.0")
    await store.keep_version(found.id, spec, action=Action("action_0", AGENT, "propose"), now=1)


async def test_over_another_version_it_cannot_be_adopted(url: str) -> None:
    """M6: what a person saw is what is replaced; a newer proposal drops the old ones."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source(), by=ANNA)
        made = await host.propose(source(BROKEN), by=AGENT)
        assert made.replaces == "1.0"
        await host.deploy(source(), by=ANNA)
        (late,) = await host.proposals(NAME)
        assert not late.current
        assert await host.attention() == ()
        with pytest.raises(RequestRefused) as caught:
            await host.adopt(made.hash, by=ANNA)
        assert caught.value.code == "deployed_meanwhile"
        again = await host.propose(source(BROKEN), by=AGENT)
        assert again.hash != made.hash
        assert [each.hash for each in await host.proposals()] == [again.hash]


async def test_the_same_is_proposed_once_and_can_be_declined(url: str) -> None:
    """M6, A6: a repeat is the same proposal; a no is recorded with its reason."""
    async with Host(url, connectors=[Sheets()]) as host:
        first = await host.propose(source(), note="one", by=AGENT)
        assert await host.propose(source(), note="two", by="token:other") == first
        assert await host.decline(NAME, first.hash, "not now", by=ANNA)
        assert await host.proposals() == ()
        newest = (await host.actions(limit=1))[0]
        assert (newest.by, newest.verb, newest.detail) == (ANNA, "decline", {"reason": "not now"})
        with pytest.raises(NotFound):
            await host.decline(NAME, first.hash, by=ANNA)


async def test_in_a_restored_store_a_proposal_waits_for_a_person_and_resumes_nothing(
    tmp_path: Path, url: str
) -> None:
    """M6, H5: what was decided about it since is not known; adopted, the workflow stays paused."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.deploy(source(BROKEN))
        made = await host.propose(source(), by=AGENT)
        await host.backup(tmp_path / "copy.db")
        await host.decline(NAME, made.hash, by=ANNA)
    (tmp_path / "copy.db").rename(tmp_path / "duly.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"duly.db{suffix}").unlink(missing_ok=True)
    async with Host(url, connectors=[Sheets()]) as host:
        assert [each.hash for each in await host.proposals()] == [made.hash]
        with pytest.raises(RequestRefused):
            await host.adopt(made.hash, by=AGENT)
        before = await host.workflow(NAME)
        await host.adopt(made.hash, by=ANNA)
        after = await host.workflow(NAME)
        assert (before.version, after.version) == ("1.0", "2.0")
        assert before.standing is after.standing is Standing.NEEDS_ATTENTION
        assert after.paused


async def test_what_has_a_finding_is_not_proposed(url: str) -> None:
    """M1: an agent's source passes the strict check, or nothing is kept."""
    async with Host(url, connectors=[Sheets()]) as host:
        worse = FLOW.replace('"ui": {', '"io": {')
        assert worse != FLOW
        for text in (worse, "def broken(:\n"):
            with pytest.raises(NotDeployed):
                await host.propose(source(text), by=AGENT)
        assert await host.proposals() == ()


async def test_one_past_each_limit_is_refused(url: str) -> None:
    """M6: a note and the number of proposals are limited."""
    async with Host(url, connectors=[Sheets()]) as host:
        await host.propose(source(), note="x" * NOTE_CHARS_MAX, by=AGENT)
        with pytest.raises(Invalid, match="note"):
            await host.propose(source(), note="x" * (NOTE_CHARS_MAX + 1), by=AGENT)
        store = host._desk().parts.store
        for number in range(PROPOSALS_MAX - 1):
            row = SourceProposal(
                f"{number:064}", f"flow {number}", None, "python", "", "[]", "[]", AGENT, "", 1
            )
            await store.keep_proposal(row, action=Action(f"a{number}", AGENT, "propose"), now=1)
        assert len(await store.backend.transact(stored.list_proposals, Durability.READ)) == 100
        with pytest.raises(RequestRefused) as caught:
            await host.propose(source(BROKEN), by=AGENT)
        assert caught.value.code == "too_many"
