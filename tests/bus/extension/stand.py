"""What a test of extensions stands on: a folder to write them into, and a user who listens.

shelf = Shelf(tmp_path)
shelf.put("greeter", "class Main(duly.Extension): ...", subscribes=[("mail", "notify_user")])
user = User()
host = await duly_world.host(extensions=shelf.folder, channels=[user])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from duly.host import Host

NOTHING = "class Main(duly.Extension):\n    pass\n"
# Keeps its context where a test finds it: under `contexts[<id>]` of the module `tests.…stand`.
KEEPS = """
from tests.bus.extension.stand import contexts

class Main(duly.Extension):
    async def initialize(self, context):
        contexts[context.extension_id] = context
"""
# An agent that says back what it was asked, and with which instructions.
ECHO = """
class Main(duly.Extension):
    async def answer(self, event, instructions, model):
        return f"{instructions}|{model}|{event.payload['text']}"
"""
AGENT = {"model": "small", "instructions": "Be brief."}

contexts: dict[str, Any] = {}
heard: list[Any] = []  # what extensions of a test write down


@dataclass(frozen=True)
class Shelf:
    """A folder of extensions."""

    folder: Path

    def put(
        self,
        extension_id: str,
        code: str = NOTHING,
        *,
        subscribes: Iterable[tuple[str, str]] = (),
        file: str = "main.py",
        **manifest: Any,
    ) -> Path:
        """Write an extension: the class `Main` in `main.py`, and a manifest."""
        place = self.folder / extension_id
        place.mkdir(parents=True, exist_ok=True)
        wanted = [{"topic": topic, "handler": handler} for topic, handler in subscribes]
        tree = {
            "id": extension_id,
            "name": extension_id.title(),
            "version": "1.0",
            "entrypoint": "main:Main",
            **({"events": {"subscribes": wanted}} if wanted else {}),
            **manifest,
        }
        (place / "manifest.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        (place / file).write_text(f"import duly\n{code}", encoding="utf-8")
        return place


@dataclass
class User:
    """A channel that remembers what was sent, and fails as often as it is told to."""

    name: str = "user"
    texts: list[str] = field(default_factory=list)
    sent: list[tuple[str, str | None]] = field(default_factory=list)
    failures: int = 0

    async def send(self, text: str, *, to: str | None = None) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the line is dead")
        self.texts.append(text)
        self.sent.append((text, to))


async def stages(host: Host) -> dict[str, str]:
    """Answer how far each extension got."""
    return {each.id: str(each.stage) for each in await host.extensions()}


async def errors(host: Host) -> dict[str, str]:
    """Answer what was wrong with each extension that is not ready."""
    return {each.id: each.error for each in await host.extensions() if each.error is not None}


async def deliveries(host: Host) -> dict[str, tuple[str, str | None]]:
    """Answer status and error of the deliveries, by subscriber; the last event of each."""
    found = await host.bus.deliveries(limit=1000)
    return {each.subscriber_id: (str(each.status), each.error) for each in found}
