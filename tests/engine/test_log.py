"""What a run logs is there to be read: in order, with its time, capped, and without secrets."""

from __future__ import annotations

import json

import pytest

from duly import Source
from duly.config import Limits, Policy
from duly.connectors.base import Connector, read
from duly.engine.live import Notes
from duly.rules.access import Step
from duly.rules.redaction import Redactor
from duly.rules.source import Language
from duly.rules.word import Status
from duly.sandbox.base import Log
from duly.testing import Fault, Stage
from tests.engine.stand import (
    CONSUMER,
    MUTATE,
    NEXT,
    PREPARE,
    TOOL,
    Play,
    consumer,
    flow,
    opened,
    plan,
)
from verification.moves import Call, Say

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
        ("prepare", "line…"),
        ("prepare", "line…"),
        ("prepare", "line…"),
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


# -- At every stop --------------------------------------------------------------------------------

LOOK = Call("safe.look", into="told")


async def kept(play: Play) -> tuple[list[str], int, list[str]]:
    """What a run said, how many lines were left out, and which tools it called."""
    run = await play.run()
    logs = json.loads(run.logs or '{"lines": [], "dropped": 0}')
    calls = [each["tool"] for each in json.loads(run.calls or "[]")]
    return [each["text"] for each in logs["lines"]], logs["dropped"], calls


async def test_what_a_run_said_and_read_is_kept_while_it_waits_for_approval(
    duly_world: Stage,
) -> None:
    """R1, A3: a person who is asked sees it, also after a restart; and so it is at the end."""
    policy = Policy(approvals={"*": "always"}, limits=Limits(log_lines=3))
    play = await opened(duly_world, policy=policy, connectors=(Safe(),))
    play.host._desk().parts.outside.bind(lambda connector, name: SECRET)
    prepare = (Say("one"), LOOK, Say("two"), *PREPARE)
    said = tuple(Say(f"more {number}") for number in range(3))
    await play.deploy(flow({CONSUMER: consumer(prepare, (*said, *MUTATE), (Say("last"), *NEXT))}))
    await play.publish("a")
    await play.drain()
    assert (await play.run()).status == Status.PAUSED_APPROVAL
    assert await kept(play) == (["one", "two", "more 0"], 2, ["safe.look"])
    await play.restart()
    row = await play.row()
    await play.host.approve(row.id, seen=row.hash, by="me")
    await play.drain()
    assert await kept(play) == (["one", "two", "more 0"], 3, ["safe.look", TOOL])


async def test_lines_left_out_are_counted_over_stops_of_one_run(duly_world: Stage) -> None:
    """R1, F4: what a run said before it waited for a connection counts too."""
    play = await opened(duly_world, policy=Policy(limits=Limits(log_lines=1)))
    said = tuple(Say(f"{number}") for number in range(4))
    await play.deploy(
        flow({CONSUMER: consumer((*said, *PREPARE), (*said, *MUTATE), (*said, *NEXT))})
    )
    await play.publish("a")
    duly_world.plan(TOOL, Fault.AUTH)
    await play.drain()
    assert (await play.run()).status == Status.PAUSED_APPROVAL
    assert await kept(play) == (["0"], 7, [TOOL])
    await play.host.reconnect(TOOL.partition(".")[0], by="me")
    await play.drain()
    assert await kept(play) == (["0"], 11, [TOOL, TOOL])


FLOODS = {
    Language.PYTHON: """\
from duly import workflow

flow = workflow("flow", topics={"in": {"ingress": True}})


@flow.consumer("in")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        for number in range(300):
            print(number)
        ids = [each["message_id"] for each in pending]
        return {"reservations": [{"topic": "in", "ids": ids}], "ui": {"title": "Add a row"}}

    async def mutate(self, ctx, prepared):
        for number in range(300):
            print(number)
        await ctx.sheets.append_row(spreadsheet_id="S", values=["x"])
        print("never seen")
""",
    Language.JAVASCRIPT: """\
export default Keep.workflow({
  name: "flow",
  topics: {in: {ingress: true}},
  consumers: {
    file: Keep.consumer({
      subscribe: ["in"],
      prepare: async (ctx) => {
        const pending = await ctx.peek("in", {limit: 1});
        for (let at = 0; at < 300; at++) console.log(at);
        const ids = pending.map(each => each.messageId);
        return {reservations: [{topic: "in", ids}], ui: {title: "Add a row"}};
      },
      mutate: async (ctx) => {
        for (let at = 0; at < 300; at++) console.log(at);
        await ctx.sheets.appendRow({spreadsheetId: "S", values: ["x"]});
        console.log("never seen");
      },
    }),
  },
});
""",
}


@pytest.mark.parametrize("language", FLOODS)
async def test_the_number_of_lines_left_out_is_exact(duly_world: Stage, language: Language) -> None:
    """R1, X4: also of a step that ends with its mutation, where the sandbox cuts too."""
    duly_world.sheet()
    host = await duly_world.host(policy=Policy(approvals={"*": "always"}))
    await host.deploy(Source(language, FLOODS[language]), by="me", grant=True)
    await host.publish("flow", "in", title="One", message_id="a")
    await host.drain()
    (run,) = await host.runs("flow")
    lines = await host.logs(run.id)
    assert (len(lines), lines[-1].text) == (257, "344 more lines were left out.")


@pytest.mark.parametrize("cut_chars", range(2, 30, 3))
async def test_a_line_that_was_cut_within_a_secret_shows_no_part_of_it(
    duly_world: Stage, cut_chars: int
) -> None:
    """A5, X4: the sandbox cuts a line before the host sees it."""
    secret = "canary-4711-canary-4711"
    limits = Limits(log_line_chars=60)
    notes = Notes(limits, lambda: Redactor([secret]))
    whole = "x" * (60 - cut_chars) + secret
    notes.log(0, Step.PREPARE, [Log(0, whole[:60])])
    notes.call("a.b", {"text": "y" * 470 + secret}, "ok", 1)
    assert "canary-4" not in f"{notes.logs_text}{notes.calls_text}"


# A run whose stored log or error another program has spoiled goes on, and is shown (L11, R4).


SPOILED = ("spoiled", "[]", '{"lines": [5], "dropped": 0, "message": 5}')


@pytest.mark.parametrize("text", SPOILED)
async def test_a_run_with_a_spoiled_log_goes_on(duly_world: Stage, text: str) -> None:
    """R4: its workflow is not blocked by a text that only a person reads."""
    play = await opened(duly_world)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Say("one"), *MUTATE))}))
    plan(duly_world, Fault.RATE_LIMIT)
    await play.publish("a")
    await play.drain()
    stopped = await play.run()
    play.tamper("update run set logs = ?, error = ?", text, text)
    (shown,) = await play.host.logs(stopped.id)
    assert shown.text == text
    found = await play.host.run(stopped.id)
    assert found.error is not None
    assert found.error.message == text
    await play.host.why(stopped.id)
    await play.pass_by(3600)
    assert await play.statuses() == {"a": "consumed"}


async def test_a_spoiled_log_does_not_keep_an_answered_run_from_going_on(duly_world: Stage) -> None:
    """R4: the same run goes on, and its log with it."""
    play = await opened(duly_world, reconcile=False)
    await play.deploy(flow({CONSUMER: consumer(mutate=(Say("one"), *MUTATE))}))
    plan(duly_world, Fault.AMBIGUOUS)
    await play.publish("a")
    await play.drain()
    play.tamper("update run set logs = 'spoiled'")
    await play.host.settle((await play.row()).id, "happened", {"row": 1})
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}
