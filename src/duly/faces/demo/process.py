"""The host of a demo: `duly serve` in a process of its own, which may be killed.

Law: the host ends no later than the demo does, also if the demo is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from duly.api.clock import Env
from duly.api.session import Session, connect
from duly.faces.demo.folder import DemoFolder

START_S: Final = 60
STOP_S: Final = 40  # an orderly stop waits half a minute for what was sent
LOOK_S: Final = 0.05


class Process:
    """One host of a demo."""

    def __init__(self, folder: DemoFolder) -> None:
        self._folder = folder
        # Settings for other projects of this user are not meant for a demo.
        environ = {key: each for key, each in os.environ.items() if not key.startswith("DULY_")}
        words = [sys.executable, "-P", "-m", "duly", "--project", str(folder.path), "serve"]
        words.append("--no-page")  # a demo shows what it does by itself
        with folder.log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches the demo alone, which ends its host.
            self.child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ,
                start_new_session=True,
            )  # fmt: skip

    def check(self) -> None:
        """Refuse to go on with a host that ended by itself."""
        if (status := self.child.poll()) is not None:
            how = {"signal": signal.Signals(-status).name} if status < 0 else {"status": status}
            raise self._folder.refusal("host_ended", **how, log=str(self._folder.log))

    def kill(self) -> None:
        """Kill it as the kernel kills; nothing in it can notice."""
        self.child.kill()
        if self.child.wait() != -signal.SIGKILL:
            self.check()


@asynccontextmanager
async def serving(folder: DemoFolder, env: Env) -> AsyncIterator[tuple[Process, Session]]:
    """Keep a host until the block ends; it stops in order, and after an error it is killed.

    A call that is held never ends, and a host that waits for it would not end either.
    """
    process = Process(folder)
    try:
        async with reach(process, folder, env) as session:
            yield process, session
        process.child.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.child.wait(STOP_S)
    finally:
        process.child.kill()
        process.child.wait()


@asynccontextmanager
async def reach(process: Process, folder: DemoFolder, env: Env) -> AsyncIterator[Session]:
    """Speak to the host, as soon as it works."""
    last_ms = env.monotonic_ms() + START_S * 1000
    while env.monotonic_ms() < last_ms:
        process.check()
        async with connect(folder.project()) as session:
            if session.host is not None and session.host.pid == process.child.pid:
                yield session
                return
        await env.sleep(LOOK_S)
    raise folder.refusal("host_silent", process=process.child.pid, log=str(folder.log))
