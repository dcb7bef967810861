"""Every story with one crash: each place where a host can die, in every small situation.

Law 1  The places are not listed here: a story is played without its crash, and every point it
       comes by becomes a story of its own.
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
from duly.store.base import Durability, Verb
from duly.testing.crash import AFTER, BEFORE
from verification.bus.scenario import BusStory
from verification.life import Ending, Moment, OnPoint
from verification.point import ANSWER, BETWEEN, EFFECT, QUESTION, SYNC
from verification.workflow.outside import STRANGE, STRANGE_SAYINGS, USUAL, USUAL_SAYINGS, Outcome
from verification.workflow.run import play
from verification.workflow.scenario import Act, Death, PlannedCrash, Story, Wish
from verification.workflow.shape import Shape, Tool

T = TypeVar("T", Story, BusStory)

# The verbs with which the engine writes, those by which a person's acts reach it, and those that
# do not occur here, each with its reason.
ENGINE_VERBS: Final = (
    "start_run",
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
    "set_wish",
    "retry_run",
    "abandon_run",
    "deploy",
    "run_now",
    "reconnect",
    "grant",
    "revoke",
    "remove",
)
BUS: Final = "the stories of the bus play it"
_LEASE: Final = "one host on one file needs no lease"
_REPAIR: Final = "the stories have no repairer"
_SECRET: Final = "no call of the sheet needs a secret"
_RESTORED: Final = "no story opens a store that was restored"
_RANDOM: Final = "random stories play it; no story with one crash has it"
UNPLAYED: Final = {
    "keep_version": _REPAIR,
    "ask_repair": _REPAIR,
    "decline_repair": _REPAIR,
    "set_secret": _SECRET,
    "drop_secret": _SECRET,
    "note_act": "it says who copied the store, and moves no run",
    "note_restore": _RESTORED,
    "resume_bus": "no story opens a store that was restored",
    "tidy": "no story is long enough to have old history",
    "replan": "no story has a schedule; the three weeks have",
    "amend": _RANDOM,
    "approve_all": _RANDOM,
    "send_allowed": _RANDOM,
    "revoke_allowance": _RANDOM,
    "reseal": "no story changes the key of the seals",
    "claim": _LEASE,
    "renew": _LEASE,
    "release": _LEASE,
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
    "put_state": "no story has an extension",
}
TAKEN: Final = (Wish.PUBLISH, Wish.APPROVE, Wish.REJECT, Wish.GRANT, Wish.REVOKE)
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
        *(f"{AFTER} {ANSWER} {wish}" for wish in TAKEN),
    }
)
RIDERS: Final = frozenset(
    name
    for name, verb in vars(Store).items()
    if isinstance(verb, Verb) and verb.durability is Durability.RIDER
)


TOOLS: Final = (Tool.ASKED, Tool.BLIND, Tool.ONCE)
YES: Final = Act(0, Wish.APPROVE, at=f"{AFTER} propose", times=0)  # as soon as somebody is asked


# What may become of a call while its workflow is paused: done, late, unknown, or to be sent again.
PAUSED: Final = frozenset(
    {Outcome.OK, Outcome.SLOW, Outcome.LATE, Outcome.TIMEOUT_AFTER, Outcome.NOT_SENT, Outcome.AUTH}
)


@dataclass(frozen=True, slots=True)
class Case(Generic[T]):
    """A situation by its name, as a story in which nobody dies at the end."""

    name: str
    story: T


def cases() -> tuple[Case[Story], ...]:
    """Answer every situation: shapes by tools and outcomes, and what people do besides."""
    return (*_changing(), *_still(), *_people(), *_asked(), *_unkind())


def _changing() -> Iterator[Case[Story]]:
    pause = (
        Act(0, Wish.PAUSE, at=f"{BEFORE} {EFFECT}"),
        Act(30_000, Wish.RESUME),
    )
    skip = (
        Act(0, Wish.SKIP, 1, at=f"{AFTER} prepare_run"),
        Act(60_000, Wish.SKIP_MUTATION),
    )
    for tool in TOOLS:
        for outcome in USUAL:
            plain = Story(tool=tool, outcomes=(outcome,))
            yield Case("fifo", plain)
            yield Case("batch", replace(plain, shape=Shape.BATCH, mails=2))
            if outcome in PAUSED:
                yield Case("pause", replace(plain, acts=pause))
            yield Case("skip", replace(plain, mails=2, acts=skip))
            yield Case("approval", replace(plain, approval=Approval.ALWAYS, acts=(YES,)))


def _still() -> Iterator[Case[Story]]:
    yield Case("no mutation", Story(shape=Shape.QUIET))
    yield Case("no mutation", Story(shape=Shape.DECLINE))
    yield Case("producer", Story(shape=Shape.PRODUCE, mails=0, acts=(Act(5_000, Wish.RUN_NOW),)))


def _people() -> Iterator[Case[Story]]:
    for saying in USUAL_SAYINGS:
        asked = Story(outcomes=(Outcome.TIMEOUT_AFTER,), sayings=(saying,))
        yield Case("asking", asked)
    blind = Story(tool=Tool.BLIND, outcomes=(Outcome.TIMEOUT_AFTER,))
    yield Case("answer", replace(blind, acts=(Act(40_000, Wish.ANSWER),)))
    refused = Story(outcomes=(Outcome.REFUSED,))
    yield Case("retry", replace(refused, acts=(Act(20_000, Wish.RETRY),)))
    yield Case("deploy", replace(refused, acts=(Act(20_000, Wish.DEPLOY),)))
    signed_out = Story(outcomes=(Outcome.AUTH,))
    yield Case("reconnect", replace(signed_out, acts=(Act(20_000, Wish.RECONNECT),)))
    yield Case("abandon", Story(acts=(Act(0, Wish.ABANDON, at=f"{AFTER} prepare_run"),)))
    followed = PlannedCrash(1, at=f"{AFTER} succeed_run")
    yield Case(
        "crashes", Story(crashes=(PlannedCrash(1, at=f"{AFTER} start_run"), followed, followed))
    )


def _asked() -> Iterator[Case[Story]]:
    """Answer what people do with a call that waits for a yes, or has one and has not left."""
    asked = Story(approval=Approval.ABOVE_LOW)

    def case(name: str, *acts: Act) -> Case[Story]:
        return Case(name, replace(asked, acts=acts))

    propose, approve = f"{AFTER} propose", f"{AFTER} approve"
    late = Act(30_000, Wish.APPROVE_LATE)
    yield case("reject", Act(0, Wish.REJECT, at=propose), late)
    yield case("twice", Act(0, Wish.APPROVE_TWICE, at=propose), late)
    yield case("another hash", Act(0, Wish.APPROVE_UNSEEN, at=propose), Act(10_000, Wish.APPROVE))
    yield case("withdraw", Act(10_000, Wish.RETRY), late, Act(40_000, Wish.APPROVE))
    yield case("give up", Act(10_000, Wish.ABANDON), late, Act(40_000, Wish.APPROVE))
    yield case("skip asked", Act(10_000, Wish.SKIP), late)
    back = (Act(10_000, Wish.DEPLOY, 1), Act(20_000, Wish.ROLL_BACK), Act(30_000, Wish.APPROVE))
    yield case("roll back", *back)
    yield case("redeploy", YES, Act(0, Wish.DEPLOY, at=approve))
    yield case("hold", YES, Act(0, Wish.PAUSE, at=approve), Act(30_000, Wish.RESUME))
    yield case("revoke", YES, Act(0, Wish.REVOKE, at=approve), Act(30_000, Wish.GRANT))
    signed_out = replace(asked, outcomes=(Outcome.AUTH,), acts=(YES, Act(30_000, Wish.RECONNECT)))
    yield Case("signed out", signed_out)
    yield Case("grant", Story(is_granted=False, acts=(Act(10_000, Wish.GRANT),)))
    limited = (Act(0, Wish.LIMIT, at=f"{AFTER} send"), Act(30_000, Wish.GRANT))
    yield Case("limit", Story(mails=2, acts=limited))
    yield Case("remove", Story(acts=(Act(30_000, Wish.REMOVE),)))


def _unkind() -> Iterator[Case[Story]]:
    """Answer a few situations of an unkind world; random stories have the rest."""
    closed = (PlannedCrash(1, Death.CLOSE, f"{BEFORE} {EFFECT}"),)
    for tool in TOOLS:
        deaf = Story(tool=tool, outcomes=(Outcome.DEAF,))
        yield Case("outlives its cancel", deaf)
        yield Case("outlives a close", replace(deaf, crashes=closed))
    for outcome in STRANGE:
        yield Case("raises strangely", Story(outcomes=(outcome,)))
    for saying in STRANGE_SAYINGS:
        asked = Story(outcomes=(Outcome.TIMEOUT_AFTER,), sayings=(saying,))
        yield Case("asked strangely", asked)
    yield Case("refused late", Story(outcomes=(Outcome.DEAF_REFUSED,)))
    lost = (Outcome.LATE, Outcome.TIMEOUT_AFTER, Outcome.TIMEOUT_AFTER)
    yield Case("a key grows old", Story(tool=Tool.BRIEF, outcomes=lost))


@dataclass(frozen=True, slots=True)
class Base(Generic[T]):
    """A situation played without a crash at its end."""

    stories: tuple[T, ...]
    points: frozenset[str]
    problems: tuple[str, ...]


def unfold(case: Case[Story], *, is_thorough: bool = False) -> Base[Story]:
    """Play a situation and answer its stories with one crash more: every point, every death."""
    outcomes = case.story.outcomes
    is_troubled = bool(outcomes) and outcomes[0] is not Outcome.OK
    return unfold_by(
        case.story,
        play,
        lambda moment: is_troubled and moment.calls == 0,
        is_thorough=is_thorough,
    )


def unfold_by(
    story: T,
    play: Callable[[T, OnPoint], Ending],
    is_like_others: Callable[[Moment], bool],
    *,
    is_thorough: bool,
) -> Base[T]:
    """Play a story and answer it with one crash more, wherever that makes a difference."""
    life = len(story.crashes)
    come_by: list[tuple[str, Moment]] = []

    def note(lived: int, name: str, moment: Moment) -> None:
        if lived == life:
            come_by.append((name, moment))

    ending = play(story, note)
    stories: dict[str, T] = {}
    for place, (name, moment) in enumerate(come_by, start=1):
        if is_like_others(moment) and not is_thorough:
            continue
        for death in deaths_at(name):
            crashes = (*story.crashes, PlannedCrash(place, death))
            left = moment.after_kill if death is Death.KILL else moment.after_power_cut
            key = f"{place} {death}" if is_thorough else f"{left} {death}"
            stories.setdefault(key, replace(story, crashes=crashes))
    return Base(tuple(stories.values()), frozenset(ending.points), ending.problems)


def deaths_at(name: str) -> Iterator[Death]:
    """Answer the deaths that differ here: the power matters where something is not yet synced.

    Who was told that an act is done finds it again after a kill as before; the power may take it.
    """
    moment, _, what = name.partition(" ")
    is_answer = what.startswith(ANSWER)
    if not is_answer:
        yield Death.KILL
    if what == SYNC or is_answer or (moment == AFTER and what in RIDERS):
        yield Death.POWER


def never_reached(points: Iterable[str]) -> tuple[str, ...]:
    """Answer the points that must be reached and were not."""
    return tuple(sorted(MUST_BE_REACHED - set(points)))
