"""Every open state a run can be brought into from outside: by scripts, by the outside, by crashes.

`SITUATIONS` maps a state, in the words of `title_of`, to what brings a real host there: nothing
here writes to the store. `UNREACHED` are the states the rules allow and the engine never stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import duly
from duly.config import Policy, WorkflowPolicy
from duly.errors import ConfigError
from duly.rules.access import Step
from duly.testing import Fault, Stage
from tests.engine.stand import (
    APPEND,
    CONSUMER,
    NAME,
    NEXT,
    NOTHING,
    PEEK_ONE,
    PRODUCER,
    RESERVE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
    producer,
    publish,
)
from verification.moves import Call, Lose, Move, Return, Throw, When

Builder = Callable[[Stage], Awaitable[Play]]

ASKED: Final = Policy(approvals={"*": "always"})
BY_ID: Final = Policy(workflows={NAME: WorkflowPolicy(mutate_reads="by_id")})
FIND: Final = Call("sheet.find")
LOOK: Final = Call("book.look", (), {"key": "k"})
WAIT: Final = (PEEK_ONE, When("pending", (FIND, Return(RESERVE)), (Return(NOTHING),)))
UNSURE: Final = (Fault.UNSURE,) * 6
LONG_S: Final = 3600
THROW: Final = (Throw("no"),)
LOSE: Final = (Lose(),)


class Book(duly.Connector):
    """A read by id that needs a sign-in, once."""

    name = "book"

    def __init__(self) -> None:
        self.is_closed = True

    @duly.read(by_id=True)
    async def look(self, key: str) -> str:
        if self.is_closed:
            self.is_closed = False
            raise duly.AuthNeeded("The book is closed.", connect="book")
        return "page"


class Refusing:
    """A step whose worker this machine cannot lock."""

    async def __aenter__(self) -> None:
        raise ConfigError("a worker cannot be locked here")

    async def __aexit__(self, *_: object) -> None:
        pass


def break_step(play: Play, broken: Step) -> None:
    """Let a step fail by a fault that is ours, until the sandbox is healed."""
    sandbox: Any = play.desk.parts.sandbox
    own = sandbox.open

    def opening(loaded: Any, handler: str, step: Step, *more: Any) -> Any:
        return Refusing() if step is broken else own(loaded, handler, step, *more)

    sandbox.open = opening


def heal(play: Play) -> None:
    """Take a broken step back."""
    vars(play.desk.parts.sandbox).pop("open", None)


async def ready(
    stage: Stage,
    script: Any = None,
    *faults: Fault,
    policy: Policy | None = None,
    reconcile: tuple[Fault, ...] = (),
    connectors: tuple[duly.Connector, ...] = (),
    is_producer: bool = False,
    **tool: Any,
) -> Play:
    """Deploy a script and publish an event; nothing has run yet."""
    play = await opened(stage, policy=policy, connectors=connectors, **tool)
    plan(stage, *faults, reconcile=reconcile)
    await play.deploy(script or flow())
    if not is_producer:
        await play.publish("a")
    return play


async def run(stage: Stage, *given: Any, **options: Any) -> Play:
    """Let it run as far as it goes."""
    play = await ready(stage, *given, **options)
    await play.drain()
    return play


async def broken(stage: Stage, step: Step, *given: Any, **options: Any) -> Play:
    play = await ready(stage, *given, **options)
    break_step(play, step)
    await play.drain()
    return play


async def changed(stage: Stage) -> Play:
    """Let another program change a call between the yes and its send (L11)."""
    play = await run(stage, policy=ASKED)
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    play.tamper("update mutation set args = ?", '{"text": "another"}')
    await play.drain()
    return play


async def crashed(
    stage: Stage, *moments: dict[str, str], is_found: bool = False, **given: Any
) -> Play:
    """Crash at each of these moments in turn; `is_found` lets the last crash be found."""
    play = await ready(stage, given.pop("script", None), **given)
    for each in moments:
        await play.crash_during(**each)
    if is_found:
        await play.drain()
    return play


async def asking(stage: Stage, step: str, fault: Fault) -> Play:
    """Let a read meet a missing sign-in or permission."""
    is_producer = step == "produce"
    script = (
        flow({}, {PRODUCER: producer(FIND, publish("x"), every="1d")})
        if is_producer
        else flow({CONSUMER: consumer(WAIT)})
    )
    play = await ready(stage, script, is_producer=is_producer)
    stage.plan("sheet.find", fault)
    await play.drain()
    return play


async def ungranted(stage: Stage) -> Play:
    """Let a mutation call meet a grant that was taken back."""
    play = await ready(stage)
    await play.host.revoke(NAME, TOOL)
    await play.drain()
    return play


async def going_on(stage: Stage) -> Play:
    """Crash when the grant has come and mutate is to run again."""
    play = await ungranted(stage)
    await play.host.grant(NAME, TOOL)
    await play.crash_during(move_run="after")
    return play


async def approved(stage: Stage) -> Play:
    play = await run(stage, policy=ASKED)
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    return play


async def sending(stage: Stage) -> Play:
    """Crash while a call is out."""
    play = await ready(stage, None, Fault.CRASH_BEFORE)
    await stage.crash(play.host, play.host.drain())
    play.host = await stage.host(**play.options)
    return play


async def sending_again(stage: Stage) -> Play:
    """Crash while an unknown call is out again under its key."""
    play = await ready(
        stage,
        None,
        Fault.AMBIGUOUS_BEFORE,
        Fault.CRASH_BEFORE,
        idempotent=True,
        key_lifetime_s=10 * LONG_S,
    )
    await stage.crash(play.host, play.host.drain())
    play.host = await stage.host(**play.options)
    return play


async def indeterminate(stage: Stage, script: Any = None) -> Play:
    """Ask until nobody but a person can say what happened."""
    play = await ready(stage, script, Fault.AMBIGUOUS_BEFORE, reconcile=UNSURE)
    async with play.host.running():
        await stage.advance(LONG_S)
    return play


# -- With each outcome, before and in `next` ------------------------------------------------------


async def decided(stage: Stage, outcome: str, then: tuple[Move, ...] = NEXT) -> Play:
    """Bring a run to where `next` comes, with an outcome."""
    script = flow({CONSUMER: consumer(then=then)})
    if outcome == "applied":
        return await ready(stage, script)
    if outcome == "none":
        return await ready(stage, flow({CONSUMER: consumer(mutate=(), then=then)}))
    if outcome == "rejected":
        play = await run(stage, script, policy=ASKED)
        await play.host.reject((await play.host.approvals())[0].mutation)
        return play
    play = await indeterminate(stage, script)
    await play.host.settle((await play.row()).id, "skip")
    return play


async def told(stage: Stage, outcome: str, then: tuple[Move, ...]) -> Play:
    play = await decided(stage, outcome, then)
    await play.drain()
    return play


async def told_wrongly(stage: Stage, outcome: str) -> Play:
    play = await decided(stage, outcome)
    break_step(play, Step.NEXT)
    await play.drain()
    return play


async def dying(stage: Stage, outcome: str, deaths: int, *, is_found: bool = False) -> Play:
    """Die before the commit, so many times."""
    play = await decided(stage, outcome)
    for _ in range(deaths):
        await play.crash_during(commit_run="before")
    if is_found:
        await play.drain()
    return play


OUTCOMES: Final = {
    "applied": "applied applied",
    "none": "none",
    "rejected": "rejected skipped",
    "skipped": "skipped skipped",
}


def _next_situations() -> dict[str, Builder]:
    found: dict[str, Builder] = {}
    for outcome, words in OUTCOMES.items():
        found |= {
            f"emitting failed:logic {words}": partial(told, outcome=outcome, then=THROW),
            f"emitting paused:transient {words}": partial(told, outcome=outcome, then=LOSE),
            f"emitting failed:internal {words}": partial(told_wrongly, outcome=outcome),
            f"emitting crashed {words}": partial(dying, outcome=outcome, deaths=3, is_found=True),
            f"emitting active {words}": partial(
                dying, outcome=outcome, deaths=1 if outcome == "none" else 2
            ),
        }
    # What a crash leaves of a rejected or skipped one is its heir, which is at `next` already.
    found["mutated active applied applied"] = partial(dying, outcome="applied", deaths=1)
    found["mutated active rejected skipped"] = partial(decided, outcome="rejected")
    found["mutated active skipped skipped"] = partial(decided, outcome="skipped")
    return found


def _with(**steps: Any) -> Any:
    return flow({CONSUMER: consumer(**steps)})


def _polling(*moves: Move) -> Any:
    return flow({}, {PRODUCER: producer(*moves, every="1d")})


BEFORE_PREPARED: Final = {"prepare_run": "before"}
BEFORE_SENT: Final = {"send": "before"}
BEFORE_COMMIT: Final = {"commit_run": "before"}
BEFORE_PRODUCED: Final = {"commit_producer": "before"}
POLL: Final = _polling(publish("x"))

CONSUMERS: Final[dict[str, Builder]] = {
    "preparing active": lambda stage: crashed(stage, BEFORE_PREPARED),
    "preparing crashed": lambda stage: crashed(stage, *[BEFORE_PREPARED] * 3, is_found=True),
    "preparing failed:logic": lambda stage: run(stage, _with(prepare=THROW)),
    "preparing failed:internal": lambda stage: broken(stage, Step.PREPARE),
    "preparing paused:transient": lambda stage: run(stage, _with(prepare=LOSE)),
    "preparing paused:approval connection": lambda stage: asking(stage, "prepare", Fault.AUTH),
    "preparing paused:approval grant": lambda stage: asking(stage, "prepare", Fault.FORBID),
    "prepared active": lambda stage: crashed(stage, BEFORE_SENT),
    "prepared crashed": lambda stage: crashed(stage, *[BEFORE_SENT] * 3, is_found=True),
    "mutating active": going_on,
    "mutating active in_flight": sending,
    "mutating failed:logic": lambda stage: run(stage, _with(mutate=THROW)),
    "mutating failed:logic failed": lambda stage: run(stage, None, Fault.REFUSE),
    "mutating failed:internal": lambda stage: broken(stage, Step.MUTATE),
    "mutating failed:internal failed": changed,
    "mutating paused:transient": lambda stage: run(stage, _with(mutate=LOSE)),
    "mutating paused:transient failed": lambda stage: run(stage, None, Fault.NOT_SENT),
    "mutating paused:approval connection": lambda stage: run(
        stage, _with(mutate=(LOOK, APPEND)), policy=BY_ID, connectors=(Book(),)
    ),
    "mutating paused:approval grant": ungranted,
    "mutating paused:approval proposed approval": lambda stage: run(stage, policy=ASKED),
    "mutating paused:approval proposed connection": lambda stage: run(stage, None, Fault.AUTH),
    "mutating paused:approval proposed grant": lambda stage: run(stage, None, Fault.FORBID),
    "mutating paused:reconciliation needs_reconcile": lambda stage: run(
        stage, None, Fault.AMBIGUOUS_BEFORE, reconcile=(Fault.UNSURE,)
    ),
    "mutating paused:reconciliation in_flight": sending_again,
    "mutating paused:reconciliation indeterminate": indeterminate,
    "mutated crashed applied applied": lambda stage: crashed(
        stage, BEFORE_PREPARED, BEFORE_PREPARED, BEFORE_COMMIT, is_found=True
    ),
    **_next_situations(),
}
PRODUCERS: Final[dict[str, Builder]] = {
    "active": lambda stage: crashed(stage, BEFORE_PRODUCED, script=POLL, is_producer=True),
    "crashed": lambda stage: crashed(
        stage, *[BEFORE_PRODUCED] * 3, script=POLL, is_producer=True, is_found=True
    ),
    "failed:logic": lambda stage: run(stage, _polling(*THROW), is_producer=True),
    "failed:internal": lambda stage: broken(stage, Step.PRODUCE, POLL, is_producer=True),
    "paused:transient": lambda stage: run(stage, _polling(*LOSE), is_producer=True),
    "paused:approval connection": lambda stage: asking(stage, "produce", Fault.AUTH),
    "paused:approval grant": lambda stage: asking(stage, "produce", Fault.FORBID),
}
SITUATIONS: Final[dict[str, Builder]] = {
    **{f"consumer {words}": builder for words, builder in CONSUMERS.items()},
    **{f"producer executing {words}": builder for words, builder in PRODUCERS.items()},
}

# The rules allow them, and nobody stores them.
UNREACHED: Final = frozenset(
    {
        # `next` begins in the same write in which a run without a call has mutated.
        "consumer mutated active none",
        "consumer mutated crashed none",
        # A person's answer came before, so this crash is the first in a row; its heir is emitting.
        "consumer mutated crashed rejected skipped",
        "consumer mutated crashed skipped skipped",
        # It was blocked before, so this crash is the first in a row.
        "consumer mutating crashed",
        # Between two steps only a fault in our own lines can strike.
        "consumer prepared failed:internal",
        *(f"consumer mutated failed:internal {words}" for words in OUTCOMES.values()),
    }
)
