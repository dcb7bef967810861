"""The stand of the command line's tests: a project with a past, and hosts that answer for it.

`prepare` makes a folder with a store in which something of everything is there: a call that waits
for a yes, a change nobody knows about, a script that failed, events that wait, a dead letter, a
deferred event, a secret. Each test works on a copy of it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.testing import CliRunner, Result

from duly import Call, Connector, Event, Page, Retry, UnknownOutcome, mutation, read
from duly.api.build import build_host
from duly.api.project import Project, find_project
from duly.faces.cli import duly
from duly.faces.socket import Control

TOML: Final = """\
url = "sqlite:///duly.db"
workflows = "workflows"

[connectors.sheet]
use = "tests.faces.cli_stand:Sheet"

[policy]
approvals = { "sheet.append" = "always" }
"""

# One consumer that takes one event at a time; MUTATE is what it does with it.
FLOW: Final = """\
export default Duly.workflow({
  name: "NAME",
  topics: { in: { ingress: true }, quiet: {} },
  consumers: {
    file: Duly.consumer({
      subscribe: ["in"],
      prepare: async (ctx) => {
        const [event] = await ctx.peek("in", { limit: 1 });
        if (!event) return { reservations: [], data: {} };
        console.log("took " + event.title);
        PREPARE
        return {
          reservations: [{ topic: "in", ids: [event.messageId] }],
          data: { text: event.title },
          ui: { title: "Add a row for " + event.title },
        };
      },
      mutate: async (ctx, prepared) => {
        await ctx.sheet.TOOL({ text: prepared.data.text });
      },
    }),
  },
});
"""
CHECKS: Final = """\
export default Duly.workflow({
  name: "checks",
  topics: ["row"],
  producers: {
    look: {
      schedule: { interval: "1h" },
      handler: async (ctx) => {
        const page = await ctx.sheet.find({});
        return { seen: page.length };
      },
    },
  },
});
"""


def flow(name: str, tool: str = "append", prepare: str = "") -> str:
    """Write a workflow in JavaScript."""
    return FLOW.replace("NAME", name).replace("TOOL", tool).replace("PREPARE", prepare)


SOURCES: Final[Mapping[str, str]] = {
    "asks": flow("asks"),
    "lost": flow("lost", "lose"),
    "fails": flow("fails", prepare='throw new Error("no ink");'),
    "rests": flow("rests", prepare="return { reservations: [], data: {} };"),
    "checks": CHECKS,
}


class Sheet(Connector):
    """A sheet that adds rows, and sometimes does not say whether it did."""

    name = "sheet"

    @read
    async def find(self) -> Page:
        return Page([])

    @mutation(noun="row")
    async def append(self, call: Call, text: str) -> dict[str, str]:
        return {"row": text}

    @mutation(noun="row", capability="sheet.lose")
    async def lose(self, call: Call, text: str) -> dict[str, str]:
        raise UnknownOutcome(f"sheet.lose: no answer for {text}")


@dataclass(frozen=True)
class Facts:
    """The ids of what is there."""

    proposed: str
    waiting_run: str
    unknown: str
    failed_run: str
    dead_event: str
    deferred: str
    hash: str

    @property
    def words(self) -> dict[str, str]:
        return dict(vars(self))


def project(folder: Path) -> Project:
    return find_project(str(folder), {}, folder)


def make(folder: Path, toml: str = TOML) -> Path:
    """Make a project without a past."""
    (folder / "workflows").mkdir(parents=True)
    (folder / "duly.toml").write_text(toml, encoding="utf-8")
    for name, text in SOURCES.items():
        (folder / "workflows" / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def prepare(folder: Path) -> Facts:
    """Make a project, and a past for it."""
    make(folder)
    facts = asyncio.run(_live(project(folder)))
    (folder / "facts.json").write_text(json.dumps(facts.words))
    return facts


async def _live(made: Project) -> Facts:
    async def fail(event: Event) -> None:
        raise RuntimeError("no paper")

    async with build_host(made) as host:
        for name in SOURCES:
            await host.deploy(made.workflows / f"{name}.js", by="anna", grant=True)
            if name != "checks":
                await host.publish(name, "in", message_id="1", title=f"Note 1 for {name}")
        await host.deploy(made.workflows / "rests.js", by="anna")
        host.bus.subscribe("task", fail, subscriber_id="test:task", retry=Retry(attempts=1))
        dead = await host.bus.emit("task", {"text": "Write"}, source="test")
        deferred = await host.bus.schedule_at(86_400, "later", {"text": "Tea"}, source="test")
        await host.set_secret("sheet", "token", "not to be seen", by="anna")
        await host.drain()
        (proposed,) = await host.mutations("asks")
        (unknown,) = await host.mutations("lost")
        (failed,) = await host.runs("fails")
        ids = (proposed.id, proposed.held_by, unknown.id, failed.id, str(dead), str(deferred))
        return Facts(*ids, proposed.hash)


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target


def call(folder: Path, *words: str, given: str | None = None, **environ: str) -> Result:
    """Type a command."""
    runner = CliRunner()
    return runner.invoke(
        duly, ["--project", str(folder), *words], input=given, env=environ, prog_name="duly"
    )


def answer(folder: Path, *words: str) -> Any:
    """Type a reading command and read its JSON."""
    result = call(folder, *words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def parse(typed: list[str]) -> None:
    """Let click read a command line without carrying it out."""
    assert typed[0] == "duly"
    command: click.Command = duly
    name, rest = "duly", typed[1:]
    parent: click.Context | None = None
    while isinstance(command, click.Group):
        parent = command.make_context(name, rest, parent=parent)
        found, inner, rest = command.resolve_command(
            parent, [*parent._protected_args, *parent.args]
        )
        assert found is not None
        assert inner is not None
        name, command = found, inner
    command.make_context(name, rest, parent=parent)


@contextmanager
def running(folder: Path) -> Iterator[None]:
    """Let a host answer at the project's socket, in a thread of its own; it serves nothing."""
    ready, done = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    async def host() -> None:
        made = project(folder)
        async with (
            build_host(made) as opened,
            Control(opened, made.socket, settings=made.settings),
        ):
            ready.set()
            await asyncio.to_thread(done.wait)

    def work() -> None:
        try:
            asyncio.run(host())
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(30)
        assert not failures, failures
        yield
    finally:
        done.set()
        thread.join(30)
