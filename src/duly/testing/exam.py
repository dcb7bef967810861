"""The exam of a connector: kill it, fault it, at every line, and see whether it tells the truth.

Law 1: reconcile says what really happened to this very key, whichever step the process died at;
       the same key sent again makes no second change, another key makes another.
Law 2: an error that says "it did not happen" is only raised where it did not happen (L4).
Law 3: the truth comes from a function of the examiner, which looks at the outside itself. Every
       point has an outside of its own: one that saw another point proves nothing.
Law 4: a call ends soon after it was told to stop, at any moment, and changes nothing after its end;
       what it raises can be read (L6, L13; `manners.py`).

A step is a line of the connector's own code; every system call lies between two of them. Each
kill is a real SIGKILL of a real process, forked from this one; in another, lines raise an `OSError`
that says the disk is full. Kills are tried at every step, or, where the examiner can tell what the
outside looks like, at every step that finds it changed; errors are tried at every line, when it is
first reached. Nothing of the connector runs in the process that examines.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import msgspec

from duly.connectors.base import Applied, Call, Connector, Mutation, NotApplied, Unsure, Verdict
from duly.connectors.raised import kind_of, tame
from duly.connectors.registry import Registry
from duly.errors import ConfigError
from duly.rules.failure import ANSWERED, answer_of
from duly.rules.value import Json
from duly.rules.word import Answer
from duly.testing.child import ExamFailed, fresh, in_child
from duly.testing.manners import STOPS_MAX, stop_call, strange
from duly.words.asking import write_row

POINTS_MAX: Final = 400  # of a connector with more lines on its way, so many are tried
SENT_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
WORKFLOW: Final = "exam"
STOP: Final = "stop"
FIRST: Final = "exam-key-1"
OTHER: Final = "exam-key-2"
TWIN: Final = "exam-key-3"  # another call with the very same arguments

OWN_OUTSIDE: Final = (
    "every point needs an outside of its own: let make(folder) and effects(folder) use that folder"
    " alone."
)

Make = Callable[[Path], Connector]
Effects = Callable[[Path], int]
Install = Callable[[Callable[[str], None]], None]
Look = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Report:
    """How many points were tried, and what reconcile said at each."""

    points: int
    applied: int
    not_applied: int
    unsure: int
    row: str = ""  # of the tool in a table: where its key travels, how it can be asked (K1)


@dataclass(frozen=True, slots=True)
class Exam:
    """What is examined: a mutation of a connector, its arguments, and how the truth is found."""

    make: Make
    tool: str
    args: Mapping[str, Json]
    other_args: Mapping[str, Json]
    effects: Effects
    modules: tuple[str, ...] = ()
    install: Install | None = None
    look: Look | None = None
    make_asking: Make | None = None  # where a question is asked another way than a call is made

    def call(self, connector: Connector, folder: Path, key: str = FIRST, attempt: int = 1) -> Call:
        """Spell a call; a key always goes with the same arguments, and with what it kept (L14)."""
        args = dict(self.other_args if key == OTHER else self.args)
        place = folder.with_name(f"{folder.name}.{key}.handle")
        handle = msgspec.json.decode(place.read_bytes()) if place.exists() else None

        async def keep(handle: Json) -> None:
            place.write_bytes(msgspec.json.encode(handle))

        name = f"{connector.name}.{self.tool}"
        return Call(name, args, key, WORKFLOW, attempt, SENT_AT, handle=handle, keeper=keep)


@dataclass(frozen=True, slots=True)
class SentCall:
    """What a send came to, and the places it came by."""

    answer: Answer
    said: str
    steps: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()  # what the outside looked like before each step
    strange: str | None = None  # what was wrong with the error it raised


class Said(StrEnum):
    """What a verdict said; anything but the three verdicts is no answer."""

    APPLIED = "Applied"
    NOT_APPLIED = "NotApplied"
    UNSURE = "Unsure"
    NOTHING = "no verdict"


@dataclass
class Aftermath:
    """What was true and what was said after a point, in the order of asking."""

    truth: int
    verdict: Said
    again: SentCall | None = None
    truth_again: int = 0
    verdict_again: Said = Said.UNSURE
    truth_other: int = 0
    verdict_other: Said = Said.UNSURE
    is_askable: bool = True  # whether there is a reconcile method at all


@dataclass(frozen=True, slots=True)
class Tried:
    """One point: what was done there, and what came of it."""

    kind: str
    at: int
    after: Aftermath
    sent: SentCall | None = None
    manners: tuple[str, ...] = ()  # what was wrong with how it stopped

    def place(self, steps: Sequence[str]) -> str:
        """Name the line, or the await."""
        if self.kind == STOP:
            return f"its await {self.at}" if self.at else "its beginning"
        return steps[self.at - 1] if self.at <= len(steps) else "the end"


def examine(
    make: Make,
    tool: str,
    args: Mapping[str, Json],
    *,
    effects: Effects,
    folder: Path,
    other_args: Mapping[str, Json] | None = None,
    modules: Sequence[str] = (),
    install: Install | None = None,
    look: Look | None = None,
    has_twin: bool = True,
) -> Report:
    """Try a mutation at every point, each in a folder of its own, or raise ExamFailed.

    `make(folder)` builds the connector, `effects(folder)` counts the changes there really are.
    Every point has a folder, and so an outside, of its own: no point sees what another did.
    `other_args` are for the call with another key, where the same ones would change nothing.
    `modules` are more modules whose lines are steps; `install(step)` brings steps of your own.
    `look(folder)` says what the outside looks like: steps that find it unchanged are one point.
    Without `has_twin` the change leaves a state and no mark, such as a label: another call with the
    same arguments leaves the same, and is not told apart.
    """
    subject = Exam(make, tool, args, other_args or args, effects, tuple(modules), install, look)
    if (before := effects(fresh(folder, "before"))) != 0:
        raise ExamFailed(
            f"{tool}: effects(folder) counts {before} before anything was sent; {OWN_OUTSIDE}"
        )
    clean = fresh(folder, "clean")
    sent = in_child(lambda: _send(subject, clean, Steps(subject)), SentCall)
    if sent is None or sent.answer is not Answer.APPLIED or effects(clean) != 1:
        raise ExamFailed(f"{tool} does not work when nothing goes wrong: {sent}.")
    if effects(fresh(folder, "after")) != 0:
        raise ExamFailed(f"{tool}: one point sees what another did; {OWN_OUTSIDE}")
    for key in (OTHER, TWIN) if has_twin else (OTHER,):
        here = fresh(folder, f"beside-{key}")
        if in_child(partial(_beside, subject, here, key), Said) is Said.APPLIED:
            raise ExamFailed(f"{tool}: reconcile took the change of another key for its own.")
    kills, faults = _kills(sent), _faults(sent)
    tried = [_kill(subject, folder, at) for at in kills]
    # A killed process cannot be asked anything more; one that failed goes on, so one is enough.
    failed = in_child(lambda: _fail(subject, folder, faults), list[Tried])
    stopped = in_child(lambda: _stop(subject, folder), list[Tried])
    if failed is None or stopped is None:
        raise ExamFailed("The exam itself was killed.")
    tried += [*failed, *stopped]
    problems = [
        f"{each.kind} at {each.place(sent.steps)}: {problem}"
        for each in tried
        for problem in judge_point(each)
    ]
    if problems:
        shown = "\n".join(problems[:20])
        raise ExamFailed(f"{tool}: {len(problems)} wrong in {len(tried)} points.\n{shown}")
    count = [each.after.verdict for each in tried].count
    return Report(
        points=len(tried),
        applied=count(Said.APPLIED),
        not_applied=count(Said.NOT_APPLIED),
        unsure=count(Said.UNSURE),
        row=row_of(make, tool, clean),
    )


def row_of(make: Make, tool: str, folder: Path) -> str:
    """Write what a tool says of itself, as a row of a table (K1)."""

    def work() -> str:
        connector = make(folder)
        found = Registry([connector]).catalog.find(f"{connector.name}.{tool}").answering
        assert found is not None, tool
        return write_row(found)

    return in_child(work, str) or ""


def look_at_disk(folder: Path) -> object:
    """Say what a folder looks like: every file in it, as the file system tells them apart."""
    return sorted(
        (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        for path in folder.rglob("*")
        for status in [path.lstat()]
    )


def _kills(sent: SentCall) -> list[int]:
    """Number the points to die at: before each step, and at the end, before the result is read."""
    before = [
        at
        for at in range(1, len(sent.steps) + 1)
        if at == 1 or not sent.looks or sent.looks[at - 1] != sent.looks[at - 2]
    ]
    return [*_spread(before), len(sent.steps) + 1]


def _faults(sent: SentCall) -> list[int]:
    """Number the points to fail at: every place, when it is first reached."""
    return _spread(sorted(sent.steps.index(place) + 1 for place in set(sent.steps)))


def _spread(points: list[int]) -> list[int]:
    return points[:: -(-len(points) // POINTS_MAX) or 1]


def _kill(subject: Exam, folder: Path, at: int) -> Tried:
    """Let a process die at one point, and let another look after what it left."""
    here = fresh(folder, f"kill-{at}")
    sent = in_child(lambda: _send(subject, here, Steps(subject, at, is_kill=True)), SentCall)
    if sent is not None:
        raise ExamFailed(
            f"Point {at} was not reached again. Is something random in {subject.tool}?"
        )
    after = in_child(lambda: asyncio.run(look_after(subject, here)), Aftermath)
    assert after is not None, here
    return Tried("kill", at, after)


def judge_point(tried: Tried) -> list[str]:
    """Find where what was said is not what is true (Law 1, Law 2)."""
    after, sent, problems = tried.after, tried.sent, [*tried.manners]
    if sent is not None and sent.strange is not None:
        problems.append(sent.strange)
    if sent is not None and sent.answer is Answer.APPLIED and after.truth != 1:
        problems.append("it answered, and nothing was done")
    if sent is not None and sent.answer in ANSWERED and after.truth != 0:
        problems.append(f"it said {sent.answer} ({sent.said}), and it was done")
    if after.truth not in (0, 1):
        problems.append(f"there were {after.truth} changes")
    if after.verdict is Said.APPLIED and after.truth == 0:
        problems.append("reconcile said Applied, and nothing was done")
    if after.verdict is Said.NOT_APPLIED and after.truth == 1:
        problems.append("reconcile said NotApplied, and it was done")
    if after.again is None:
        return problems
    if after.again.answer is not Answer.APPLIED or after.truth_again != 1:
        said = f"{after.again.answer} ({after.again.said})"
        problems.append(f"sent again it said {said}, and there were {after.truth_again} changes")
    if after.truth_other != 2:
        problems.append(f"with another key sent there were {after.truth_other} changes, not 2")
    for whose, verdict in (("its", after.verdict_again), ("the other", after.verdict_other)):
        if after.is_askable and verdict is not Said.APPLIED:
            problems.append(f"after that, reconcile of {whose} key said {verdict}")
    return problems


# -- In the child -----------------------------------------------------------------------------


class Steps:
    """Counts the steps of a call, and ends it at one of them; none is 0."""

    def __init__(self, subject: Exam, at: int = 0, *, is_kill: bool = False) -> None:
        self._look = subject.look
        self._is_kill = is_kill
        self.begin(Path(), at)
        if subject.install is not None:
            subject.install(self.take)

    def begin(self, folder: Path, at: int) -> None:
        """Count from the beginning."""
        self._folder, self.at = folder, at
        self.places: list[str] = []
        self.looks: list[str] = []

    def take(self, place: str) -> None:
        """Take one step."""
        self.places.append(place)
        if self._look is not None and self.at == 0:
            self.looks.append(repr(self._look(self._folder)))
        if len(self.places) == self.at:
            if self._is_kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _send(subject: Exam, folder: Path, steps: Steps) -> SentCall:
    """Make the call, step by step, to its end or as far as it comes."""
    connector = subject.make(folder)
    steps.begin(folder, steps.at)
    trace = _tracer(_files_of(connector, subject.modules), steps.take)
    threading.settrace(trace)  # for the thread that a connector works in
    sys.settrace(trace)
    sent = asyncio.run(try_call(connector, subject.tool, subject.call(connector, folder)))
    sys.settrace(None)
    threading.settrace(None)
    places = tuple(steps.places)
    if steps.at == len(places) + 1:
        steps.take("the end")
    return SentCall(sent.answer, sent.said, places, tuple(steps.looks), sent.strange)


def _fail(subject: Exam, folder: Path, faults: Sequence[int]) -> list[Tried]:
    """Let a call fail at one point after the other, each in a folder of its own."""
    steps, tried = Steps(subject), []
    for at in faults:
        here = fresh(folder, f"fault-{at}")
        steps.begin(here, at)
        sent = _send(subject, here, steps)
        steps.begin(here, -1)  # What comes after it is neither looked at nor ended.
        tried.append(Tried("fault", at, asyncio.run(look_after(subject, here)), sent))
    return tried


def _stop(subject: Exam, folder: Path) -> list[Tried]:
    """Tell a call, and then a question, to stop at one of its awaits after the other.

    The loop is never closed: it would wait for the threads of a call that does not stop.
    """
    loop = asyncio.new_event_loop()
    tried: list[Tried] = []
    for what in ("call", "question"):
        for at in range(STOPS_MAX):
            here = fresh(folder, f"stop-{what}-{at}")
            manners, is_reached = loop.run_until_complete(_stop_at(subject, here, what, at))
            if manners:
                # A call that still runs is not examined further: its later steps would be counted.
                words = tuple(f"{what}: {each}" for each in manners)
                return [*tried, Tried(STOP, at, Aftermath(0, Said.UNSURE), manners=words)]
            if not is_reached:
                break
            after = loop.run_until_complete(look_after(subject, here))
            tried.append(Tried(STOP, at, after))
    return tried


async def _stop_at(subject: Exam, folder: Path, what: str, at: int) -> tuple[list[str], bool]:
    connector, tool = subject.make(folder), subject.tool
    call = subject.call(connector, folder)
    ask = asker_of(connector, tool)

    def begin() -> Coroutine[Any, Any, Any]:
        method = getattr(connector, tool)
        found: Coroutine[Any, Any, Any] = (
            method(call, **call.args) if what == "call" else cast("Any", ask(call))
        )
        return found

    return await stop_call(begin, at, lambda: subject.effects(folder))


async def look_after(subject: Exam, folder: Path) -> Aftermath:
    """Ask what happened, send again where the host would, and send another."""
    connector, tool = subject.make(folder), subject.tool
    mutation = _mutation(connector, tool)
    ask = asker_of(connector, tool)
    first = subject.call(connector, folder, FIRST, attempt=2)
    other = subject.call(connector, folder, OTHER)
    after = Aftermath(subject.effects(folder), told(await ask(first)))
    after.is_askable = mutation.asker is not None
    if after.verdict is Said.NOT_APPLIED or mutation.terms.idempotent:
        after.again = await try_call(connector, tool, first)
        after.truth_again = subject.effects(folder)
        await try_call(connector, tool, other)
        after.truth_other = subject.effects(folder)
        after.verdict_again = told(await ask(first))
        after.verdict_other = told(await ask(other))
    return after


def told(verdict: object) -> Said:
    """Read what reconcile returned."""
    known = {Applied: Said.APPLIED, NotApplied: Said.NOT_APPLIED, Unsure: Said.UNSURE}
    found = (told for kind, told in known.items() if isinstance(verdict, kind))
    return next(found, Said.NOTHING)


def _beside(subject: Exam, folder: Path, key: str) -> Said:
    """Ask about a call that was never sent, where another key has made its change."""

    async def ask() -> Said:
        connector = subject.make(folder)
        await try_call(connector, subject.tool, subject.call(connector, folder, key))
        return told(await asker_of(connector, subject.tool)(subject.call(connector, folder)))

    return asyncio.run(ask())


async def try_call(connector: Connector, tool: str, call: Call) -> SentCall:
    """Make a call, and read what came of it."""
    try:
        return SentCall(Answer.APPLIED, repr(await getattr(connector, tool)(call, **call.args)))
    except BaseException as error:
        plain = tame(error)
        said = f"{kind_of(error)}: {plain}".encode(errors="replace").decode()
        return SentCall(answer_of(plain), said, strange=strange(error))


def _mutation(connector: Connector, tool: str) -> Mutation[Any, ..., Any]:
    """Find how a tool was declared; an override without a decorator keeps its parent's word."""
    found = (vars(kind).get(tool) for kind in type(connector).__mro__)
    declared = next((each for each in found if isinstance(each, Mutation)), None)
    if declared is None:
        raise ConfigError(f"{type(connector).__name__}.{tool} is no mutation.")
    return declared


def asker_of(connector: Connector, tool: str) -> Callable[[Call], Awaitable[Verdict]]:
    """Find the reconcile method by name, so that a child's own is asked."""
    if (asker := _mutation(connector, tool).asker) is None:
        return _ask_nothing
    found: Callable[[Call], Awaitable[Verdict]] = getattr(connector, asker.__name__)
    return found


async def _ask_nothing(call: Call) -> Verdict:
    """Stand for the reconcile method of a tool that has none: a person decides (L5)."""
    return Unsure("it cannot be asked")


def _files_of(connector: Connector, modules: Sequence[str]) -> frozenset[str]:
    own = {each.__module__ for each in type(connector).__mro__[:-1]} - {Connector.__module__}
    return frozenset(inspect.getfile(import_module(name)) for name in own.union(modules))


def _tracer(files: frozenset[str], step: Callable[[str], None]) -> Callable[..., Any]:
    def enter(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        return line if frame.f_code.co_filename in files else None

    def line(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "line":
            step(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return line

    return enter
