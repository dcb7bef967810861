"""Mistakes that only several hosts can show: each must be found, or the fleet is asleep.

The law is that of `verification.workflow.planted`. What a serial store cannot show (an act that
reads before it locks) is for the isolation exam on a real server.

    python -m verification --fleet --planted
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from duly.engine.lease import note_of_promotion
from duly.errors import Fenced, Stale
from duly.rules.turn import Choice, Work
from duly.rules.word import MutationStatus
from duly.store import statements
from duly.store.base import Fence
from duly.store.slot import Entered, Slot
from verification.fleet.database import image
from verification.fleet.run import run
from verification.fleet.scenario import from_seed
from verification.workflow.planted import Bug, Place, planted
from verification.workflow.planted_unkind import statement
from verification.workflow.shape import Shape, Tool

Make = Callable[[Any], Any]


def find(bug: Bug, seeds: Iterable[int]) -> int | None:
    """Return the first seed whose scenario has a problem with the bug."""
    for shape, tool in itertools.product(Shape, Tool):
        image(shape, tool)  # before the bug: what is deployed there is not what is looked at
    with planted(bug):
        return next((seed for seed in seeds if run(from_seed(seed)).problems), None)


# -- What the bugs are made of --------------------------------------------------------------------


def _nothing(_: Any) -> Any:
    return lambda *args, **kwargs: None


def _nothing_to_wait_for(_: Any) -> Any:
    async def done(*args: Any, **kwargs: Any) -> None:
        return None

    return done


def _from_start(_: Any) -> Any:
    return lambda self, workflow_id, timeout_ms: self._began_ms


def _from_claim(original: Any) -> Any:
    return lambda self, workflow_id, timeout_ms: original(self, workflow_id, 0)


def _keep_fences(_: Any) -> Any:
    def forget(self: Any) -> None:
        self._host_id = None

    return forget


def _check_the_epoch_alone(original: Any) -> Any:
    def check(tx: Any, fence: Fence) -> Any:
        tx.host = None
        return original(tx, fence)

    return check


def _fence_from_row(original: Any) -> Any:
    async def claim(self: Any, workflow_id: str) -> Any:
        try:
            return await original(self, workflow_id)
        except Stale:

            def read(tx: Any) -> Any:
                return Fence(workflow_id, statements.look(tx, workflow_id).epoch)

            return await self._store.backend.ask(read)

    return claim


def _count_from_answer(_: Any) -> Any:
    def count(self: Any, asked_at: int) -> None:
        self._until_ms = self._env.monotonic_ms() + 15_000
        self._renewed.set()

    return count


def _by_own_clock(_: Any) -> Any:
    """Judge the leases of others by this host's wall clock, and evict at once."""

    async def watch(self: Any, others: Any, until: int) -> None:
        began = self.__dict__.setdefault("_began_ms", self._env.now_ms())
        for each in others:
            if each.lease_until <= self._env.now_ms() - began + self._env.monotonic_ms() - began:
                action, now = note_of_promotion(self._env), self._env.now_ms()
                await self._store.evict(each.id, each.lease_until, action=action, now=now)

    return watch


def _uncounted(original: Any) -> Any:
    """Count a write only if the host has a counter."""

    def move(tx: Any, slot: Any) -> int:
        try:
            counted: int = original(tx, slot)
        except Fenced:
            return 0
        return counted

    return move


def _let_in(original: Any) -> Any:
    """Let a host in that has no row."""

    def enter(tx: Any, slots: Any, host_id: str, number: int) -> Any:
        try:
            return original(tx, slots, host_id, number)
        except Fenced:
            return Entered(Slot(number, host_id, 1, 0), tx.timeline, lacks_riders=False)

    return enter


def _count_one_more(original: Any) -> Any:
    def enter(tx: Any, slots: Any, host_id: str, number: int) -> Any:
        entered = original(tx, slots, host_id, number)
        known = slots.by_place.get((host_id, number))
        if known is not None:
            entered.slot.commit_seq = known.commit_seq + 1
        return entered

    return enter


def _nothing_noted(original: Any) -> Any:
    """Pause what no host holds, and nothing of a host that is evicted."""

    def note(tx: Any, *, is_spared: Any, **named: Any) -> Any:
        if "evict" in is_spared.__qualname__:
            return None
        return original(tx, is_spared=is_spared, **named)

    return note


def _age_by_wall(original: Any) -> Any:
    return lambda first, now: original(replace(first, clock_ms=None), now)


def _join_unlocked(_: Any) -> Any:
    async def join(self: Any) -> Any:
        if self._host_id is None:
            self._host_id = await self._join()
        return self._host_id

    return join


def _lapse_as_if_idle(original: Any) -> Any:
    """Come back as another host with sends that are out."""

    async def lapse(self: Any, lease: Any) -> None:
        self._parts.outside.sends_out = tuple
        try:
            await original(self, lease)
        finally:
            del self._parts.outside.sends_out

    return lapse


def _stop_keeping(original: Any) -> Any:
    async def stop(self: Any) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        await original(self)

    return stop


def _leave_first(original: Any) -> Any:
    """Give the claims back as soon as the host is told to stop."""

    async def stop(self: Any) -> None:
        await self._worker.claims.leave()
        await original(self)

    return stop


def _forget_flight(original: Any) -> Any:
    """Leave a call alone that another host had begun."""

    def of_run(run: Any, now: int, is_paused: bool, epoch: int, repairing: Any) -> Any:
        is_left = run.epoch is not None and run.epoch < epoch
        if run.row == MutationStatus.IN_FLIGHT and is_left:
            return Choice(Work.NOTHING)
        return original(run, now, is_paused, epoch, repairing)

    return of_run


def _empty_is_left(original: Any) -> Any:
    """Take a run that no host has taken up for one that was left."""

    def of_run(run: Any, now: int, is_paused: bool, epoch: int, repairing: Any) -> Any:
        known = replace(run, epoch=0) if run.epoch is None else run
        return original(known, now, is_paused, epoch, repairing)

    return of_run


def _judge_unheld(original: Any) -> Any:
    """Judge a person's 'no' at a host that does not hold the workflow as if no send were out."""

    async def check(parts: Any, worker: Any, seen: Any, row: Any, *given: Any) -> Any:
        if parts.lease is not None and worker.claims.fence_of(row.workflow_id) is None:
            return None
        return await original(parts, worker, seen, row, *given)

    return check


def _said_late(original: Any) -> Any:
    return lambda self, fence, row, terms, said_ms=None: original(self, fence, row, terms)


def _earlier_offers(original: Any) -> Any:
    """Say in every life of a process what the first one offered."""

    async def join(self: Any) -> Any:
        first = self._env._loop.__dict__.setdefault("first_offers", {})
        said = first.setdefault(self._name, self.offers())
        self.offers = lambda: said
        return await original(self)

    return join


_LACKING: Final = "(select 1 from lacking l where l.host = :host and l.workflow_id = workflow.id)"


_BUGS: Final = (
    ("fence-from-the-row", "A host takes the epoch of a workflow that another host holds.",
     "duly.engine.claims", "Claims._claim", _fence_from_row),
    ("takeover-without-evict", "A workflow is claimed as soon as the lease of its host is over.",
     "verification.life", "schema",
     statement("claim_workflow", "h.id = workflow.holder",
               "h.id = workflow.holder"
               " and h.lease_until > (select max(o.lease_until) - 15000 from host o)")),
    ("claim-of-what-is-held", "A workflow is claimed that another host holds.",
     "verification.life", "schema",
     statement("claim_workflow", "not exists (select 1 from host h where h.id = workflow.holder)",
               "true")),
    ("claim-of-what-it-cannot-do", "A host claims a workflow for which it lacks a tool.",
     "verification.life", "schema",
     statement("claim_workflow", f"not exists {_LACKING}", "true")),
    ("claim-of-what-all-can-do", "A host claims only what no host lacks a tool for.",
     "verification.life", "schema",
     statement("claim_workflow", _LACKING, _LACKING.replace("l.host = :host and ", ""))),
    ("tools-of-an-earlier-life", "A host says what it offered before it had other settings.",
     "duly.engine.lease", "Lease.join", _earlier_offers),
    ("claims-of-one-host-are-one", "A host that claims again keeps the epoch of its claim.",
     "verification.life", "schema",
     statement("claim_workflow", "epoch + 1", "epoch + (holder is distinct from :host)")),
    ("absence-from-the-start", "'It did not happen' counts from the start of the process.",
     "duly.engine.claims", "Claims.over_since_ms", _from_start),
    ("absence-from-the-claim-alone", "'It did not happen' does not count what a tool may take.",
     "duly.engine.claims", "Claims.over_since_ms", _from_claim),
    ("absence-by-when-it-was-read", "A person's 'no' is judged by when the store answered.",
     "duly.engine.sends", "Sends.absence_wait_ms", _said_late),
    ("leases-by-the-own-clock", "A host judges the leases of others by its wall clock.",
     "duly.engine.lease", "Lease._watch", _by_own_clock),
    ("evicted-too-soon", "A host is evicted by the store's clock alone.",
     "duly.rules.lease", "may_evict", lambda _: lambda unrenewed_ms, *, is_over, times: is_over),
    ("renewed-after-the-lapse", "A lease that is over is renewed.",
     "verification.life", "schema",
     statement("renew_host", "and lease_until > :clock", "and :clock is not null")),
    ("sent-without-a-look", "A send begins without a look at the lease.",
     "duly.engine.claims", "Claims.until_sendable", _nothing_to_wait_for),
    ("sent-with-little-left", "A send begins however little is left of the lease.",
     "duly.rules.lease", "may_send", lambda _: lambda left_ms, times: left_ms > 0),
    ("the-lease-from-the-answer", "A lease is counted from when the store answered.",
     "duly.engine.lease", "Lease._count", _count_from_answer),
    ("late-commits-are-taken", "A write is committed though its host has asked what became of it.",
     "verification.life", "schema",
     statement("move_slot", " and session = :session", " and :session is not null")),
    ("a-lost-answer-is-a-commit", "A write whose answer was lost is taken for committed.",
     "duly.store.slot", "enter", _count_one_more),
    ("older-than-told-is-no-matter", "A counter below a confirmed barrier is taken as it is.",
     "duly.store.slot", "Slot.tell", _nothing),
    ("lost-riders-are-no-matter", "A host that was told of riders that are lost goes on.",
     "duly.store.slot", "HostSlots.take_lacking", lambda _: lambda self: False),
    ("unable-is-no-matter", "A host that renews and cannot write compares nothing.",
     "verification.fleet.line", "CountedBackend.compare", _nothing_to_wait_for),
    ("nothing-is-waited-for", "What is free is claimed before all hosts have compared.",
     "duly.store.claim", "find_uncompared", _nothing),
    ("missing-is-evicted", "A host that is missing takes itself for one that was evicted.",
     "duly.store.slot", "_is_traced", lambda _: lambda tx, host_id: True),
    ("promotion-unnoticed", "No host looks whether a standby was promoted.",
     "duly.store.claim", "note_promotion", _nothing),
    ("unconfirmed-hosts-are-trusted", "What an evicted host held is free, compared or not.",
     "duly.store.claim", "note_restore", _nothing_noted),
    ("the-age-of-a-key-by-the-own-clock", "The age of another machine's key is by the wall clock.",
     "duly.rules.ledger", "age_ms", _age_by_wall),
    ("the-end-of-an-earlier-send", "A call that is sent again keeps the end of its earlier send.",
     "verification.life", "schema",
     statement("send_mutation", "ended_clock = null", "ended_clock = ended_clock")),
    ("joined-twice", "A host joins twice, and keeps only one of the two alive.",
     "duly.engine.claims", "Claims.join", _join_unlocked),
    ("another-while-sending", "A host that lapses with a send out comes back as another.",
     "duly.engine.scheduler", "Engine._lapse", _lapse_as_if_idle),
    ("no-lease-while-closing", "A lease is not kept while a host waits for its sends.",
     "duly.engine.scheduler", "Engine._stop", _stop_keeping),
    ("left-while-sending", "A host leaves before its sends have ended.",
     "duly.engine.scheduler", "Engine._stop", _leave_first),
    ("never-left", "A host that is closed does not leave.",
     "duly.engine.claims", "Claims.leave", _nothing_to_wait_for),
    ("in-flight-is-forgotten", "A call that an evicted host had begun is left alone.",
     "duly.rules.turn", "_of_run", _forget_flight),
    ("empty-epochs-are-crashes", "A run that no host has taken up yet is taken for a crashed one.",
     "duly.rules.turn", "_of_run", _empty_is_left),
    ("held-elsewhere-is-no-matter", "Any host judges when the calls of another have ended.",
     "duly.engine.settlement", "_check_absence", _judge_unheld),
)  # fmt: skip

_EVICTED: Final = Bug(
    "evicted-hosts-write",
    "An act of a person through an evicted host is written.",
    (Place("duly.store.slot", "enter", _let_in), Place("duly.store.slot", "move", _uncounted)),
)
_OLD_CLAIMS: Final = Bug(
    "memory-outlives-the-lease",
    "A host that lapsed goes on with its old claims, and the store compares the epoch alone.",
    (
        Place("duly.engine.claims", "Claims.forget", _keep_fences),
        Place("duly.store.statements", "check", _check_the_epoch_alone),
    ),
)

BUGS: Final = (
    *(
        Bug(name, says, (Place(module, attribute, make),))
        for name, says, module, attribute, make in _BUGS
    ),
    _EVICTED,
    _OLD_CLAIMS,
)
