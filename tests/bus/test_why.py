"""Why an event of the bus waits, and for whom; how it ended, and what can be done (U7, B13)."""

from __future__ import annotations

from typing import Any

import pytest

from duly.config import Policy
from duly.errors import Invalid, NotFound
from duly.rules.delivery import Event, Retry
from duly.rules.standing import Mover
from duly.testing import Stage
from tests.bus.stand import again, listen, say
from tests.engine.stand import flow, opened
from tests.spoken import given, long


async def test_why_names_the_subscriber_a_restart_left_out(duly_world: Stage) -> None:
    """B13, U7: its deliveries wait, why says for whom, and they run when it registers."""
    host = await duly_world.host()
    listen(host, subscriber_id="first")
    listen(host, subscriber_id="second")
    await host.drain()
    host = await again(duly_world, host)
    listen(host, subscriber_id="first")
    id_1 = await say(host)
    await host.drain()
    why = await host.why(f"bus:{id_1}")
    assert long(host, why) == "Waits for the subscriber second, which is not connected here."
    assert why.mover is Mover.SUBSCRIBER
    assert (why.workflow, why.inputs, why.at, why.offers) == ("", ("mail from test",), None, ())
    second = listen(host, subscriber_id="second")
    await host.drain()
    assert second.ids == [id_1]
    why = await host.why(f"bus:{id_1}")
    assert long(host, why).startswith("It ended on ")
    assert long(host, why).endswith("first and second handled it.")


async def test_why_says_when_a_retry_comes_and_what_was_given_up(duly_world: Stage) -> None:
    """U7, B5: a wait has its time, a dead letter what a person can do."""
    host = await duly_world.host()

    async def fail(event: Event) -> None:
        raise ValueError("no")

    listen(host, then=fail, retry=Retry(2, (5,)))
    unheard = await say(host, "nobody")
    id_2 = await say(host)
    assert long(host, await host.why(f"bus:{id_2}")).startswith("It waits for its turn")
    await host.drain()
    why = await host.why(f"bus:{id_2}")
    assert long(host, why) == "Waits for its attempt 2."
    assert why.at is not None
    assert why.at.timestamp() * 1000 == duly_world.env.now_ms() + 5000
    async with host.running():
        await duly_world.advance(10)
    why = await host.why(f"bus:{id_2}")
    assert "It was given up on " in long(host, why)
    assert "test:mail: ValueError: no" in long(host, why)
    assert [given(each) for each in why.offers] == [
        ("bus.retry", (id_2, "test:mail")),
        ("bus.discard", (id_2, "test:mail")),
    ]
    await host.bus.discard(id_2, "test:mail")
    assert (await host.why(f"bus:{id_2}")).offers == ()
    assert "nothing subscribes" in long(host, await host.why(f"bus:{unheard}"))


async def test_why_says_that_a_handler_is_at_it(duly_world: Stage) -> None:
    """U7: also asked by the handler itself."""
    host = await duly_world.host()
    said: list[str] = []

    async def ask(event: Event) -> None:
        said.append(long(host, await host.why(f"bus:{event.id}")))

    listen(host, then=ask)
    await say(host)
    await host.drain()
    assert said == ["The subscriber test:mail is being called."]


async def test_why_of_what_is_gone_or_never_was(duly_world: Stage) -> None:
    """U7, H5: the one is over, the other is not known."""
    host = await duly_world.host(policy=Policy(retention_days=1))
    id_1 = await say(host)
    await host.drain()
    await duly_world.advance("2d")
    await host.tidy()
    assert "retention removed it" in long(host, await host.why(f"bus:{id_1}"))
    for never in ("bus:0", "bus:99"):
        with pytest.raises(NotFound, match="There is no event"):
            await host.why(never)
    for other in ("bus:", "bus:x", "bus:-1", "bus:1²", f"bus:{10**30}"):
        with pytest.raises(NotFound, match="no workflow"):
            await host.why(other)
    wrong: Any = 7
    with pytest.raises(Invalid, match="bus:<event id>"):
        await host.why(wrong)


async def test_a_workflow_of_that_name_is_the_one_that_is_meant(duly_world: Stage) -> None:
    """U7: a name is a person's; an event's is ours."""
    play = await opened(duly_world)
    await play.deploy(flow(name="bus:1"))
    await say(play.host)
    assert (await play.host.why("bus:1")).workflow == "bus:1"
