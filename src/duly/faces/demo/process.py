"""The host of a demo: `duly serve` in a process of its own, which may be killed.

Law: whatever happens to the demo, its host ends no later than the demo does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from duly.api.session import Session, connect
from duly.env import Env
from duly.errors import RequestRefused
from duly.faces.demo.scene import Scene

START_S: Final = 60
STOP_S: Final = 40  # an orderly stop waits half a minute for what was sent
LOOK_S: Final = 0.05
PREFIX: Final = "DULY_"


class Process:
    """One host, from its start to its end."""

    def __init__(self, scene: Scene, env: Env) -> None:
        self._scene = scene
        self._env = env
        # What is set for the projects of this person is not meant for a demo.
        environ = {key: each for key, each in os.environ.items() if not key.startswith(PREFIX)}
        arguments = [sys.executable, "-P", "-m", "duly", "--project", str(scene.folder), "serve"]
        with scene.log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches the demo first, which ends it.
            self._child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._child.pid

    def check(self) -> None:
        """Refuse to go on with a host that ended by itself."""
        if self._child.poll() is not None:
            raise self._ended(self._child.returncode)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Speak to the host, as soon as it works."""
        project = self._scene.project()
        last_ms = self._env.monotonic_ms() + START_S * 1000
        while self._env.monotonic_ms() < last_ms:
            self.check()
            async with connect(project) as session:
                if session.host is not None and session.host.pid == self.pid:
                    yield session
                    return
            await self._env.sleep(LOOK_S)
        facts = {"process": self.pid, "log": str(self._scene.log)}
        raise RequestRefused(code="host_silent", subject=str(self._scene.folder), facts=facts)

    def kill(self) -> None:
        """Kill it as the kernel kills; nothing in it can notice."""
        self._child.send_signal(signal.SIGKILL)
        status = self._child.wait()
        if status != -signal.SIGKILL:
            raise self._ended(status)

    def stop(self) -> None:
        """Stop it in order, unless it has ended already."""
        if self._child.poll() is None:
            self._child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_S)

    def end(self) -> None:
        """See to it that it is gone."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait()

    def _ended(self, status: int) -> RequestRefused:
        how = {"signal": signal.Signals(-status).name} if status < 0 else {"status": status}
        facts = {**how, "log": str(self._scene.log)}
        return RequestRefused(code="host_ended", subject=str(self._scene.folder), facts=facts)
