"""Workflows carried to another store: nothing is lost, nothing is done again (H5, A6, T5, L7)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duly.desk import carrying, deploy
from duly.desk.base import Desk
from duly.desk.deploy import Draft
from duly.errors import Invalid, NotDeployed, NotFound, RequestRefused, StoreUnavailable
from duly.rules import carried as carried_rules
from duly.rules.export import EventLine, VersionLine, read_line
from duly.rules.source import Language, Source
from duly.rules.verb import Scope
from duly.testing import Fault, Stage
from tests.desk import stores
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import plain
from tests.engine.stand import NAME, OUT, TOOL, Play, flow, opened, plan, producer
from tests.rules.export_sample import written
from tests.spoken import short


async def examined(desk: Desk, source: Source, *, strict: bool) -> Draft:
    """Examine a source that is data: what an examination of a language would give."""
    loaded = await desk.parts.sandbox.load(source, desk.parts.outside.catalog)
    return Draft(source, loaded.declaration, (), {}, frozenset())


@pytest.fixture(autouse=True)
def data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "examine", examined)


def path_of(stage: Stage, name: str = "flow.jsonl") -> Path:
    return folder_of(stage) / name


async def worked(stage: Stage, **options: Any) -> Play:
    """Open a host that has filed two events, while a third waits in a topic of its own."""
    play = await opened(stage, **options)
    await play.deploy(flow(producers={"poll": producer(every="1h")}))
    await play.publish("a", "b")
    await play.drain()
    return play


async def elsewhere(play: Play) -> Play:
    """Open another host on a store of its own, in the same world."""
    play.stage.url = stores.another(play.stage)
    return Play(play.stage, await play.stage.host(**play.options), play.options)


async def carried(play: Play) -> Play:
    """Hand a workflow over to another store."""
    path = path_of(play.stage)
    await play.host.export(path, workflow=NAME, hand_over=True, by="ada")
    other = await elsewhere(play)
    await other.host.import_(path, by="eve")
    return other


async def views(play: Play) -> dict[str, Any]:
    """Ask for all that a person can read of a workflow."""
    host = play.host
    rows = await play.rows()
    return {
        "inputs": plain(await host.inputs(NAME)),
        "outputs": plain(await host.outputs(NAME)),
        "runs": plain(await host.runs(NAME)),
        "changes": [plain(await host.mutation(each.id)) for each in rows],
        "versions": plain(await host.versions(NAME)),
        "keys": [(each.key, each.status, each.inputs) for each in rows],
        "statuses": [await play.statuses(), await play.statuses(OUT)],
    }


async def test_a_workflow_reads_the_same_in_the_other_store(duly_world: Stage) -> None:
    """H5, L7: inputs, changes, runs, versions, keys; grants and who did what go with it."""
    play = await worked(duly_world)
    before, id_before = await views(play), await play.workflow_id()
    other = await carried(play)
    assert await views(other) == before
    assert await other.workflow_id() == id_before
    grants = [each.capability for each in await other.host.grants(NAME)]
    assert grants == [each.capability for each in await play.host.grants(NAME)]
    assert {each.granted_by for each in await other.host.grants(NAME)} == {"eve"}
    done = [(each.verb, each.by) for each in await other.host.actions(NAME)]
    assert done[:2] == [("import", "eve"), ("hand_over", "ada")]
    assert ("publish", "user") in done


async def test_nothing_that_was_done_is_done_again(duly_world: Stage) -> None:
    """T5, L7: message ids that were consumed in the other store are known here."""
    play = await worked(duly_world)
    other = await carried(play)
    await other.host.resume(NAME, by="eve")
    await other.publish("a", "b", "c")
    await other.drain()
    assert other.sends() == 3
    assert await other.statuses() == dict.fromkeys("abc", "consumed")
    assert (await other.host.verify()).ok


async def test_what_was_pending_is_done_once_in_the_other_store(duly_world: Stage) -> None:
    """H5, S3: it is paused until a person resumes it, and the first store does it no more."""
    play = await worked(duly_world)
    await play.host.pause(NAME)
    await play.publish("c")
    other = await carried(play)
    for each in (other, play):
        await each.drain()
    assert other.sends() == 2
    await other.host.resume(NAME)
    await other.drain()
    assert other.sends() == 3
    assert (await other.statuses())["c"] == "consumed"
    assert (await play.statuses())["c"] == "pending"


async def test_both_stores_say_why_it_is_paused(duly_world: Stage) -> None:
    """H5, U1: since when each of them is blind; who may only run it cannot resume it (G4)."""
    play = await worked(duly_world)
    other = await carried(play)
    for each, said in ((play, "Handed over to another store"), (other, "Imported from a file")):
        found = await each.host.workflow(NAME)
        assert found.standing == "needs attention"
        assert said in short(each.host, found)
        with pytest.raises(RequestRefused, match="scope"):
            await each.store.set_paused(
                await each.workflow_id(),
                is_paused=False,
                action=each.desk.action("bot", "resume"),
                now=each.now,
                right=Scope.AGENT,
            )


# -- What is open ---------------------------------------------------------------------------------


async def stuck(stage: Stage) -> Play:
    """Open a host with a call of which no one knows what came of it."""
    play = await opened(stage, reconcile=False)
    plan(stage, Fault.AMBIGUOUS_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == "indeterminate"
    return play


async def test_a_workflow_with_an_unknown_change_is_not_handed_over(duly_world: Stage) -> None:
    """L3, L8: only the store that sent it may answer for it; nothing is paused or written."""
    play = await stuck(duly_world)
    path = path_of(duly_world)
    with pytest.raises(RequestRefused) as raised:
        await play.host.export(path, hand_over=True)
    assert raised.value.code == "has_open_run"
    assert not path.exists()
    assert not (await play.host.workflow(NAME)).paused


async def test_an_open_change_can_be_read_and_is_not_taken_in(duly_world: Stage) -> None:
    """H5, L3: not even as a copy; its store has to settle it first."""
    play = await stuck(duly_world)
    path = path_of(duly_world)
    await play.host.export(path)
    assert '"status":"indeterminate"' in path.read_text()
    other = await elsewhere(play)
    with pytest.raises(RequestRefused) as raised:
        await other.host.import_(path, copy=True)
    assert raised.value.code == "export_open"
    assert await other.host.workflows() == ()


async def test_a_copy_is_taken_in_at_a_word_alone(duly_world: Stage) -> None:
    """H5: the workflow goes on in the store that wrote it, so it would be done twice."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    made = await play.host.export(path, by="ada")
    assert (made.workflows, made.handed_over, made.bytes) == ((NAME,), False, path.stat().st_size)
    assert not (await play.host.workflow(NAME)).paused
    newest = (await play.host.actions())[0]
    assert (newest.verb, newest.by, newest.target) == ("export", "ada", str(path))
    other = await elsewhere(play)
    with pytest.raises(RequestRefused) as raised:
        await other.host.import_(path)
    assert raised.value.code == "not_handed_over"
    assert (await other.host.import_(path, copy=True)).workflows == (NAME,)
    assert (await other.host.workflow(NAME)).paused


# -- The ledger -----------------------------------------------------------------------------------


async def test_a_check_says_which_changes_came_in_a_file(duly_world: Stage) -> None:
    """L15: they are neither forged nor proven; one that is changed here is named."""
    other = await carried(await worked(duly_world))
    verified = await other.host.verify()
    assert (verified.ok, verified.imported) == (True, 2)
    row = await other.row()
    (change,) = (await other.host.certificate(row.id)).changes
    assert (change.seal.is_whole, change.seal.is_imported) == (True, True)
    other.tamper("update mutation set attempt = 7 where id = ?", row.id)
    assert [each.id for each in (await other.host.verify()).changed] == [row.id]


async def test_no_row_loses_or_gains_the_mark(duly_world: Stage) -> None:
    """L15: the seal covers it."""
    play = await worked(duly_world)
    other = await carried(play)
    other.tamper("update mutation set end_seal = replace(end_seal, ':imported', '')")
    assert len((await other.host.verify()).changed) == 2
    play.tamper("update mutation set end_seal = end_seal || ':imported'")
    assert len((await play.host.verify()).changed) == 2


async def test_a_row_that_was_changed_is_still_named_in_the_other_store(duly_world: Stage) -> None:
    """L15: an import hides no change that another program made before."""
    play = await worked(duly_world)
    row = await play.row()
    play.tamper("update mutation set attempt = 7 where id = ?", row.id)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True)
    other = await elsewhere(play)
    assert (await other.host.import_(path)).unsealed == 1
    (changed,) = (await other.host.verify()).changed
    assert (changed.id, changed.flaw) == (row.id, "unsealed")


async def test_what_was_erased_or_removed_stays_so(duly_world: Stage) -> None:
    """H5, L15: an input forgotten before or after the import leaves the seals good."""
    play = await worked(duly_world)
    await play.host.forget("a")
    other = await carried(play)
    assert '"Event"' not in json.dumps(plain(await other.host.inputs(NAME))[1], default=str)
    await other.host.forget("b")
    verified = await other.host.verify()
    assert (verified.ok, verified.imported) == (True, 2)


# -- What is refused ------------------------------------------------------------------------------


async def test_a_file_is_not_overwritten_and_nothing_is_paused(duly_world: Stage) -> None:
    """H5: as a backup; a hand-over looks before it pauses."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    path.write_text("mine")
    with pytest.raises(RequestRefused) as raised:
        await play.host.export(path, hand_over=True)
    assert (raised.value.code, path.read_text()) == ("file_exists", "mine")
    assert not (await play.host.workflow(NAME)).paused
    with pytest.raises(NotFound):
        await play.host.export(path_of(duly_world, "b"), workflow="nothing")


async def test_one_hand_over_makes_one_file(duly_world: Stage) -> None:
    """H5: two files would let two stores run it; a workflow that was resumed is in neither."""
    play = await worked(duly_world)
    await play.host.export(path_of(duly_world), hand_over=True)
    with pytest.raises(RequestRefused) as raised:
        await play.host.export(path_of(duly_world, "b"), hand_over=True)
    assert raised.value.code == "handed_over_before"
    assert not path_of(duly_world, "b").exists()
    await play.host.export(path_of(duly_world, "copy"))  # says of itself that it is a copy
    await play.host.resume(NAME)
    await play.host.export(path_of(duly_world, "b"), hand_over=True)


@pytest.mark.parametrize("is_read", [False, True])
async def test_a_workflow_that_is_resumed_meanwhile_is_in_no_file(
    duly_world: Stage, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: before and after it is read Duly looks whether this store has given it up."""
    play = await worked(duly_world)
    write = carrying._write

    async def resumed(*args: Any, **more: Any) -> Any:
        made = await write(*args, **more) if is_read else None
        await play.host.resume(NAME)
        return made or await write(*args, **more)

    monkeypatch.setattr(carrying, "_write", resumed)
    with pytest.raises(RequestRefused) as raised:
        await play.host.export(path_of(duly_world), hand_over=True)
    assert raised.value.code == "hand_over_undone"
    assert not path_of(duly_world).exists()
    assert not (await play.host.workflow(NAME)).paused


async def test_the_store_that_had_it_does_not_take_it_in_again(duly_world: Stage) -> None:
    """H5, W10: under its name, or after it was removed: its history would be there twice."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True)
    with pytest.raises(RequestRefused, match="deployed here already"):
        await play.host.import_(path)
    await play.host.remove(NAME)
    with pytest.raises(RequestRefused, match="would be there twice"):
        await play.host.import_(path)


def cut(raw: bytes) -> bytes:
    return raw[: raw.rindex(b'{"kind":"end"')]


def resealed(raw: bytes) -> bytes:
    """Write the last line anew, as a person who changed the file would."""
    body = cut(raw)
    end = {"kind": "end", "lines": body.count(b"\n"), "sha256": sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


def chosen(raw: bytes, tool: str, word: str) -> bytes:
    """Write a rule by which a person is asked into the grant of a change."""
    head, mark, rest = raw.partition(f'"capability":"{TOOL}"'.encode())
    matching = json.dumps(json.dumps({f"asks:{tool}": word})).encode()
    return resealed(head + mark + rest.replace(b'"{}"', matching, 1))


WRONG: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a file that was cut": ("export_cut", cut),
    "a file that was cut in a line": ("export_cut", lambda raw: raw[:-5]),
    "a file that was changed": ("export_changed", lambda raw: raw.replace(b'"ada"', b'"eve"')),
    "more behind the end": ("export_unreadable", lambda raw: raw + b"{}\n"),
    "another file": ("export_unreadable", lambda raw: b"SQLite format 3\n"),
    "an empty file": ("export_cut", lambda raw: b""),
    "a newer format": (
        "export_newer",
        lambda raw: resealed(raw.replace(b'"format":1', b'"format":2')),
    ),
    "a field that is not known": (
        "export_unreadable",
        lambda raw: resealed(raw.replace(b'"kind":"grant"', b'"kind":"grant","secret":"x"')),
    ),
    "a grant that is no object": (
        "export_misfit",
        lambda raw: resealed(raw.replace(b'"matching":"{}"', b'"matching":"[]"', 1)),
    ),
    "a rule for every tool": ("export_misfit", lambda raw: chosen(raw, "*", "always")),
    "a rule for a read": ("export_misfit", lambda raw: chosen(raw, "sheet.find", "always")),
    "a rule that does not ask": ("export_misfit", lambda raw: chosen(raw, TOOL, "never")),
    "a glob that is empty": (
        "export_misfit",
        lambda raw: resealed(raw.replace(b'"matching":"{}"', rb'"matching":"{\"text\":\"\"}"', 1)),
    ),
    "a time that is no date": (
        "export_unreadable",
        lambda raw: resealed(re.sub(rb'"created_at":[0-9]+', b'"created_at":253402300800000', raw)),
    ),
    "a row that was changed": (
        "export_ledger",
        lambda raw: resealed(raw.replace(b'"title":"Add a row"', b'"title":"Add"')),
    ),
    "one message id twice": (
        "export_known_row",
        lambda raw: resealed(raw.replace(b'"message_id":"b"', b'"message_id":"a"', 1)),
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_file_that_is_not_what_was_written_is_refused(duly_world: Stage, name: str) -> None:
    """H5: damaged, changed or of another kind; nothing of it is in the store then."""
    code, change = WRONG[name]
    play = await worked(duly_world)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True, by="ada")
    raw = path.read_bytes()
    path.write_bytes(change(raw))
    assert path.read_bytes() != raw
    other = await elsewhere(play)
    with pytest.raises(RequestRefused) as raised:
        await other.host.import_(path)
    assert raised.value.code == code, raised.value
    assert await other.host.workflows() == ()


async def test_what_no_database_holds_is_refused_as_a_whole(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5, T4: the constraints of the store are the last net, below the checks of each line."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True)
    raw = path.read_bytes().replace(b'"status":"consumed"', b'"status":"reserved"')
    path.write_bytes(resealed(raw))
    other = await elsewhere(play)
    unchecked: dict[Any, Any] = {EventLine: lambda _, seen, line: seen.events.add(line.seq)}
    monkeypatch.setattr(carried_rules, "_CHECKS", {**carried_rules._CHECKS, **unchecked})
    with pytest.raises(RequestRefused) as raised:
        await other.host.import_(path)
    assert raised.value.code == "export_unfit"
    assert await other.host.workflows() == ()


async def test_what_only_looks_like_a_file_is_not_read(duly_world: Stage) -> None:
    """N: a pipe would hold its reader for good; a missing file is named."""
    play = await opened(duly_world)
    pipe = path_of(duly_world, "pipe")
    os.mkfifo(pipe)
    with pytest.raises(RequestRefused, match="not a regular file"):
        await play.host.import_(pipe)
    with pytest.raises(Invalid, match="cannot be read"):
        await play.host.import_(path_of(duly_world, "nothing"))
    with pytest.raises(RequestRefused, match="No workflow is deployed"):
        await play.host.export(path_of(duly_world, "empty"))


async def test_a_text_that_declares_another_name_is_refused(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W1, W5: what the text says is found out here; the file is not believed."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True)
    other = await elsewhere(play)
    real = carrying.examine

    async def renamed(desk: Desk, source: Source, *, strict: bool) -> Draft:
        draft = await real(desk, source, strict=strict)
        return replace(draft, declaration=replace(draft.declaration, name="other"))

    monkeypatch.setattr(carrying, "examine", renamed)
    with pytest.raises(RequestRefused, match="another name"):
        await other.host.import_(path)


async def test_a_text_that_no_deploy_takes_is_not_taken_in(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5: by the same examination as a deploy, though its hash and the file are in order."""
    play = await worked(duly_world)
    path = path_of(duly_world)
    await play.host.export(path, hand_over=True)
    broken = Source(Language.PYTHON, "{")
    lines = [read_line(raw) for raw in path.read_bytes().splitlines()[:-1]]
    path.write_bytes(
        written(
            msgspec.structs.replace(each, source=broken.text, hash=broken.hash)
            if isinstance(each, VersionLine)
            else each
            for each in lines
        )
    )
    other = await elsewhere(play)
    monkeypatch.setattr(carrying, "examine", deploy.examine)
    with pytest.raises(NotDeployed):
        await other.host.import_(path)
    assert await other.host.workflows() == ()


async def test_no_secret_is_in_the_file_but_its_name(duly_world: Stage) -> None:
    """A5: and the store that takes it in says which are missing."""
    play = await worked(duly_world)
    await play.host.set_secret("sheet", "token", "canary-4711")
    path = path_of(duly_world)
    made = await play.host.export(path, hand_over=True)
    assert made.secrets == ("sheet.token",)
    assert b"canary" not in path.read_bytes()
    other = await elsewhere(play)
    assert (await other.host.import_(path)).secrets == ("sheet.token",)


async def test_a_file_that_cannot_be_noted_does_not_stay(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: who wrote it must be known."""
    play = await worked(duly_world)

    async def fail(**_: Any) -> None:
        raise StoreUnavailable(code="disk_full", subject="x")

    monkeypatch.setattr(play.store, "note_act", fail)
    with pytest.raises(StoreUnavailable):
        await play.host.export(path_of(duly_world))
    assert not path_of(duly_world).exists()
