"""Every attack of the corpus, locked and with no lock at all: scripts in both languages, and native
payloads that are the worker.

A script reaches nothing in either case, since its interpreter has nothing to offer. A payload
reaches nothing where the lock is on, and its canary where it is not: so it is a real attack, and
it is the lock that stops it.

What only exhausts meets a limit and no lock. Without a lock it is tried where TEST_EVERY_CASE=1.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from duly.sandbox.base import MISSING, Returned
from tests.sandbox.hostile import payload
from tests.sandbox.hostile.attack import Aim, Attack, write
from tests.sandbox.hostile.canary import WORD, Canaries, canaries
from tests.sandbox.hostile.corpus_exhaust import EXHAUSTIONS
from tests.sandbox.hostile.meter import Meter, metering
from tests.sandbox.hostile.stand import (
    CASES,
    LIMITS,
    NATIVE_NAMES,
    ROOMY,
    SCRIPTS,
    Outcome,
    Stage,
    cpu_limit_s,
    hook_workers,
    launch,
    limits_for,
    native_program,
    together,
)

KINDS_MIN = 40
# The cases of each round.
PLAYED = {
    "locked": CASES,
    "unlocked": [
        (attack, language)
        for attack, language in CASES
        if attack not in EXHAUSTIONS or os.environ.get("TEST_EVERY_CASE")
    ],
}
ROWS = [(around, *case) for around, cases in PLAYED.items() for case in cases]
EACH = pytest.mark.parametrize(
    ("around", "attack", "language"),
    ROWS,
    ids=[f"{around}-{attack.name}-{language}" for around, attack, language in ROWS],
    indirect=["around"],
)
PAST_LIMIT_S = 2.0
LOOP_MS_MAX = 250
# What says that a payload which answers nothing of note has arrived.
ALARMS = {
    Aim.TCP: {"tcp"},
    Aim.UDP: {"udp"},
    Aim.UNIX: {"unix"},
    Aim.CHILD: {"made"},
    Aim.PROCESS: {"signal", "limit", "priority"},
    Aim.FILE: {"made"},
}


@dataclass(frozen=True, slots=True)
class Round:
    """One round through the whole corpus."""

    is_locked: bool
    scripts: dict[tuple[str, str], Outcome]
    alarms_by_scripts: set[str]
    natives: dict[str, tuple[Outcome, set[str]]]
    launched: dict[str, str]
    meter: Meter
    places: dict[str, str]


async def _go_round(caged: Canaries, *, is_locked: bool) -> Round:
    with pytest.MonkeyPatch.context() as patch:
        hook_workers(patch, caged, is_locked=is_locked)
        stage = Stage()
        try:
            async with metering() as meter:
                runs: dict[Any, Any] = {
                    (attack.name, language): partial(stage.attack, attack, language, caged.places)
                    for attack, language in PLAYED["locked" if is_locked else "unlocked"]
                }
                inside = {name: partial(stage.native, name) for name in payload.INSIDE}
                ended = await together(runs | inside)
                alarms = caged.alarms()
                natives = {name: (ended.pop(name), set[str]()) for name in inside}
                for name in payload.OUTSIDE:
                    outcome = await stage.native(name)
                    natives[name] = (outcome, caged.alarms())
        finally:
            await stage.close()
    launched = launch(caged, is_locked=is_locked)
    return Round(is_locked, ended, alarms, natives, launched, meter, caged.places)


@pytest.fixture(scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """Go through the corpus with a lock."""
    with canaries(tmp_path_factory.mktemp("c")) as caged:
        return await _go_round(caged, is_locked=True)


@pytest.fixture(scope="module")
async def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """Go through the corpus without one."""
    with canaries(tmp_path_factory.mktemp("c")) as caged:
        return await _go_round(caged, is_locked=False)


@pytest.fixture(params=list(PLAYED))
def around(request: pytest.FixtureRequest) -> Any:
    """Answer one of the rounds; each is gone once."""
    return request.getfixturevalue(request.param)


@EACH
async def test_an_attack_ends_as_it_must(around: Round, attack: Attack, language: str) -> None:
    """X1, X2, X3: refused, harmless, or stopped by the limit it names; nobody's worker is lost."""
    program, outcome = attack.programs()[language], around.scripts[attack.name, language]
    assert not outcome.is_lost, outcome
    if program.says:
        assert not isinstance(outcome.end, Returned), outcome
        assert re.search(program.says, outcome.words), outcome.words[:300]
        assert WORD not in outcome.words
    else:
        assert isinstance(outcome.end, Returned), outcome.words[:300]
        value = None if outcome.end.value is MISSING else outcome.end.value
        assert value == program.returns
    assert len(outcome.words) <= 2 * 4000 + 2
    assert len(outcome.logs) <= ROOMY.log_lines + 1
    assert all(len(log.text) <= ROOMY.log_line_chars for log in outcome.logs)


async def test_no_script_reaches_a_canary(around: Round) -> None:
    """X1: not even where no lock is on: an interpreter has no ambient authority."""
    assert around.alarms_by_scripts == set()


@pytest.mark.parametrize("name", payload.OUTSIDE)
async def test_a_payload_is_stopped_by_the_lock_and_by_nothing_else(
    around: Round, name: str
) -> None:
    """X1: with the lock the kernel refuses; without it the canary is reached, by the same code."""
    aim = payload.OUTSIDE[name][0]
    outcome, alarms = around.natives[name]
    said = outcome.end.value if isinstance(outcome.end, Returned) else outcome.words
    if around.is_locked:
        assert str(said).startswith("refused:"), outcome
        assert alarms == set()
        assert around.launched.get(name, "refused:").startswith("refused:")
        return
    has_arrived = bool(alarms & ALARMS.get(aim, set())) or WORD in str(said)
    assert has_arrived, outcome
    assert str(said).startswith("did:") or name == "becomes_another_program", outcome
    assert around.launched.get(name, "did:").startswith("did:"), around.launched[name]


@pytest.mark.parametrize("name", payload.INSIDE)
async def test_a_worker_that_lies_or_stays_is_ended(around: Round, name: str) -> None:
    """X2, F1: whatever it says is hostile until proven; its script alone is lost or stopped."""
    says = payload.INSIDE[name][0]
    outcome, _ = around.natives[name]
    if says == "lost":
        assert outcome.is_lost, outcome
    elif name == "takes_all_memory":
        assert isinstance(outcome.end, Returned)
        assert str(outcome.end.value).startswith("failed" if around.is_locked else "did"), outcome
    else:
        assert not outcome.is_lost, outcome
        assert re.search(says, outcome.words), outcome.words


def test_the_corpus_is_large_and_says_why() -> None:
    """X1: so many kinds of attack, each with a reason why it could work, no two of one name."""
    names = [attack.name for attack in SCRIPTS] + NATIVE_NAMES
    assert len(names) == len(set(names)) >= KINDS_MIN
    reasons = [attack.why for attack in SCRIPTS]
    reasons += [row[1] for row in (*payload.OUTSIDE.values(), *payload.INSIDE.values())]
    assert all(reasons)
    reached = {row[0] for row in payload.OUTSIDE.values()}
    assert reached == set(Aim) - {Aim.HOST, Aim.NOTHING}


@EACH
async def test_no_script_computes_two_seconds_past_its_limit(
    around: Round, attack: Attack, language: str
) -> None:
    """X2: in time of its worker, so that nobody who shares the machine has a say in it.

    When a watch decides, by the wall clock too, is proven in virtual time by `test_watch`.
    """
    program = attack.programs()[language]
    computed_s = around.meter.computed_s.get(write(language, program, around.places).text, 0.0)
    limit_s = cpu_limit_s(limits_for(program.says, program.body))
    assert computed_s <= limit_s + PAST_LIMIT_S


async def test_no_payload_computes_two_seconds_past_its_limit(around: Round) -> None:
    """X2: code that looks at no clock is ended from outside."""
    text = write("javascript", native_program("loops"), {}).text
    computed_s = around.meter.computed_s[text]
    limit_s = LIMITS["tight"].step_cpu_s
    assert 0 < computed_s <= limit_s + PAST_LIMIT_S


async def test_the_loop_goes_on(around: Round, record_property: Any) -> None:
    """X2: no callback of the host's loop computes for long; how long it stood still is told."""
    meter = around.meter
    record_property("longest_gap_ms", round(meter.gap_ms))
    assert meter.callback_cpu_ms < LOOP_MS_MAX, meter.callback
