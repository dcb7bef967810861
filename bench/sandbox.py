"""One warm step with two calls, in both languages, beside an interpreter without a sandbox.

Law: the yardstick does the same work with nothing around it: quickjs-ng in this process, a fresh
context per step, no worker, no lock, no limits, no copies but the two answers. What the sandbox
costs is how much longer it takes; a goal of 0.5 is a step that takes at most twice as long.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import quickjs  # type: ignore[import-untyped]

from bench.measure import Figure, Size, Slice, Stopwatch, Trial, itself, take_all
from bench.report import Section
from duly.config import Limits
from duly.env import Loop
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import MISSING, Asked, Loaded, Returned, Sandbox, World
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking

WORLD = World(now_ms=1_800_000_000_000, frozen=False, seed=7)
CATALOG = Catalog(
    (Tool("gmail.search", ToolKind.READ, "gmail.read", parameters=(Parameter("query"),)),)
)
PAGE: Json = [{"id": f"m{n}", "from": "alice@example.com", "subject": "Invoice"} for n in range(5)]
EXPECTED: Json = {"found": 10}

JAVASCRIPT = """
export default Keep.workflow({
  name: "bench",
  topics: [],
  producers: {
    async poll(ctx, state) {
      const first = await ctx.gmail.search({query: "one"});
      const second = await ctx.gmail.search({query: "two"});
      return {found: first.length + second.length};
    },
  },
});
"""
PYTHON = """
from duly import workflow

flow = workflow("bench", topics=[])


@flow.producer()
async def poll(ctx, state):
    first = await ctx.gmail.search(query="one")
    second = await ctx.gmail.search(query="two")
    return {"found": len(first) + len(second)}
"""
# The least that lets a module call and get results: a list of calls, and a way to settle them.
BRIDGE = """
let outbox = [], settle = {}, made = 0, declared, ended;
const call = (path, args) => {
  outbox.push([++made, path, JSON.stringify(args)]);
  return new Promise((resolve) => { settle[made] = resolve; });
};
const ctx = { gmail: { search: (args) => call("gmail.search", args) } };
globalThis.Keep = { workflow: (given) => { declared = given; } };
globalThis.begin = () => {
  declared.producers.poll(ctx).then((value) => { ended = JSON.stringify(value); });
};
globalThis.answer = (id, text) => settle[id](JSON.parse(text));
globalThis.take = () => {
  const taken = JSON.stringify([ended ?? null, outbox]); outbox = []; return taken;
};
"""


class Bare:
    """The yardstick: the same step in an interpreter inside this process."""

    def step(self) -> None:
        """Make a context, load the module, run the step, answer its two calls."""
        context = quickjs.Context()
        context.eval(BRIDGE)
        context.module(JAVASCRIPT)
        self._drain(context)
        context.eval("begin()")
        answer = context.get("answer")
        while True:
            self._drain(context)
            ended, calls = json.loads(context.eval("take()"))
            if ended is not None:
                assert json.loads(ended) == EXPECTED, ended
                return
            for call_id, _, _ in calls:
                answer(call_id, json.dumps(PAGE))

    def _drain(self, context: quickjs.Context) -> None:
        while context.execute_pending_job():
            pass

    def measure(self, seconds: float) -> Slice:
        """Take one slice."""
        watch, count = Stopwatch(seconds), 0
        while watch.is_running():
            self.step()
            count += 1
        return watch.stop(count)


async def step(sandbox: Sandbox, loaded: Loaded) -> None:
    """Run the step once, as the engine would."""
    async with sandbox.open(loaded, "poll", Step.PRODUCE, (MISSING,), WORLD) as script:
        turn = await script.start()
        while isinstance(turn, Asked):
            (call,) = turn.calls
            turn = await script.answer(call.id, PAGE)
        assert turn == Returned(EXPECTED), turn


async def measure_language(sandbox: Sandbox, loaded: Loaded, seconds: float) -> Slice:
    """Take one slice of a language."""
    watch, count = Stopwatch(seconds), 0
    while watch.is_running():
        await step(sandbox, loaded)
        count += 1
    return watch.stop(count)


async def measure(folder: Path, size: Size) -> Section:
    """Measure both languages, each slice between two of the yardstick; no file is written."""
    bare = Bare()
    trials = [itself("bare quickjs-ng", bare.measure)]
    opened: list[Sandbox] = []
    for name, goal, make, source in MAKERS:
        sandbox = make()
        opened.append(sandbox)
        loaded = await sandbox.load(source, CATALOG)
        work = partial(measure_language, sandbox, loaded)
        trials.append(Trial(Figure(name, goal), work, bare.measure))
    rows = await take_all(trials, size.rounds, size.slice_s, size.yardstick_s)
    for sandbox in opened:
        await sandbox.close()
    return Section(rows)


MAKERS: tuple[tuple[str, float, Callable[[], Sandbox], Source], ...] = (
    (
        "JavaScript",
        0.5,
        lambda: JavaScriptSandbox(Pool(Loop())),
        Source(Language.JAVASCRIPT, JAVASCRIPT),
    ),
    (
        "Python",
        0.4,
        lambda: PythonSandbox(Loop(), Limits(), names=NAMES, refuse=refuse_lacking),
        Source(Language.PYTHON, PYTHON),
    ),
)
