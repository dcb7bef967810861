"""The exam of accounts that decide over a channel, and of what they were asked (G11, A6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules.slip import PAIR_MS, SlipStatus
from duly.store.base import Durability
from duly.store.record import Action, JournalEvent
from duly.store.slip import SlipRow, find_slip, list_asking, list_open_slips, list_pairings
from tests.store.attic import NOW, act
from tests.store.exam import Again, Case, Refusal, Trial, World, exam, nothing
from tests.store.scene import PROPOSED, arranged
from tests.store.test_exam_ledger import MUTATION

PHONE = "phone"
DAY_MS = 86_400_000


async def pairings(world: World) -> list[tuple[str, str | None]]:
    rows = await world.store.backend.transact(list_pairings, Durability.READ)
    return [(each.name, each.account) for each in rows]


def _keep(name: str = "Ada", code: str = "d1", *, now: int = NOW, by: str = "pair") -> Any:
    return lambda world: world.store.keep_pairing(PHONE, name, code, action=act(by), now=now)


async def _it_is_kept(world: World, answer: Any) -> None:
    assert await pairings(world) == [("Ada", None)]
    assert ("ada", "pair", None, "phone/Ada") in [row[2:6] for row in world.dump()["action"]]


KEEP = Case(
    verb="keep_pairing",
    arrange=nothing,
    call=_keep(),
    effect=_it_is_kept,
    again=Again.REFUSED,
    refusals=(
        Refusal("a name that is taken", RequestRefused, broken=_keep(by="earlier"), match="Ada"),
    ),
)


def _pair(code: str = "d1", account: str = "7", *, now: int = NOW, name: str = "paired") -> Any:
    return lambda world: world.store.pair_account(PHONE, code, account, action=act(name), now=now)


async def _code_is_there(world: World) -> None:
    await _keep()(world)


async def _it_is_paired(world: World, answer: Any) -> None:
    assert await pairings(world) == [("Ada", "7")]
    assert world.dump()["pairing"][0][3] is None  # the digest of the code is gone


async def _account_is_known(world: World) -> None:
    await _keep("Bob", "d2", by="other")(world)
    await _pair("d2", name="known")(world)


PAIR = Case(
    verb="pair_account",
    arrange=_code_is_there,
    call=_pair(),
    effect=_it_is_paired,
    again=Again.NOTHING,
    refusals=(
        Refusal("an account that is paired", RequestRefused, broken=_account_is_known, match="Bob"),
    ),
)


async def _two_are_there(world: World) -> None:
    await _code_is_there(world)
    await _account_is_known(world)


def _drop(name: str = "Bob") -> Any:
    return lambda world: world.store.drop_pairing(PHONE, name, action=act("unpair"), now=NOW)


async def _one_is_left(world: World, answer: Any) -> None:
    assert await pairings(world) == [("Ada", None)]


DROP = Case(
    verb="drop_pairing",
    arrange=_two_are_there,
    call=_drop(),
    effect=_one_is_left,
    again=Again.MISSING,
    refusals=(Refusal("one that is not there", NotFound, call=_drop("Eve")),),
)


# -- Slips --------------------------------------------------------------------------------------


def _write(slip_id: str = "slip_1", code: str = "c1", seen: str = "shown") -> Any:
    return lambda world: world.store.write_slip(slip_id, PHONE, "7", MUTATION, seen, code, now=NOW)


async def slip_of(world: World, code: str = "c1") -> SlipRow:
    found = await world.store.backend.transact(lambda tx: find_slip(tx, code), Durability.READ)
    assert found is not None
    return found


async def _it_is_written(world: World, answer: Any) -> None:
    row = SlipRow("slip_1", PHONE, "7", MUTATION, "shown", "c1", SlipStatus.SENDING, None, NOW)
    assert answer == row == await slip_of(world)
    open_ = await world.store.backend.transact(
        lambda tx: list_open_slips(tx, PHONE), Durability.READ
    )
    assert open_ == (row,)
    waiting = await world.store.backend.transact(list_asking, Durability.READ)
    assert waiting == ((MUTATION, "shown"),)


WRITE = Case(
    verb="write_slip",
    arrange=arranged(PROPOSED),
    call=_write(),
    effect=_it_is_written,
    again=Again.SAME,  # it is about to be sent: the same code changes nothing
    never_refuses="an account that was asked already is answered with nothing",
)


async def _slip_is_there(world: World) -> None:
    await arranged(PROPOSED)(world)
    world.kept["slip"] = await _write()(world)


def _move(status: SlipStatus = SlipStatus.ASKED, message: str | None = "99") -> Any:
    return lambda world: world.store.move_slip(world.kept["slip"], status, message=message, now=NOW)


async def _it_was_sent(world: World, answer: Any) -> None:
    row = await slip_of(world)
    assert (row.status, row.message) == (SlipStatus.ASKED, "99")


async def _renew(world: World) -> None:
    await _write("slip_2", "c2")(world)


MOVE = Case(
    verb="move_slip",
    arrange=_slip_is_there,
    call=_move(),
    effect=_it_was_sent,
    again=Again.STALE,
    refusals=(Refusal("one that has another code by now", Stale, broken=_renew),),
)


async def _line_was_told(world: World) -> None:
    assert not await world.store.tell_day(PHONE, None, at=NOW - 2, now=NOW - 1)


def _tell(world: World) -> Any:
    event = JournalEvent("user.notify", "duly", '{"text":"x"}')
    return world.store.tell_day(PHONE, event, at=NOW, now=NOW)


async def _it_is_told(world: World, answer: Any) -> None:
    assert answer is True
    assert [row[1] for row in world.dump()["journal"]] == ["user.notify"]


TELL = Case(
    verb="tell_day",
    arrange=_line_was_told,
    call=_tell,
    effect=_it_is_told,
    again=Again.NOTHING,
    never_refuses="a day that was told is answered with no",
)


def _begin(at: int = NOW - 5, now: int = NOW, *, is_over: bool = False) -> Any:
    event = None if is_over else JournalEvent("workflow.needs_attention", "duly", '{"text":"x"}')
    return lambda world: world.store.tell_begun("flow/silent", event, at=at, now=now)


async def _alert_was_told(world: World, answer: Any) -> None:
    assert answer is True
    assert [row[1] for row in world.dump()["journal"]] == ["workflow.needs_attention"]


ALERT = Case(
    verb="tell_begun",
    arrange=nothing,
    call=_begin(),
    effect=_alert_was_told,
    again=Again.NOTHING,
    never_refuses="a beginning that was told is answered with no",
)


@pytest.mark.parametrize("trial", exam(KEEP, PAIR, DROP, WRITE, MOVE, TELL, ALERT))
async def test_pairings_and_slips_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """G11, A6: each is one transaction, whole or not at all."""
    await trial.sit(tmp_path)


async def test_what_began_is_told_once_and_again_when_it_began_anew(tmp_path: Path) -> None:
    """F8: a mark that a wrong clock dated ahead silences nothing for more than a day."""
    world = await World(tmp_path / "world").open()
    try:
        told = [
            await _begin(at=NOW - 5)(world),
            await _begin(at=NOW - 5, now=NOW + 9)(world),
            await _begin(at=NOW + 1, now=NOW + 9)(world),
            await _begin(at=NOW + 9, now=NOW + 9)(world),
            await _begin(is_over=True)(world),
            await _begin(at=NOW - 5, now=NOW + 10)(world),
            await _begin(at=0, now=NOW + 10 - DAY_MS)(world),
            await _begin(at=0, now=NOW + 9 - DAY_MS)(world),
        ]
        assert told == [True, False, True, False, False, True, False, True]
    finally:
        await world.close()


async def test_an_account_is_asked_once_about_one_content(tmp_path: Path) -> None:
    """G11: while it is asked no second slip is written; another content needs the first closed."""
    world = await World(tmp_path / "world").open()
    try:
        await _slip_is_there(world)
        renewed = await _write("slip_2", "c2")(world)
        assert (renewed.id, renewed.digest) == ("slip_1", "c2")
        assert (
            await world.store.backend.transact(lambda tx: find_slip(tx, "c1"), Durability.READ)
            is None
        )
        world.kept["slip"] = renewed
        await _move()(world)
        assert await _write("slip_3", "c3")(world) is None
        assert await _write("slip_3", "c3", "another hash")(world) is None
        world.kept["slip"] = await slip_of(world, "c2")
        await _move(SlipStatus.CLOSED, None)(world)
        assert (await _write("slip_3", "c3")(world)).id == "slip_3"
    finally:
        await world.close()


async def test_a_code_that_comes_too_late_is_forgotten(tmp_path: Path) -> None:
    """G11: a clock that is set back afterwards does not bring it back."""
    world = await World(tmp_path / "world").open()
    try:
        for late in (NOW + PAIR_MS, NOW - 1):
            await _keep(by=f"pair {late}")(world)
            assert await _pair(now=late)(world) is None
            assert await _pair(name="again")(world) is None
            assert await pairings(world) == []
    finally:
        await world.close()


async def test_a_restored_store_keeps_no_account_and_no_open_slip(tmp_path: Path) -> None:
    """G11, H5: one of them may have been revoked, or decided, after the backup."""
    world = await World(tmp_path / "world").open()
    try:
        await _slip_is_there(world)
        await _two_are_there(world)
        world.connection.execute("insert into upkeep (name, at) values ('copied', ?)", (NOW,))
        action = Action("action_restore", "duly", "pause")
        assert await world.store.note_restore(action=action, now=NOW) == NOW
        assert await pairings(world) == []
        assert (await slip_of(world)).status is SlipStatus.CLOSED
    finally:
        await world.close()
