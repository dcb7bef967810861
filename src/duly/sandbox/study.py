"""Sources are read apart: in a locked process that can be ended, not in the host (W6, X2).

Law 1: a source that harms a parser or an analysis harms that process only.
Law 2: a study has `STUDY_CPU_S` of CPU time; a source that needs more is refused, and the sentence
       names the limit. The host goes on meanwhile.
Law 3: what comes back is not trusted: the caller decodes it by type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from duly.env import Env
from duly.errors import ScriptError
from duly.sandbox import wire
from duly.sandbox.pool import WORD, Overrun, Pool, Program
from duly.sandbox.reaper import IDLE_S
from duly.sandbox.slot import Slots
from duly.sandbox.watch import Limit

STUDY_CPU_S: Final = 5.0
WORKERS_MAX: Final = 2
NEEDS: Final = ("duly", "msgspec", "tree_sitter", "tree_sitter_javascript")
PROGRAM: Final = (
    "import sys;"
    f" words = [each for each in sys.argv[2:] if each.startswith({WORD!r})];"
    " sys.path[:0] = [each for each in sys.argv[2:] if each not in words];"
    " from duly.sandbox.study_worker import serve;"
    f" serve(int(sys.argv[1]), tuple(each[{len(WORD)}:] for each in words))"
)


def too_long(limit: Limit, wall_s: float, cpu_s: float = STUDY_CPU_S) -> str:
    """Say which limit a study went past."""
    if limit is Limit.THREADS:
        return "To analyse it took more threads than the type checker has."
    if limit is Limit.CPU:
        return f"To analyse it took more than {cpu_s:g} s of CPU time. Make it shorter or flatter."
    return f"To analyse it took longer than {wall_s:g} s of wall time. Deploy it again later."


class Studies:
    """The processes that read sources, and the functions they have."""

    def __init__(
        self,
        env: Env,
        functions: Mapping[str, str],
        *,
        wall_s: float,
        cpu_s: float = STUDY_CPU_S,
        running: Slots | None = None,
        idle_s: float = IDLE_S,
        unlocked: Literal["no", "i-accept"] = "no",
    ) -> None:
        self._cpu_s = cpu_s
        self._wall_s = wall_s
        words = tuple(f"{name}={place}" for name, place in functions.items())
        self.pool = Pool(
            env,
            workers_max=WORKERS_MAX,
            running=running,
            idle_s=idle_s,
            unlocked=unlocked,
            program=Program(PROGRAM, NEEDS, words),
        )

    async def ask(self, what: str, body: bytes) -> bytes:
        """Let a function read a source; raise ScriptError past a limit or if the worker is lost."""
        worker = await self.pool.take(what)
        try:
            request = wire.Study(what, body)
            reply = await self.pool.ask(worker, request, cpu_s=self._cpu_s, wall_s=self._wall_s)
            studied = wire.unpack(reply, wire.Studied)
            worker.is_clean = True
        except Overrun as error:
            raise ScriptError(too_long(error.limit, self._wall_s, self._cpu_s)) from None
        except (wire.Closed, wire.Violation):
            raise ScriptError(code="reader_died", is_lost=True) from None
        finally:
            await self.pool.give_back(worker)
        return studied.body

    async def close(self) -> None:
        """End every process."""
        await self.pool.close()
