"""Nobody is let off the exam: every verb of the store sits it, and the exam itself can tell."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, Stale
from duly.store import Store, statements
from duly.store.base import Durability, Fence, StoreVerb, Transaction, barrier, rider
from duly.store.record import Action, VersionSpec
from duly.store.workflow import Deployment
from tests.store.exam import (
    QUESTIONS,
    QUESTIONS_OF_A_READ,
    Again,
    Case,
    Question,
    Refusal,
    Trial,
    World,
    nothing,
    trials_of,
)

VERBS = {name: verb for name, verb in vars(Store).items() if isinstance(verb, StoreVerb)}


def trials_in(module: Any) -> Iterable[Trial]:
    """Find the trials that a module's tests are parametrised with, and so really sit."""
    for name, test in vars(module).items():
        for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
            if mark.name == "parametrize":
                values = (value for row in mark.args[1] for value in getattr(row, "values", ()))
                yield from (value for value in values if isinstance(value, Trial))


def sat_trials() -> list[Trial]:
    """Collect the trials of every exam there is."""
    found: list[Trial] = []
    for path in sorted(Path(__file__).parent.glob("test_exam_*.py")):
        if path != Path(__file__):
            found += trials_in(importlib.import_module(f"tests.store.{path.stem}"))
    return found


def unasked(verb: str, durability: Durability, trials: Iterable[Trial]) -> set[Question]:
    """Answer the questions a verb was not asked."""
    of_verb = [trial for trial in trials if trial.case.verb == verb]
    asked = {trial.question for trial in of_verb}
    if any(isinstance(each.case, Case) and each.case.never_refuses for each in of_verb):
        asked.add(Question.REFUSAL)
    wanted = QUESTIONS_OF_A_READ if durability is Durability.READ else QUESTIONS
    return set(wanted - asked)


def test_every_verb_of_the_store_sat_every_question() -> None:
    """R8: no verb writes without an effect, a refusal, a crash and a second call being tried."""
    trials = sat_trials()
    missing = {
        name: sorted(questions)
        for name, verb in VERBS.items()
        if (questions := unasked(name, verb.durability, trials))
    }
    assert missing == {}


BARRIERS = {
    *("forget", "hand_over", "take_in"),
    *("decline_version", "begin_proof", "keep_proof_handle", "end_proof"),
    *("deploy", "keep_version", "set_paused", "run_now", "remove", "grant", "revoke", "reconnect"),
    "choose_asks",
    *(
        "set_secret",
        "swap_secret",
        "join",
        "renew",
        "evict",
        "bind",
        "release",
        "hold_subscribers",
        "leave",
        "claim",
        "publish",
        "skip_event",
        "abandon_run",
        "retry_run",
    ),
    *("ask_repair", "grant_lacking"),
    *("propose", "send", "send_again", "send_approved", "settle", "approve", "reject"),
    *("record_late", "keep_late_answer", "keep_handle"),
    *("approve_all", "amend", "send_allowed", "revoke_allowance", "reseal"),
    *("emit", "defer", "cancel", "subscribe", "unsubscribe", "discard", "retry_delivery"),
    *("keep_pairing", "pair_account", "drop_pairing", "write_slip", "move_slip", "tell_day"),
    "tell_begun",
    *("keep_token", "drop_token", "keep_proposal", "drop_proposal"),
    *("ask_model", "end_question"),
    *("drop_secret", "note_act", "note_restore", "resume_bus"),
}


def test_what_the_world_is_told_of_waits_for_the_disk() -> None:
    """L2, B1: a verb is a barrier if its caller tells a caller outside that it was done."""
    found = {name for name, verb in VERBS.items() if verb.durability is Durability.BARRIER}
    assert found == BARRIERS


def test_no_case_is_about_a_verb_that_is_gone() -> None:
    """R8: an exam of nothing would count as proof."""
    assert {trial.case.verb for trial in sat_trials()} <= VERBS.keys()


def test_no_two_trials_have_one_name() -> None:
    """R8: a red trial is found by its name."""
    names = [trial.name for trial in sat_trials()]
    assert sorted(names) == sorted(set(names))


# -- The exam itself: verbs that are wrong, and the question each must fail -----------------------


def _take(tx: Transaction) -> int:
    return int(statements.must(tx.one("take_bus_number", name="journal"), "The counter")[0])


def _take_two_and_hush(tx: Transaction) -> int:
    try:
        return _take(tx) + _take(tx)
    except Exception:
        return 0


def _take_under_any_epoch(tx: Transaction, fence: Fence) -> None:
    statements.look(tx, fence.workflow_id)
    _take(tx)


def _note(tx: Transaction) -> None:
    statements.note(tx, Action("action_1", "somebody", "note"), 1, workflow_id=None, target=None)


class WrongStore(Store):
    """Verbs that break the law of the exam, each in its own way."""

    has_taken = False
    take = barrier(_take)
    take_two_and_hush = barrier(_take_two_and_hush)
    take_under_any_epoch = rider(_take_under_any_epoch)

    async def take_in_two_transactions(self) -> None:
        await self.take()
        await self.take()

    async def take_and_then_refuse(self) -> None:
        await self.take()
        raise Stale

    async def take_once_per_process(self) -> None:
        if not self.has_taken:
            await self.take()
        self.has_taken = True

    async def take_in_memory(self) -> int:
        return 1


async def _no_effect(world: World, answer: Any) -> None:
    pass


def _case(verb: str, again: Again = Again.FREE, *refusals: Refusal, fenced: bool = False) -> Case:
    async def call(world: World) -> Any:
        return await getattr(world.store, verb)(*([world.fence] if fenced else []))

    async def arrange(world: World) -> None:
        if fenced:
            await world.claim(await deploy_nothing(world))

    return Case(verb, arrange, call, _no_effect, again, refusals, store=WrongStore)


async def deploy_nothing(world: World) -> str:
    """Deploy the smallest workflow there can be."""
    version = VersionSpec("1.0", "python", "", "hash", "{}", "[]", "somebody")
    await world.store.deploy(
        Deployment("w1", "nothing", None, version, (), ()),
        successor_id="run_1",
        action=Action("action_1", "somebody", "deploy"),
        now=1,
    )
    return "w1"


async def _take_once(world: World) -> None:
    assert isinstance(world.store, WrongStore)
    await world.store.take_once_per_process()


REFUSED = Refusal("everything", Stale)
WRONG = [
    (_case("take_in_two_transactions"), "crash_inside", "failed after statement 2 changed rows"),
    (_case("take_two_and_hush"), "crash_inside", "statement 1 failed and nobody was told"),
    (_case("take_in_memory"), "crash_inside", "ran no statement at all"),
    (
        replace(_case("take_once_per_process"), arrange=_take_once),
        "crash_before",
        "the call after a crash changed rows",
    ),
    (_case("take", Again.SAME), "a_second_call_gives_the_same_answer", "second call changed rows"),
    (_case("take", Again.STALE), "a_second_call_is_stale", "DID NOT RAISE"),
    (_case("take_in_memory", Again.NOTHING), "a_second_call_gives_another_answer", "answered 1"),
    (_case("take", Again.FREE, REFUSED), "refuses_everything", "DID NOT RAISE"),
    (
        _case("take_and_then_refuse", Again.FREE, REFUSED),
        "refuses_everything",
        "refused call changed rows",
    ),
    (_case("take_under_any_epoch", fenced=True), "refuses_an_old_epoch", "DID NOT RAISE"),
]


@pytest.mark.parametrize(
    ("case", "question", "words"), WRONG, ids=[f"{row[0].verb}-{row[1]}" for row in WRONG]
)
async def test_the_exam_finds_a_verb_that_is_wrong(
    case: Case, question: str, words: str, tmp_path: Path
) -> None:
    """R8, H2: what the exam must catch, it catches."""
    (trial,) = [each for each in trials_of(case) if each.name == f"{case.verb}-{question}"]
    with pytest.raises(BaseException, match=words) as caught:
        await trial.sit(tmp_path)
    assert isinstance(caught.value, AssertionError | pytest.fail.Exception)


async def test_the_exam_sees_what_a_crash_lost(tmp_path: Path) -> None:
    """H3: a world after a crash has what was on the disk, and the old one goes on apart."""
    world = await World(tmp_path / "world", WrongStore).open()
    try:
        heir = await world.crash()
        assert heir.dump() == world.dump()
        await heir.store.backend.transact(_note, Durability.RIDER)
        assert heir.dump() != world.dump()
    finally:
        await world.close()


def test_a_verb_without_a_refusal_is_found() -> None:
    """R8: a case with nothing it refuses lacks a question."""
    trials = trials_of(_case("take"))
    assert unasked("take", Durability.BARRIER, trials) == {Question.REFUSAL}
    excused = trials_of(replace(_case("take"), never_refuses="there is nothing to refuse"))
    assert unasked("take", Durability.BARRIER, excused) == set()
    assert unasked("take", Durability.READ, []) == set(QUESTIONS_OF_A_READ)


def test_a_trial_that_no_test_sits_does_not_count() -> None:
    """R8: cases that are written and not parametrised prove nothing."""

    class Module:
        CASES = (_case("take", Again.FREE, Refusal("a missing row", NotFound, nothing)),)

    assert list(trials_in(Module)) == []
