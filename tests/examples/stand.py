"""What an example is run with: a sheet, files and tables, and a host that took it under `strict`.

played = await play(duly_world, "fifo", ".py")
await played.publish("ticket.opened", "t1", payload={"text": "Hello"})
await duly_world.advance("1m")
assert played.rows == [["t1", "Hello"]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.connectors.base import Page
from duly.host import Host
from duly.rules.source import Source
from duly.rules.value import Json
from duly.testing import Stage
from tests.sandbox import seeds

ROW = "sheets.append_row"
INSERT = "table.insert"
WRITE = "outbox.write"
LANGUAGES = (".js", ".py")
# These tests publish what a pattern waits for; its own look at a folder, which is empty here, would
# only be in the way of their days in virtual time.
RARELY = {'every="1m"': 'every="365d"', 'interval: "1m"': 'interval: "365d"'}


@dataclass(slots=True)
class Played:
    """A workflow on a host, and what came of it outside."""

    stage: Stage
    host: Host
    name: str

    @property
    def rows(self) -> list[Json]:
        """Every row that was added, in order."""
        sheet = [each.args["values"] for each in self.stage.effects if each.tool == ROW]
        table = [each.args["row"] for each in self.stage.effects if each.tool == INSERT]
        return sheet + [list(row.values()) for row in table if isinstance(row, dict)]

    @property
    def letters(self) -> list[Json]:
        """Every text that was written, in order."""
        return [each.args["text"] for each in self.stage.effects if each.tool == WRITE]

    async def publish(self, topic: str, message_id: str, payload: Json = None) -> None:
        """Publish an event from outside, titled after its message id."""
        await self.host.publish(
            self.name, topic, message_id=message_id, title=f"Event {message_id}", payload=payload
        )

    async def events(self, topic: str) -> dict[str, str]:
        """Answer what became of each event of a topic."""
        found = await self.host.events(self.name, topic=topic, limit=1000)
        return {each.message_id: each.status.value for each in found}

    async def restart(self) -> None:
        """Open another host on the same file, after a crash."""
        self.host = await self.stage.host()

    async def warnings(self) -> list[str]:
        """Read what the host said to the script's author, out of the logs of its runs."""
        said = []
        for run in await self.host.runs(self.name, limit=1000):
            said += [line.text for line in await self.host.logs(run.id) if line.source == "duly"]
        return said


async def play(stage: Stage, name: str, suffix: str) -> Played:
    """Deploy an example with nothing found in it."""
    source = seeds.example(name, suffix)
    text = source.text
    for often, rarely in RARELY.items():
        text = text.replace(often, rarely)
    assert text != source.text
    return await play_source(stage, Source(source.language, text, source.name), strict=True)


async def play_source(stage: Stage, source: Source, *, strict: bool = False) -> Played:
    """Deploy a source where there are a sheet, a table, an outbox, and folders with nothing in."""
    stage.sheet()
    stage.connector("table", mutations={"insert": insert})
    stage.connector("outbox", mutations={"write": write})
    for folder in ("inbox", "orders", "payments"):
        stage.connector(folder, reads={"search": search, "read": read})
    host = await stage.host()
    deployed = await host.deploy(source, by="me", grant=True, strict=strict)
    if strict:
        assert deployed.findings == ()
    return Played(stage, host, deployed.workflow)


def search(pattern: str = "*", after: str | None = None) -> Page[Any]:
    """Answer what an empty folder answers."""
    return Page([], last_cursor=None)


def read(path: str) -> None:
    """Answer that there is no such file."""


def write(path: str, text: str) -> dict[str, Json]:
    """Answer what a folder answers."""
    return {"path": path, "bytes": len(text.encode())}


def insert(table: str, row: dict[str, Json]) -> dict[str, Json]:
    """Answer what a table answers."""
    return {"row": 1, "table": table}
