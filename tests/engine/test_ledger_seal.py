"""A row that another program changed is never sent, and never asked about (L11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.config import Policy
from duly.desk.secret import VARIABLE
from duly.errors import ConfigError, RequestRefused
from duly.rules.word import MutationStatus as Row
from duly.rules.word import Status
from duly.testing import Fault, Stage
from tests.engine.stand import TOOL, Play, flow, opened, plan

ASKED = Policy(approvals={"*": "always"})
OTHER = '{"text":"pay all of it"}'
# What an upgrade from a schema without seals leaves (decision 536).
BROUGHT_UP = "insert into upkeep (name, at) values ('unsealed', 0)"


async def proposed(stage: Stage) -> Play:
    """Bring a call before a person."""
    play = await opened(stage, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    return play


async def approved(stage: Stage) -> Play:
    """Bring a call to where it is sent next."""
    play = await proposed(stage)
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash, by="anna")
    return play


CHANGES = {
    "arguments": ("update mutation set args = ?", OTHER),
    "arguments that cannot be read": ("update mutation set args = ?", "{"),
    "arguments that are no object": ("update mutation set args = ?", "[]"),
    "the hash": ("update mutation set hash = ?", "0" * 64),
    "the tool": ("update mutation set tool = ?", "sheet.other"),
    "a tool that cannot be one": ("update mutation set tool = ?", "other"),
    "the key": ("update mutation set key = ?", "0" * 64),
    "who approved": ("update mutation set approved_by = ?", "bob"),
    "the inputs": ("update run set prepared = replace(prepared, '\"a\"', ?)", '"b"'),
    "inputs that cannot be read": ("update run set prepared = ?", "{"),
    "the seal": ("update mutation set seal = ?", "0" * 16 + ":" + "0" * 64),
    "no seal": ("update mutation set seal = ?", None),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_row_changed_between_yes_and_send_is_never_sent(
    duly_world: Stage, change: str
) -> None:
    """L11: it was not sent before, so it failed, and a person is told."""
    play = await approved(duly_world)
    play.tamper(*CHANGES[change])
    await play.drain()
    run, row = await play.run(), await play.row()
    assert (play.sends(), duly_world.count()) == (0, 0)
    assert (row.status, run.status) == (Row.FAILED, Status.FAILED_INTERNAL)
    assert (row.known_how, row.sent_at is None) == ("unsent", True)
    assert "was not sent" in (await play.error())["message"]
    assert run.escalated is not None
    await play.pass_by(3600)
    assert play.sends() == 0


async def test_a_run_whose_row_was_changed_makes_the_call_anew(duly_world: Stage) -> None:
    """L11, R9: a retry asks the script and the person again, and sends that."""
    play = await approved(duly_world)
    play.tamper("update mutation set args = ?", OTHER)
    await play.drain()
    await play.host.retry((await play.run()).id)
    await play.drain()
    (shown,) = await play.host.approvals()
    assert shown.observed.args == {"text": "a"}
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_row_changed_in_the_moment_of_its_send_is_not_sent(duly_world: Stage) -> None:
    """L11: what is compared is what the transaction of the send has read."""
    play = await approved(duly_world)
    send = play.store.send_approved

    async def changed_first(*args: object, **named: object) -> object:
        play.tamper("update mutation set args = ?", OTHER)
        return await send(*args, **named)  # type: ignore[arg-type]

    object.__setattr__(play.store, "send_approved", changed_first)
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (0, Row.FAILED)


async def test_a_changed_proposal_is_not_approved(duly_world: Stage) -> None:
    """L11, A4: a yes would seal what another program wrote."""
    play = await proposed(duly_world)
    (shown,) = await play.host.approvals()
    play.tamper("update mutation set args = ?", OTHER)
    with pytest.raises(RequestRefused, match="never sent: it was changed in the store"):
        await play.host.approve(shown.mutation, shown.hash)
    assert (await play.row()).status == Row.PROPOSED


@pytest.mark.parametrize("how", ["by a status", "as if it waited for a connection"])
async def test_a_yes_that_no_person_gave_sends_nothing(duly_world: Stage, how: str) -> None:
    """L11, A3: that a person has to agree is under the seal, and so is who did."""
    play = await proposed(duly_world)
    if how == "by a status":
        play.tamper("update mutation set status = 'in_flight'")
        play.tamper("update run set status = 'active', waits = null where open = 1")
    else:
        play.tamper("update run set waits = 'connection', waits_on = 'sheet' where open = 1")
        await play.host.reconnect("sheet")
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (0, Row.FAILED)


async def test_a_changed_row_that_was_sent_is_a_persons_to_settle(duly_world: Stage) -> None:
    """L11: before every question the row is compared; nothing is asked by what it says now."""
    play = await opened(duly_world)
    plan(duly_world, Fault.TIMEOUT_AFTER, reconcile=(Fault.UNSURE,))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    asks = play.asks()
    play.tamper("update mutation set args = ?", OTHER)
    await play.pass_by(600)
    row = await play.row()
    assert (row.status, play.asks(), play.sends()) == (Row.INDETERMINATE, asks, 1)
    assert "was changed in the store" in (await play.error())["message"]
    assert (await play.run()).escalated is not None
    await play.host.settle(row.id, "happened", {"row": 1})
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_changed_row_is_not_sent_again(duly_world: Stage) -> None:
    """L11, L7: an idempotent tool repeats a call, and only the one that was made."""
    play = await opened(duly_world, idempotent=True, key_lifetime_s=86_400, reconcile=False)
    plan(duly_world, Fault.TIMEOUT_BEFORE)
    await play.deploy(flow())
    await play.publish("a")
    again = play.store.send_again

    async def changed_first(*args: object, **named: object) -> object:
        play.tamper("update mutation set args = ?", OTHER)
        return await again(*args, **named)  # type: ignore[arg-type]

    object.__setattr__(play.store, "send_again", changed_first)
    await play.drain()
    await play.pass_by(60)
    assert (play.sends(), (await play.row()).status) == (1, Row.INDETERMINATE)


async def test_a_refused_row_that_was_changed_is_not_sent_after_a_sign_in(
    duly_world: Stage,
) -> None:
    """L11, F4: it was sent before, so a person must say what became of it."""
    play = await opened(duly_world)
    plan(duly_world, Fault.AUTH)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    play.tamper("update mutation set args = ?", OTHER)
    await play.host.reconnect("sheet")
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (1, Row.INDETERMINATE)


# -- The key --------------------------------------------------------------------------------------


def key_of(stage: Stage) -> Path:
    return Path(f"{stage.url.removeprefix('sqlite:///')}.key")


async def test_the_key_is_made_with_the_first_change_and_is_not_in_the_store(
    duly_world: Stage,
) -> None:
    """L11: beside the database, for its owner alone; a host that changes nothing makes none."""
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow())
    assert not key_of(duly_world).exists()
    await play.publish("a")
    await play.drain()
    key = key_of(duly_world)
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().strip() not in str((await play.row()).seal)


async def test_a_row_under_a_lost_key_is_not_sent(duly_world: Stage) -> None:
    """L11: without the key no one can tell whether it was changed."""
    play = await approved(duly_world)
    key_of(duly_world).unlink()
    await play.restart()
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (0, Row.FAILED)
    assert "another key" in (await play.error())["message"]


async def test_rotating_the_key_seals_open_rows_anew(duly_world: Stage) -> None:
    """L11: an approved call is sent under the new key; the old one can be taken away then."""
    play = await approved(duly_world)
    before, key = (await play.row()).seal, key_of(duly_world)
    old = key.rename(f"{key}.old")
    await play.restart()
    assert (await play.row()).seal != before
    old.unlink()
    await play.restart()
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_changed_row_is_not_sealed_anew(duly_world: Stage) -> None:
    """L11: a rotation checks every seal; one that does not fit stays as it is."""
    play = await approved(duly_world)
    play.tamper("update mutation set key = ?", "0" * 64)
    key = key_of(duly_world)
    key.rename(f"{key}.old")
    await play.restart()
    await play.drain()
    assert (play.sends(), (await play.row()).status) == (0, Row.FAILED)


async def test_what_is_sent_at_once_is_sealed_as_well(duly_world: Stage) -> None:
    """L11: a row that needs no yes has a seal from its first moment."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    assert (row.status, row.asked, row.approved_by) == (Row.APPLIED, 0, None)
    assert row.seal is not None
    assert duly_world.calls == [TOOL]


async def test_rows_of_an_older_schema_are_sealed_where_the_store_says_that_there_are_some(
    duly_world: Stage,
) -> None:
    """L11, H4: an upgrade has said so; at any other time a row without a seal is not sent."""
    play = await approved(duly_world)
    play.tamper("update mutation set seal = null")
    play.tamper(BROUGHT_UP)
    await play.restart()
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)


async def test_a_wrong_key_is_refused_before_rows_of_an_older_store_are_sealed(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L11, H4: its rows stay without a seal until a host comes with the right key."""
    play = await approved(duly_world)
    play.tamper("update mutation set seal = null")
    play.tamper(BROUGHT_UP)
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(ConfigError, match="is not a key"):
        await play.restart()
    monkeypatch.delenv(VARIABLE)
    play.host = await duly_world.host(**play.options)
    await play.drain()
    assert (duly_world.count(), await play.is_clean()) == (1, True)
