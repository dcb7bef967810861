"""The host of a demo: `duly serve` in a process of its own, which may be killed.

Law: whatever happens to the demo, its host ends no later than the demo does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from duly.api.session import Session, connect
from duly.env import Env
from duly.errors import RequestRefused
from duly.faces.demo.folder import DemoFolder
from duly.rules.value import Json

START_S: Final = 60
STOP_S: Final = 40  # an orderly stop waits half a minute for what was sent
LOOK_S: Final = 0.05


class Process:
    """One host, from its start to its end."""

    def __init__(self, folder: DemoFolder, env: Env) -> None:
        self._folder = folder
        self._env = env
        # Settings for other projects of this user are not meant for a demo.
        environ = {key: each for key, each in os.environ.items() if not key.startswith("DULY_")}
        words = [sys.executable, "-P", "-m", "duly", "--project", str(folder.path), "serve"]
        with folder.log.open("ab") as log:
            # In a session of its own, so that Ctrl-C reaches the demo alone, which ends its host.
            self._child = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ,
                start_new_session=True,
            )  # fmt: skip
        self.pid = self._child.pid

    def __enter__(self) -> Self:
        """Keep the host until the end of the block."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Stop the host in order; after an error kill it, since a call that is held never ends."""
        if self._child.poll() is None:
            if kind is None:
                self._child.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._child.wait(STOP_S)
            self._child.kill()
            self._child.wait()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Speak to the host, as soon as it works."""
        last_ms = self._env.monotonic_ms() + START_S * 1000
        while self._env.monotonic_ms() < last_ms:
            self.check()
            async with connect(self._folder.project()) as session:
                if session.host is not None and session.host.pid == self.pid:
                    yield session
                    return
            await self._env.sleep(LOOK_S)
        raise self._refusal("host_silent", {"process": self.pid})

    def check(self) -> None:
        """Refuse to go on with a host that ended by itself."""
        if (status := self._child.poll()) is not None:
            how = {"signal": signal.Signals(-status).name} if status < 0 else {"status": status}
            raise self._refusal("host_ended", how)

    def _refusal(self, code: str, facts: Mapping[str, Json]) -> RequestRefused:
        facts = {**facts, "log": str(self._folder.log)}
        return RequestRefused(code=code, subject=str(self._folder.path), facts=facts)

    def kill(self) -> None:
        """Kill it as the kernel kills; nothing in it can notice."""
        self._child.kill()
        if self._child.wait() != -signal.SIGKILL:
            self.check()
