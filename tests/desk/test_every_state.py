"""Every state a run can be in, through the public interface: each verb offered there leaves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from duly.errors import DulyError, RequestRefused
from duly.rules import lifecycle
from duly.rules.lifecycle import Run
from duly.rules.word import Act, Kind
from duly.store.record import RunRow
from duly.testing import Stage
from tests.desk.situation import LONG_S, SITUATIONS, UNREACHED, approved, heal
from tests.engine.stand import CONSUMER, IN, NAME, PRODUCER, Play, consumer, flow, opened, producer
from tests.engine.stand import publish as publishing
from tests.rules import walk
from tests.store.scene import title_of

ROUNDS_MAX = 12
STATES = {title_of(run): run for run in walk.OPEN}
GOOD = flow()
GOOD_POLL = flow({CONSUMER: consumer()}, {PRODUCER: producer(publishing("x"), every="1d")})


def is_offered(run: Run, act: Act) -> bool:
    """Ask the rules whether an act does something to a run."""
    try:
        change = lifecycle.act(run, act)
    except RequestRefused:
        return False
    return change.run != run or change.successor is not None


# -- The verbs ------------------------------------------------------------------------------------


async def _approve(play: Play, run: RunRow) -> None:
    row = await play.store.get_held_mutation(run.id)
    await play.host.approve(row.id, row.hash)


async def _amend(play: Play, run: RunRow) -> None:
    """Change what no tool here lets a person change: a state that takes it refuses it, too."""
    row = await play.store.get_held_mutation(run.id)
    await play.host.amend(row.id, row.hash, {"text": "other"})


async def _reject(play: Play, run: RunRow) -> None:
    await play.host.reject((await play.store.get_held_mutation(run.id)).id)


def _settle(answer: Act) -> Callable[[Play, RunRow], Awaitable[object]]:
    async def settle(play: Play, run: RunRow) -> None:
        await play.host.settle((await play.store.get_held_mutation(run.id)).id, answer)

    return settle


async def _deploy(play: Play, run: RunRow) -> object:
    heal(play)
    return await play.deploy(GOOD_POLL if run.kind == Kind.PRODUCER else GOOD)


async def _grant(play: Play, run: RunRow) -> object:
    return await play.host.grant(NAME, run.waits_on or "")


VERBS: dict[Act, Callable[[Play, RunRow], Awaitable[object]]] = {
    Act.APPROVE: _approve,
    Act.AMEND: _amend,
    Act.REJECT: _reject,
    Act.RECONNECT: lambda play, run: play.host.reconnect(run.waits_on or ""),
    Act.GRANT: _grant,
    **{
        answer: _settle(answer)
        for answer in (Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP)
    },
    Act.SKIP_EVENT: lambda play, run: play.host.skip(NAME, IN, "a"),
    Act.DEPLOY: _deploy,
    Act.RETRY: lambda play, run: play.host.retry(run.id),
    Act.ABANDON: lambda play, run: play.host.abandon(run.id),
    Act.PAUSE: lambda play, run: play.host.pause(NAME),
}
# What a person does who wants to see a thing through, the best first.
SEES_THROUGH = (Act.APPROVE, Act.RECONNECT, Act.GRANT, Act.HAPPENED, Act.RETRY, Act.ABANDON)
# Made due by the person, moved by the host when it runs.
BY_HOST = frozenset({Act.RECONNECT, Act.GRANT})


async def open_run(play: Play) -> RunRow | None:
    return next((each for each in await play.runs() if each.open), None)


async def bring_to_rest(play: Play, kind: Kind) -> None:
    """Correct the script, and do what is offered until nothing is open any more."""
    heal(play)
    await play.host.resume(NAME)
    await play.deploy(GOOD_POLL if kind is Kind.PRODUCER else GOOD)
    for _ in range(ROUNDS_MAX):
        async with play.host.running():
            await play.stage.advance(LONG_S)
        run = await open_run(play)
        if run is None:
            return
        act = next((each for each in SEES_THROUGH if is_offered(run.state, each)), None)
        if act is not None:
            await VERBS[act](play, run)


async def check_rest(play: Play) -> None:
    """See that nothing is open, nothing is reserved, and nothing was done twice (R9)."""
    assert await play.is_clean()
    assert "reserved" not in (await play.statuses()).values()
    assert all(count == 1 for count in Counter(each.key for each in play.stage.effects).values())
    done = Counter(str(each.args) for each in play.stage.effects)
    assert all(count == 1 for count in done.values()), done


# -- Every state, every verb ----------------------------------------------------------------------


def test_every_state_of_the_rules_is_reached_or_said_to_be_out_of_reach() -> None:
    """R9: a state nobody thought of would be a run nobody can end."""
    assert set(SITUATIONS) | UNREACHED == set(STATES)
    assert not set(SITUATIONS) & UNREACHED


OFFERED = [
    pytest.param(title, act, id=f"{title} - {act}".replace(" ", "_"))
    for title in SITUATIONS
    for act in Act
    if is_offered(STATES[title], act)
]


@pytest.mark.parametrize(("title", "act"), OFFERED)
async def test_an_offered_verb_leaves_the_state(duly_world: Stage, title: str, act: Act) -> None:
    """R9, R8: and in the end no run is open, no event reserved, and nothing was done twice."""
    play = await SITUATIONS[title](duly_world)
    run = await open_run(play)
    assert run is not None
    assert title_of(run.state) == title
    await VERBS[act](play, run)
    if act in BY_HOST:
        await play.drain()
    after = await play.store.get_run(run.id)
    assert not after.open or after.state != run.state, after
    await bring_to_rest(play, run.state.kind)
    await check_rest(play)


# They do something else, too, so they are never refused: grant, deploy, pause, reconnect.
NEVER_REFUSED = frozenset({Act.GRANT, Act.RECONNECT, Act.DEPLOY, Act.PAUSE})


@pytest.mark.parametrize("title", SITUATIONS)
async def test_a_verb_that_is_not_offered_changes_nothing(duly_world: Stage, title: str) -> None:
    """R9, A4, L10: refused with a sentence, and the run can still be brought to its end."""
    play = await SITUATIONS[title](duly_world)
    run = await open_run(play)
    assert run is not None
    done = await play.host.actions()
    for act in Act:
        holds_nothing = act is Act.SKIP_EVENT and run.state.phase in lifecycle.HOLDS_NOTHING
        if act in NEVER_REFUSED or holds_nothing or is_offered(run.state, act):
            continue
        with pytest.raises(DulyError) as refused:
            await VERBS[act](play, run)
        assert str(refused.value).endswith((".", "first."))
        assert await play.store.get_run(run.id) == run
    assert await play.host.actions() == done
    await bring_to_rest(play, run.state.kind)
    await check_rest(play)


async def test_an_approved_call_that_was_not_sent_comes_to_its_end(duly_world: Stage) -> None:
    """R9, A4: whatever is tried before it is sent."""
    play = await approved(duly_world)
    run = await open_run(play)
    assert run is not None
    for act in (Act.RETRY, Act.ABANDON, Act.SKIP_EVENT, Act.REJECT, Act.APPROVE, Act.HAPPENED):
        with pytest.raises(DulyError):
            await VERBS[act](play, run)
    await play.host.pause(NAME)
    await play.deploy(GOOD)
    await bring_to_rest(play, Kind.CONSUMER)
    await check_rest(play)
    assert duly_world.count() == 1


async def test_a_workflow_that_never_ran_is_at_rest(duly_world: Stage) -> None:
    """R9: what `check_rest` must see, it sees."""
    play = await opened(duly_world)
    await play.deploy(GOOD)
    await check_rest(play)
    await play.publish("a")
    await play.crash_during(commit_run="before")
    with pytest.raises(AssertionError):
        await check_rest(play)
