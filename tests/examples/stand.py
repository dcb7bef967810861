"""What an example is run with: a sheet, a chat, and a host that took it under `strict`.

played = await play(duly_world, "fifo", ".py")
await played.publish("ticket.opened", "t1", payload={"text": "Hello"})
await duly_world.advance("1m")
assert played.rows == [["t1", "Hello"]]
"""

from __future__ import annotations

from dataclasses import dataclass

from duly.host import Host
from duly.rules.source import Source
from duly.rules.value import Json
from duly.testing import Stage
from tests.sandbox import seeds

ROW = "sheets.append_row"
POST = "chat.post_message"
LANGUAGES = (".js", ".py")


@dataclass(slots=True)
class Played:
    """A workflow on a host, and what came of it outside."""

    stage: Stage
    host: Host
    name: str

    @property
    def rows(self) -> list[Json]:
        """Every row that was added, in order."""
        return [each.args["values"] for each in self.stage.effects if each.tool == ROW]

    @property
    def posts(self) -> list[Json]:
        """Every text that was posted, in order."""
        return [each.args["text"] for each in self.stage.effects if each.tool == POST]

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
    return await play_source(stage, seeds.example(name, suffix), strict=True)


async def play_source(stage: Stage, source: Source, *, strict: bool = False) -> Played:
    """Deploy a source where there are a sheet and a chat."""
    stage.sheet()
    stage.connector("chat", mutations={"post_message": post_message})
    host = await stage.host()
    deployed = await host.deploy(source, by="me", grant=True, strict=strict)
    if strict:
        assert deployed.findings == ()
    return Played(stage, host, deployed.workflow)


def post_message(channel: str, text: str) -> dict[str, Json]:
    """Answer what a chat answers."""
    return {"ok": True}
