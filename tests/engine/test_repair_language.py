"""Repair with the real sandboxes: examined under strict, replayed, adopted; or told why not."""

from __future__ import annotations

from typing import Any

import pytest

from duly import RepairCase, Source
from duly.host import Host
from duly.testing import Stage
from tests.spoken import short

PYTHON = """\
from duly import workflow

flow = workflow("flow", topics={"in": {"ingress": True}})


@flow.consumer("in")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("in", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]
        return {"reservations": [{"topic": "in", "ids": [mail["message_id"]]}],
                "data": mail["payload"], "ui": {"title": f'Add a row for {mail["title"]}'}}

    async def mutate(self, ctx, prepared):
        WHO
        MUTATE
"""
JAVASCRIPT = """\
export default Keep.workflow({
  name: "flow",
  topics: {in: {ingress: true}},
  consumers: {
    file: Keep.consumer({
      subscribe: ["in"],
      prepare: async (ctx, state) => {
        const pending = await ctx.peek("in", {limit: 1});
        if (pending.length === 0) return {reservations: [], data: {}};
        const mail = pending[0];
        return {reservations: [{topic: "in", ids: [mail.messageId]}],
                data: mail.payload, ui: {title: `Add a row for ${mail.title}`}};
      },
      mutate: async (ctx, prepared) => {
        WHO
        MUTATE
      },
    }),
  },
});
"""
# The payload of some mails has no name, which the first version did not think of.
NAIVE = {
    "python": 'who = prepared["data"]["name"].upper()',
    "javascript": "const who = prepared.data.name.toUpperCase();",
}
CAREFUL = {
    "python": 'who = prepared["data"].get("name", "nobody").upper()',
    "javascript": 'const who = (prepared.data.name ?? "nobody").toUpperCase();',
}
APPEND = {
    "python": 'await ctx.sheets.append_row(spreadsheet_id="S", values=[who])',
    "javascript": 'await ctx.sheets.appendRow({spreadsheetId: "S", values: [who]});',
}
TWICE = {language: call.replace("who", 'who + "!"') for language, call in APPEND.items()}
LOUD = {
    "python": f"{APPEND['python']}\n        print(who)",
    "javascript": f"{APPEND['javascript']}\n        console.log(who);",
}
DELETE = {
    "python": 'await ctx.vault.delete(name="S")',
    "javascript": 'await ctx.vault.delete({name: "S"});',
}
TEMPLATES = {"python": PYTHON, "javascript": JAVASCRIPT}
LANGUAGES = ("python", "javascript")


def script(language: Any, who: dict[str, str], mutate: dict[str, str]) -> Source:
    """Write the workflow, with a way to find a name and a change to make."""
    text = TEMPLATES[language].replace("WHO", who[language]).replace("MUTATE", mutate[language])
    return Source(language, text)


class Answering:
    """A repairer with one answer."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.cases: list[RepairCase] = []

    async def repair(self, case: RepairCase) -> Source:
        self.cases.append(case)
        return self.source


async def failed(stage: Stage, language: str, repair: Source) -> tuple[Host, Answering]:
    """Let one mail be processed and the next one fail, with this repair at hand."""
    repairer = Answering(repair)
    stage.connector("vault", mutations={"delete": lambda name: {}})
    host = await stage.host(repairer=repairer)
    await host.deploy(script(language, NAIVE, APPEND), by="me", grant=True, strict=True)
    await host.publish("flow", "in", title="First", message_id="a", payload={"name": "ann"})
    await host.publish("flow", "in", title="Second", message_id="b", payload={})
    await host.drain()
    return host, repairer


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_repair_in_either_language_is_examined_replayed_and_adopted(
    duly_world: Stage, language: str
) -> None:
    """F3, W5: the first mail stays as it was, the second is processed once."""
    sheet = duly_world.sheet()
    host, repairer = await failed(duly_world, language, script(language, CAREFUL, APPEND))
    assert sheet.rows == [["ANN"], ["NOBODY"]]
    assert (await host.workflow("flow")).version == "1.1"
    assert {each.status for each in await host.events("flow")} == {"consumed"}
    (case,) = repairer.cases
    assert (case.error.line is not None, case.granted) == (True, ("sheets.append_row",))


NOT_ADOPTED = {
    "changes the past": (
        TWICE,
        "it would not do again what was done. For “First” it called sheets.append_row",
    ),
    "is not clean": (LOUD, "it does not check clean: repair of flow 1.0:"),
    "needs more": (DELETE, "it needs vault.delete, which is not granted."),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("mutate", "reason"), NOT_ADOPTED.values(), ids=[*NOT_ADOPTED])
async def test_a_repair_that_may_not_be_adopted_is_proposed_and_explained(
    duly_world: Stage, language: str, mutate: dict[str, str], reason: str
) -> None:
    """F3, A2, W5: kept for a person, who is told why it is not active."""
    sheet = duly_world.sheet()
    host, _ = await failed(duly_world, language, script(language, CAREFUL, mutate))
    seen = await host.workflow("flow")
    assert f"Version 1.1 is proposed and not adopted: {reason}" in short(host, seen)
    assert (seen.version, sheet.rows) == ("1.0", [["ANN"]])
    assert [each.version for each in await host.versions("flow")] == ["1.1", "1.0"]


# It does what was done for every mail there was, until a day that is still to come.
BOMB = {
    "python": 'if time.time() > 4102444800:\n            who = "mallory"\n        ',
    "javascript": "if (Date.now() > 4102444800000) return ctx.sheets.appendRow("
    '{spreadsheetId: "S", values: ["mallory"]});\n        ',
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_repair_that_asks_the_clock_is_only_proposed(
    duly_world: Stage, language: str
) -> None:
    """F3: what it would do another day no past run can show."""
    sheet = duly_world.sheet()
    armed = {language: BOMB[language] + APPEND[language]}
    repair = script(language, CAREFUL, armed)
    if language == "python":
        repair = Source("python", f"import time\n{repair.text}")
    host, _ = await failed(duly_world, language, repair)
    seen = await host.workflow("flow")
    assert "not adopted: it asks the clock or the dice" in short(host, seen)
    assert (seen.version, sheet.rows) == ("1.0", [["ANN"]])


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_repair_of_a_step_of_high_risk_is_only_proposed(
    duly_world: Stage, language: str
) -> None:
    """F3, A2: a person looks at what sends it."""
    duly_world.connector("sheets", mutations={"append_row": wiring}, risk="high")
    host, _ = await failed(duly_world, language, script(language, CAREFUL, APPEND))
    seen = await host.workflow("flow")
    assert "not adopted: it changes file.mutate, which calls sheets.append_row" in short(host, seen)
    assert seen.version == "1.0"


def wiring(spreadsheet_id: str, values: list[Any]) -> dict[str, Any]:
    """Stand for a tool of high risk."""
    return {"row": len(values)}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_person_can_take_a_proposal(duly_world: Stage, language: str) -> None:
    """F3, R9: by deploying its text, with the grant it needs."""
    sheet = duly_world.sheet()
    host, _ = await failed(duly_world, language, script(language, CAREFUL, TWICE))
    kept = (await host.versions("flow"))[0]
    text = await host.source("flow", kept.version)
    await host.deploy(Source(language, text), by="me")  # type: ignore[arg-type]
    await host.drain()
    assert sheet.rows[-1] == ["NOBODY!"]


async def test_a_repair_that_does_not_load_is_explained_and_not_kept(duly_world: Stage) -> None:
    """F3, W6: with the place where it broke."""
    duly_world.sheet()
    host, _ = await failed(duly_world, "python", Source("python", "flow = ("))
    seen = await host.workflow("flow")
    assert "It was not repaired: the repair cannot be run. repair of flow 1.0:1:" in short(
        host, seen
    )
    assert [each.version for each in await host.versions("flow")] == ["1.0"]
