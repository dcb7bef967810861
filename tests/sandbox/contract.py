"""The suite's stand: three languages, one workflow form, and a host that plays its part.

A `Body` says one behaviour in every language; `Subject` puts it into a workflow whose producer
`poll` and whose three steps of the consumer `file` all are that body, and `play` answers its calls
like an engine that lets everything through. What must be so stands in `test_contract*.py`.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duly.config import Limits
from duly.env import Loop
from duly.errors import ScriptError
from duly.rules.access import Step
from duly.rules.catalog import Catalog, Parameter, Tool, ToolKind
from duly.rules.source import Language, Source
from duly.rules.value import Json
from duly.sandbox.base import (
    MISSING,
    Asked,
    Broke,
    Loaded,
    Log,
    Missing,
    Returned,
    Sandbox,
    Script,
    ScriptCall,
    World,
)
from duly.sandbox.javascript import JavaScriptSandbox
from duly.sandbox.pool import Pool
from duly.sandbox.python import PythonSandbox
from duly.script import NAMES
from duly.script.lacking import refuse_lacking
from verification.moves import Move
from verification.scripted import Scripted, ScriptedSandbox

LANGUAGES = ("javascript", "python", "scripted")
# A loop is stopped after these two seconds of its own; nothing else here comes near them.
LIMITS = Limits(
    load_s=2,
    step_cpu_s=2,
    step_wall_s=20,
    step_memory_bytes=32 * 1024 * 1024,
    calls_per_step=20,
)
NOW_MS = 1_800_000_000_000
WORLD = World(now_ms=NOW_MS, frozen=False, seed=7)
FROZEN = World(now_ms=NOW_MS, frozen=True, seed=7)
HERE = "here"  # the mark of the line a test asks for
HERE_LINE = 7  # what a scripted move calls that line

CATALOG = Catalog(
    (
        Tool(
            "gmail.search",
            ToolKind.READ,
            "gmail.read",
            parameters=(
                Parameter("query", required=False),
                Parameter("after", required=False),
                Parameter("max_results", required=False),
            ),
        ),
        Tool(
            "sheets.append_row",
            ToolKind.MUTATION,
            "sheets.append",
            parameters=(Parameter("spreadsheet_id", required=False), Parameter("values")),
        ),
    )
)

DECLARATION: dict[str, Json] = {
    "name": "contract",
    "topics": ["mail", "done"],
    "producers": {"poll": "function"},
    "consumers": {
        "file": {
            "subscribe": ["mail"],
            "prepare": "function",
            "mutate": "function",
            "next": "function",
        }
    },
}
JAVASCRIPT = """\
{module}
async function body(ctx, given, result, state) {{
{body}
}}
export default Keep.workflow({{
  name: "contract",
  topics: ["mail", "done"],
  producers: {{ poll: body }},
  consumers: {{
    file: Keep.consumer({{ subscribe: ["mail"], prepare: body, mutate: body, next: body }}),
  }},
}});
"""
PYTHON = """\
import asyncio
import random
import time
from duly import consumer, producer, workflow
{module}
async def body(ctx, given=None, result=None, state=None):
{body}

workflow(
    "contract",
    topics=["mail", "done"],
    producers={{"poll": producer(body)}},
    consumers={{
        "file": consumer(subscribe=["mail"], prepare=body, mutate=body, next=body),
    }},
)
"""


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """One behaviour, in every language that can have it: a step's body and the module around."""

    javascript: str = ""
    python: str = ""
    scripted: tuple[Move, ...] = ()
    javascript_module: str = ""
    python_module: str = ""
    scripted_module: tuple[Move, ...] = ()

    def source(self, language: str) -> Source:
        """Write the workflow in one language."""
        if language == "scripted":
            steps = {
                "poll": {Step.PRODUCE: self.scripted},
                "file": dict.fromkeys((Step.PREPARE, Step.MUTATE, Step.NEXT), self.scripted),
            }
            return Scripted(DECLARATION, steps, self.scripted_module).source()
        form = {"javascript": JAVASCRIPT, "python": PYTHON}[language]
        body, module = getattr(self, language), getattr(self, f"{language}_module")
        nothing = {"javascript": ";", "python": "pass"}[language]
        return Source(
            Language(language),
            form.format(
                body=textwrap.indent(textwrap.dedent(body).strip("\n") or nothing, "    "),
                module=textwrap.dedent(module).strip("\n"),
            ),
        )


@dataclass(frozen=True, slots=True)
class Story:
    """All that a host saw of one step: calls and logs in their order, and the end."""

    calls: tuple[ScriptCall, ...]
    logs: tuple[Log, ...]
    end: Returned | Broke

    @property
    def value(self) -> Json | Missing:
        """What the step returned; a script that broke says why here."""
        assert isinstance(self.end, Returned), self.end
        return self.end.value

    @property
    def items(self) -> list[Any]:
        """The list the step returned."""
        assert isinstance(self.value, list), self.value
        return self.value

    @property
    def error(self) -> ScriptError:
        """Why the step broke."""
        assert isinstance(self.end, Broke), self.end
        return self.end.error

    @property
    def said(self) -> list[str]:
        """The lines of the log."""
        return [log.text for log in self.logs]

    @property
    def paths(self) -> list[str]:
        """What was called."""
        return [call.path for call in self.calls]


Answers = Mapping[str, Json] | Callable[[ScriptCall], Json]


async def play(script: Script, answers: Answers | None = None) -> Story:
    """Start a script and answer its calls, the oldest first, until it ends."""
    calls: list[ScriptCall] = []
    logs: list[Log] = []
    waiting: list[ScriptCall] = []
    turn = await script.start()
    while True:
        logs.extend(turn.logs)
        if not isinstance(turn, Asked):
            # Law 2; what broke may leave calls behind, since nobody goes on with it.
            assert isinstance(turn, Broke) or not waiting, f"returned while {waiting} waited"
            return Story(tuple(calls), tuple(logs), turn)
        calls.extend(turn.calls)
        waiting.extend(turn.calls)
        assert waiting, "asked for nothing and waits for nothing"
        call = waiting.pop(0)
        answer = answers(call) if callable(answers) else (answers or {}).get(call.path)
        turn = await script.answer(call.id, answer)


@dataclass(frozen=True, slots=True)
class Subject:
    """One language's sandbox under the suite."""

    language: str
    sandbox: Sandbox
    loaded: dict[Body, Loaded] = field(default_factory=dict)

    async def load(self, body: Body) -> Loaded:
        """Load a body's workflow, once."""
        if body not in self.loaded:
            self.loaded[body] = await self.sandbox.load(body.source(self.language), CATALOG)
        return self.loaded[body]

    async def load_text(self, texts: Mapping[str, str]) -> Loaded:
        """Load a text of this language as it stands."""
        language = Language.PYTHON if self.language == "scripted" else Language(self.language)
        return await self.sandbox.load(Source(language, texts[self.language]), CATALOG)

    async def open(
        self,
        body: Body,
        step: Step = Step.PREPARE,
        args: tuple[Json | Missing, ...] = (MISSING,),
        world: World = WORLD,
    ) -> Script:
        """Open one step of the body's workflow."""
        handler = "poll" if step is Step.PRODUCE else "file"
        return self.sandbox.open(await self.load(body), handler, step, args, world)

    async def play(
        self,
        body: Body,
        answers: Answers | None = None,
        *,
        step: Step = Step.PREPARE,
        args: tuple[Json | Missing, ...] = (MISSING,),
        world: World = WORLD,
    ) -> Story:
        """Play one step of the body to its end."""
        async with await self.open(body, step, args, world) as script:
            return await play(script, answers)

    def line(self, body: Body) -> int:
        """Find the line that is marked `here`."""
        if self.language == "scripted":
            return HERE_LINE
        lines = body.source(self.language).text.splitlines()
        return next(number for number, text in enumerate(lines, 1) if HERE in text)


async def make_scripted(limits: Limits) -> Sandbox:
    """Make the stand-in."""
    return ScriptedSandbox(Loop(), limits)


async def make_javascript(limits: Limits) -> Sandbox:
    """Make a sandbox with workers of its own."""
    return JavaScriptSandbox(Pool(Loop()), limits)


async def make_python(limits: Limits) -> Sandbox:
    """Make a sandbox with interpreters of its own."""
    return PythonSandbox(Loop(), limits, names=NAMES, refuse=refuse_lacking)


MAKERS: dict[str, Callable[[Limits], Awaitable[Sandbox]]] = {
    "javascript": make_javascript,
    "python": make_python,
    "scripted": make_scripted,
}


async def make_subject(language: str, limits: Limits = LIMITS) -> Subject:
    """Make a fresh sandbox of a language."""
    return Subject(language, await MAKERS[language](limits))


def children() -> set[int]:
    """List the processes this one started and has not seen the end of."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(stat.parent.name))
    return found
