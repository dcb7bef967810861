"""A host from its opening to its end: what it refuses, what it starts, what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import duly
from duly.env import Loop
from duly.errors import ConfigError, Invalid, RequestRefused, StoreInUse
from duly.host import Host
from duly.sandbox.base import Sandbox
from duly.sandbox.languages import Languages
from tests.desk.stand import StillEngine

EXAMPLES = Path(__file__).parents[1] / "examples"
PYTHON, JAVASCRIPT = EXAMPLES / "mail_to_table.py", EXAMPLES / "mail_to_table.js"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duly.db"


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give hosts an engine that runs nothing."""
    monkeypatch.setattr("duly.host.Engine", StillEngine)


def engine_of(host: Host) -> StillEngine:
    return cast(StillEngine, host._desk().engine)


def children() -> set[str]:
    """List the processes this one has started, whichever thread did."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found |= set((task / "children").read_text().split())
    return found


# -- Building -----------------------------------------------------------------------------------


def test_a_host_is_built_with_the_promised_words() -> None:
    """H1: the signature is part of the interface."""
    words = list(inspect.signature(Host).parameters)
    assert " ".join(words[:7]) == "url connectors policy repairer extensions channels models"


def test_a_channel_that_cannot_send_is_refused_when_the_host_is_built(url: str) -> None:
    """B9: not when the first text is to be sent."""
    with pytest.raises(Invalid, match="is not a channel"):
        Host(url, channels=[cast(duly.Channel, object())])


def test_a_repairer_that_cannot_be_asked_is_refused_when_the_host_is_built(url: str) -> None:
    """F3: not when the first script fails."""
    with pytest.raises(ConfigError, match="repairer: object cannot be asked"):
        Host(url, repairer=cast(duly.Repairer, object()))


@pytest.mark.parametrize("bad", ["duly.db", "sqlite:///", "mysql://localhost/duly", ""])
def test_a_url_that_names_no_store_is_refused(bad: str) -> None:
    """H1: before anything is opened."""
    with pytest.raises(ConfigError, match="sqlite:///"):
        Host(bad)


def test_a_connector_that_cannot_be_offered_is_refused_when_the_host_is_built(url: str) -> None:
    with pytest.raises(Invalid):
        Host(url, connectors=[cast(duly.Connector, object())])


def test_the_package_brings_the_host_only_when_asked() -> None:
    """X1: a script's worker imports the package too, and has no use for a host."""
    program = (
        "import sys, duly; assert 'duly.host' not in sys.modules; duly.Host; "
        "assert 'duly.host' in sys.modules; assert not hasattr(duly, 'Nobody')"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# -- Open, closed, somewhere else ---------------------------------------------------------------

VERBS: list[Callable[[Host], Coroutine[Any, Any, object]]] = [
    lambda host: host.deploy(PYTHON),
    lambda host: host.pause("x"),
    lambda host: host.publish("x", "y", title="z"),
    lambda host: host.workflows(),
    lambda host: host.run("x"),
    lambda host: host.drain(),
    lambda host: host.serve(),
    lambda host: host.running().__aenter__(),
]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_host_that_is_not_open_says_so(
    url: str, verb: Callable[[Host], Coroutine[Any, Any, object]]
) -> None:
    with pytest.raises(RequestRefused, match="not open"):
        await verb(Host(url))


@pytest.mark.parametrize("verb", VERBS)
async def test_a_host_that_is_closed_says_so(
    url: str, verb: Callable[[Host], Coroutine[Any, Any, object]]
) -> None:
    async with Host(url) as host:
        pass
    with pytest.raises(RequestRefused, match="closed"):
        await verb(host)


async def test_a_host_is_opened_once(url: str) -> None:
    host = await Host(url).open()
    with pytest.raises(RequestRefused, match="opened once"):
        await host.open()
    await host.close()
    with pytest.raises(RequestRefused, match="opened once"):
        await host.open()
    await host.close()


async def test_a_host_belongs_to_one_event_loop(url: str) -> None:
    async with Host(url) as host:
        for verb in (host.workflows, host.close):
            elsewhere = partial(asyncio.run, verb())
            with pytest.raises(RequestRefused, match="event loop"):
                await asyncio.to_thread(elsewhere)
        assert await host.workflows() == ()


async def test_a_second_host_on_the_store_is_refused_and_harms_nobody(url: str) -> None:
    """H1: the first goes on, and when it is closed the store is free."""
    async with Host(url) as first:
        second = Host(url)
        with pytest.raises(StoreInUse):
            await second.open()
        assert await first.workflows() == ()
    async with second:
        assert await second.workflows() == ()


# -- What is started and what is left -----------------------------------------------------------


async def test_nothing_is_started_before_the_first_script_and_nothing_is_left(url: str) -> None:
    """X2: no process, no task, no thread, after scripts in both languages."""
    processes, threads, tasks = children(), set(threading.enumerate()), asyncio.all_tasks()
    async with Host(url) as host:
        await host.workflows()
        assert children() == processes
        await host.deploy(PYTHON)
        await host.deploy(JAVASCRIPT)
        assert children() > processes
        await host.drain()
    assert children() == processes
    assert set(threading.enumerate()) <= threads
    assert asyncio.all_tasks() == tasks


async def test_an_env_that_was_given_is_not_closed(url: str) -> None:
    env = Loop()
    async with Host(url, env=env) as host:
        await host.workflows()
    assert await env.call_blocking(lambda: 7) == 7
    env.close()


async def test_an_env_may_put_something_around_the_sandbox(url: str) -> None:
    class Wrapping(Loop):
        wrapped: Sandbox | None = None

        def wrap_sandbox(self, sandbox: Sandbox) -> Sandbox:
            self.wrapped = sandbox
            return sandbox

    env = Wrapping()
    async with Host(url, env=env):
        assert isinstance(env.wrapped, Languages)
    env.close()


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_is_the_programs_own(tmp_path: Path, status: int) -> None:
    """X2: also right after scripts ran, also without waiting for anything."""
    program = f"""
import asyncio, sys, duly

async def main():
    async with duly.Host("sqlite:///{tmp_path}/duly.db") as host:
        await host.deploy({str(PYTHON)!r})
        await host.deploy({str(JAVASCRIPT)!r})
        async with host.running():
            sys.exit({status})

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")


# -- Serving and closing ------------------------------------------------------------------------


class SlowEngine(StillEngine):
    """An engine whose serve, when it is cancelled, has something to bring to its end."""

    def __init__(self, parts: Any) -> None:
        super().__init__(parts)
        self.serving, self.cancelled, self.gate = (asyncio.Event() for _ in range(3))
        self.events: list[str] = []

    async def serve(self) -> None:
        self.serving.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
            await self.gate.wait()
            self.events.append("served")

    async def close(self) -> None:
        self.events.append("closed")


async def test_closing_first_waits_for_a_serve_that_was_cancelled(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: what serve still brings to its end has its store until then."""
    monkeypatch.setattr("duly.host.Engine", SlowEngine)
    host = await Host(url).open()
    engine = cast(SlowEngine, engine_of(host))
    serving = asyncio.create_task(host.serve())
    await engine.serving.wait()
    serving.cancel()
    await engine.cancelled.wait()
    closing = asyncio.create_task(host.close())
    await asyncio.sleep(0)
    assert engine.events == []
    assert await engine.parts.store.list_workflows() == ()
    engine.gate.set()
    await closing
    assert engine.events == ["served", "closed"]
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_closing_ends_a_serve_that_nobody_cancelled(url: str, still: None) -> None:
    """R7: serve returns, and its caller's task is not cancelled for it."""
    host = await Host(url).open()

    async def serve() -> str:
        await host.serve()
        return "went on"

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await host.close()
    assert await serving == "went on"


async def test_a_cancelled_close_still_closes(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H1: a program that hears of the end finds the store free."""
    monkeypatch.setattr("duly.host.Engine", SlowEngine)
    host = await Host(url).open()
    engine = cast(SlowEngine, engine_of(host))
    serving = asyncio.create_task(host.serve())
    await engine.serving.wait()
    closing = asyncio.create_task(host.close())
    await engine.cancelled.wait()
    closing.cancel()
    await asyncio.sleep(0)
    engine.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await serving
    async with Host(url):
        pass


class WornEngine(StillEngine):
    """An engine that cannot be closed."""

    async def close(self) -> None:
        raise OSError("worn out")


async def test_a_part_that_cannot_be_closed_is_logged_and_the_rest_is_closed(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """H1: nothing is raised, and the store is free."""
    monkeypatch.setattr("duly.host.Engine", WornEngine)
    async with Host(url):
        pass
    assert "Closing the engine failed" in caplog.text
    async with Host(url):
        pass


async def test_closing_waits_for_a_command_that_was_begun(
    url: str, still: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: an act is carried out whole, with the store still there."""
    host = await Host(url).open()
    await host.deploy(JAVASCRIPT)
    begun, gate = asyncio.Event(), asyncio.Event()
    store = host._desk().parts.store
    set_paused = store.set_paused

    async def slowly(*args: Any, **named: Any) -> object:
        begun.set()
        await gate.wait()
        return await set_paused(*args, **named)

    monkeypatch.setattr(store, "set_paused", slowly)
    pausing = asyncio.create_task(host.pause("mail-to-table"))
    await begun.wait()
    closing = asyncio.create_task(host.close())
    await asyncio.sleep(0)
    gate.set()
    await closing
    await pausing
    async with Host(url) as again:
        assert (await again.workflow("mail-to-table")).paused


class FailingEngine(StillEngine):
    """An engine that cannot serve."""

    def __init__(self, parts: Any) -> None:
        super().__init__(parts)
        self.failed = asyncio.Event()

    async def serve(self) -> None:
        self.failed.set()
        raise OSError("no disk")


async def run_for_a_moment(host: Host, error: Exception | None = None) -> None:
    """Enter `running`, and leave it at the moment serving has failed."""
    async with host.running() as same:
        assert same is host
        await cast(FailingEngine, engine_of(host)).failed.wait()
        if error is not None:
            raise error


async def test_running_raises_on_leaving_what_serving_failed_with(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.host.Engine", FailingEngine)
    async with Host(url) as host:
        with pytest.raises(OSError, match="no disk"):
            await run_for_a_moment(host)


async def test_an_error_inside_running_is_not_hidden_by_a_failure_of_serving(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.host.Engine", FailingEngine)
    async with Host(url) as host:
        with pytest.raises(ValueError, match="mine") as raised:
            await run_for_a_moment(host, ValueError("mine"))
        assert "no disk" in raised.value.__notes__[0]


async def test_running_serves_until_it_is_left(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.host.Engine", SlowEngine)
    async with Host(url) as host:
        engine = cast(SlowEngine, engine_of(host))
        engine.gate.set()
        async with host.running():
            await engine.serving.wait()
            assert engine.events == []
        assert engine.events == ["served"]
