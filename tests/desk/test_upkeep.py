"""Looking after a host: retention, backups, restored stores, checks, by its own verbs (H5)."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.config import Policy
from duly.errors import Invalid, NotFound, RequestRefused, StoreUnavailable
from duly.rules.retention import REMOVED, Tidied
from duly.rules.schedule import DAY_MS
from duly.rules.standing import Facts, Standing, read
from duly.rules.word import MutationStatus, Status
from duly.store import Store
from duly.testing import Stage
from duly.words import Clock, say
from tests.desk.stand import reception
from tests.desk.stores import folder_of
from tests.engine.stand import (
    CONSUMER,
    NAME,
    OUT,
    Play,
    consumer,
    flow,
    opened,
    producer,
    statements,
)
from tests.spoken import short
from verification.moves import Call

KEPT = Policy(retention_days=30)
DAY_S = DAY_MS / 1000


async def worked(stage: Stage, policy: Policy = KEPT, **options: Any) -> Play:
    """Open a host that has filed two events and looked once, forty days ago."""
    play = await opened(stage, policy=policy, **options)
    await play.deploy(flow(producers={"poll": producer()}))
    await play.publish("a", "b")
    await play.drain()
    assert await play.statuses() == {"a": "consumed", "b": "consumed"}
    return play


def put_in_place(stage: Stage, copy: Path) -> None:
    """Restore a copy as a person does: the store is moved away, the copy takes its name."""
    path = Path(stage.url.removeprefix("sqlite:///"))
    for suffix in ("", "-wal"):
        old = path.with_name(path.name + suffix)
        if old.exists():
            old.rename(path.with_name(f"{path.name}{suffix}.old"))
    shutil.copyfile(copy, path)


async def restored(play: Play, copy: Path) -> None:
    """Close the host, put a copy in its place, and open it."""
    await play.host.close()
    play.stage._hosts.clear()
    put_in_place(play.stage, copy)
    play.host = await play.stage.host(**play.options)


# -- Retention ------------------------------------------------------------------------------------


async def test_tidy_removes_what_the_policy_no_longer_keeps(duly_world: Stage) -> None:
    """H5, A6: now, whole, and written down."""
    play = await worked(duly_world)
    await duly_world.advance(40 * DAY_S)
    tidied = await play.host.tidy(by="anna")
    assert (tidied.events, tidied.mutations) == (2, 2)
    assert tidied.runs >= 3
    assert await play.host.tidy() == Tidied()
    assert {each.title for each in await play.events()} == {REMOVED}
    last = (await play.host.actions(limit=2))[1]
    assert (last.by, last.verb) == ("anna", "tidy")


async def test_a_republish_and_new_work_go_on_after_it(duly_world: Stage) -> None:
    """T5, H5: what was done is not done again, what is new is."""
    play = await worked(duly_world)
    await duly_world.advance(40 * DAY_S)
    await play.host.tidy()
    await play.publish("a", "c", payload="other")
    await play.drain()
    assert await play.statuses() == {"a": "consumed", "b": "consumed", "c": "consumed"}
    assert play.sends() == 3


async def test_without_a_number_of_days_everything_is_kept(duly_world: Stage) -> None:
    """H5: off by default, and a person who asks is told."""
    play = await worked(duly_world, Policy())
    with pytest.raises(RequestRefused, match="retention_days"):
        await play.host.tidy()
    await play.pass_by(400 * DAY_S)
    assert REMOVED not in {each.title for each in await play.events()}


async def test_a_host_tidies_once_a_day_by_itself(duly_world: Stage) -> None:
    """H5, S9: behind other work, and between two rounds it sleeps."""
    play = await worked(duly_world)
    async with play.host.running():
        await duly_world.advance(31.5 * DAY_S)
        assert {each.title for each in await play.events()} == {REMOVED}
        tidied_at = await play.store.tidied_at()
        assert tidied_at is not None
        assert 0 <= play.now - tidied_at < DAY_MS
        seen = statements(play)
        await duly_world.advance(0.9 * DAY_S - (play.now - tidied_at) / 1000)
        assert seen == []
        await duly_world.advance(0.2 * DAY_S)
        assert seen != []
    assert await play.store.tidied_at() == tidied_at + DAY_MS


async def test_drain_tidies_what_is_due_and_not_twice_a_day(duly_world: Stage) -> None:
    """H5: the store remembers, so a host that is opened every minute does not."""
    play = await worked(duly_world)
    first = await play.store.tidied_at()
    await play.pass_by(40 * DAY_S)
    assert {each.title for each in await play.events()} == {REMOVED}
    second = await play.store.tidied_at()
    assert first is not None
    assert second == first + round(40 * DAY_MS)
    await play.restart()
    await play.pass_by(DAY_S / 2)
    assert await play.store.tidied_at() == second


async def test_a_crash_between_two_turns_costs_a_round_and_nothing_else(
    duly_world: Stage,
) -> None:
    """H5: the next host begins again and ends where it would have."""
    play = await worked(duly_world)
    await duly_world.advance(40 * DAY_S)
    await play.crash_during(tidy="after")
    assert await play.store.tidied_at() is not None
    await play.drain()
    assert {each.title for each in await play.events()} == {REMOVED}


async def test_every_view_shows_what_is_left(duly_world: Stage) -> None:
    """H5: none breaks, and where something was the words say so."""
    play = await worked(duly_world)
    runs = await play.host.runs()
    await duly_world.advance(40 * DAY_S)
    await play.host.tidy()
    host = play.host
    events = await host.events(NAME)
    assert [each.title for each in events if each.topic != OUT] == [REMOVED, REMOVED]
    mutations = await host.mutations()
    assert [(each.title, each.args, each.status, each.result) for each in mutations] == [
        (REMOVED, {"removed": "by retention"}, MutationStatus.APPLIED, None)
    ] * 2
    left = await host.runs()
    assert {each.id for each in left} == {each.run for each in mutations}
    for each in left:
        assert await host.logs(each.id) == ()
        assert (await host.run(each.id)).status is Status.COMMITTED
    gone = next(each.id for each in runs if each.id not in {run.id for run in left})
    with pytest.raises(NotFound):
        await host.run(gone)
    inputs = await host.inputs(NAME)
    assert [each.title for each in inputs] == [REMOVED, REMOVED]
    for output in await host.outputs(NAME):
        json.dumps(plain(output))
    for known in (*(each.id for each in mutations), *(each.id for each in left)):
        json.dumps(plain(await host.why(known)))
    await host.workflow(NAME)
    await host.attention()


def plain(value: Any) -> Any:
    """Spell an answer as JSON does."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)


# -- Backup and restore ---------------------------------------------------------------------------


async def test_a_backup_is_made_while_runs_go_on(duly_world: Stage) -> None:
    """H5, A6: it says where it is, how large, of when; who asked for it is written down."""
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "copy.db"
    async with play.host.running():
        made, _ = await asyncio.gather(play.host.backup(copy, by="anna"), play.publish("c", "d"))
    assert (made.path, made.bytes > 0) == (copy, True)
    assert abs(made.at.timestamp() * 1000 - play.now) <= 1000
    last = next(each for each in await play.host.actions() if each.verb == "backup")
    assert (last.by, last.target) == ("anna", str(copy))
    assert (await play.host.verify()).ok


@pytest.mark.parametrize("path", ["", None, 7, "a\0b"])
async def test_what_names_no_file_is_refused(duly_world: Stage, path: Any) -> None:
    """H5: and nothing is written."""
    play = await worked(duly_world)
    with pytest.raises(Invalid, match="path must be the name"):
        await play.host.backup(path)


@pytest.mark.parametrize("error", [StoreUnavailable(code="disk_full"), asyncio.CancelledError()])
async def test_a_backup_that_is_not_recorded_left_no_file(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """H5, A6: what a backup could not do left everything as it was; the next one may try again."""
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "copy.db"

    async def fail(*args: Any, **more: Any) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Store, "note_act", fail)
        with pytest.raises(type(error)):
            await play.host.backup(copy)
    assert not copy.exists()
    assert (await play.host.backup(copy)).path == copy


async def test_a_restored_store_is_paused_and_says_since_when_it_is_blind(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """H5, U1: nothing runs before a person resumes; then everything does."""
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "copy.db"
    made = await play.host.backup(copy)
    await play.publish("c")
    await play.drain()
    assert play.sends() == 3
    await restored(play, copy)
    assert "restored from a backup of" in caplog.text
    await play.publish("c")
    await play.pass_by(60)
    assert play.sends() == 3
    shown = await play.host.workflow(NAME)
    told = f"{made.at.day} {made.at:%b %H:%M} UTC"
    assert shown.standing is Standing.NEEDS_ATTENTION
    assert shown.paused
    assert short(play.host, shown) == (
        f"Restored from a backup of {told}; what was done since then is not known here"
    )
    act = next(each for each in await play.host.actions(NAME) if each.verb == "pause")
    assert (act.by, act.verb, act.detail) == ("duly", "pause", "restored from a backup")
    await play.host.resume(NAME)
    assert "backup" not in short(play.host, await play.host.workflow(NAME))
    await play.drain()
    assert await play.statuses() == {"a": "consumed", "b": "consumed", "c": "consumed"}


async def test_a_restored_store_says_so_once(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """H5: a restart is no second restore, and what was resumed stays resumed."""
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await restored(play, copy)
    await play.host.resume(NAME)
    caplog.clear()
    await play.restart()
    assert not (await play.host.workflow(NAME)).paused
    assert "restored" not in caplog.text


async def test_an_approved_call_of_a_backup_is_asked_about_and_not_sent(
    duly_world: Stage,
) -> None:
    """H5, L3, A4: the copy says it was not sent; since then it was."""
    play = await opened(duly_world, policy=Policy(approvals={"*": "always"}), lag_s=0)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    await play.host.approve(row.id, row.hash)
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await play.drain()
    assert play.sends() == 1
    await restored(play, copy)
    await play.host.resume(NAME)
    await play.pass_by(60)
    assert (play.sends(), duly_world.count("sheet.append")) == (1, 1)
    assert play.asks() >= 1
    assert (await play.row()).status == MutationStatus.APPLIED


class Camera(duly.Connector):
    """Makes a backup while its own call is out."""

    name = "camera"

    def __init__(self, copy: Path) -> None:
        self.copy = copy
        self.host: duly.Host | None = None
        self.asked = 0

    @duly.mutation(lag_s=0)
    async def take(self, call: duly.Call) -> dict[str, Any]:
        assert self.host is not None
        await self.host.backup(self.copy)
        return {}

    @take.reconcile
    async def take_happened(self, call: duly.Call) -> duly.Applied:
        self.asked += 1
        return duly.Applied({})


async def test_a_call_in_flight_in_a_backup_is_unknown(duly_world: Stage) -> None:
    """H5, L3, F7: as after any crash; the asking goes on while the workflow is paused."""
    camera = Camera(folder_of(duly_world) / "copy.db")
    play = await opened(duly_world, connectors=(camera,))
    camera.host = play.host
    await play.deploy(flow({CONSUMER: consumer(mutate=(Call("camera.take"),))}))
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == MutationStatus.APPLIED
    await restored(play, camera.copy)
    assert (await play.row()).status == MutationStatus.IN_FLIGHT
    await play.pass_by(60)
    assert (await play.row()).status == MutationStatus.APPLIED
    assert camera.asked == 1
    assert await play.statuses() == {"a": "reserved"}
    await play.host.resume(NAME)
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}


def test_the_words_of_a_restored_workflow_name_the_day_and_the_hour() -> None:
    """H5, U1: in the words people use, and only while it is paused."""
    at_ms = 1_777_799_520_000
    reading = read(Facts(paused=True, copied_at_ms=at_ms))
    assert reading.standing is Standing.NEEDS_ATTENTION
    assert say(reading.reason, Clock(0)) == (
        "Restored from a backup of 3 May 2026 09:12 UTC; what was done since then is not known here"
    )
    assert read(Facts(copied_at_ms=at_ms)).standing is Standing.IDLE


# -- Checks ---------------------------------------------------------------------------------------


async def test_verify_says_what_is_wrong_and_the_host_goes_on(duly_world: Stage) -> None:
    """H5: in sentences; nothing is changed by looking."""
    play = await worked(duly_world)
    assert await play.host.verify() == await play.host.verify()
    backend: Any = play.store.backend
    backend.connection.execute(
        "delete from payload where content = (select max(content) from event)"
    )
    found = await play.host.verify()
    assert not found.ok
    assert any("has no content" in each for each in found.problems)
    await play.publish("c")
    await play.drain()
    assert (await play.statuses())["c"] == "consumed"


async def test_a_store_that_is_no_sqlite_file_is_not_copied(tmp_path: Path) -> None:
    """H5: it has tools of its own."""
    async with reception(tmp_path) as desk:
        object.__setattr__(desk.parts.store, "backend", object())
        with pytest.raises(RequestRefused, match="SQLite"):
            await desk.backup(tmp_path / "copy.db")


@pytest.mark.parametrize("verb", ["tidy", "backup", "drop_secret"])
async def test_every_act_says_who(duly_world: Stage, verb: str) -> None:
    """A6: nobody acts without a name."""
    play = await worked(duly_world)
    acts: dict[str, Callable[[], Any]] = {
        "tidy": lambda: play.host.tidy(by=" "),
        "backup": lambda: play.host.backup("copy.db", by=" "),
        "drop_secret": lambda: play.host.drop_secret("a", "b", by=" "),
    }
    with pytest.raises(Invalid, match="by must be a text"):
        await acts[verb]()


async def test_a_backup_goes_on_when_nobody_waits_for_it(
    duly_world: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """H5: closing the host waits for it, and no half file is left."""
    caplog.set_level(logging.WARNING)
    play = await worked(duly_world)
    copy = folder_of(duly_world) / "copy.db"
    asking = asyncio.ensure_future(play.host.backup(copy))
    await asyncio.sleep(0)
    asking.cancel()
    await play.host.close()
    names = sorted(each.name for each in folder_of(duly_world).iterdir())
    assert names == ["copy.db", "duly.db", "duly.db.key", "duly.db.lock"]
    assert caplog.records == []
