"""Bugs planted where people agree, decline, allow and take back; the law is `planted`'s.

Each line is what a bug is called, what it says, and the place it changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from duly.rules import lifecycle
from duly.rules.catalog import Risk
from duly.rules.lifecycle import Change, Run
from duly.rules.permission import Approval
from duly.rules.word import Act, Outcome, Reserved, Status, Waits
from duly.rules.word import MutationStatus as Row
from duly.store import ledger, statements
from duly.store import run as runs
from duly.store.base import rider
from duly.store.record import MutationRow


def _answer_later(value: Any) -> Any:
    """Make an asynchronous function that always answers this."""

    def make(_: Any) -> Any:
        async def answer(*args: Any, **kwargs: Any) -> Any:
            return value

        return answer

    return make


def _sent_twice(original: Any) -> Any:
    async def send_recorded(self: Any, live: Any, row: Any, tool: Any, **further: Any) -> None:
        is_approved = row.is_unsent
        await original(self, live, row, tool, **further)
        if is_approved and live.run.row is Row.APPLIED:
            sent = await self._parts.store.get_mutation(row.id)
            again = self._parts.outside.send(tool, self.recorded_call(live, tool, sent))
            await again.result()

    return send_recorded


def _without_hash(original: Any) -> Any:
    def approve(tx: Any, fence: Any, mutation_id: str, seen: str, **further: Any) -> Any:
        shown = ledger.read_mutation(tx, mutation_id).hash
        return original(tx, fence, mutation_id, shown, **further)

    return approve


def _grant_approves(original: Any) -> Any:
    def grant(tx: Any, workflow_id: str, capability: str, *, now: int, **further: Any) -> Any:
        woken = original(tx, workflow_id, capability, now=now, **further)
        found = tx.one("open_run", workflow_id=workflow_id)
        run = None if found is None else statements.read_run(tx, found[0])
        if run is not None and run.state.waits is Waits.APPROVAL:
            sent = replace(run.state, status=Status.ACTIVE, row=Row.IN_FLIGHT, waits=None)
            statements.change_run(
                tx, "move_run", workflow_id, run.id, run.state, sent, epoch=None, now=now
            )
            statements.move_row(tx, run.id, run.state, sent, now)
        return woken

    return grant


def _recover_as_crashed(_: Any) -> Any:
    async def recover(self: Any, outlook: Any, row: Any) -> None:
        await self.successor.recover(self.resume(outlook, row), row)

    return recover


def _without_send_time(_: Any) -> Any:
    def send_approved(tx: Any, fence: Any, run_id: str, old: Run, **_: Any) -> Any:
        return MutationRow(*tx.one("get_held_mutation", held_by=run_id))

    return send_approved


def _withdraw_nothing(original: Any) -> Any:
    def move_row(tx: Any, run_id: str, old: Run, new: Run, now: int, **said: Any) -> None:
        if new.row is not Row.FAILED:
            original(tx, run_id, old, new, now, **said)

    return move_row


def _deploy_retries(original: Any) -> Any:
    def follow(tx: Any, workflow_id: str, origin: Any, successor_id: str, now: int) -> Any:
        found = tx.one("open_run", workflow_id=workflow_id)
        run = None if found is None else statements.read_run(tx, found[0])
        if run is None or run.state.waits is not Waits.APPROVAL:
            return original(tx, workflow_id, origin, successor_id, now)
        change = lifecycle.act(run.state, Act.RETRY)
        runs.follow_run(tx, run, change, successor_id, lifecycle.Counts(), now)
        return run.id

    return follow


def _act_never_paused(original: Any) -> Any:
    def act(run: Run, wish: Act, *, is_paused: bool = False, is_told: bool = False) -> Change:
        answer: Change = original(run, wish, is_told=is_told)
        return answer

    return act


def _used(change: Any) -> Any:
    """Make the end of an allowance another one: by how many calls it counts."""

    def make(original: Any) -> Any:
        def find_end(allowance: Any, version: str, now: int) -> Any:
            return original(replace(allowance, used=change(allowance.used)), version, now)

        return find_end

    return make


def any_version(original: Any) -> Any:
    """Let an allowance hold for every version."""

    def find_end(allowance: Any, version: str, now: int) -> Any:
        return original(allowance, allowance.version, now)

    return find_end


def _send_the_scripts_own(original: Any) -> Any:
    def recorded_call(live: Any, tool: Any, row: MutationRow) -> Any:
        return original(live, tool, replace(row, args=row.args_proposed or row.args))

    return recorded_call


# What a person decides is decided here: name, sentence, module, attribute, change.
PEOPLE: Final = (
    ("an-approved-call-is-sent-twice", "A person who approves gets the change twice.",
     "duly.engine.ledger", "Ledger.send_recorded", _sent_twice),
    ("any-hash-will-do", "The hash of what is approved is not checked.",
     "duly.store", "Store.approve.body", _without_hash),
    ("approve-does-not-wait", "A yes is acknowledged before it is on the disk.",
     "duly.store", "Store.approve", lambda original: rider(original.body)),
    ("reject-does-not-wait", "A no is acknowledged before it is on the disk.",
     "duly.store", "Store.reject", lambda original: rider(original.body)),
    ("revoke-does-not-wait", "A revoke is acknowledged before it is on the disk.",
     "duly.store", "Store.revoke", lambda original: rider(original.body)),
    ("approve-while-paused", "A paused workflow takes a yes.",
     "duly.rules.lifecycle", "act", _act_never_paused),
    ("a-rejected-event-is-consumed", "What a person declined counts as done.",
     "duly.rules.lifecycle", "ON_COMMIT",
     lambda original: {**original, Outcome.SKIPPED: Reserved.CONSUME}),
    ("a-no-is-a-yes", "A call that a person rejects is sent.",
     "duly.rules.lifecycle", "ACTS",
     lambda original: {**original, Act.REJECT: original[Act.APPROVE]}),
    ("a-grant-is-a-yes", "A grant sends a call that waits for approval.",
     "duly.store", "Store.grant.body", _grant_approves),
    ("a-restart-drops-a-yes", "An approved call that was not sent is unknown after a crash.",
     "duly.engine.worker", "Worker._recover", _recover_as_crashed),
    ("sent-without-a-time", "An approved call leaves without its send time.",
     "duly.store", "Store.send_approved.body", _without_send_time),
    ("withdrawn-calls-stay", "A proposal outlives the run it belongs to.",
     "duly.store.statements", "move_row", _withdraw_nothing),
    ("a-deploy-withdraws", "A new version takes a waiting proposal away.",
     "duly.store.workflow", "_follow_failed", _deploy_retries),
    ("a-revoke-is-overlooked", "The grant of a recorded call is not checked again.",
     "duly.engine.envelope", "find_missing", _answer_later(None)),
    ("calls-are-not-counted", "The limit of a day is never reached.",
     "duly.engine.envelope", "count_today", _answer_later(0)),
    ("approval-is-skipped", "The approval policy is forgotten.",
     "duly.rules.permission", "is_approval_needed", lambda _: lambda *args, **counted: False),
    ("an-allowance-counts-twice", "Every call under an allowance counts as two.",
     "duly.rules.allowance", "find_end", _used(lambda used: 2 * used)),
    ("an-allowance-covers-one-more", "An allowance covers a call more than was said.",
     "duly.rules.allowance", "find_end", _used(lambda used: max(0, used - 1))),
    ("an-amendment-is-not-sent", "A call a person has amended is sent as the script asked.",
     "duly.engine.entry", "recorded_call", _send_the_scripts_own),
    ("everybody-is-asked", "A change of medium risk is taken for one of high risk.",
     "duly.rules.permission", "ASKED_AT",
     lambda original: {**original, Approval.ABOVE_MEDIUM: frozenset(Risk)}),
)  # fmt: skip
