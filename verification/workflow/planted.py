"""Bugs planted on purpose: each must be found, or the simulation is too weak to trust.

Law 1  A bug is a name, a sentence, and the places it changes. A place that does not exist, or that
       the bug leaves as it was, is an error: such a bug would prove nothing.
Law 2  A bug is found when a scenario that is fine without it has a problem with it.

    python -m verification --planted             every bug, from three ranges of seeds
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from duly.connectors.base import Applied, Unsure
from duly.engine.ledger import Heard
from duly.errors import Stale
from duly.rules import lifecycle
from duly.rules.lifecycle import Change, Run
from duly.rules.prepared import Judgement
from duly.rules.turn import Work
from duly.rules.word import Act, Answer, Outcome, Progress, Reserved, Status
from duly.rules.word import MutationStatus as Row
from duly.store.base import rider
from verification.workflow.planted_approval import PEOPLE, any_version
from verification.workflow.planted_unkind import UNKIND, statement
from verification.workflow.run import run, template
from verification.workflow.scenario import invent
from verification.workflow.shape import Shape, Tool
from verification.workflow.unkind import from_seed

SCHEDULES_MAX: Final = 600
RANGES: Final = (0, 1_000_000, 2_000_000)  # where each of the three ranges of seeds begins

Make = Callable[[Any], Any]
Lines = tuple[tuple[str, str, str, str, Make], ...]  # name, sentence, module, attribute, change


class NoSuchPlace(Exception):
    """A planted bug does not change anything where it says."""


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at `module.attribute` is replaced by what `make` makes of it."""

    module: str
    attribute: str
    make: Make


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake an engineer could have made."""

    name: str
    says: str
    places: tuple[Place, ...]


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Put a bug in place, and take it away again."""
    with ExitStack() as stack:
        for place in bug.places:
            stack.enter_context(_changed(place))
        yield


@contextmanager
def _changed(place: Place) -> Iterator[None]:
    where = f"{place.module}.{place.attribute}"
    *path, name = place.attribute.split(".")
    try:
        module = importlib.import_module(place.module)
        holder: Any = reduce(getattr, path, module)
        original = getattr(holder, name)
    except (ImportError, AttributeError) as error:
        raise NoSuchPlace(f"{where}: {error}") from error
    changed = place.make(original)
    if changed is original or changed == original:
        raise NoSuchPlace(f"{where} is what it was")
    # `from duly.rules.ledger import recourse` made a second name for the same object.
    holders = [holder]
    if holder is module:
        ours = ("duly.", "verification.")
        others = [each for key, each in list(sys.modules.items()) if key.startswith(ours)]
        holders += [each for each in others if vars(each).get(name) is original]
    for each in holders:
        setattr(each, name, changed)
    try:
        yield
    finally:
        for each in holders:
            setattr(each, name, original)


def find(bug: Bug, seeds: Iterable[int]) -> int | None:
    """Return the first seed whose scenario has a problem with the bug."""
    # Before the bug: what is deployed there is not what is looked at.
    for shape, tool, is_granted in itertools.product(Shape, Tool, (True, False)):
        template(shape, tool, is_granted=is_granted)
    with planted(bug):
        return next((seed for seed in seeds if _is_found(seed)), None)


def _is_found(seed: int) -> bool:
    """Run the scenario of a seed, and the ordinary one it was made from."""
    scenario, plain = from_seed(seed), invent(seed)
    return bool(run(scenario).problems or (plain != scenario and run(plain).problems))


def seeds_of(start: int) -> range:
    """Return the range of seeds that begins there."""
    return range(start, start + SCHEDULES_MAX)


# -- What the bugs are made of --------------------------------------------------------------------


def _always(value: Any) -> Make:
    """Make a function that always answers this."""
    return lambda _: lambda *args, **kwargs: value


def _nothing(_: Any) -> Any:
    return lambda *args, **kwargs: None


def _no_check(_: Any) -> Any:
    async def check(*args: Any) -> None:
        pass

    return check


def _sync_nothing(_: Any) -> Any:
    def sync(self: Any) -> None:
        self.log.is_unsynced = False

    return sync


def _also(*rows: Row) -> Make:
    return lambda original: original | set(rows)


def _without(statement: str) -> Make:
    """Make a transaction that leaves one statement out and says that it was done."""

    def make(original: Any) -> Any:
        def run(self: Any, name: str, /, **parameters: Any) -> Any:
            return 1 if name == statement else original(self, name, **parameters)

        return run

    return make


def _act_while_unknown(planted: Act, decide: Callable[[Run], Change]) -> Make:
    """Make an `act` that works although the outcome is unknown."""

    def make(original: Any) -> Any:
        def act(run: Run, wanted: Act, **facts: bool) -> Change:
            if wanted is planted and run.row in lifecycle.UNKNOWN:
                return decide(run)
            answer: Change = original(run, wanted, **facts)
            return answer

        return act

    return make


def _end(run: Run) -> Change:
    return Change(replace(run, status=Status.ABANDONED), Reserved.RELEASE)


def _begin_afresh(run: Run) -> Change:
    return Change(run, Reserved.RELEASE, lifecycle.START[run.kind])


def _key_of_its_own(original: Any) -> Any:
    numbers = itertools.count()
    return lambda digest, generation: original(digest, next(numbers))


def _due_once(original: Any) -> Any:
    return lambda consumer, now: original(replace(consumer, changed=0), now)


def _pause_drops_calls(original: Any) -> Any:
    return lambda run: original(run) or (run.status is Status.ACTIVE and run.row is Row.IN_FLIGHT)


def _pause_ends_calls(original: Mapping[Act, Any]) -> Any:
    ended = original[Act.PAUSE][None]
    return {**original, Act.PAUSE: {None: ended, Row.IN_FLIGHT: ended}}


def _unknown_is_not_sent(original: Any) -> Any:
    def answer_of(error: BaseException) -> Answer:
        answer: Answer = original(error)
        return Answer.NOT_SENT if answer is Answer.UNKNOWN else answer

    return answer_of


def _commit_with(**changes: Any) -> Make:
    """Make a commit that forgets a part of what it was given."""

    def make(original: Any) -> Any:
        def commit_run(
            tx: Any, fence: Any, run_id: Any, old: Any, change: Any, commit: Any, **further: Any
        ) -> Any:
            forgotten = replace(commit, **changes)
            return original(tx, fence, run_id, old, change, forgotten, **further)

        return commit_run

    return make


def _record_without_result(original: Any) -> Any:
    def record(
        tx: Any, fence: Any, run_id: Any, old: Any, new: Any, recorded: Any, **further: Any
    ) -> Any:
        forgotten = replace(recorded, result="null" if recorded.result else None)
        return original(tx, fence, run_id, old, new, forgotten, **further)

    return record


def _dispose_without(reserved: Reserved) -> Make:
    def make(original: Any) -> Any:
        def dispose(
            tx: Any, workflow_id: Any, run_id: Any, decided: Any, now: Any, **further: Any
        ) -> int:
            done: int = 0
            if decided is not reserved:
                done = original(tx, workflow_id, run_id, decided, now, **further)
            return done

        return dispose

    return make


def _never_paused(original: Any) -> Any:
    return lambda tx, fence: replace(original(tx, fence), paused=False)


def _send_first(_: Any) -> Any:
    async def make(self: Any, live: Any, wanted: Any, reads_text: Any) -> None:
        call = await self._enter(live, wanted, reads_text)
        env, new = self._parts.env, lifecycle.advance(live.run, Progress.SEND)
        live.is_out = True
        sent = self._first(live, wanted, call, env.now_ms(), env.now_ms())
        heard = await self._send(live, sent)
        await self._parts.store.send(live.fence, live.id, live.stored, new, call, now=env.now_ms())
        live.move(new)
        await self._take_in(live, sent, heard)

    return make


def _applied_unwritten(_: Any) -> Any:
    async def applied(
        self: Any, live: Any, mutation_id: str, new: Run, text: str | None, *further: Any
    ) -> None:
        live.result_text = text or "null"
        live.move(new)

    return applied


def _timeout_is_applied(original: Any) -> Any:
    def hear(self: Any, tool: Any, sending: Any, reply: Any) -> Heard:
        heard: Heard = original(self, tool, sending, reply)
        return Heard(Answer.APPLIED, '{"row":0}') if heard.answer is Answer.UNKNOWN else heard

    return hear


def _unsure_is_applied(original: Any) -> Any:
    async def ask(self: Any, tool: Any, call: Any) -> Any:
        verdict = await original(self, tool, call)
        return Applied({"row": 0}) if isinstance(verdict, Unsure) else verdict

    return ask


def _resend_with_another_key(original: Any) -> Any:
    numbers = itertools.count()

    def recorded_call(self: Any, live: Any, tool: Any, row: Any) -> Any:
        call = original(self, live, tool, row)
        return replace(call, key=f"{call.key}:{next(numbers)}")

    return recorded_call


def _go_on_after_a_crash(original: Any) -> Any:
    def of_run(*given: Any) -> Any:
        choice = original(*given)
        return replace(choice, work=Work.GO_ON) if choice.work is Work.RECOVER else choice

    return of_run


def _pin_unseen(original: Any) -> Any:
    async def pin(parts: Any, live: Any, chosen: Any) -> Any:
        return await original(parts, live, replace(chosen, offered={}))

    return pin


def _resend_while_paused(original: Any) -> Any:
    async def attempt(self: Any, live: Any, row: Any, *, is_paused: bool) -> None:
        await original(self, live, row, is_paused=False)

    return attempt


def _ask_inline_only(_: Any) -> Any:
    async def ask(self: Any, *_: Any) -> None:
        raise Stale("never asked")

    return ask


def _ignore_changed_rows(_: Any) -> Any:
    def change(tx: Any, statement: str, what: str, rows: Any = None, /, **given: Any) -> None:
        tx.run(statement, **given)

    return change


# -- The bugs -------------------------------------------------------------------------------------

_RULES: Final[Lines] = (
    ("a-no-is-believed-at-once", "An early 'it did not happen' counts.",
     "duly.rules.ledger", "is_absence_settled", _always(True)),
    ("anything-is-sent-again", "A tool that promises nothing is sent again, too.",
     "duly.rules.ledger", "is_key_alive", _always(True)),
    ("a-key-of-its-own", "Every row has another key.",
     "duly.rules.ledger", "idempotency_key", _key_of_its_own),
    ("a-refused-call-keeps-its-key", "A refusal on the merits does not grow the generation.",
     "duly.rules.lifecycle", "GROWS_GENERATION", lambda _: frozenset()),
    ("unknown-begins-afresh", "The successor of an unknown mutation makes it again.",
     "duly.rules.lifecycle", "FRESH", _also(Row.NEEDS_RECONCILE, Row.IN_FLIGHT)),
    ("applied-begins-afresh", "The successor of an applied mutation makes it again.",
     "duly.rules.lifecycle", "FRESH", _also(Row.APPLIED)),
    ("a-commit-releases", "The events of an applied mutation are released, not consumed.",
     "duly.rules.lifecycle", "ON_COMMIT",
     lambda original: {**original, Outcome.APPLIED: Reserved.RELEASE}),
    ("everything-can-be-reserved", "Whether an event has changed or is gone is not checked.",
     "duly.rules.prepared", "judge_reservation", _always(Judgement.RESERVE)),
    ("due-only-once", "A consumer forgets that its topics have changed.",
     "duly.rules.schedule", "is_consumer_due", _due_once),
    ("retry-while-unknown", "A person can retry a run whose mutation is unknown.",
     "duly.rules.lifecycle", "act", _act_while_unknown(Act.RETRY, _begin_afresh)),
    ("abandon-while-unknown", "A person can abandon a run whose mutation is unknown.",
     "duly.rules.lifecycle", "act", _act_while_unknown(Act.ABANDON, _end)),
    ("skip-while-unknown", "A person can skip an event whose mutation is unknown.",
     "duly.rules.lifecycle", "act", _act_while_unknown(Act.SKIP_EVENT, _end)),
    ("unknown-is-not-sent", "A lost answer is taken for a request that never left.",
     "duly.rules.failure", "answer_of", _unknown_is_not_sent),
)  # fmt: skip

_STORE: Final[Lines] = (
    ("send-does-not-wait", "A call leaves before its row is on the disk.",
     "duly.store", "Store.send", lambda original: rider(original.body)),
    ("publish-does-not-wait", "An event is acknowledged before it is on the disk.",
     "duly.store", "Store.publish", lambda original: rider(original.body)),
    ("sync-does-nothing", "The disk is never asked to keep anything.",
     "duly.store.writer", "Writer._sync", _sync_nothing),
    ("consumed-events-stay-reserved", "A commit leaves its events as they are.",
     "duly.store.statements", "dispose", _dispose_without(Reserved.CONSUME)),
    ("released-events-stay-reserved", "A fresh successor does not get its events back.",
     "duly.store.statements", "dispose", _dispose_without(Reserved.RELEASE)),
    ("a-change-is-not-noted", "No consumer learns that its topic has changed.",
     "duly.store.statements", "touch", _nothing),
    ("causes-are-lost", "A published event does not say what it goes back to.",
     "duly.store.statements", "_trace", _nothing),
    ("guards-are-ignored", "A guarded write that changed nothing is fine.",
     "duly.store.transaction", "AtOnce.change", _ignore_changed_rows),
    ("the-pause-is-overlooked", "A verb does not see that the workflow is paused.",
     "duly.store.statements", "check", _never_paused),
    ("the-row-stays-behind", "A successor does not get the mutation of the run before it.",
     "duly.store.writer", "NamedTransaction.run", _without("pass_mutation")),
    ("the-inputs-stay-behind", "A successor does not get the pinned inputs.",
     "duly.store.writer", "NamedTransaction.run", _without("transfer_reservations")),
    ("events-stay-behind", "A successor does not get the reserved events.",
     "duly.store.writer", "NamedTransaction.run", _without("transfer_events")),
    ("reserved-events-stay-pending", "A prepare result reserves nothing.",
     "duly.store.writer", "NamedTransaction.run", _without("reserve_events")),
    ("publications-are-lost", "A commit writes nothing of what was published.",
     "duly.store", "Store.commit_run.body", _commit_with(publications=())),
    ("the-state-is-lost", "A commit forgets the new state.",
     "duly.store", "Store.commit_run.body", _commit_with(state=None)),
    ("the-result-is-lost", "An applied mutation is written without its result.",
     "duly.store", "Store.record.body", _record_without_result),
)  # fmt: skip

_ENGINE: Final[Lines] = (
    ("sent-before-written", "A call is made, and written down afterwards.",
     "duly.engine.ledger", "Ledger.make", _send_first),
    ("applied-is-not-written", "That a mutation happened is never written down.",
     "duly.engine.ledger", "Ledger._applied", _applied_unwritten),
    ("no-answer-is-a-yes", "An unknown outcome is taken for applied.",
     "duly.engine.ledger", "Ledger._hear", _timeout_is_applied),
    ("unsure-is-a-yes", "An unsure answer is taken for a yes.",
     "duly.engine.ledger", "Ledger.ask", _unsure_is_applied),
    ("no-lag", "Requests that may still land are not waited for.",
     "duly.engine.sends", "Sends.absence_wait_ms", _always(0)),
    ("a-resend-has-another-key", "The same call is sent again under another key.",
     "duly.engine.ledger", "Ledger.recorded_call", _resend_with_another_key),
    ("a-crash-is-overlooked", "A run the host died on goes on as if nothing had happened.",
     "duly.rules.turn", "_of_run", _go_on_after_a_crash),
    ("a-person-is-believed-at-once", "'It did not happen' is taken before its time.",
     "duly.engine.settlement", "_check_absence", _no_check),
    ("no-consumer-is-woken", "A new event wakes no consumer.",
     "duly.engine.scheduler", "Engine.wake", _nothing),
    ("pinned-unseen", "What was replaced under a running prepare is pinned all the same.",
     "duly.engine.run", "_pin", _pin_unseen),
    ("unknown-is-never-asked", "An unknown mutation is never asked about in the background.",
     "duly.engine.reconciler", "Reconciler._ask", _ask_inline_only),
)  # fmt: skip

_PAUSE: Final = Bug(
    "a-pause-drops-a-call",
    "A pause ends a run whose call is out.",
    (
        Place("duly.rules.lifecycle", "is_dropped_by_pause", _pause_drops_calls),
        Place("duly.rules.lifecycle", "ACTS", _pause_ends_calls),
    ),
)

# The store refuses it too, so that either guard alone is enough.
_PAUSED: Final = Bug(
    "sent-again-while-paused",
    "A paused workflow sends a call again.",
    (
        Place("duly.engine.reconciler", "Reconciler.attempt", _resend_while_paused),
        Place("duly.store.ledger", "check_sending", _nothing),
    ),
)

_OUTLIVED: Final = Bug(
    "an-allowance-outlives-its-version",
    "A new version sends under the allowance of an old one.",
    (
        Place("duly.rules.allowance", "find_end", any_version),
        Place(
            "verification.life",
            "schema",
            statement("find_allowances", "and a.version = :version", "and :version = :version"),
        ),
    ),
)

BUGS: Final = (
    *(
        Bug(name, says, (Place(module, attribute, make),))
        for name, says, module, attribute, make in (*_RULES, *_STORE, *_ENGINE, *PEOPLE, *UNKIND)
    ),
    _PAUSE,
    _PAUSED,
    _OUTLIVED,
)
