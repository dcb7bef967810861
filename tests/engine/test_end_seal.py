"""A ledger row that ended is sealed; what another program changes in it later is found (L15)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from duly.config import Policy
from duly.desk import seal
from duly.desk.proof import Taken, Unseen
from duly.errors import ConfigError, Invalid, NotFound
from duly.rules.event import EventStatus
from duly.rules.retention import REMOVED, REMOVED_ARGS
from duly.rules.seal import Flaw, Part
from duly.rules.word import Known
from duly.rules.word import MutationStatus as Row
from duly.testing import Fault, Stage
from tests.engine.stand import IN, NAME, Play, flow, opened, plan

ASKED = Policy(approvals={"*": "always"})


async def applied(stage: Stage, **options: Any) -> Play:
    """Bring one change to its end."""
    play = await opened(stage, **options)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == Row.APPLIED
    return play


# What was changed, and the parts whose digest it no longer has.
CHANGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "tool": ("update mutation set tool = 'sheet.other'", ()),
    "arguments": ("""update mutation set args = '{"text":"pay"}'""", (Part.ARGS,)),
    "key": ("update mutation set key = 'k'", ()),
    "inputs": ("update mutation set inputs = 'i'", ()),
    "content of an input": ("update payload set body = '1'", (Part.CONTENTS,)),
    "title of an input": ("update payload set title = 'x'", (Part.CONTENTS,)),
    "id of an input": ("update event set message_id = 'b'", (Part.CONTENTS,)),
    "number of sends": ("update mutation set attempt = 0", ()),
    "first send": ("update mutation set first_sent_at = 1", ()),
    "last send": ("update mutation set sent_at = 1", ()),
    "outcome": ("update mutation set status = 'failed'", ()),
    "result": ("update mutation set result = '1'", (Part.RESULT,)),
    "error": ("update mutation set error = '1'", (Part.ERROR,)),
    "how it became known": ("update mutation set known_how = 'settled'", ()),
    "when it became known": ("update mutation set known_at = 1", ()),
    "by whom it became known": ("update mutation set known_by = 'eve'", ()),
    "title": ("update mutation set title = 'Pay less'", (Part.TITLE,)),
    "no title": ("update mutation set title = null", (Part.TITLE,)),
    "a title as of retention": (
        "update mutation set title = 'Removed by retention'",
        (Part.TITLE,),
    ),
    "another title without arguments": (
        f"update mutation set args = '{REMOVED_ARGS}', result = null, title = 'x'",
        (Part.TITLE,),
    ),
    "what the script proposed": ("update mutation set args_proposed = '{}'", (Part.PROPOSED,)),
    "the promised lag": ("update mutation set lag_ms = 1", (Part.PROMISE,)),
    "the promised time": ("update mutation set timeout_ms = null", (Part.PROMISE,)),
    "the promised life of a key": (
        "update mutation set key_lifetime_ms = 99",
        (Part.PROMISE,),
    ),
    "a promise that is no number": ("update mutation set lag_ms = 'x'", (Part.PROMISE,)),
    "sent again": ("update mutation set is_resent = 1", (Part.RESENT,)),
    "what came late": ("update mutation set late = '[]'", (Part.LATE,)),
    "late bytes": ("update mutation set late = x'ff'", (Part.LATE,)),
    "number of resends": ("update mutation set resends = 7", ()),
    "refused": ("update mutation set refused = 1", ()),
    "proposed at": ("update mutation set created_at = 1", ()),
    "the run that made it": ("update mutation set run_id = 'run_x'", ()),
    "the observed call": ("update mutation set hash = 'h'", ()),
    "whether a person had to agree": ("update mutation set asked = 1", ()),
    "the allowance": ("update mutation set allowance_id = 'a'", ()),
    "who amended": ("update mutation set amended_by = 'eve'", ()),
    "what was said": ("update mutation set known_said = 'yes'", ()),
    "who approved": ("update mutation set approved_by = 'eve'", ()),
    "digests": ("update mutation set digests = '{}'", ()),
    "an end taken back": ("update mutation set status = 'in_flight'", ()),
    "an end in doubt": ("update mutation set status = 'indeterminate'", ()),
    "inputs taken away": ("delete from reservation", (Part.CONTENTS,)),
    "contents taken away": ("delete from payload", (Part.CONTENTS,)),
    "another result without arguments": (
        f"update mutation set args = '{REMOVED_ARGS}', result = '1'",
        (Part.RESULT,),
    ),
    "an error without arguments": (
        f"update mutation set args = '{REMOVED_ARGS}', result = null, error = '1'",
        (Part.ERROR,),
    ),
    "arguments that are no text": ("update mutation set args = x'ff'", (Part.ARGS,)),
    "a result that is no text": ("update mutation set result = x'ff'", (Part.RESULT,)),
    "a content that is no text": ("update payload set body = x'ff'", (Part.CONTENTS,)),
    "a tool that is no text": ("update mutation set tool = x'ff'", ()),
    "a seal that is no text": ("update mutation set end_seal = x'ff'", ()),
    "digests that are no text": ("update mutation set digests = x'ff'", ()),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_verify_names_a_row_that_was_changed_after_its_end(
    duly_world: Stage, change: str
) -> None:
    """L15: every field that a reader would trust is under the seal."""
    play = await applied(duly_world)
    assert (await play.host.verify()).ok
    statement, parts = CHANGES[change]
    row = await play.row()
    play.tamper("pragma foreign_keys = off")
    play.tamper(statement)
    verified = await play.host.verify()
    assert not verified.ok
    (found,) = verified.changed
    assert (found.id, found.workflow) == (row.id, NAME)
    assert (found.flaw, found.parts) == (Flaw.CHANGED, parts)
    shown = await play.host.certificate(found.id)
    assert (shown.changes[0].seal.flaw, shown.changes[0].seal.is_whole) == (Flaw.CHANGED, False)


async def test_verify_names_a_row_that_was_given_to_no_workflow(duly_world: Stage) -> None:
    """L15: a row of a workflow that is not there is named by what stands there."""
    play = await applied(duly_world)
    play.tamper("pragma foreign_keys = off")
    play.tamper("update mutation set workflow_id = 'nothing'")
    (found,) = (await play.host.verify()).changed
    assert (found.workflow, found.flaw) == ("nothing", Flaw.CHANGED)


@pytest.mark.parametrize("gone", ["end_seal = null", "seal = null", "digests = null"])
async def test_verify_names_a_row_whose_seal_was_taken_away(duly_world: Stage, gone: str) -> None:
    """L15: a row that ended and has no seal was not written by this host."""
    play = await applied(duly_world)
    play.tamper(f"update mutation set {gone}")
    (found,) = (await play.host.verify()).changed
    assert found.flaw is Flaw.UNSEALED


async def test_a_check_says_that_it_cannot_see_a_removed_row(duly_world: Stage) -> None:
    """L15: a row that is gone as a whole is in no seal."""
    play = await applied(duly_world)
    play.tamper("pragma foreign_keys = off")
    play.tamper("delete from mutation")
    verified = await play.host.verify()
    assert (verified.changed, verified.unseen) == ((), tuple(Unseen))


async def test_a_check_says_that_it_cannot_tell_who_removed_what_retention_removes(
    duly_world: Stage,
) -> None:
    """L15, H5: an exact imitation of retention fits the seal, and is named as unseen."""
    play = await applied(duly_world)
    play.tamper(
        "update mutation set args = ?, title = ?, result = null, error = null",
        REMOVED_ARGS,
        REMOVED,
    )
    verified = await play.host.verify()
    assert verified.ok
    assert Unseen.IMITATED_RETENTION in verified.unseen


@pytest.mark.parametrize(
    ("statement", "unseen"),
    [
        ("update mutation set attempt = 9", Unseen.OPEN_PROGRESS),
        ("update payload set body = '1'", Unseen.OPEN_PROGRESS),
        ("update event set status = 'skipped', reserved_by = null", Unseen.UNSEALED_RECORDS),
        ("delete from action", Unseen.UNSEALED_RECORDS),
        ("delete from journal", Unseen.UNSEALED_RECORDS),
        ("delete from granted", Unseen.UNSEALED_RECORDS),
    ],
)
async def test_a_check_says_which_records_it_cannot_see(
    duly_world: Stage, statement: str, unseen: Unseen
) -> None:
    """L15: whatever changes without being found is on the list."""
    play = await proposed(duly_world)
    play.tamper("pragma foreign_keys = off")
    play.tamper("pragma ignore_check_constraints = on")
    play.tamper(statement)
    verified = await play.host.verify()
    assert verified.changed == ()
    assert unseen in verified.unseen


# Columns that no seal covers, and why that tells no lie to the reader of a certificate.
UNSEALED = {
    "updated_at": "changes when the row passes to a successor, also after the end",
    "due_at": "null once the row has ended; nothing is told of it",
    "asks": "how often the outside was asked; no certificate tells it",
    "first_boot": "by which key ages are judged before the end; told by no one",
    "first_boot_ms": "as first_boot",
    "basis": "by which account a call is sent again or asked about before the end; told by no one",
    "first_clock": "as first_boot",
    "ended_clock": "by which a person's answer is judged before the end; told by no one",
    "outage_since": "of an outage that is over",
    "outage_count": "as outage_since",
    "outage_ms": "as outage_since",
    "outage_told": "as outage_since",
}
FLAGS = ("refused", "asked", "is_resent", "outage_told")


async def test_every_column_is_sealed_or_told_by_no_one(duly_world: Stage) -> None:
    """L15: a column that is added is either under the seal or said here not to be, with why."""
    play = await applied(duly_world)
    backend: Any = play.store.backend
    columns = backend.connection.execute("pragma table_info(mutation)")
    kinds = {name: kind.lower() for _, name, kind, *_ in columns}
    play.tamper("pragma foreign_keys = off")
    play.tamper("pragma ignore_check_constraints = on")
    unseen = set()
    for name, kind in kinds.items():
        other = "1" if name in FLAGS else "77" if kind != "text" else "'other'"
        play.tamper("create temp table kept as select * from mutation")
        play.tamper(f"update mutation set {name} = {other}")
        if (await play.host.verify()).ok:
            unseen.add(name)
        play.tamper("delete from mutation")
        play.tamper("insert into mutation select * from temp.kept")
        play.tamper("drop table temp.kept")
    assert unseen == set(UNSEALED)
    assert (await play.host.verify()).ok


@pytest.mark.parametrize("end", ["applied", "refused", "rejected", "withdrawn", "skipped"])
async def test_every_end_is_sealed(duly_world: Stage, end: str) -> None:
    """L15: however a row ends, it is sealed in that transaction."""
    play = await opened(
        duly_world, policy=ASKED if end in ("rejected", "withdrawn") else None, reconcile=False
    )
    plan(duly_world, *{"refused": (Fault.REFUSE,), "skipped": (Fault.TIMEOUT_AFTER,)}.get(end, ()))
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    row = await play.row()
    if end == "rejected":
        await play.host.reject(row.id, by="anna")
    elif end == "withdrawn":
        await play.host.abandon(row.held_by)
    elif end == "skipped":
        await play.host.settle(row.id, "skip")
    row = await play.store.get_mutation(row.id)
    assert row.has_ended
    assert row.end_seal is not None
    assert (await play.host.verify()).ok


async def test_a_row_changed_before_its_end_gets_no_seal(duly_world: Stage) -> None:
    """L15, L11: otherwise the end would vouch for what another program wrote."""
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    play.tamper("""update mutation set args = '{"text":"pay"}'""")
    await play.host.reject((await play.row()).id)
    row = await play.row()
    assert (row.has_ended, row.end_seal) == (True, None)
    (found,) = (await play.host.verify()).changed
    assert found.flaw is Flaw.UNSEALED


async def proposed(stage: Stage) -> Play:
    """Bring one change to where it waits for a yes."""
    play = await opened(stage, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert (await play.row()).status == Row.PROPOSED
    return play


async def assert_found(play: Play, *parts: Part) -> None:
    """Check that `verify` and the certificate of the one change say that it was changed."""
    (found,) = (await play.host.verify()).changed
    assert (found.flaw, found.parts) == (Flaw.CHANGED, parts)
    (made,) = (await play.host.certificate((await play.row()).id)).changes
    assert (made.seal.is_whole, made.seal.flaw, made.seal.parts) == (False, Flaw.CHANGED, parts)


# What was changed of a row that is still open, and the parts that are named.
OPEN_CHANGES: dict[str, tuple[str, tuple[Part, ...]]] = {
    "arguments": ("""update mutation set args = '{"text":"pay eve"}'""", ()),
    "arguments that cannot be read": ("update mutation set args = '{'", ()),
    "what the call was made from": ("update run set prepared = '{}'", ()),
    "id of an input": ("update event set message_id = 'forged'", (Part.CONTENTS,)),
    "topic of an input": ("update event set topic = 'other'", (Part.CONTENTS,)),
    "an input that is no text": ("update event set message_id = x'ff'", (Part.CONTENTS,)),
    "an input less": ("delete from reservation", (Part.CONTENTS,)),
    "the handler": ("update run set handler = 'other'", (Part.CONTENTS,)),
    "a seal of the end": ("update mutation set digests = '{}', end_seal = seal", ()),
}


@pytest.mark.parametrize("change", OPEN_CHANGES)
async def test_a_changed_row_that_is_still_open_is_named(duly_world: Stage, change: str) -> None:
    """L11, L15: its call is compared with its hash, and its inputs with their sealed name."""
    play = await proposed(duly_world)
    assert (await play.host.verify()).ok
    statement, parts = OPEN_CHANGES[change]
    play.tamper("pragma foreign_keys = off")
    play.tamper(statement)
    await assert_found(play, *parts)


async def test_a_row_with_another_input_before_its_end_gets_no_seal(duly_world: Stage) -> None:
    """L15: otherwise the end would vouch for an input that another program put there."""
    play = await proposed(duly_world)
    play.tamper("update event set message_id = 'forged'")
    await play.host.reject((await play.row()).id)
    row = await play.row()
    assert (row.has_ended, row.end_seal) == (True, None)


async def test_another_input_is_named_where_its_content_was_removed(duly_world: Stage) -> None:
    """L15: what retention removes of an input is its content, never its name."""
    play = await applied(duly_world)
    play.tamper(
        "insert into payload select workflow_id, 0, title, body, digest from payload limit 1"
    )
    play.tamper("update reservation set content = 0")
    assert (await play.host.verify()).ok
    play.tamper("update event set message_id = 'forged'")
    await assert_found(play, Part.CONTENTS)


async def test_retention_and_successors_leave_the_seal_valid(duly_world: Stage) -> None:
    """L15, H5: the digests stay when arguments, results and contents are removed."""
    play = await applied(duly_world, policy=Policy(retention_days=1))
    await play.pass_by(3 * 86_400)
    await play.host.tidy()
    assert "removed" in (await play.row()).args
    assert (await play.host.verify()).ok
    (made,) = (await play.host.certificate((await play.row()).id)).changes
    assert (made.is_emptied, made.seal.is_whole) == (True, True)


def key_of(stage: Stage) -> Path:
    """Find the file with the key of the seals."""
    return Path(f"{stage.url.removeprefix('sqlite:///')}.key")


async def test_another_key_seals_ended_rows_anew(duly_world: Stage) -> None:
    """L15: after a rotation the old key vouches for nothing, and can be taken away."""
    play = await applied(duly_world)
    before, key = (await play.row()).end_seal, key_of(duly_world)
    old = key.rename(f"{key}.old")
    await play.restart()
    old.unlink()
    await play.restart()
    assert (await play.row()).end_seal != before
    assert (await play.host.verify()).ok


async def test_a_key_is_needed_until_everything_is_sealed_anew(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12, L11: killed between two seals, it begins again only with both keys, or a said loss."""
    play = await applied(duly_world)
    key = key_of(duly_world)
    old = key.rename(f"{key}.old")
    with monkeypatch.context() as patch:
        patch.setattr(seal, "_seal_rest", _die)
        with pytest.raises(OSError, match="killed"):
            await play.restart()
    away = old.rename(f"{key}.away")
    with pytest.raises(ConfigError, match="Not everything") as refused:
        play.host = await duly_world.host(**play.options)
    assert (refused.value.code, refused.value.facts) == ("key_unfinished", {"old": str(old)})
    away.rename(old)
    play.host = await duly_world.host(**play.options)
    old.unlink()
    await play.restart()
    assert (await play.host.verify()).ok


async def test_a_key_that_is_lost_while_it_is_replaced_is_said_to_be(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12, L15: the same key in both places ends the change; the rest is named."""
    play = await applied(duly_world)
    key = key_of(duly_world)
    old = key.rename(f"{key}.old")
    with monkeypatch.context() as patch:
        patch.setattr(seal, "_seal_rest", _die)
        with pytest.raises(OSError, match="killed"):
            await play.restart()
    shutil.copy(key, old)
    play.host = await duly_world.host(**play.options)
    old.unlink()
    await play.restart()
    assert (await play.host.verify()).ok


async def _die(*_: object, **__: object) -> bool:
    raise OSError("killed")


async def test_a_rotation_does_not_seal_what_was_changed(duly_world: Stage) -> None:
    """L15: a row that does not fit the old key stays as it is, and is named."""
    play = await applied(duly_world)
    play.tamper("update mutation set attempt = 0")
    key = key_of(duly_world)
    old = key.rename(f"{key}.old")
    await play.restart()
    old.unlink()
    await play.restart()
    (found,) = (await play.host.verify()).changed
    assert found.flaw is Flaw.OTHER_KEY


async def test_without_its_key_no_row_can_be_vouched_for(duly_world: Stage) -> None:
    """L15: the check says that the key is another one, and not that the row was changed."""
    play = await applied(duly_world)
    key_of(duly_world).unlink()
    await play.restart()
    (found,) = (await play.host.verify()).changed
    assert found.flaw is Flaw.OTHER_KEY


async def test_a_certificate_holds_what_is_known_of_a_change(duly_world: Stage) -> None:
    """L15, L12: sends, times, outcome, how it became known, who approved, inputs, seal."""
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash, by="anna")
    await play.drain()
    certificate = await play.host.certificate(shown.mutation)
    (made,) = certificate.changes
    assert (certificate.applied, certificate.open, certificate.topic) == (1, 0, None)
    assert (made.sends, made.resends, made.first_sent_at) == (1, 0, made.last_sent_at)
    assert (made.needed_approval, made.approved_by) == (True, "anna")
    assert made.inputs == (Taken(IN, "a", "Event"),)
    assert made.known is not None
    assert made.known.how is Known.ANSWERED
    assert (made.seal.is_whole, made.seal.is_final, made.seal.flaw) == (True, True, None)
    assert made.seal.key_id is not None
    assert made.same_key == ()


async def test_a_certificate_of_an_input_holds_every_change_it_led_to(duly_world: Stage) -> None:
    """L15: a refused call and the one that was made later are both there, one was applied."""
    play = await opened(duly_world)
    plan(duly_world, Fault.NOT_SENT)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    await play.pass_by(3600)
    certificate = await play.host.certificate("a", workflow=NAME)
    assert (certificate.topic, certificate.status) == (IN, EventStatus.CONSUMED)
    assert [each.status for each in certificate.changes] == [Row.FAILED, Row.APPLIED]
    assert (certificate.applied, certificate.open) == (1, 0)
    assert all(each.seal.is_whole for each in certificate.changes)
    assert await play.host.certificate("a", workflow=NAME, topic=IN) == certificate


async def test_an_open_change_has_a_certificate_without_an_end(duly_world: Stage) -> None:
    """L15: the call is sealed, its outcome is not there yet."""
    play = await opened(duly_world, policy=ASKED)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    certificate = await play.host.certificate((await play.row()).id)
    (made,) = certificate.changes
    assert (certificate.applied, certificate.open) == (0, 1)
    assert (made.seal.is_whole, made.seal.is_final, made.known) == (True, False, None)


async def test_a_certificate_of_nothing_is_refused(duly_world: Stage) -> None:
    """L15: an unknown id, an unknown input, a topic without its workflow."""
    play = await applied(duly_world)
    with pytest.raises(NotFound):
        await play.host.certificate("mutation_0")
    with pytest.raises(NotFound, match="no event"):
        await play.host.certificate("nothing", workflow=NAME)
    with pytest.raises(NotFound, match="no topic"):
        await play.host.certificate("a", workflow=NAME, topic="nothing")
    with pytest.raises(Invalid, match="workflow is missing"):
        await play.host.certificate("a", topic=IN)
