"""Whatever a connector raises is one plain error, and what blocks the loop is named."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import duly
from duly.connectors.raised import is_of_a_signal, tame, words_of
from duly.connectors.registry import Registry
from duly.connectors.watchdog import Watchdog
from duly.errors import AuthNeeded, Refused, Transient
from duly.rules.failure import answer_of, failure_of
from duly.rules.word import Answer, Failure
from tests.connectors.many import PATIENCE_S, Many, attached, sending
from tests.connectors.sheets import make_call

__all__ = ["attached"]

pytestmark = pytest.mark.anyio


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class MuteExit(Mute):
    def __str__(self) -> str:
        sys.exit(1)


class OddMarks(Transient):
    """Its marks raise when they are read."""

    def __init__(self) -> None:
        Exception.__init__(self, "odd")

    def __getattribute__(self, name: str) -> Any:
        if name in ("retry_after_s", "outcome"):
            raise SystemExit
        return super().__getattribute__(name)


class OddClass(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Words(str):
    def strip(self, *_: Any) -> str:
        raise RuntimeError("no")


class OddWords(Exception):
    def __str__(self) -> str:
        return Words("well")


class Base(BaseException):
    pass


# Made when they are raised: pytest itself could not look at some of them.
RAISED: dict[str, Callable[[], BaseException]] = {
    "mute": Mute,
    "mute exit": MuteExit,
    "odd marks": OddMarks,
    "odd class": OddClass,
    "odd words": OddWords,
    "base": Base,
    "generator exit": GeneratorExit,
    "exit 3": lambda: SystemExit(3),
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "stop": StopIteration,
    "several": lambda: BaseExceptionGroup("several", [Base(), SystemExit()]),
}


async def raise_here(many: Many, error: BaseException) -> None:
    raise error


async def raise_in_thread(many: Many, error: BaseException) -> None:
    def job() -> None:
        raise error

    await many.in_thread(job)


async def raise_in_executor(many: Many, error: BaseException) -> None:
    def job() -> None:
        raise error

    await asyncio.to_thread(job)


async def raise_in_task(many: Many, error: BaseException) -> None:
    await asyncio.gather(asyncio.ensure_future(raise_here(many, error)))


WHERE = [raise_here, raise_in_thread, raise_in_executor, raise_in_task]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        pytest.param(name, where, id=f"{name} {where.__name__}")
        for name in RAISED
        for where in WHERE
        # asyncio itself never answers a task that stops an iteration in a thread of its own
        if (name, where) != ("stop", raise_in_executor)
    ],
)
async def test_whatever_is_raised_is_one_plain_error(attached: None, name: str, where: Any) -> None:
    """L13, L4: out of a read, a change and a question; the loop goes on."""
    # Under the default handler a KeyboardInterrupt is taken for a person's Ctrl-C.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        many = Many(lambda many, _: where(many, RAISED[name]()))
        registry = Registry([many])
        with pytest.raises(Exception) as raised:  # noqa: PT011  # of any kind, and plain
            await registry.reconcile(
                registry.catalog.find("many.change"), make_call("many.change"), limit_s=PATIENCE_S
            )
        told = raised.value
        assert type(told).__module__ in ("builtins", "duly.errors")
        assert str(told)
        assert failure_of(told) in (Failure.INTERNAL, Failure.UNREACHABLE)
        reply = await sending(many).answered(PATIENCE_S)
        assert reply is not None
        assert reply.error is not None
        assert answer_of(reply.error) is Answer.UNKNOWN
    finally:
        signal.signal(signal.SIGINT, before)


async def test_a_task_that_nobody_awaits_does_not_end_the_loop(attached: None) -> None:
    """L13: `sys.exit()` in a task of a connector ends that task alone."""

    async def act(many: Many, _: Any) -> str:
        many.kept = asyncio.ensure_future(raise_here(many, SystemExit(0)))  # type: ignore[attr-defined]
        await asyncio.wait([many.kept])  # type: ignore[attr-defined]
        return "done"

    reply = await sending(Many(act)).answered(PATIENCE_S)
    assert reply is not None
    assert reply.value == "done"


def test_marks_that_can_be_read_are_kept() -> None:
    """L4: what an author said comes out as it was said."""
    limited = tame(Transient("slow", retry_after_s=9, outcome="refused"))
    assert isinstance(limited, Transient)
    assert (limited.retry_after_s, limited.outcome, str(limited)) == (9, "refused", "slow")
    again = tame(Refused("no", remembered=True))
    assert answer_of(again) is Answer.REMEMBERED
    auth = tame(AuthNeeded("out", connect="mail"))
    assert isinstance(auth, AuthNeeded)
    assert auth.connect == "mail"

    class Own(Refused):
        """A connector's own kind."""

    assert answer_of(tame(Own("no"))) is Answer.REFUSED
    assert words_of("x" * 20_000) == "x" * 10_000


class OddReason(duly.Unsure):
    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name == "reason":
            raise RuntimeError("no reason")
        return super().__getattribute__(name)


class MuteReason:
    def __str__(self) -> str:
        raise Base


@pytest.mark.parametrize("verdict", [OddReason(), duly.Unsure(MuteReason())])  # type: ignore[arg-type]
async def test_a_reason_that_cannot_be_read_is_an_unsure(verdict: duly.Unsure) -> None:
    """L13, L5: it is an answer, and counts as one."""

    async def act(many: Many, _: Any) -> Any:
        return verdict

    registry = Registry([Many(act)])
    heard = await registry.reconcile(
        registry.catalog.find("many.change"), make_call("many.change"), limit_s=PATIENCE_S
    )
    assert type(heard) is duly.Unsure
    assert "cannot be read" in heard.reason


def test_a_persons_ctrl_c_is_no_connectors() -> None:
    """L13: what a signal handler raises in the main thread goes its own way."""

    def handler(*_: object) -> None:
        raise SystemExit(5)

    before = signal.signal(signal.SIGUSR1, handler)
    # A shell starts what it puts in the background with SIGINT ignored.
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as raised:
            signal.raise_signal(signal.SIGUSR1)
        assert is_of_a_signal(raised.value)
        with pytest.raises(SystemExit) as raised:
            sys.exit(5)
        assert not is_of_a_signal(raised.value)
        assert is_of_a_signal(KeyboardInterrupt())
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGINT, ctrl_c)
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(is_of_a_signal(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert told == [False]


# -- What blocks -----------------------------------------------------------------------------


async def test_code_that_blocks_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """L13: the tool and the place, once per doubling; what only waits is left alone."""
    told = threading.Event()

    async def act(many: Many, _: Any) -> Any:
        await asyncio.sleep(0.05)  # waiting blocks nothing
        deadline = time.monotonic() + PATIENCE_S
        while not told.is_set() and time.monotonic() < deadline:
            time.sleep(0.002)  # noqa: ASYNC251  # this is what it is about
            if any("many.change" in each.message for each in caplog.records):
                told.set()
        return "done"

    many = Many(act)
    registry = Registry([many])
    dog = Watchdog(registry.pace, tick_s=0.005)
    try:
        watch = registry.send(registry.catalog.find("many.change"), make_call("many.change"))
        await watch.answered(PATIENCE_S)
    finally:
        dog.close()
    assert told.is_set()
    assert f"at {__file__}:" in caplog.text
    assert "duly-watchdog" not in [each.name for each in threading.enumerate()]
