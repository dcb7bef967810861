"""What a run logs is there to be read: in order, with its time, capped, and without secrets."""

from __future__ import annotations

from duly.config import Limits, Policy
from duly.connectors.base import Connector, read
from duly.sandbox.play import Call, Say
from duly.testing import Stage
from tests.engine.stand import CONSUMER, PREPARE, consumer, flow, opened

SECRET = "hunter2-hunter2"


class Safe(Connector):
    """A connector that needs a secret, and hands it out by mistake."""

    name = "safe"

    @read
    async def look(self) -> str:
        return f"the token is {self.secret('token')}"


async def test_lines_are_kept_with_their_step_and_time_and_the_rest_is_counted(
    duly_world: Stage,
) -> None:
    """X4: a script that says too much loses lines, never its run."""
    policy = Policy(limits=Limits(log_lines=3, log_line_chars=5))
    play = await opened(duly_world, policy=policy)
    said = tuple(Say(f"line {number}") for number in range(5))
    await play.deploy(flow({CONSUMER: consumer(prepare=(*said, *PREPARE))}))
    await play.drain()
    lines = await play.host.logs((await play.run()).id)
    assert [(line.source, line.text) for line in lines] == [
        ("prepare", "line "),
        ("prepare", "line "),
        ("prepare", "line "),
        ("duly", "2 more lines were left out."),
    ]
    assert all(line.at == duly_world.env.now() for line in lines)


async def test_a_run_that_said_nothing_has_no_lines(duly_world: Stage) -> None:
    """X4: nothing is made up."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.drain()
    assert await play.host.logs((await play.run()).id) == ()


async def test_a_secret_that_a_script_says_is_not_kept(duly_world: Stage) -> None:
    """A5: what a connector took from the vault stands in no log."""
    safe = Safe()
    play = await opened(duly_world, connectors=(safe,))
    play.host._desk().parts.outside.bind(lambda connector, name: SECRET)
    look = Call("safe.look", into="told")
    await play.deploy(flow({CONSUMER: consumer(prepare=(look, Say({"$ref": "told"}), *PREPARE))}))
    await play.drain()
    (line,) = await play.host.logs((await play.run()).id)
    assert line.text == "the token is [redacted]"
