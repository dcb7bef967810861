"""The exam of hosts and their claims (H2, H6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import Fenced, NotFound, Stale
from duly.rules.share import Kin, Shares, offers_of
from duly.store.base import Fence
from duly.store.claim import HostRow, HostSeen, Renewed
from duly.store.record import Action, Recorded
from tests.store.exam import Again, Case, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import HOST, IN_FLIGHT, NOON, PROPOSED, UNKNOWN, WORKFLOW, arranged, at, on

NO_WORKFLOW = "a workflow that is not here"
LEASE_MS = 60_000


# -- join, claim, take_up, leave ----------------------------------------------------------------


async def _join(world: World) -> None:
    await world.store.join("host_2", now=NOON)


async def _see_joined(world: World, answer: None) -> None:
    # The lock of the file says that the host before it is gone (H6).
    assert world.connection.execute("select id, lease_until from host").fetchall() == [
        ("host_2", None)
    ]


async def _leave(world: World) -> None:
    await world.store.leave(HOST)


async def _see_left(world: World, answer: None) -> None:
    assert world.connection.execute("select id from host").fetchall() == []


async def _other_joined(world: World) -> None:
    await arranged()(world)
    await world.store.leave(HOST)
    await world.store.join("host_2", now=NOON, lease_ms=60_000)


async def _claim(world: World, *, workflow_id: str = WORKFLOW, host: str = "host_2") -> Fence:
    return await world.store.claim(host, workflow_id)


async def _held(world: World) -> None:
    """Let another host be here, and hold the workflow."""
    await world.store.join("host_3", now=NOON, lease_ms=60_000)
    await world.store.claim("host_3", WORKFLOW)


async def _lapsed(world: World) -> None:
    world.connection.execute("update host set lease_until = 0 where id = 'host_2'")


async def _claim_nothing(world: World) -> Fence:
    return await _claim(world, workflow_id="workflow_9")


async def _claim_as_stranger(world: World) -> Fence:
    return await _claim(world, host="host_9")


async def _see_claimed(world: World, answer: Fence) -> None:
    workflow = await world.store.get_workflow(WORKFLOW)
    assert answer == Fence(WORKFLOW, world.fence.epoch + 1)
    assert (workflow.epoch, workflow.holder) == (answer.epoch, "host_2")


async def _see_claimed_again(world: World, answer: Fence) -> None:
    # A host that claims again fences whatever it was still doing.
    assert answer == Fence(WORKFLOW, world.fence.epoch + 2)


JOIN = Case(
    "join",
    arranged(),
    _join,
    _see_joined,
    Again.SAME,
    never_refuses="the lock of the file has decided which host it is",
)
LEAVE = Case(
    "leave",
    arranged(),
    _leave,
    _see_left,
    Again.SAME,
    never_refuses="a host that is not here has left",
)
CLAIM = Case(
    "claim",
    _other_joined,
    _claim,
    _see_claimed,
    Again.FREE,
    refusals=(
        Refusal("another host holds it", Stale, broken=_held, match="held by another"),
        Refusal("a host that is not here", Fenced, call=_claim_as_stranger),
        Refusal("a host whose lease is over", Fenced, broken=_lapsed),
        Refusal(NO_WORKFLOW, NotFound, call=_claim_nothing),
    ),
    effect_again=_see_claimed_again,
)


async def _approved(world: World) -> None:
    scene = await at(world.store, PROPOSED)
    world.fence, world.kept["scene"] = scene.fence, scene
    await scene.store.approve(
        scene.mutation_id, "shown", seal="a yes", action=scene.action(), now=scene.tick()
    )


async def _take_up(world: World) -> None:
    scene = world.kept["scene"]
    await world.store.take_up(world.fence, scene.run_id, IN_FLIGHT)


async def _see_taken_up(world: World, answer: None) -> None:
    scene = world.kept["scene"]
    open_run = (await world.store.outlook(WORKFLOW, world.fence.epoch)).open_run
    assert open_run is not None
    assert open_run.epoch == world.fence.epoch
    assert await world.store.list_held_runs(HOST) == (scene.run_id,)


async def _ended_by_a_person(world: World) -> None:
    scene = world.kept["scene"]
    await world.store.record(
        world.fence,
        scene.run_id,
        IN_FLIGHT,
        UNKNOWN,
        Recorded(0, error="none"),
        stop=scene.stop(UNKNOWN),
        now=scene.tick(),
    )


TAKE_UP = Case(
    "take_up",
    _approved,
    _take_up,
    _see_taken_up,
    Again.SAME,
    refusals=(Refusal("a run that stands still now", Stale, broken=_ended_by_a_person),),
)


async def _taken_up(world: World) -> None:
    await _approved(world)
    await _take_up(world)


async def _list_held(world: World) -> tuple[str, ...]:
    return await world.store.list_held_runs(HOST)


async def _see_held(world: World, answer: tuple[str, ...]) -> None:
    assert answer == (world.kept["scene"].run_id,)


async def _see_let_go(world: World) -> None:
    """See that a claim made anew holds nothing yet, and a host that is not here nothing at all."""
    await world.store.claim(HOST, WORKFLOW)
    assert await _list_held(world) == ()
    assert await world.store.list_held_runs("host_9") == ()


LIST_HELD = ReadCase("list_held_runs", _taken_up, _list_held, _see_held, edge=_see_let_go)


# -- release, list_hosts ------------------------------------------------------------------------


async def _idle_held(world: World) -> None:
    await arranged()(world)


async def _release(world: World) -> bool:
    return await world.store.release(HOST, world.fence)


async def _see_released(world: World, answer: bool) -> None:
    assert answer is True
    assert (await world.store.get_workflow(WORKFLOW)).holder is None


async def _see_nothing_released(world: World, answer: bool) -> None:
    assert answer is False


RELEASE = Case(
    "release",
    _idle_held,
    _release,
    _see_released,
    Again.NOTHING,
    never_refuses="a workflow with an open run is kept, and that is said",
    effect_again=_see_nothing_released,
)


async def _on_a_machine(world: World) -> None:
    await arranged()(world)
    world.connection.execute(f"update host set machine = 'attic' where id = '{HOST}'")


async def _bind(world: World) -> None:
    await world.store.bind(world.fence)


async def _see_bound(world: World, answer: None) -> None:
    found = world.connection.execute(f"select machine from workflow where id = '{WORKFLOW}'")
    assert found.fetchall() == [("attic",)]


async def _taken_over(world: World) -> None:
    await world.store.leave(HOST)
    await world.store.join("host_2", now=NOON, lease_ms=LEASE_MS)
    await world.store.claim("host_2", WORKFLOW)


BIND = Case(
    "bind",
    _on_a_machine,
    _bind,
    _see_bound,
    Again.SAME,
    refusals=(Refusal("a claim that is another host's", Fenced, broken=_taken_over),),
)


async def _list_hosts(world: World) -> tuple[HostSeen, ...]:
    return await world.store.list_hosts()


async def _see_hosts(world: World, answer: tuple[HostSeen, ...]) -> None:
    assert answer == (HostSeen(HOST, None, NOON, None, serves=False, workflows=1),)


async def _see_fleet(world: World) -> None:
    """See what is left of a lease, and which machine a host runs on."""
    await world.store.join("host_2", now=NOON + 1, lease_ms=LEASE_MS, name="machine:7")
    *_, newest = await _list_hosts(world)
    assert newest == HostSeen("host_2", "machine:7", NOON + 1, LEASE_MS, serves=False, workflows=0)


async def _able_and_unable(world: World) -> None:
    """Let the version need a tool; of two hosts one has it, and one has other tools."""
    await _other_joined(world)
    put = "insert into need select workflow_id, version, 'shop.buy' from version"
    world.connection.execute(put)
    for host, tool in (("host_3", "shop.buy"), ("host_4", "mail.send")):
        await world.store.join(host, now=NOON, lease_ms=LEASE_MS, offers=offers_of([tool], {}))


async def _list_lacking(world: World) -> tuple[str, ...]:
    return await world.store.list_lacking("host_4", WORKFLOW)


async def _see_lacking(world: World, answer: tuple[str, ...]) -> None:
    assert answer == ("shop.buy",)
    assert await world.store.list_lacking("host_3", WORKFLOW) == ()


async def _see_offered(world: World) -> None:
    """See that a host that says what it has lacks it no more; one that says nothing has all."""
    both = offers_of(["mail.send", "shop.buy"], {})
    assert await world.store.list_lacking("host_2", WORKFLOW) == ()
    with pytest.raises(Stale):
        await world.store.claim("host_4", WORKFLOW)
    renewed = await world.store.renew("host_4", lease_ms=LEASE_MS, serves=True, offers=both)
    assert renewed.shares.counts == {Kin(): 1}
    assert await _list_lacking(world) == ()
    # What is shared by hosts that differ is counted for those that can do it.
    one = await world.store.renew(
        "host_4", lease_ms=LEASE_MS, serves=True, offers=offers_of([], {})
    )
    assert one.shares.counts == {Kin(): 1}
    await world.store.renew("host_3", lease_ms=LEASE_MS, serves=True)
    two = await world.store.renew("host_4", lease_ms=LEASE_MS, serves=True)
    (kin,) = two.shares.counts
    assert kin.unable == frozenset({"host_4"})
    assert two.shares.group(kin) == frozenset({"host_3"})
    workflow = await world.store.get_workflow(WORKFLOW)
    assert workflow.unserved is None
    await world.store.leave("host_3")
    assert (await world.store.get_workflow(WORKFLOW)).unserved == "6 host_4 shop.buy"


LIST_LACKING = ReadCase(
    "list_lacking", _able_and_unable, _list_lacking, _see_lacking, edge=_see_offered
)
LIST_HOSTS = ReadCase("list_hosts", _idle_held, _list_hosts, _see_hosts, edge=_see_fleet)


# -- renew, evict ---------------------------------------------------------------------------------


async def _two_joined(world: World) -> None:
    """Let two hosts of a fleet be here; the clock of this store stands still at nought."""
    await world.store.join("host_2", now=NOON, lease_ms=LEASE_MS)
    await world.store.join("host_3", now=NOON, lease_ms=LEASE_MS)


async def _one_over(world: World) -> None:
    await _two_joined(world)
    world.connection.execute("update host set lease_until = 0 where id = 'host_3'")


async def _one_over_and_a_workflow_removed(world: World) -> None:
    """Let a lease be over; the one workflow there was is removed, so the hosts share none (H7)."""
    await arranged()(world)
    await world.store.remove(WORKFLOW, action=on(world).action("remove"), now=NOON)
    await _one_over(world)


async def _renew(world: World) -> Renewed:
    return await world.store.renew("host_2", lease_ms=LEASE_MS)


async def _see_renewed(world: World, answer: Renewed) -> None:
    shares = Shares("host_2", {"host_2": None})
    assert answer == Renewed((HostRow("host_3", 0, is_over=True),), shares, {})
    found = world.connection.execute("select lease_until from host where id = 'host_2'")
    assert found.fetchall() == [(LEASE_MS,)]


async def _evict(world: World) -> bool:
    action = Action("action_1", "duly", "pause")
    return await world.store.evict("host_3", 0, action=action, now=NOON)


async def _see_evicted(world: World, answer: bool) -> None:
    found = world.connection.execute("select id from host").fetchall()
    assert (answer, found) == (True, [("host_2",)])


async def _see_renewal_win(world: World, answer: bool) -> None:
    assert answer is False


RENEW = Case(
    "renew",
    _one_over_and_a_workflow_removed,
    _renew,
    _see_renewed,
    Again.SAME,
    refusals=(Refusal("a lease that is over", Fenced, broken=_lapsed),),
)
EVICT = Case(
    "evict",
    _one_over,
    _evict,
    _see_evicted,
    Again.NOTHING,
    never_refuses="a host that renewed meanwhile is not evicted, and that is said",
    effect_again=_see_renewal_win,
)


CASES = (
    JOIN,
    LEAVE,
    CLAIM,
    BIND,
    RELEASE,
    TAKE_UP,
    LIST_HELD,
    LIST_LACKING,
    LIST_HOSTS,
    RENEW,
    EVICT,
)


@pytest.mark.parametrize("trial", exam(*CASES))
async def test_hosts_and_claims_pass_their_exam(trial: Trial, tmp_path: Path) -> None:
    """H2, H6: a host that is gone writes nothing, and one that is here is not taken for gone."""
    await trial.sit(tmp_path)
