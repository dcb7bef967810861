"""Where a script failed is told from the store: handler, step, line and what it printed (U7)."""

from __future__ import annotations

import pytest

import duly
from duly.testing import Stage

FAILING = {
    "python": """\
from duly import workflow

flow = workflow("flow", topics={"in": {"ingress": True}})


@flow.consumer("in")
class read:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        for number in range(9):
            print(f"line {number}")
        return {"reservations": [], "data": pending[0]["payload"]["none"]}
""",
    "javascript": """\
export default Keep.workflow({
  name: "flow",
  topics: { in: { ingress: true } },
  consumers: {
    read: Keep.consumer({
      subscribe: ["in"],
      async prepare(ctx) {
        const pending = await ctx.peek("in", { limit: 1 });
        for (let number = 0; number < 9; number++) console.log(`line ${number}`);
        return { reservations: [], data: pending[0].payload.none.at };
      },
    }),
  },
});
""",
}


@pytest.mark.parametrize(("language", "line"), [("python", 12), ("javascript", 10)])
async def test_why_says_where_a_script_failed_and_what_it_printed_last(
    duly_world: Stage, language: str, line: int
) -> None:
    """U7, R1: handler, step, line, and the last lines of its log, from the store alone."""
    host = await duly_world.host()
    await host.deploy(duly.Source(language, FAILING[language]), grant=True)  # type: ignore[arg-type]
    await host.publish("flow", "in", title="One", message_id="1", payload={})
    await host.drain()
    script = (await host.why("flow")).script
    (entry,) = await host.attention()
    assert script is not None
    assert entry.script == script
    assert (script.handler, script.step, script.line) == ("read", "prepare", line)
    assert script.logs == tuple(f"line {number}" for number in range(4, 9))
    await host.retry((await host.runs("flow"))[0].id)
    assert (await host.why("flow")).script is None  # it goes on, and nothing has failed yet
