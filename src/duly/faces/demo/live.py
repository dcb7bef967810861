"""The page of a demo: invoices arrive, programs file them, and a visitor kills and cuts.

Law 1  A press reaches every program in the same moment.
Law 2  It ends by itself when each mail is done with, or nothing moves any more; where a person
       looks on, it ends when they say so.
Law 3  It is an error if Duly did anything twice or lost anything.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from duly.api.clock import Env
from duly.faces.demo.folder import LIVE, DemoFolder
from duly.faces.demo.invoice import write_invoice
from duly.faces.demo.live_page import Desk, Press, PressKind, showing
from duly.faces.demo.program import DBOS, FLOW, PLAIN, DulyProgram, ScriptProgram
from duly.faces.demo.tell import Mismatch, heading, tell
from duly.faces.demo.trial import Tally, Trial

EVERY_S: Final = 0.3  # between two invoices
CUT_S: Final = 3.0
LOOK_S: Final = 0.25
STAYS_S: Final = 3.0  # after the end, for a viewer to see it
TELLS_MS: Final = 10_000  # how often it is told how far it is, where there is no terminal
DULY: Final = "Duly"
DULY_SAYS: Final = "One workflow on a host. Each change is in the ledger before it is sent."
PLAIN_SAYS: Final = "Poll, insert, reply, remember how far it came. Started again when it ends."
DBOS_SAYS: Final = "A workflow for each mail, two steps with retries, all else by default."


@dataclass(slots=True)
class Live(Desk):
    """The trials side by side, and what was done to them."""

    env: Env
    trials: Sequence[Trial]
    invoices: int
    presses: list[Press] = field(default_factory=list)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _mending: list[asyncio.Task[None]] = field(default_factory=list)
    _told_ms: int | None = None

    @property
    def duly(self) -> Trial:
        """The trial that must be right."""
        return self.trials[0]

    def see(self) -> None:
        """Hear that a person looks at the page."""
        self.opened.set()

    def tallies(self) -> list[tuple[Trial, Tally]]:
        """Count each trial."""
        return [(each, each.tally()) for each in self.trials]

    def kill(self) -> None:
        """Kill each program, then start each again (law 1)."""
        killed = [f"{each.name} {each.program.kill()}" for each in self.trials]
        self._note(PressKind.KILL, killed)

    def cut(self) -> None:
        """Cut the network of each program for some seconds."""
        for each in self.trials:
            each.cut()
        while self._mending:
            self._mending.pop().cancel()
        self._mending.append(self.env.spawn(self._mend(), "mend the network"))
        self._note(PressKind.CUT, [each.name for each in self.trials])

    def _note(self, kind: PressKind, what: list[str]) -> None:
        for each in self.trials:
            each.stir()
        self.presses.append(Press(kind, self.env.now_ms(), tuple(what)))

    async def _mend(self) -> None:
        await self.env.sleep(CUT_S)
        for each in self.trials:
            each.mend()
            each.stir()

    async def run(self, *, is_watched: bool) -> None:
        """Let the invoices arrive and wait for the end (law 2)."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._ended.set)
        delivering: asyncio.Task[None] | None = None
        try:
            delivering = self.env.spawn(self._deliver(is_watched), "invoices arrive")
            while not self._ended.is_set():
                for each in self.trials:
                    each.program.look_after()
                if not is_watched:
                    self.tell_progress()
                if not is_watched and delivering.done() and self._is_over():
                    await self.env.sleep(STAYS_S if self.opened.is_set() else 0)
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._ended.wait()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            for task in (*self._mending, delivering):
                if task is not None:
                    task.cancel()

    async def _deliver(self, is_watched: bool) -> None:
        if is_watched:
            await self.opened.wait()
        for place in range(1, self.invoices + 1):
            mail = write_invoice(place)
            for each in self.trials:
                each.deliver(mail)
            await self.env.sleep(EVERY_S)

    def tell_progress(self) -> None:
        """Tell how far each program is, if that was not told for some time."""
        now_ms = self.env.monotonic_ms()
        if self._told_ms is None:
            self._told_ms = now_ms
        if now_ms - self._told_ms < TELLS_MS:
            return
        self._told_ms = now_ms
        parts = (
            f"{each.name}: in {found.arrived}, rows {found.rows}, replies {found.replies}"
            for each, found in self.tallies()
        )
        tell("; ".join(parts))

    def _is_over(self) -> bool:
        return all(tally.is_whole or each.is_quiet for each, tally in self.tallies())

    def account(self) -> None:
        """Tell what the outside counted; an error where Duly is not right (law 3)."""
        heading("The account of the page, from the mail servers and the tables")
        names = ("in", "rows", "replies", "twice", "lost", "questions")
        tell(f"{'':<14}" + "".join(f"{each:>10}" for each in names))
        for each, tally in self.tallies():
            figures = (tally.arrived, tally.rows, tally.replies, tally.twice, tally.lost)
            row = "".join(f"{figure:>10}" for figure in (*figures, tally.questions))
            tell(f"{each.name:<14}{row}")
        found = self.duly.tally()
        if not found.is_right:
            said = f"{found.twice} changes were made twice and {found.lost} mails were lost."
            raise Mismatch(f"Duly is not right: {said}")
        tell(*say_result(self.presses))


def say_result(presses: Sequence[Press]) -> list[str]:
    """Say that Duly is right, and after what; a page on which no button was pressed shows less."""
    kills = sum(each.kind is PressKind.KILL for each in presses)
    counts = ((kills, "kill -9"), (len(presses) - kills, "network cut"))
    done = " and ".join(f"{count} × {what}" for count, what in counts if count)
    if done:
        return [f"Duly: nothing twice, nothing lost, after {done}."]
    return [
        "Duly: nothing twice, nothing lost.",
        "No button of the page was pressed, so no program was killed in this part.",
    ]


def make_trials(path: Path, env: Env, dbos: Path | None) -> list[Trial]:
    """Make the trials: Duly first, the plain script, and DBOS where it is there."""
    at = {name: path / name for name in ("duly", "plain", "dbos")}
    made = [
        Trial(DULY, DULY_SAYS, at["duly"], env, DulyProgram(at["duly"], env), FLOW),
        Trial(
            "A plain script",
            PLAIN_SAYS,
            at["plain"],
            env,
            ScriptProgram(at["plain"], env, PLAIN, Path(sys.executable)),
            PLAIN,
        ),
    ]
    if dbos is not None:
        program = ScriptProgram(at["dbos"], env, DBOS, dbos)
        made.append(Trial("DBOS", DBOS_SAYS, at["dbos"], env, program, DBOS))
    return made


async def show_live(
    folder: DemoFolder, env: Env, *, invoices: int, dbos: Path | None, is_watched: bool
) -> None:
    """Serve the page until it is over, then tell the account."""
    heading("Now you: a page on which you kill the programs and cut their network")
    path = folder.path / LIVE
    async with AsyncExitStack() as stack:
        trials = [await stack.enter_async_context(each) for each in make_trials(path, env, dbos)]
        live = Live(env, trials, invoices)
        url = await stack.enter_async_context(showing(live, env))
        tell(f"{invoices} invoices arrive by mail. Each is to be one row and one reply.")
        tell(f"Page {url}")
        if is_watched:
            tell("They arrive when you open the page. Ctrl-C ends it.")
        else:
            tell("There is no terminal, so the page ends when all is done. Until then its buttons")
            tell("kill the programs and cut their network.")
        await live.run(is_watched=is_watched)
        live.account()
