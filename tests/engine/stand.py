"""The stand of the engine's tests: a real host on a real file, in virtual time, playing data.

A `Play` is a host whose sandbox plays moves instead of interpreting a language, so that a test says
exactly what its script does and nothing waits for a worker. What a host cannot show of a run or of
a ledger row is read from the store.

    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    await play.drain()
    assert await play.statuses() == {"a": "consumed"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from duly.config import Policy
from duly.connectors.base import Connector
from duly.desk.base import Desk
from duly.desk.deploy import Draft, _deployment
from duly.host import Host
from duly.rules.access import Step
from duly.rules.declaration import FUNCTION
from duly.rules.permission import missing_capabilities
from duly.rules.value import Json, decode
from duly.sandbox.base import Sandbox
from duly.store import Store
from duly.store.record import EventRow, HandlerRow, MutationRow, RunRow
from duly.testing import Fault, Stage
from verification.moves import Call, Move, Return, When, ref
from verification.scripted import Scripted, ScriptedSandbox

NAME = "flow"
IN = "in"
OUT = "out"
CONSUMER = "file"
PRODUCER = "poll"
TOOL = "sheet.append"
RECONCILE = f"{TOOL} reconcile"
MANY = 1000

# -- Scripts --------------------------------------------------------------------------------------

PEEK_ONE = Call("peek", (IN,), {"limit": 1}, into="pending")
NOTHING: Json = {"reservations": []}
RESERVE: Json = {
    "reservations": [{"topic": IN, "ids": ref("pending.*.id")}],
    "data": {"text": ref("pending.0.payload")},
    "ui": {"title": "Add a row"},
}
PREPARE: tuple[Move, ...] = (PEEK_ONE, When("pending", (Return(RESERVE),), (Return(NOTHING),)))
DECLINE: tuple[Move, ...] = (PEEK_ONE, Return(NOTHING))
APPEND = Call(TOOL, (), {"text": ref("prepared.data.text")})
MUTATE: tuple[Move, ...] = (APPEND,)
TELL = Call(
    "publish",
    (OUT,),
    {
        "message_id": ref("prepared.reservations.0.ids.0"),
        "title": "What became of it",
        "payload": ref("result"),
    },
)
NEXT: tuple[Move, ...] = (When("prepared.reservations", (TELL,)),)


def publish(message_id: object, topic: str = IN, **more: Any) -> Call:
    """Spell a publish; what is not said about the event is made up."""
    return Call("publish", (topic,), {"message_id": message_id, "title": "An event", **more})


def consumer(
    prepare: tuple[Move, ...] = PREPARE,
    mutate: tuple[Move, ...] | None = MUTATE,
    then: tuple[Move, ...] | None = NEXT,
    subscribe: tuple[str, ...] = (IN,),
) -> dict[str, Any]:
    """Spell a consumer: its moves by step, and the topics it reads."""
    steps = {Step.PREPARE: prepare, Step.MUTATE: mutate, Step.NEXT: then}
    return {
        "subscribe": list(subscribe),
        "moves": {step: moves for step, moves in steps.items() if moves is not None},
    }


def producer(*moves: Move, every: str | None = None, cron: str | None = None) -> dict[str, Any]:
    """Spell a producer; without a schedule it runs by hand."""
    schedule = {"interval": every} if every else {"cron": cron} if cron else None
    return {"schedule": schedule, "moves": {Step.PRODUCE: moves}}


def flow(
    consumers: Mapping[str, dict[str, Any]] | None = None,
    producers: Mapping[str, dict[str, Any]] | None = None,
    name: str = NAME,
    topics: tuple[str, ...] = (IN, OUT),
) -> Scripted:
    """Write a workflow: the usual consumer takes one event at a time and adds a row for it."""
    consumers = {CONSUMER: consumer()} if consumers is None else consumers
    producers = producers or {}
    declared: dict[str, Any] = {
        "name": name,
        "topics": {topic: {"ingress": True} for topic in topics},
        "consumers": {
            each: {"subscribe": said["subscribe"], **dict.fromkeys(said["moves"], FUNCTION)}
            for each, said in consumers.items()
        },
        "producers": {
            each: {
                "handler": FUNCTION,
                **({"schedule": said["schedule"]} if said["schedule"] else {}),
            }
            for each, said in producers.items()
        },
    }
    handlers = {**consumers, **producers}
    return Scripted(declared, {each: said["moves"] for each, said in handlers.items()})


# -- The host -------------------------------------------------------------------------------------


@dataclass
class Play:
    """A host that plays scripts, and what a test asks it."""

    stage: Stage
    host: Host
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def desk(self) -> Desk:
        return self.host._desk()

    @property
    def store(self) -> Store:
        return self.desk.parts.store

    async def deploy(self, script: Scripted, *, grant: bool = True) -> str:
        """Deploy a script and grant all it could ask for; answer the workflow's id."""
        desk = self.desk
        source = script.source()
        catalog = desk.parts.outside.catalog
        loaded = await desk.parts.sandbox.load(source, catalog)
        capabilities = frozenset(each.capability for each in catalog.tools)
        draft = Draft(source, loaded.declaration, (), {}, capabilities)
        current = await self.store.find_workflow(loaded.declaration.name)
        grants = missing_capabilities(frozenset(), capabilities) if grant else ()
        deployment = _deployment(desk, draft, current, by="me", grants=dict.fromkeys(grants))
        successor_id = desk.parts.env.new_id("run")
        action = desk.action("me", "deploy")
        verb = partial(
            self.store.deploy, deployment, successor_id=successor_id, action=action, now=self.now
        )
        await desk.carry_out(verb, deployment.workflow_id)
        return deployment.workflow_id

    async def publish(
        self, *ids: str, topic: str = IN, payload: Json = None, name: str = NAME
    ) -> None:
        for message_id in ids:
            said = message_id if payload is None else payload
            await self.host.publish(name, topic, title="Event", message_id=message_id, payload=said)

    async def drain(self) -> None:
        await self.host.drain()

    async def pass_by(self, seconds: float) -> None:
        """Let time pass and do what became due at its end."""
        await self.stage.advance(seconds)
        await self.host.drain()

    async def restart(self, **options: Any) -> None:
        """Crash, and open another host on the same file."""
        await self.stage.crash(self.host)
        self.host = await self.stage.host(**{**self.options, **options})

    async def crash_during(self, **moments: Any) -> None:
        """Drain into a crash at a verb, and open another host on the same file."""
        self.stage.crash_at(**moments)
        await self.stage.crash(self.host, self.host.drain())
        self.host = await self.stage.host(**self.options)

    def tamper(self, statement: str, *values: Any) -> None:
        """Change the store as another program would that opens its file."""
        backend: Any = self.store.backend
        backend.connection.execute(statement, values).fetchall()

    # -- What is there --------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.stage.env.now_ms()

    async def workflow_id(self, name: str = NAME) -> str:
        return (await self.desk.find(name)).id

    async def runs(self, name: str | None = NAME) -> list[RunRow]:
        """The runs, oldest first."""
        where = None if name is None else await self.workflow_id(name)
        return [*reversed(await self.store.list_runs(where, limit=MANY))]

    async def run(self, name: str = NAME) -> RunRow:
        """The newest run."""
        return (await self.runs(name))[-1]

    async def rows(self) -> list[MutationRow]:
        """The ledger, oldest first."""
        return [*reversed(await self.store.list_mutations(None, limit=MANY))]

    async def row(self) -> MutationRow:
        """The newest row of the ledger."""
        return (await self.rows())[-1]

    async def events(self, topic: str = IN, name: str = NAME) -> list[EventRow]:
        found = await self.store.list_events(await self.workflow_id(name), topic=topic, limit=MANY)
        return list(found)

    async def statuses(self, topic: str = IN, name: str = NAME) -> dict[str, str]:
        return {each.message_id: each.status for each in await self.events(topic, name)}

    async def payloads(self, topic: str = OUT, name: str = NAME) -> dict[str, Json]:
        return {each.message_id: decode(each.body) for each in await self.events(topic, name)}

    async def handler(self, handler: str = CONSUMER, name: str = NAME) -> HandlerRow:
        found = await self.store.list_handlers(await self.workflow_id(name))
        return next(each for each in found if each.name == handler)

    async def error(self) -> dict[str, Any]:
        """What the newest run keeps of its failure."""
        text = (await self.run()).error
        return dict(decode(text)) if text else {}  # type: ignore[arg-type]

    async def is_clean(self) -> bool:
        """Whether no open run is left and no event is reserved by nobody."""
        runs = await self.runs(None)
        return not any(each.open for each in runs) and not await self.store.list_strays()

    def sends(self) -> int:
        """How often the tool was called, whatever came of it."""
        return self.stage.calls.count(TOOL)

    def asks(self) -> int:
        """How often the outside was asked what happened."""
        return self.stage.calls.count(RECONCILE)


async def opened(
    stage: Stage,
    *,
    policy: Policy | None = None,
    connectors: tuple[Connector, ...] = (),
    **tool: Any,
) -> Play:
    """Open a host that plays; `tool` says what the outside is like (`reconcile=False`, `lag_s`)."""
    stage.connector(
        "sheet",
        mutations={"append": lambda text: {"row": stage.count(TOOL) + 1}},
        reads={"find": lambda query="": ["found"]},
        **tool,
    )

    def scripted(_: Sandbox) -> Sandbox:
        return ScriptedSandbox(stage.env)

    # The host asks its env for a sandbox to use instead of its own.
    object.__setattr__(stage.env, "wrap_sandbox", scripted)
    options: dict[str, Any] = {"policy": policy or Policy(), "connectors": connectors}
    return Play(stage, await stage.host(**options), options)


def plan(stage: Stage, *faults: Fault, reconcile: tuple[Fault, ...] = ()) -> None:
    """Say what the coming calls of the tool meet."""
    stage.plan(TOOL, *faults, reconcile=reconcile)


class Timed(list[str]):
    """The calls of a world, each with its time in seconds of the test."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.at: list[tuple[str, float]] = []

    def append(self, called: str) -> None:
        super().append(called)
        self.at.append((called, self.stage.loop.time()))

    def times(self, called: str) -> list[float]:
        """When something was called, counted from its first call."""
        found = [at for each, at in self.at if each == called]
        return [at - found[0] for at in found]


def timed(stage: Stage) -> Timed:
    """Note from now on when the outside is called."""
    stage.calls = Timed(stage)
    return stage.calls


def statements(play: Play) -> list[str]:
    """List the transactions of a store from now on: how durable they are, or that one asks."""
    seen: list[str] = []
    backend = play.store.backend
    transact, ask = backend.transact, backend.ask

    def counted(body: Any, durability: Any) -> Any:
        seen.append(str(durability))
        return transact(body, durability)

    def asked(body: Any) -> Any:
        seen.append("ask")
        return ask(body)

    object.__setattr__(backend, "transact", counted)
    object.__setattr__(backend, "ask", asked)
    return seen
