"""A question takes a fixed number of statements, however many rows it shows (U6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from duly.api.registry import VERBS
from duly.config import Policy
from duly.host import Host
from duly.rules.delivery import Retry
from duly.rules.schedule import moment
from duly.rules.value import Json
from duly.store.proposal import SourceProposal
from duly.store.transaction import NamedTransaction
from duly.testing import Fault, Stage
from tests.desk.situation import THROW
from tests.desk.test_account import MIDDLE, take
from tests.engine.stand import IN, NAME, PEEK_ONE, TOOL, Play, consumer, flow, opened
from verification.moves import Call, Return, When, ref

DAY_S: Final = 86_400
FEW, MANY = 3, 30
WHOLE: Final = "whole"  # one run of it reserves every input
SPREAD: Final = "spread"  # one input of it leads to many changes

# Questions that are not read from rows: they work for their answer, or ask the process.
OTHER: Final = {
    *("guide", "preview", "simulate", "wait", "kinds", "settings"),
    *("check", "extensions", "sql", "tools", "try_", "uses", "verify", "what_if", "who", "writes"),
    *("admitted", "asked", "check_connection", "offered", "begin_oauth"),
}


async def _ended_run(host: Host, size: int) -> str:
    return (await host.runs(f"{WHOLE} {size}", status="abandoned"))[0].id


async def _run_ids(host: Host, size: int) -> list[str]:
    return [each.id for each in await host.runs(limit=1000)]


async def _proposed(host: Host, size: int) -> str:
    return (await host.proposals())[0].hash


async def _change(host: Host, size: int) -> str:
    return (await host.mutations(f"{SPREAD} {size}", limit=1))[0].id


# What each question is asked: a call that shows as many rows as there are.
CALLS: Final[dict[str, Callable[[Host, int], Any]]] = {
    "actions": lambda host, _: host.actions(limit=1000),
    "allowances": lambda host, _: host.allowances(),
    "approvals": lambda host, _: host.approvals(),
    "models": lambda host, _: host.models(),
    "figures": lambda host, _: host.figures(),
    "questions": lambda host, _: host.questions(),
    "attention": lambda host, _: host.attention(limit=1000),
    "attention_count": lambda host, _: host.attention_count(),
    "tokens": lambda host, _: host.tokens(),
    "channels": lambda host, _: host.channels(),
    "proposals": lambda host, _: host.proposals(),
    "certificate": lambda host, size: host.certificate("root", workflow=f"{SPREAD} {size}"),
    "connection": lambda host, _: host.connection("sheet"),
    "connections": lambda host, _: host.connections(),
    "diff": lambda host, _: host.diff(NAME, "1.0", "1.0"),
    "events": lambda host, _: host.events(NAME),
    "grants": lambda host, _: host.grants(NAME),
    "right": lambda host, _: host.right(NAME, "sheet.append"),
    "upcoming": lambda host, _: host.upcoming(NAME),
    "bus.subscribers": lambda host, _: host.bus.subscribers(),
    "forgettable": lambda host, _: host.forgettable("skipped 0", workflow=NAME),
    "find": lambda host, _: host.find("vent"),
    "ids": lambda host, _: host.ids(kind="run", limit=1000),
    "inputs": lambda host, _: host.inputs(NAME),
    "inputs, of a status": lambda host, _: host.inputs(NAME, status="skipped"),
    "inputs, with many outputs": lambda host, size: host.inputs(f"{SPREAD} {size}"),
    "mutations": lambda host, _: host.mutations(limit=1000),
    "next_due": lambda host, _: host.next_due(),
    "outputs": lambda host, _: host.outputs(NAME),
    "outputs, of one input": lambda host, size: host.outputs(f"{SPREAD} {size}"),
    "runs": lambda host, _: host.runs(limit=1000),
    "secrets": lambda host, _: host.secrets(),
    "hosts": lambda host, _: host.hosts(),
    "hooks": lambda host, _: host.hooks(NAME),
    "source": lambda host, _: host.source(NAME),
    "versions": lambda host, _: host.versions(NAME),
    "why": lambda host, _: host.why("grant 0"),
    "why, of a failed one": lambda host, _: host.why("fails 0"),
    "why, of the bus": lambda host, size: host.why(f"bus:{FIRST_NEWS[size]}"),
    "workflow": lambda host, _: host.workflow(NAME),
    "workflows": lambda host, _: host.workflows(limit=1000),
    "bus.deferred": lambda host, _: host.bus.deferred(),
    "bus.deliveries": lambda host, _: host.bus.deliveries(),
    "bus.journal": lambda host, _: host.bus.journal(),
}
# Those that need an id, which is asked for first.
BY_ID: Final[dict[str, tuple[Any, Callable[[Host, Any], Any]]]] = {
    "certificate, of a change": (_change, lambda host, change: host.certificate(change)),
    "history": (_ended_run, lambda host, run: host.history(run)),
    "proposal": (_proposed, lambda host, proposal: host.proposal(proposal)),
    "logs": (_ended_run, lambda host, run: host.logs(run)),
    "mutation": (_change, lambda host, change: host.mutation(change)),
    "short_ids": (_run_ids, lambda host, ids: host.short_ids(ids)),
    "run": (_ended_run, lambda host, run: host.run(run)),
    "why, of an abandoned run": (_ended_run, lambda host, run: host.why(run)),
    "why, of a change": (_change, lambda host, change: host.why(change)),
}
FIRST_NEWS: Final[dict[int, int]] = {}  # the event of the bus that a size begins with


def everything(size: int) -> Any:
    """Let one run reserve all there is, and fail."""
    pending = Call("peek", (IN,), {"limit": 1000}, into="pending")
    reserve: Json = {"reservations": [{"topic": IN, "ids": ref("pending.*.id")}]}
    prepare = (pending, When("pending", (Return(reserve),), (Return({"reservations": []}),)))
    return flow({"file": consumer(prepare, mutate=THROW)}, name=f"{WHOLE} {size}")


def spreading(size: int) -> Any:
    """Let one input lead to so many events, and each of them to a change."""
    parts = tuple(
        Call("publish", (MIDDLE,), {"message_id": f"{each}", "title": "A part", "payload": "x"})
        for each in range(size)
    )
    split = consumer(take(IN), mutate=None, then=(When("prepared.reservations", parts),))
    add = consumer(take(MIDDLE), then=None, subscribe=(MIDDLE,))
    return flow({"split": split, "add": add}, name=f"{SPREAD} {size}", topics=(IN, MIDDLE))


WRITE: Final = Call("note.write", (), {"text": ref("prepared.data.text")})
# Workflows that wait for a person, each kind for something else.
KINDS: Final = {
    "allowed": lambda name: flow({"file": consumer(mutate=(WRITE,))}, name=name),
    "approval": lambda name: flow({"file": consumer(mutate=(WRITE,))}, name=name),
    "fails": lambda name: flow({"file": consumer((PEEK_ONE, *THROW))}, name=name),
    "grant": lambda name: flow(name=name),
    "login": lambda name: flow(name=name),
    "orphaned": lambda name: flow(name=name),
    "paused": lambda name: flow(name=name),
    "told": lambda name: flow({"file": consumer(mutate=None)}, name=name),
}


async def open_busy(stage: Stage) -> Play:
    """Open a host with the workflow whose pages are read."""
    stage.connector("note", mutations={"write": lambda text: None})
    play = await opened(stage, policy=Policy(approvals={"note.write": "always"}))
    await play.deploy(flow())
    play.host.bus.subscribe(
        "news", fail, subscriber_id="test:news", retry=Retry(attempts=1, delays_s=())
    )
    return play


async def fail(event: Any) -> None:
    """Refuse to be told."""
    raise ValueError("no")


async def grow(play: Play, numbers: range) -> None:
    """Fill a host until it has one of everything for each number up to the end of these."""
    host, size = play.host, numbers.stop
    for number in numbers:
        await play.publish(f"{number}", name=NAME)
        await play.publish(f"skipped {number}", name=NAME)
        await host.skip(NAME, IN, f"skipped {number}")
        FIRST_NEWS[size] = await host.bus.emit("news", {}, source="test")
        await host.bus.schedule_at(100 * DAY_S, "news", {}, source="test")
        await host.set_secret("sheet", f"key{number}", "value")
        row = SourceProposal(f"h{number}", "new", None, "python", "", "[]", "[]", "a", "", 1)
        await play.store.keep_proposal(row, action=play.desk.action("a", "propose"), now=1)
        for kind, script in KINDS.items():
            await _wait(play, kind, script, f"{kind} {number}")
    await play.deploy(spreading(size))
    await play.publish("root", name=f"{SPREAD} {size}")
    await play.deploy(everything(size))
    await play.publish(*(f"{each}" for each in range(size)), name=f"{WHOLE} {size}")
    await play.drain()
    await host.skip(f"{WHOLE} {size}", IN, "0")
    await host.pause(f"{WHOLE} {size}")
    await play.stage.advance(30 * DAY_S)


async def _wait(play: Play, kind: str, script: Any, name: str) -> None:
    host = play.host
    await play.deploy(script(name))
    await play.publish("a", "b", name=name)
    if kind == "grant":
        await host.revoke(name, TOOL)
    elif kind == "login":
        play.stage.plan(TOOL, Fault.AUTH)
    elif kind in ("orphaned", "paused"):
        await host.pause(name)
    if kind == "orphaned":
        await play.deploy(flow({"file": consumer(subscribe=("out",))}, name=name))
    await play.drain()
    if kind == "allowed":
        (shown,) = await host.approvals(name)
        await host.allow(
            shown.mutation, shown.hash, 10, f"{moment(play.now + DAY_S * 1000):%FT%TZ}"
        )


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is run, by its name."""
    names: list[str] = []
    plain = NamedTransaction._rows

    def rows(self: NamedTransaction, statement: str, parameters: dict[str, Any]) -> list[Any]:
        names.append(statement)
        return plain(self, statement, parameters)

    monkeypatch.setattr(NamedTransaction, "_rows", rows)
    return names


async def count(host: Host, size: int, counted: list[str]) -> dict[str, list[str]]:
    """Ask every question, and list the statements of each."""
    found: dict[str, list[str]] = {}
    for name, call in CALLS.items():
        counted.clear()
        await call(host, size)
        found[name] = sorted(counted)
    for name, (find, ask) in BY_ID.items():
        given = await find(host, size)
        counted.clear()
        await ask(host, given)
        found[name] = sorted(counted)
    return found


def test_every_question_is_counted() -> None:
    """U6: a question that is added is counted too, or said here to read no rows."""
    asked = {name.partition(",")[0] for name in (*CALLS, *BY_ID)}
    questions = {name for name, each in VERBS.items() if each.is_question}
    assert asked | OTHER == questions, "a question has a call in CALLS or BY_ID"
    assert not asked & OTHER


async def test_the_statements_of_a_question_do_not_grow_with_its_rows(
    duly_world: Stage, counted: list[str]
) -> None:
    """U6: every question takes as many statements over thirty of everything as over three."""
    play = await open_busy(duly_world)
    await grow(play, range(FEW))
    few = await count(play.host, FEW, counted)
    await grow(play, range(FEW, MANY))
    many = await count(play.host, MANY, counted)
    grown = {name: Counter(each) - Counter(few[name]) for name, each in many.items()}
    assert {name: dict(each) for name, each in grown.items() if each} == {}
    assert 0 < max(map(len, many.values())) < 30
