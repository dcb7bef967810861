"""The process in which a Python script runs, spoken to from the event loop.

Law 1: every event is served where it is heard, in the loop: the next request goes out at once. The
       task that waits is woken when the script stands still, so a turn costs one waking, however
       often the script asked for the time, for chance or for a promise.
Law 2: an event too long to be read at once is read beside the loop (X2).
Law 3: what was not asked for is not heard: every request but the last of a turn is acknowledged,
       and only then come the events of the last.
Law 4: a process with more threads than the interpreter has is ended: it runs something else.

The process is the interpreter itself, which `python_launcher` became behind its lock; how it is
started, watched, kept and ended is the pool's, as for JavaScript.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Awaitable, Callable
from typing import Final

from duly.env import Env
from duly.sandbox import python_launcher, python_wire, wire
from duly.sandbox.pool import WORD, Overrun, Program, Worker
from duly.sandbox.python_launcher import THREADS_MAX
from duly.sandbox.python_wire import Event, Kind
from duly.sandbox.watch import Limit, ScriptWatch

READ_AT_ONCE_BYTES: Final = 64 * 1024
THREADS_LOOK_S: Final = 0.5
ENDING_S: Final = 1.0
# A script that follows another at once finds its predecessor forgotten on its own way in.
FORGET_S: Final = 0.2
# How the interpreter ends when a script's memory is used up and nothing more can be said.
OUT_OF_MEMORY: Final = 65
PROGRAM: Final = (
    "import sys; sys.path[:0] = [each for each in sys.argv[2:] if not each.startswith('WORD')];"
    " words = [each[len('WORD'):] for each in sys.argv[2:] if each.startswith('WORD')];"
    " from duly.sandbox.python_launcher import main; main(int(sys.argv[1]), *words)"
).replace("WORD", WORD)

# What to send next; nothing if more is to come, None if the script stands still.
Serve = Callable[[Event], bytes | None]
Apart = Callable[[Callable[[], bytes | None]], Awaitable[bytes | None]]


class Stream(wire.Channel):
    """The host's end of the socket, on which a worker says several things in one turn."""

    def __init__(self, end: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(end, loop)
        self._acknowledged = 0  # so many requests are still to be acknowledged
        self._serve: Serve | None = None
        self.unread: Event | None = None  # an event too long for the loop; nothing is heard after
        self.unsent = b""  # what did not fit into the socket

    def expect(self, acknowledged: int, serve: Serve | None) -> None:
        """Say what the next requests are answered with; before a script all must be quiet."""
        if self._trouble is not None:
            raise self._trouble
        if self._serve is None and serve is not None:
            self._must_be_quiet()
        self._acknowledged += acknowledged
        self._serve = serve

    def send_now(self, body: bytes) -> bytes:
        """Send whole frames as far as they go without waiting; return what is left of them."""
        if not body:
            return body
        self._is_owed = True
        return self._send(body)

    def go_on(self, reply: bytes | None) -> None:
        """Listen again after an event that was read beside the loop, before it is replied to."""
        self.unread = None
        self._is_owed = reply is not None
        self._loop.add_reader(self._end, self._hear)
        if reply and self._buffer:
            raise wire.Violation("A worker said more than it was asked.")
        self._add(b"")

    def _send(self, frames: bytes) -> bytes:
        try:
            return frames[self._end.send(frames) :]
        except BlockingIOError:
            return frames
        except OSError as error:
            raise wire.Closed(f"A worker is gone: {error}.") from None

    def _must_be_quiet(self) -> None:
        # Between two scripts there may be an acknowledgement that is not there yet.
        if not self._is_owed:
            super()._must_be_quiet()

    def _add(self, piece: bytes) -> None:
        """Take what came, and serve every event that is whole."""
        self._buffer += piece
        while self.unread is None and len(self._buffer) >= wire.LENGTH.size:
            (length,) = wire.LENGTH.unpack_from(self._buffer)
            if length > wire.FRAME_BYTES_MAX:
                most = wire.FRAME_BYTES_MAX
                raise wire.Violation(f"A worker announced {length} bytes; the limit is {most}.")
            end = wire.LENGTH.size + length
            if len(self._buffer) < end:
                break
            body = bytes(memoryview(self._buffer)[wire.LENGTH.size : end])
            del self._buffer[:end]
            self._take(body)
        if self._buffer and not self._is_owed:
            self._body = None
            raise wire.Violation("A worker said more than it was asked.")

    def _take(self, body: bytes) -> None:
        if not self._is_owed:
            self._body = None  # what came before this is not believed either
            raise wire.Violation("A worker said more than it was asked.")
        if self._acknowledged:
            if python_wire.read_event(body).kind is not Kind.DONE:
                raise wire.Violation("A worker did not take what it was given.")
            self._acknowledged -= 1
            self._is_owed = bool(self._acknowledged) or self._serve is not None
        elif self._serve is None:  # the worker's first words
            self._stand(body)
        elif len(body) > READ_AT_ONCE_BYTES:
            self.unread = python_wire.read_event(body)
            self._loop.remove_reader(self._end)
            self._body = b""
        else:
            self._reply(self._serve(python_wire.read_event(body)))

    def _reply(self, reply: bytes | None) -> None:
        if reply is None:
            self._stand(b"")
        elif reply:
            self.unsent = self._send(wire.frame(reply))
            if self.unsent:
                self._body = b""

    def _stand(self, body: bytes) -> None:
        self._body = body
        self._is_owed = False


class PythonWorker(Worker):
    """One process of the interpreter."""

    _channel: Stream

    def __init__(self, env: Env, *, is_unlocked: bool = False) -> None:
        accepted = python_launcher.ACCEPTED if is_unlocked else "no"
        words = (accepted, str(python_launcher.find_binary()))
        super().__init__(env, Program(PROGRAM, ("duly", "msgspec"), words))
        self._counting: asyncio.TimerHandle | None = None
        self._forgetting: asyncio.TimerHandle | None = None
        self._has_threads = False

    def _open(self, end: socket.socket) -> Stream:
        return Stream(end, asyncio.get_running_loop())

    async def converse(
        self, requests: tuple[bytes, ...], serve: Serve, apart: Apart, watch: ScriptWatch
    ) -> None:
        """Let the script run until it stands still; raise Overrun, Closed or Violation.

        All requests but the last are acknowledged. Until the script stands still the worker is not
        clean.
        """
        self.is_clean = False
        self._watch = watch
        requests = (*self._wiping(), *requests)
        self._channel.expect(len(requests) - 1, serve)
        self._count_threads_later()
        try:
            await self._exchange(b"".join(map(wire.frame, requests)), watch)
            while self._channel.unread is not None or self._channel.unsent:
                await self._go_on(serve, apart, watch)
        except Overrun:
            self.kill()
            raise
        except wire.Closed:
            if self._has_threads:
                raise Overrun("Too many threads.", Limit.THREADS) from None
            raise
        finally:
            if self._counting is not None:
                self._counting.cancel()
        self.is_clean = True

    async def _go_on(self, serve: Serve, apart: Apart, watch: ScriptWatch) -> None:
        channel = self._channel
        rest, channel.unsent = channel.unsent, b""
        if (unread := channel.unread) is not None:
            reply = await apart(lambda: serve(unread))
            channel.go_on(reply)
            if reply is None:
                return
            rest = wire.frame(reply) if reply else b""
        await self._exchange(rest, watch)

    def _count_threads_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._counting = loop.call_later(THREADS_LOOK_S, self._count_threads)

    def _count_threads(self) -> None:
        if (self._stat.threads() or 0) <= THREADS_MAX:
            self._count_threads_later()
        else:
            self._has_threads = True
            self.kill()

    async def wipe(self) -> None:
        """Let the interpreter forget its script: with the next one's first words, or soon."""
        self._channel.expect(0, None)
        if self._forgetting is None:  # else this script left without a word
            loop = asyncio.get_running_loop()
            self._forgetting = loop.call_later(FORGET_S, self._forget)

    def _wiping(self) -> tuple[bytes, ...]:
        if self._forgetting is None:
            return ()
        self._forgetting.cancel()
        self._forgetting = None
        return (python_wire.RESET,)

    def _forget(self) -> None:
        reset = b"".join(map(wire.frame, self._wiping()))
        try:
            self._channel.expect(1, None)
            is_heard = not self._channel.send_now(reset)
        except (wire.Closed, wire.Violation):
            is_heard = False
        if not is_heard:
            self.kill()  # it does not listen, or it spoke unasked; the next script gets another

    def release(self) -> None:
        """Tell the process to end and give its descriptors back."""
        self._wiping()
        super().release()

    def has_used_up_its_memory(self) -> bool:
        """Tell, in a thread, whether a process that said no more was out of memory."""
        try:
            return self._process.wait(ENDING_S) == OUT_OF_MEMORY
        except subprocess.TimeoutExpired:
            return False
