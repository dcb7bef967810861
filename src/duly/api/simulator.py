"""Runs `duly simulate` for a host, in a process of its own with limits.

Law 1  A simulation costs the host nothing but memory for its report: it has its own process, one at
       a time, and is killed when its time is over or its caller has gone.
Law 2  What is read back is JSON of a known shape; the words of a child that failed are cut.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from duly.api.project import Project
from duly.errors import RequestRefused, short
from duly.rules.source import Source
from duly.rules.value import Json, decode, encode

SIMULATION_S_MAX: Final = 45.0
GIVEN_BYTES_MAX: Final = 4 * 1024 * 1024
TOLD_BYTES_MAX: Final = 4 * 1024 * 1024
FINE: Final = frozenset({0, 1, 3})  # it was proven, it differed, nothing was proven


class ProjectSimulator:
    """Crashes workflows with the tools of a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._turn = asyncio.Lock()

    async def __call__(
        self,
        source: Source,
        events: Sequence[Mapping[str, Any]],
        answers: Mapping[str, Json],
        crashes: int,
    ) -> Json:
        """Simulate a source; the first one that comes is served first."""
        async with self._turn:
            with TemporaryDirectory(prefix="duly-") as folder:
                given = Path(folder) / "given.json"
                sample: dict[str, Any] = {"events": [*map(dict, events)], "answers": {**answers}}
                given.write_text(encode(sample, "events", limit_bytes=GIVEN_BYTES_MAX), "utf-8")
                return await self._run(source, given, crashes)

    async def _run(self, source: Source, given: Path, crashes: int) -> Json:
        place = self._project.file or self._project.folder
        words = ["--project", str(place), "simulate", "-", "--language", str(source.language)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "duly", *words, "--json"),
            *("--crashes", str(crashes), "--events", str(given)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # its workers end with it
        )
        try:
            async with asyncio.timeout(SIMULATION_S_MAX):
                told, said = await process.communicate(source.text.encode())
        except TimeoutError:
            facts = {"seconds": f"{SIMULATION_S_MAX:g}"}
            raise RequestRefused(code="simulation_late", facts=facts) from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if process.returncode not in FINE or not told or len(told) > TOLD_BYTES_MAX:
            facts = {"cause": short(said.decode("utf-8", "replace").strip())}
            raise RequestRefused(code="simulation_failed", facts=facts)
        return decode(told.decode(), "simulation")
