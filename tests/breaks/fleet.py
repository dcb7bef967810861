"""Breaks of what a host of a fleet adds: each names single tests, on a real server."""

from __future__ import annotations

from typing import Any

from duly.engine.lease import Lease
from duly.engine.ledger import Ledger
from duly.engine.scheduler import Engine
from duly.store import statements
from duly.store.base import Fence
from duly.store.postgres_line import guarded
from duly.store.run import write_stop
from duly.store.slot import HostSlots
from duly.store.transaction import NamedStatements
from duly.store.upkeep import note_restore
from tests.breaks import Break
from tests.breaks.store import _statement

ANNOUNCED = "tests/postgres/test_announced_last.py"
ANSWER = "tests/postgres/test_answer.py"
BUS = "tests/postgres/test_host_bus.py"
GONE = "tests/postgres/test_gone.py"
KEYS = "tests/postgres/test_key.py"
LAPSE = "tests/engine/test_lapse.py"
LEASE = "tests/engine/test_lease.py"
HOST = "tests/postgres/test_host.py"
SLOT = "tests/postgres/test_slot.py"
ROLLED_BACK = "tests/postgres/test_rolled_back.py"
STANDBY = "tests/postgres/test_standby.py"
TOOLS = "tests/postgres/test_tools.py"
UNHEARD = "tests/postgres/test_unheard.py"
UPGRADE = "tests/postgres/test_upgrade.py"
WAITS = "tests/postgres/test_waits.py"

OF_HOLDER = " and coalesce(holder, '') = :holder"
RUNS_ANYWHERE = " and :holder is not null"


def _compare_what_is_told_meanwhile(each: Any, **changes: Any) -> Any:
    return each


_send = Ledger._send


async def _send_without_a_look(self: Ledger, live: Any, sent: Any, firsts: Any = None) -> Any:
    return await _send(self, live, sent)


_watch = Lease._watch


async def _watch_without_end(self: Any, others: Any, until: int) -> None:
    await _watch(self, others, until + 10**9)


_check = statements.check


def _check_the_epoch_alone(tx: Any, fence: Fence) -> Any:
    tx.host = None
    return _check(tx, fence)


_find_one = NamedStatements.one


def _meet_no_other(self: Any, statement: str, /, **parameters: Any) -> Any:
    return None if statement == "find_unmet" else _find_one(self, statement, **parameters)


_lapse = Engine._lapse


async def _lapse_beside_sends(self: Any, lease: Any) -> None:
    """Take no notice of the sends that are out."""
    self._parts.outside.sends_out = tuple
    try:
        await _lapse(self, lease)
    finally:
        del self._parts.outside.sends_out


async def _lapse_beside_handlers(self: Any, lease: Any) -> None:
    lease.is_calling = lambda: False
    await _lapse(self, lease)


async def _lapse_and_may_join(self: Any, lease: Any) -> None:
    await _lapse(self, lease)
    lease.lost = None


async def _check_no_keys(store: Any, vault: Any) -> None:
    pass


async def _seal_once(seal: Any) -> Any:
    return await seal()


async def _compare_nothing(self: Any) -> None:
    self.lapse(self.host_id)


def _ask_once(self: Any, slot: Any, beside: Any) -> Any:
    moved = slot.commit_seq
    entered = self._enter(beside, slot.host_id)
    return entered if entered.commit_seq >= moved else None


def _guard_nothing(text: str, place: int | None = None) -> str:
    return guarded(text, place).replace("select 1 /", "select 1 +")


def _note_while_a_run_is_open(self: Any, outlook: Any) -> None:
    if self._lease is not None and not outlook.lacking:
        self._able[outlook.fence.workflow_id] = outlook.version, self._lease.offers()


async def _claim_within_the_share(self: Any, workflow_id: str) -> bool:
    return await self.take(workflow_id) is not None


def _judge_by_walls(first: Any, now: Any) -> float:
    return float(now.at_ms - first.at_ms + 86_400_000)


def _end_at_once(self: Any) -> Any:
    return tuple((each, known, 0) for each, known in self._unknown.items())


_give_up = HostSlots.give_up


def _give_up_what_was_told(self: HostSlots, host_id: str | None) -> None:
    _give_up(self, None)


_note_restore = note_restore


def _keep_ends(tx: Any, **named: Any) -> int | None:
    """Let the ends of sends stand as they were."""
    write = tx.write
    tx.write = lambda each, /, **given: None if each == "doubt_ends" else write(each, **given)
    try:
        return _note_restore(tx, **named)
    finally:
        del tx.write


def _call_what_others_hold(lanes: Any, connected: Any, host: str | None) -> set[str]:
    return {each.subscriber_id for each in lanes if each.subscriber_id in connected}


_write_stop = write_stop


def _take_number_first(tx: Any, *given: Any) -> None:
    tx.one("take_journal_number", topic="early")
    _write_stop(tx, *given)


BREAKS = (
    Break(
        "H10",
        "duly.store.transaction",
        "NamedStatements.one",
        _meet_no_other,
        ("tests/postgres/test_rolled_back.py",),
        "what is free is claimed at once after a start of the server",
    ),
    Break(
        "T6",
        "duly.store.run",
        "write_stop",
        _take_number_first,
        ("tests/postgres/test_announced_last.py::test_what_is_announced_takes_its_numbers_last",),
        "a verb takes the number of what it announces before it is done",
    ),
    Break(
        "H9",
        "duly.store.bell",
        "LOOK_S",
        15.0,
        ("tests/engine/test_bell.py::test_a_host_that_hears_nothing_looks_once_a_second",),
        "a host that hears nothing looks four times a minute",
    ),
    Break(
        "L7",
        "duly.engine.ledger",
        "Ledger._send",
        _send_without_a_look,
        (
            "tests/engine/test_resend.py::test_a_key_that_outlives_no_wait_for_the_lease_is_not_used",
        ),
        "the life of a key is not asked again right before the first byte",
    ),
    Break(
        "H2",
        "duly.engine.lease",
        "Lease._watch",
        _watch_without_end,
        (f"{LEASE}::test_many_slow_evictions_do_not_end_the_lease_of_the_evictor",),
        "a host loses its own lease while it evicts many others slowly",
    ),
    Break(
        "H2",
        "duly.store.statements",
        "check",
        _check_the_epoch_alone,
        (f"{SLOT}::test_what_a_host_claimed_it_writes_under_no_other_id",),
        "a host that came back writes under the claim of its former id",
    ),
    Break(
        "H2",
        "duly.engine.scheduler",
        "Engine._lapse",
        _lapse_beside_sends,
        (f"{LAPSE}::test_a_host_that_lapses_with_a_send_out_ends_its_process",),
        "a host that lapses with a send out comes back as another",
    ),
    Break(
        "H8",
        "duly.engine.scheduler",
        "Engine._lapse",
        _lapse_beside_handlers,
        (f"{LAPSE}::test_a_host_that_lapses_while_a_handler_runs_ends_its_process",),
        "a host that lapses while a handler runs comes back as another",
    ),
    Break(
        "H8",
        "duly.bus.dispatcher",
        "Dispatcher.is_calling",
        property(lambda self: False),
        (f"{BUS}::test_a_host_that_lapses_while_its_handler_runs_ends_its_process",),
        "a lease is not told of the handlers that run",
    ),
    Break(
        "H2",
        "duly.engine.scheduler",
        "Engine._lapse",
        _lapse_and_may_join,
        (f"{LAPSE}::test_a_host_that_should_have_ended_takes_no_act_of_a_person",),
        "an act of a person lets a host join that should have ended",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "_is_traced",
        lambda tx, host_id: True,
        (
            f"{ROLLED_BACK}::test_a_host_that_is_missing_without_a_trace_says_that_the_store_is_older",
            f"{ROLLED_BACK}::test_a_host_that_has_come_back_as_another_compares_what_it_was_told_before",
        ),
        "a host that is missing without a trace takes itself for an evicted one",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "HostSlots.give_up",
        _give_up_what_was_told,
        (f"{ROLLED_BACK}::test_a_host_that_was_told_nothing_pauses_an_older_store_once",),
        "a host that was told nothing pauses a store again with each write",
    ),
    Break(
        "H10",
        "duly.store.claim",
        "_leave_trace",
        lambda tx, way, host_id: None,
        (f"{ROLLED_BACK}::test_a_host_that_was_evicted_or_has_left_is_no_sign_of_an_older_store",),
        "a host that was evicted pauses everything, as after a restore",
    ),
    Break(
        "H10",
        "duly.engine.lease",
        "Lease._compare",
        _compare_nothing,
        (f"{LEASE}::test_a_host_that_is_refused_compares_before_its_process_may_end",),
        "a host that is refused while a send is out ends without a comparison",
    ),
    Break(
        "S1",
        "duly.store.postgres_session",
        "ServerSession._ask",
        _ask_once,
        (
            f"{UNHEARD}::test_a_deadlock_while_asking_does_not_run_a_committed_write_again",
            f"{UNHEARD}::test_a_commit_that_cannot_be_asked_about_is_called_unknown",
        ),
        "an error while a lost answer is asked for is taken for one of the write",
    ),
    Break(
        "H10",
        "duly.store.postgres_session",
        "_limits",
        lambda times: b"set local statement_timeout = 15000",
        (f"{UNHEARD}::test_an_entry_waits_for_the_disk_whatever_its_user_is_set_to",),
        "a slot is entered without waiting for the disk",
    ),
    Break(
        "H7",
        "duly.rules.lease",
        "is_gone",
        lambda since_ms, clock_ms: since_ms is not None,
        (f"{GONE}::test_try_again_waits_for_the_machine_and_is_shown_again_later",),
        "a call is given up again right after a person has said to try again",
    ),
    Break(
        "H7",
        "duly.store.claim",
        "Fence",
        lambda workflow_id, epoch, gone=None: Fence(workflow_id, epoch),
        (f"{GONE}::test_a_call_of_a_machine_that_is_gone_is_shown_after_ten_minutes",),
        "a host that stands in for a machine runs its workflow",
    ),
    Break(
        "H7",
        "duly.store.claim",
        "MACHINE_GONE_MS",
        -(10**15),
        (f"{GONE}::test_a_person_who_is_too_early_is_told_so_everywhere",),
        "a host stands in for a machine that has just gone",
    ),
    Break(
        "H7",
        "duly.store.turn",
        "list_lacking",
        lambda tx, host_id, workflow_id: (),
        (f"{TOOLS}::test_a_host_hands_over_what_a_new_version_needs_and_it_lacks",),
        "a host runs a version that needs a tool it lacks",
    ),
    Break(
        "H7",
        "duly.engine.claims",
        "Claims.note_able",
        _note_while_a_run_is_open,
        (f"{TOOLS}::test_only_a_host_with_the_connector_asks_about_a_call",),
        "a host that had the tool of a call takes itself for one that has all of the version",
    ),
    Break(
        "H7",
        "duly.engine.approval",
        "_is_here",
        lambda parts, row: True,
        (f"{TOOLS}::test_a_host_hands_over_what_a_new_version_needs_and_it_lacks",),
        "a yes is taken only at a host that has the connector",
    ),
    Break(
        "H7",
        "duly.store.claim",
        "_note_gone",
        lambda tx, clock: frozenset(),
        (f"{TOOLS}::test_a_call_is_shown_to_a_person_if_its_own_machine_has_its_tool_no_more",),
        "a call whose own machine has its tool no more waits for ever",
    ),
    Break(
        "H7",
        "duly.rules.share",
        "fair_share",
        lambda workflows, hosts: -(-workflows // hosts) + 1,
        (f"{HOST}::test_a_host_that_is_alone_runs_what_was_just_deployed",),
        "a host that is alone leaves what was deployed since its last renewal",
    ),
    Break(
        "H11",
        "duly.store.postgres",
        "oldest_able",
        lambda found, version, oldest, additive: found,
        (f"{UPGRADE}::test_hosts_of_two_versions_work_side_by_side_while_the_schema_only_adds",),
        "a change that does not only add is made while older hosts work",
    ),
    Break(
        "H8",
        "duly.store.lane",
        "callable_by",
        _call_what_others_hold,
        (f"{BUS}::test_a_subscription_that_is_made_again_has_one_holder",),
        "a host calls subscribers that it held before, whichever host has them now",
    ),
    Break(
        "H8",
        "duly.store.queries",
        "load",
        _statement("running_of_holder", OF_HOLDER, RUNS_ANYWHERE, "bus"),
        (f"{BUS}::test_recovery_touches_only_what_a_gone_host_held",),
        "what a live host is telling is given back with what a gone one was",
    ),
    Break(
        "H8",
        "duly.bus.holding",
        "Holding.look_again",
        lambda holding: None,
        (f"{BUS}::test_what_a_host_held_that_dies_idle_is_called_by_another",),
        "what another host held is not asked for again when that host is gone",
    ),
    Break(
        "R8",
        "duly.store.postgres_session",
        "guarded",
        _guard_nothing,
        (
            f"{WAITS}::test_a_change_without_its_row_is_stale_and_nothing_is_written",
            f"{WAITS}::test_what_was_sent_ahead_is_refused_first",
        ),
        "the server does not check the guard of a write that is sent ahead",
    ),
    Break(
        "H7",
        "duly.engine.claims",
        "Claims.sight",
        property(lambda self: {}),
        (f"{HOST}::test_what_another_host_holds_does_not_fill_the_list_of_what_is_due",),
        "a host is told of what other hosts hold",
    ),
    Break(
        "H7",
        "duly.engine.claims",
        "Claims.is_watched",
        _claim_within_the_share,
        ("tests/engine/test_lease.py::test_a_full_share_keeps_no_person_from_answering",),
        "a person's answer waits for room in the share of a host",
    ),
    Break(
        "L7",
        "duly.rules.ledger",
        "age_ms",
        _judge_by_walls,
        (f"{ANSWER}::test_the_age_of_a_key_is_that_of_the_servers_clock",),
        "the age of a key on another machine is told by two wall clocks",
    ),
    Break(
        "L6",
        "duly.engine.sends",
        "Sends.list_ended",
        _end_at_once,
        (f"{ANSWER}::test_any_host_judges_by_the_end_of_the_send_on_the_row",),
        "a send that is out is written down as ended",
    ),
    Break(
        "L6",
        "duly.store.upkeep",
        "note_restore",
        _keep_ends,
        (f"{ANSWER}::test_a_restore_or_a_promotion_forgets_the_ends_of_sends",),
        "after a promotion the end of an earlier send is believed of a later one",
    ),
    Break(
        "L6",
        "duly.engine.lease",
        "Lease.clock_least_ms",
        lambda self, at_ms: 2**52,
        (f"{ANSWER}::test_any_host_judges_by_the_end_of_the_send_on_the_row",),
        "another host does not wait for what a tool may take to take effect",
    ),
    Break(
        "H10",
        "duly.store.slot",
        "replace",
        _compare_what_is_told_meanwhile,
        (f"{SLOT}::test_a_write_that_is_acknowledged_during_the_comparison_is_no_loss",),
        "counters are compared with what was told after they were read",
    ),
    Break(
        "H10",
        "duly.store.claim",
        "note_restore",
        lambda tx, **named: None,
        (f"{STANDBY}::test_a_host_that_dies_with_its_server_leaves_nothing_that_is_sent_again",),
        "what a host held that is gone is free after a promotion",
    ),
    Break(
        "H10",
        "duly.store.upkeep",
        "put_cause",
        lambda tx, cause, since: None,
        (f"{STANDBY}::test_a_promoted_standby_that_lost_acknowledged_rows_is_noticed",),
        "a promoted standby is called a backup",
    ),
    Break(
        "H12",
        "duly.desk.seal",
        "_check_keys",
        _check_no_keys,
        (f"{KEYS}::test_beside_a_change_of_the_key_that_goes_on_a_host_needs_both_keys",),
        "a host that lacks a key takes what is not sealed anew yet for forged",
    ),
    Break(
        "H12",
        "duly.desk.seal",
        "_again",
        _seal_once,
        (f"{KEYS}::test_beside_a_change_of_the_key_that_goes_on_a_host_needs_both_keys",),
        "of two hosts that seal anew the slower one is refused",
    ),
)
