"""Every scenario with one crash: each place where a host can die, in every small situation.

Law 1  The places are not listed here: a scenario is run without its crash, and every point it
       comes by becomes a scenario of its own.
Law 2  Two points at which the next host would find the same disk, the same outside and the same
       time have the same future; one of them is enough, unless `is_thorough`. Nor does it matter
       what is going to become of a call when the host dies before it makes one.
Law 3  A point that exists for a verb the engine uses and is never reached is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from duly.rules.permission import Approval
from duly.store import Store
from duly.store.base import Durability, StoreVerb
from duly.testing.crash import AFTER, BEFORE
from verification.bus.scenario import BusScenario
from verification.life import Ending, Moment, OnPoint
from verification.point import ANSWER, BETWEEN, EFFECT, QUESTION, SYNC
from verification.workflow.outside import STRANGE, STRANGE_SAYINGS, USUAL, USUAL_SAYINGS, Outcome
from verification.workflow.run import run
from verification.workflow.scenario import Action, Death, Do, PlannedCrash, Scenario
from verification.workflow.shape import Shape, Tool

T = TypeVar("T", Scenario, BusScenario)

# The verbs with which the engine writes, those by which a person's actions reach it, and those that
# do not occur here, each with its reason.
ENGINE_VERBS: Final = (
    "join",
    "claim",
    "take_up",
    "take_turn",
    "prepare_run",
    "move_run",
    "stop_run",
    "succeed_run",
    "commit_run",
    "commit_producer",
    "propose",
    "send",
    "send_again",
    "send_approved",
    "record",
    "record_late",
    "keep_late_answer",
    "count_attempt",
    "settle",
    "approve",
    "reject",
)
PEOPLE_VERBS: Final = (
    "publish",
    "skip_event",
    "set_paused",
    "retry_run",
    "abandon_run",
    "deploy",
    "run_now",
    "reconnect",
    "grant",
    "revoke",
    "remove",
)
BUS: Final = "the scenarios of the bus run it"
_LEASE: Final = "one host on one file needs no lease"
_REPAIR: Final = "the scenarios have no repairer"
_SECRET: Final = "no call of the sheet needs a secret"
_RESTORED: Final = "no scenario opens a store that was restored"
_RANDOM: Final = "random scenarios run it; no scenario with one crash has it"
_BLOB: Final = "no tool of a scenario has blobs; tests/engine/test_blobs.py has"
_PROOF: Final = "no scenario tries a service; tests/connectors/test_connection.py does"
_PHONE: Final = "no scenario has a channel; tests/desk/test_slip.py has"
UNCOVERED: Final = {
    **dict.fromkeys(("begin_blob", "keep_blob_part", "finish_blob", "use_blob"), _BLOB),
    **dict.fromkeys(("leave_blob", "drop_blob_parts"), _BLOB),
    **dict.fromkeys(("begin_proof", "keep_proof_handle", "end_proof"), _PROOF),
    **dict.fromkeys(
        ("keep_pairing", "pair_account", "drop_pairing", "tell_day", "tell_begun"), _PHONE
    ),
    **dict.fromkeys(("write_slip", "move_slip"), _PHONE),
    "swap_secret": _SECRET,
    "keep_version": _REPAIR,
    "decline_version": _REPAIR,
    "ask_repair": _REPAIR,
    "decline_repair": _REPAIR,
    "set_secret": _SECRET,
    "drop_secret": _SECRET,
    "keep_handle": "the calls of a scenario have one step; tests/engine/test_handle.py has two",
    "note_act": "it says who copied the store, and moves no run",
    "note_restore": _RESTORED,
    "resume_bus": "no scenario opens a store that was restored",
    "hand_over": "no scenario has two stores; tests/desk/test_carrying.py has",
    "take_in": "no scenario has two stores; tests/desk/test_carrying.py has",
    "forget": "no scenario erases an input; tests/desk/test_forgetting.py does",
    "tidy": "no scenario is long enough to have old history",
    "replan": "no scenario has a schedule; the three weeks have",
    "grant_lacking": "no scenario allows more of a text in use; tests/web/test_stale_right.py does",
    "choose_asks": "no scenario asks more than its settings; tests/desk/test_chosen.py does",
    "amend": _RANDOM,
    "approve_all": _RANDOM,
    "send_allowed": _RANDOM,
    "revoke_allowance": _RANDOM,
    "reseal": "no scenario changes the key of the seals",
    "reseal_ended": "no scenario changes the key of the seals",
    "note_end": "the host of a file knows its sends itself; the scenarios of a fleet play it",
    "renew": _LEASE,
    "evict": _LEASE,
    "leave": _LEASE,
    "bind": _LEASE,
    "release": _LEASE,
    "hold_subscribers": _LEASE,
    "keep_token": "no scenario lets a browser or a program in",
    "drop_token": "no scenario lets a browser or a program in",
    "keep_proposal": "no scenario has an agent",
    "drop_proposal": "no scenario has an agent",
    "ask_model": "no scenario asks a model; tests/models does",
    "end_question": "no scenario asks a model; tests/models does",
    "emit": BUS,
    "defer": BUS,
    "cancel": BUS,
    "promote_due": BUS,
    "subscribe": BUS,
    "unsubscribe": BUS,
    "close_left": BUS,
    "recover_bus": BUS,
    "begin_delivery": BUS,
    "finish_delivery": BUS,
    "give_back_running": BUS,
    "discard": BUS,
    "retry_delivery": BUS,
    "put_state": "no scenario has an extension",
}
TAKEN: Final = (Do.PUBLISH, Do.APPROVE, Do.REJECT, Do.GRANT, Do.REVOKE)
MUST_BE_REACHED: Final = frozenset(
    {
        *(
            f"{moment} {verb}"
            for moment in (BEFORE, BETWEEN, AFTER)
            for verb in (*ENGINE_VERBS, *PEOPLE_VERBS)
        ),
        f"{BEFORE} {SYNC}",
        f"{BEFORE} {EFFECT}",
        f"{AFTER} {EFFECT}",
        f"{BEFORE} {QUESTION}",
        *(f"{AFTER} {ANSWER} {do}" for do in TAKEN),
    }
)
RIDERS: Final = frozenset(
    name
    for name, verb in vars(Store).items()
    if isinstance(verb, StoreVerb) and verb.durability in (Durability.RIDER, Durability.TURN)
)


TOOLS: Final = (Tool.ASKED, Tool.BLIND, Tool.ONCE)
YES: Final = Action(0, Do.APPROVE, at=f"{AFTER} propose", times=0)  # as soon as a person is asked


# What may become of a call while its workflow is paused: done, late, unknown, or to be sent again.
PAUSED: Final = frozenset(
    {Outcome.OK, Outcome.SLOW, Outcome.LATE, Outcome.TIMEOUT_AFTER, Outcome.NOT_SENT, Outcome.AUTH}
)


@dataclass(frozen=True, slots=True)
class Case(Generic[T]):
    """A situation by its name, as a scenario in which the host does not die at the end."""

    name: str
    scenario: T


def cases() -> tuple[Case[Scenario], ...]:
    """Return every situation: shapes by tools and outcomes, and what people do besides."""
    return (*_changing(), *_still(), *_people(), *_asked(), *_unkind())


def _changing() -> Iterator[Case[Scenario]]:
    pause = (
        Action(0, Do.PAUSE, at=f"{BEFORE} {EFFECT}"),
        Action(30_000, Do.RESUME),
    )
    skip = (
        Action(0, Do.SKIP, 1, at=f"{AFTER} prepare_run"),
        Action(60_000, Do.SKIP_MUTATION),
    )
    for tool in TOOLS:
        for outcome in USUAL:
            plain = Scenario(tool=tool, outcomes=(outcome,))
            yield Case("fifo", plain)
            yield Case("batch", replace(plain, shape=Shape.BATCH, mails=2))
            if outcome in PAUSED:
                yield Case("pause", replace(plain, actions=pause))
            yield Case("skip", replace(plain, mails=2, actions=skip))
            yield Case("approval", replace(plain, approval=Approval.ALWAYS, actions=(YES,)))


def _still() -> Iterator[Case[Scenario]]:
    yield Case("no mutation", Scenario(shape=Shape.QUIET))
    yield Case("no mutation", Scenario(shape=Shape.DECLINE))
    yield Case(
        "producer", Scenario(shape=Shape.PRODUCE, mails=0, actions=(Action(5_000, Do.RUN_NOW),))
    )


def _people() -> Iterator[Case[Scenario]]:
    for saying in USUAL_SAYINGS:
        asked = Scenario(outcomes=(Outcome.TIMEOUT_AFTER,), sayings=(saying,))
        yield Case("asking", asked)
    blind = Scenario(tool=Tool.BLIND, outcomes=(Outcome.TIMEOUT_AFTER,))
    yield Case("answer", replace(blind, actions=(Action(40_000, Do.ANSWER),)))
    refused = Scenario(outcomes=(Outcome.REFUSED,))
    yield Case("retry", replace(refused, actions=(Action(20_000, Do.RETRY),)))
    yield Case("deploy", replace(refused, actions=(Action(20_000, Do.DEPLOY),)))
    signed_out = Scenario(outcomes=(Outcome.AUTH,))
    yield Case("reconnect", replace(signed_out, actions=(Action(20_000, Do.RECONNECT),)))
    yield Case("abandon", Scenario(actions=(Action(0, Do.ABANDON, at=f"{AFTER} prepare_run"),)))
    followed = PlannedCrash(1, at=f"{AFTER} succeed_run")
    yield Case(
        "crashes", Scenario(crashes=(PlannedCrash(1, at=f"{AFTER} take_turn"), followed, followed))
    )


def _asked() -> Iterator[Case[Scenario]]:
    """Return what people do with a call that waits for a yes, or has one and has not left."""
    asked = Scenario(approval=Approval.ABOVE_LOW)

    def case(name: str, *actions: Action) -> Case[Scenario]:
        return Case(name, replace(asked, actions=actions))

    propose, approve = f"{AFTER} propose", f"{AFTER} approve"
    late = Action(30_000, Do.APPROVE_LATE)
    yield case("reject", Action(0, Do.REJECT, at=propose), late)
    yield case("twice", Action(0, Do.APPROVE_TWICE, at=propose), late)
    yield case("another hash", Action(0, Do.APPROVE_UNSEEN, at=propose), Action(10_000, Do.APPROVE))
    yield case("withdraw", Action(10_000, Do.RETRY), late, Action(40_000, Do.APPROVE))
    yield case("give up", Action(10_000, Do.ABANDON), late, Action(40_000, Do.APPROVE))
    yield case("skip asked", Action(10_000, Do.SKIP), late)
    back = (Action(10_000, Do.DEPLOY, 1), Action(20_000, Do.ROLL_BACK), Action(30_000, Do.APPROVE))
    yield case("roll back", *back)
    yield case("redeploy", YES, Action(0, Do.DEPLOY, at=approve))
    yield case("hold", YES, Action(0, Do.PAUSE, at=approve), Action(30_000, Do.RESUME))
    yield case("revoke", YES, Action(0, Do.REVOKE, at=approve), Action(30_000, Do.GRANT))
    signed_out = replace(
        asked, outcomes=(Outcome.AUTH,), actions=(YES, Action(30_000, Do.RECONNECT))
    )
    yield Case("signed out", signed_out)
    yield Case("grant", Scenario(is_granted=False, actions=(Action(10_000, Do.GRANT),)))
    limited = (Action(0, Do.LIMIT, at=f"{AFTER} send"), Action(30_000, Do.GRANT))
    yield Case("limit", Scenario(mails=2, actions=limited))
    yield Case("remove", Scenario(actions=(Action(30_000, Do.REMOVE),)))


def _unkind() -> Iterator[Case[Scenario]]:
    """Return a few situations of an unkind world; random scenarios have the rest."""
    closed = (PlannedCrash(1, Death.CLOSE, f"{BEFORE} {EFFECT}"),)
    for tool in TOOLS:
        deaf = Scenario(tool=tool, outcomes=(Outcome.DEAF,))
        yield Case("outlives its cancel", deaf)
        yield Case("outlives a close", replace(deaf, crashes=closed))
    for outcome in STRANGE:
        yield Case("raises strangely", Scenario(outcomes=(outcome,)))
    for saying in STRANGE_SAYINGS:
        asked = Scenario(outcomes=(Outcome.TIMEOUT_AFTER,), sayings=(saying,))
        yield Case("asked strangely", asked)
    yield Case("refused late", Scenario(outcomes=(Outcome.DEAF_REFUSED,)))
    lost = (Outcome.LATE, Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_AFTER)
    yield Case("a key grows old", Scenario(tool=Tool.BRIEF, outcomes=lost))


@dataclass(frozen=True, slots=True)
class Base(Generic[T]):
    """A situation that was run without a crash at its end."""

    scenarios: tuple[T, ...]
    points: frozenset[str]
    problems: tuple[str, ...]


def unfold(case: Case[Scenario], *, is_thorough: bool = False) -> Base[Scenario]:
    """Run a situation and return its scenarios with one crash more: every point, every death."""
    outcomes = case.scenario.outcomes
    is_troubled = bool(outcomes) and outcomes[0] is not Outcome.OK
    return unfold_by(
        case.scenario,
        run,
        lambda moment: is_troubled and moment.calls == 0,
        is_thorough=is_thorough,
    )


def unfold_by(
    scenario: T,
    run: Callable[[T, OnPoint], Ending],
    is_like_others: Callable[[Moment], bool],
    *,
    is_thorough: bool,
) -> Base[T]:
    """Run a scenario and return it with one crash more, wherever that makes a difference."""
    life = len(scenario.crashes)
    come_by: list[tuple[str, Moment]] = []

    def note(lived: int, name: str, moment: Moment) -> None:
        if lived == life:
            come_by.append((name, moment))

    ending = run(scenario, note)
    scenarios: dict[str, T] = {}
    for place, (name, moment) in enumerate(come_by, start=1):
        if is_like_others(moment) and not is_thorough:
            continue
        for death in deaths_at(name):
            crashes = (*scenario.crashes, PlannedCrash(place, death))
            left = moment.after_kill if death is Death.KILL else moment.after_power_cut
            key = f"{place} {death}" if is_thorough else f"{left} {death}"
            scenarios.setdefault(key, replace(scenario, crashes=crashes))
    return Base(tuple(scenarios.values()), frozenset(ending.points), ending.problems)


def deaths_at(name: str) -> Iterator[Death]:
    """Return the deaths that differ here: the power matters where something is not yet synced.

    After a person was told that an action is done, a kill keeps it; a power cut may take it.
    """
    moment, _, what = name.partition(" ")
    is_answer = what.startswith(ANSWER)
    if not is_answer:
        yield Death.KILL
    if what == SYNC or is_answer or (moment == AFTER and what in RIDERS):
        yield Death.POWER


def never_reached(points: Iterable[str]) -> tuple[str, ...]:
    """Return the points that must be reached and were not."""
    return tuple(sorted(MUST_BE_REACHED - set(points)))
