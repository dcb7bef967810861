"""The programs that a demo lets do the same job: Duly, a plain script, and DBOS where it is there.

Law 1  A program is killed as the kernel kills, and started again at once, each in the same way.
Law 2  A program that ends by itself is started again as well, after a second. Only a host of Duly
       must not: then the demo says so and ends.
Law 3  No program outlives the demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from duly.api.clock import Env
from duly.errors import RequestRefused
from duly.faces.demo.folder import DemoFolder
from duly.faces.demo.process import STOP_S, Process, reach
from duly.faces.demo.tell import Mismatch

FLOW: Final = "invoices.py"
PLAIN: Final = "invoices_plain.py"
DBOS: Final = "invoices_dbos.py"
AGAIN_MS: Final = 1000
PROVEN: Final = "proven"
TRY_S: Final = 60


def read_text(name: str) -> str:
    """Read a text that the demo brings."""
    return files("duly.faces.demo").joinpath(f"text/{name}.txt").read_text("utf-8")


class Program(Protocol):
    """What does the job in a folder, and can be killed."""

    async def begin(self, imap: int, smtp: int) -> None:
        """Start it for the first time, with the ports of its mail server."""

    def kill(self) -> int:
        """Kill it and start it again; return the process that was killed."""

    def look_after(self) -> None:
        """Start it again if it ended by itself."""

    def end(self) -> None:
        """End it for good."""


@dataclass(slots=True)
class DulyProgram:
    """A host of Duly with one workflow."""

    path: Path
    env: Env
    _process: Process | None = None

    async def begin(self, imap: int, smtp: int) -> None:
        """Make the project, start its host, deploy the workflow and prove the mail account."""
        (self.path / "workflows").mkdir()
        settings = (
            read_text("invoices.toml").replace(":IMAP", f":{imap}").replace(":SMTP", f":{smtp}")
        )
        (self.path / "duly.toml").write_text(settings, "utf-8")
        text = read_text(FLOW)
        (self.path / "workflows" / FLOW).write_text(text, "utf-8")
        folder = DemoFolder(self.path)
        self._process = Process(folder)
        async with reach(self._process, folder, self.env) as session:
            secrets = (("mail", "password"), ("channels", "person.password"))
            for connector, name in secrets:
                await session.call("set_secret", connector=connector, name=name, value="demo")
            source: Any = {"language": "python", "text": text, "name": FLOW}
            await session.call("deploy", source=source, grant=True, strict=True)
            proof: Any = await session.call("prove", tool="mail.send")
        if (proof["last"] or {}).get("status") != PROVEN:
            raise Mismatch(f"mail.send: the trial with the account says {proof['last']}")

    def kill(self) -> int:
        """Kill the host and start it again."""
        assert self._process is not None
        killed = self._process.child.pid
        self._process.kill()
        self._process = Process(DemoFolder(self.path))
        return killed

    def look_after(self) -> None:
        """Refuse to go on with a host that ended by itself."""
        if self._process is not None:
            self._process.check()

    def end(self) -> None:
        """Stop the host in order, or kill it."""
        if self._process is not None:
            self._process.child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.child.wait(STOP_S)
            self._process.child.kill()
            self._process.child.wait()


@dataclass(slots=True)
class ScriptProgram:
    """A script that an interpreter runs, beside no host."""

    path: Path
    env: Env
    name: str
    python: Path
    _ports: Sequence[str] = ()
    _child: subprocess.Popen[bytes] | None = None
    _ended_ms: int | None = None
    ends: int = field(default=0)  # how often it ended by itself

    async def begin(self, imap: int, smtp: int) -> None:
        """Write the script into its folder and start it."""
        (self.path / self.name).write_text(read_text(self.name), "utf-8")
        self._ports = (str(imap), str(smtp))
        self._start()

    def _start(self) -> None:
        self._ended_ms = None
        with (self.path / "program.log").open("ab") as log:
            self._child = subprocess.Popen(
                [str(self.python), self.name, *self._ports], cwd=self.path, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True, env=_environment(),
            )  # fmt: skip

    def kill(self) -> int:
        """Kill it and start it again."""
        assert self._child is not None
        killed = self._child.pid
        self._child.kill()
        self._child.wait()
        self._start()
        return killed

    def look_after(self) -> None:
        """Start it again a second after it ended by itself."""
        if self._child is None or self._child.poll() is None:
            return
        if self._ended_ms is None:
            self._ended_ms = self.env.monotonic_ms()
            self.ends += 1
        elif self.env.monotonic_ms() - self._ended_ms >= AGAIN_MS:
            self._start()

    def end(self) -> None:
        """Kill it."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()


def _environment() -> dict[str, str]:
    """Return what a program is told of this machine; settings for other projects are left out."""
    return {key: each for key, each in os.environ.items() if not key.startswith(("DULY_", "DBOS_"))}


def find_dbos(given: Path | None) -> Path | None:
    """Find the interpreter that has DBOS: the one that was named, or else this one."""
    if given is None:
        return Path(sys.executable) if find_spec("dbos") is not None else None
    try:
        done = subprocess.run(
            [str(given), "-c", "import dbos"], capture_output=True, timeout=TRY_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode != 0:
        raise RequestRefused(code="no_dbos", subject=str(given))
    return given
