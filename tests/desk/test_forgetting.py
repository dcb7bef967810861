"""Forgetting an input: no byte of it is left, and nothing is done again (H5, A6, L15, T5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duly.config import Policy
from duly.desk import carrying
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.late import LateAnswer
from duly.rules.word import Answer
from duly.rules.word import MutationStatus as Row
from duly.store import backup
from duly.testing import Fault, Stage
from tests.desk import stores
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import plain
from tests.engine.stand import (
    CONSUMER,
    IN,
    MUTATE,
    NAME,
    PREPARE,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
)
from verification.moves import Say, When, ref

CANARY = "canary-4711-Zx81"
TITLE = f"Mail from {CANARY}"
ASKED = Policy(approvals={"*": "always"})


async def worked(stage: Stage, **options: Any) -> Play:
    """Open a host that has filed one input, whose text stands wherever a text can stand."""
    play = await opened(stage, **options)
    prepare = (PREPARE[0], When("pending", (Say(ref("pending.0.title")),)), *PREPARE)
    mutate = (Say(ref("prepared.data.text")), *MUTATE)
    await play.deploy(flow({CONSUMER: consumer(prepare, mutate)}, {"poll": producer()}))
    await play.host.publish(NAME, IN, title=TITLE, message_id="a", payload={"text": CANARY})
    await play.drain()
    return play


def bytes_of(stage: Stage) -> dict[str, bytes]:
    """Read every file of the store as it lies on the disk while the host runs."""
    return {each.name: each.read_bytes() for each in folder_of(stage).iterdir() if each.is_file()}


def files_with(stage: Stage, text: str) -> list[str]:
    """Name the files with a text, and the tables, which on a server are in no file of ours."""
    rows = {table: repr(rows).encode() for table, rows in stores.dump(stage.url).items()}
    return [name for name, data in (bytes_of(stage) | rows).items() if text.encode() in data]


async def test_no_byte_of_a_forgotten_input_is_left_in_any_file(duly_world: Stage) -> None:
    """H5: neither in the database, in its free pages nor in its log; the host goes on meanwhile."""
    play = await worked(duly_world)
    assert files_with(duly_world, CANARY)
    forgotten = await play.host.forget("a", by="ada")
    assert (forgotten.events, forgotten.mutations) == (2, 1)
    assert files_with(duly_world, CANARY) == []
    await play.publish("b")
    await play.drain()
    assert (await play.statuses())["b"] == "consumed"
    assert (await play.host.verify()).ok


async def test_every_view_says_when_and_by_whom_it_was_erased(duly_world: Stage) -> None:
    """H5, A6: input, change, run and action; none shows the text."""
    play = await worked(duly_world)
    await play.host.forget("a", by="ada")
    row = await play.row()
    shown = {
        "inputs": await play.host.inputs(NAME),
        "mutation": await play.host.mutation(row.id),
        "logs": await play.host.logs(row.run_id),
        "outputs": await play.host.outputs(NAME),
        "certificate": await play.host.certificate("a", workflow=NAME),
    }
    for name, view in shown.items():
        text = json.dumps(plain(view), default=str)
        assert "Erased on " in text, name
        assert "by ada" in text, name
        assert CANARY not in text, name
    newest = (await play.host.actions(NAME))[0]
    assert (newest.verb, newest.by, newest.target) == ("forget", "ada", f"{IN}/a")
    assert CANARY not in json.dumps(plain(newest), default=str)


async def test_a_forgotten_input_that_comes_again_is_not_done_again(duly_world: Stage) -> None:
    """H5, T5: its message id is still known, and so are key and state of its change."""
    play = await worked(duly_world)
    key = (await play.row()).key
    await play.host.forget("a")
    assert await play.host.publish(NAME, IN, title=TITLE, message_id="a") == "frozen"
    await play.drain()
    assert (duly_world.count("sheet.append"), (await play.row()).key) == (1, key)
    assert (await play.row()).status == Row.APPLIED


async def test_forgetting_waits_for_a_person_who_has_to_say_yes(duly_world: Stage) -> None:
    """H5: what is open is refused with its name; once it is over it is erased, reason and all."""
    play = await worked(duly_world, policy=ASKED)
    with pytest.raises(RequestRefused, match="is not over") as raised:
        await play.host.forget("a")
    assert (raised.value.code, raised.value.facts["what"]) == ("still_open", "run")
    await play.host.reject((await play.row()).id, reason=f"no, {CANARY}", by="eve")
    await play.drain()
    await play.host.forget("a")
    assert files_with(duly_world, CANARY) == []
    row = await play.row()
    assert (row.status, row.known_by, row.known_said) == (Row.REJECTED, "eve", None)
    assert (await play.host.verify()).ok


async def test_an_unknown_change_is_not_forgotten(duly_world: Stage) -> None:
    """H5, L3: whether it happened is still to be found out, by its own words."""
    play = await opened(duly_world, reconcile=False)
    plan(duly_world, Fault.AMBIGUOUS_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    with pytest.raises(RequestRefused, match="is not over"):
        await play.host.forget("a")
    assert (await play.row()).status == Row.INDETERMINATE


async def test_a_row_that_was_changed_before_is_named_afterwards(duly_world: Stage) -> None:
    """L15: forgetting seals only what was whole, so it hides no change of another program."""
    play = await worked(duly_world)
    play.tamper("update mutation set attempt = 7")
    await play.host.forget("a")
    assert files_with(duly_world, CANARY) == []
    (changed,) = (await play.host.verify()).changed
    assert changed.id == (await play.row()).id


async def test_a_late_answer_brings_no_text_back(duly_world: Stage) -> None:
    """H5, L1: that it came, and which word it was, is kept; the row stays whole."""
    play = await worked(duly_world)
    await play.host.forget("a")
    late = LateAnswer(1, None, Answer.REFUSED, message=f"said {CANARY}")
    await play.store.keep_late_answer((await play.row()).id, late)
    row = await play.row()
    assert row.late is not None
    assert CANARY not in row.late
    assert (await play.host.verify()).ok


async def test_an_input_is_found_by_its_id_alone_where_one_has_it(duly_world: Stage) -> None:
    """H5: of several the workflow is asked for; of none it says so."""
    play = await worked(duly_world)
    await play.deploy(flow(name="second"))
    await play.publish("a", name="second")
    await play.drain()
    with pytest.raises(Invalid) as raised:
        await play.host.forget("a")
    assert raised.value.code == "several_workflows"
    with pytest.raises(NotFound):
        await play.host.forget("nothing")
    with pytest.raises(NotFound):
        await play.host.forget("a", workflow=NAME, topic="nothing")
    assert (await play.host.forget("a", workflow=NAME)).workflow == NAME


async def test_backups_and_states_that_still_show_it_are_named(duly_world: Stage) -> None:
    """H5: they are not in reach; the person is told which."""
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "monday.db"
    await play.host.backup(copy)
    export = folder_of(duly_world) / "tuesday.jsonl"
    await play.host.export(export)
    play.tamper("update handler set state = ?", '{"last":"a"}')
    forgotten = await play.host.forget("a")
    assert forgotten.backups == (str(copy), str(export))
    assert forgotten.states == ("file", "poll")
    assert sorted(files_with(duly_world, CANARY)) == ["monday.db", "tuesday.jsonl"]


async def test_a_file_by_which_a_workflow_was_handed_over_is_named(duly_world: Stage) -> None:
    """H5: another store may have imported it; here it is erased all the same."""
    play = await worked(duly_world)
    file = folder_of(duly_world) / "monday.jsonl"
    await play.host.export(file, workflow=NAME, hand_over=True)
    assert (await play.host.forget("a")).backups == (str(file),)


@pytest.mark.parametrize("verb", ["backup", "export"])
async def test_a_file_that_is_written_while_an_input_is_forgotten_is_written_again(
    duly_world: Stage, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: it would keep the text, and the person who forgot it was not told of it."""
    play = await worked(duly_world)
    module, name = (backup, "back_up") if verb == "backup" else (carrying, "_write")
    write = getattr(module, name)
    times = 0

    async def beside(*args: Any, **more: Any) -> Any:
        nonlocal times
        made = await write(*args, **more)
        if times < forgets:
            await play.host.forget("a")
        times += 1
        return made

    monkeypatch.setattr(module, name, beside)
    forgets = 1
    await getattr(play.host, verb)(folder_of(duly_world) / "file")
    assert (times, files_with(duly_world, CANARY)) == (2, [])
    forgets = 99
    with pytest.raises(RequestRefused) as refused:
        await getattr(play.host, verb)(folder_of(duly_world) / "other")
    assert refused.value.code == "forgotten_meanwhile"
    assert not (folder_of(duly_world) / "other").exists()


async def test_the_log_of_a_store_that_is_read_is_erased_when_the_reader_has_ended(
    duly_world: Stage, tmp_path: Path
) -> None:
    """H1, H5: a question holds the log for as long as it lasts, and not longer."""
    play = await worked(duly_world)
    writer: Any = play.store.backend
    await writer._writer.begin_reading()
    await play.host.forget("a")
    assert files_with(duly_world, CANARY) != []
    writer._writer.end_reading()
    await writer._writer._drainer
    assert files_with(duly_world, CANARY) == []
