"""The three flows of the example extensions, from what the user writes to what the user hears."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from duly.bus.channel import TerminalChannel
from duly.host import Host
from duly.testing import Stage
from tests import house
from tests.bus.extension.stand import User, errors

EXAMPLES = house.ROOT / "examples" / "extensions"
# The agent of these tests: it says which step of its script it is at.
SCRIPTED = """
import duly

class Assistant(duly.Extension):
    script = ["first answer", "second answer", "third answer", "fourth answer", "last answer"]

    async def answer(self, event, instructions, model):
        return f"{self.script.pop(0)}: {event.topic}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Copy the example extensions, and give them the scripted agent."""
    copied = tmp_path / "extensions"
    shutil.copytree(EXAMPLES, copied, ignore=shutil.ignore_patterns("__pycache__"))
    (copied / "assistant" / "main.py").write_text(SCRIPTED, encoding="utf-8")
    return copied


async def opened(stage: Stage, folder: Path, user: User) -> Host:
    """Open a host with the example extensions."""
    host = await stage.host(extensions=folder, channels=[user])
    assert await errors(host) == {}
    return host


async def write(host: Host, text: str) -> int:
    """Let the user write a message."""
    message = {"text": text, "user_id": "alice", "channel_id": "user"}
    return await host.bus.emit("user.message", message, source="cli_channel")


async def test_a_task_is_answered_at_once(duly_world: Stage, folder: Path) -> None:
    """B1, B10: user.message → task.received → agent → user, without any time passing."""
    user = User()
    host = await opened(duly_world, folder, user)
    began_s = duly_world.loop.time()
    await write(host, "task: summarize the report")
    await host.drain()
    assert user.sent == [("first answer: task.received", "alice")]
    (task,) = await host.bus.journal(topic="task.received")
    assert (task.source, task.payload) == (
        "tasks",
        {"text": "summarize the report", "user_id": "alice", "channel_id": "user"},
    )
    assert duly_world.loop.time() == began_s


async def test_a_reminder_comes_after_its_minute_and_outlives_a_crash(
    duly_world: Stage, folder: Path
) -> None:
    """B2, B10: deferred, then fired once, by the next host."""
    user = User()
    host = await opened(duly_world, folder, user)
    await write(host, "remind me: drink water")
    await host.drain()
    assert [str(each.status) for each in await host.bus.deferred()] == ["scheduled"]
    await duly_world.crash(host)
    host = await opened(duly_world, folder, user)
    async with host.running():
        await duly_world.advance(59)
        assert user.texts == []
        await duly_world.advance(1)
        assert user.texts == ["first answer: reminder.due"]
        await duly_world.advance("1h")
    assert len(user.texts) == 1
    assert [each.topic for each in await host.bus.deferred("fired")] == ["reminder.due"]


async def test_check_ins_follow_each_other_until_the_last(duly_world: Stage, folder: Path) -> None:
    """B10, B12: three steps, eight seconds apart, under one correlation id."""
    user = User()
    host = await opened(duly_world, folder, user)
    number = await write(host, "check in")
    heard = []
    async with host.running():
        for _ in range(4):
            await duly_world.advance(0)
            heard.append(len(user.texts))
            await duly_world.advance(8)
    assert heard == [1, 2, 3, 3]
    steps = await host.bus.journal(correlation_id=f"checkin-{number}", topic="checkin.started")
    assert [each.payload for each in reversed(steps)] == [
        {"step": step, "total": 3} for step in (1, 2, 3)
    ]
    assert [each.source for each in reversed(steps)] == ["checkin_trigger"] + (
        ["checkin_processor"] * 2
    )
    kept = await host._desk().parts.store.get_state("checkin_processor", "last")
    assert kept == f'{{"step":3,"event":{steps[0].id}}}'


async def test_everything_ends_done(duly_world: Stage, folder: Path) -> None:
    """B4: no event of the three flows is left open or failed."""
    user = User()
    host = await opened(duly_world, folder, user)
    async with host.running():
        for text in ("task: a", "remind me: b", "check in", "hello"):
            await write(host, text)
        await duly_world.advance("2m")
    assert {str(each.status) for each in await host.bus.journal(limit=1000)} == {"done"}
    assert len(user.texts) == 5


async def test_the_play_runs_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B9: with the agent of the examples, in a terminal."""
    spec = importlib.util.spec_from_file_location("play", EXAMPLES / "play.py")
    assert spec is not None
    assert spec.loader is not None
    play = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(play)
    await play.play(f"sqlite:///{tmp_path}/duly.db", 0)
    async with Host(
        f"sqlite:///{tmp_path}/duly.db", extensions=EXAMPLES, channels=[TerminalChannel()]
    ) as host:
        await host.drain()
    assert set(capsys.readouterr().out.splitlines()) == {
        "Check-in 1 of 3: how is it going?",
        "Working on it: summarize the report",
    }
