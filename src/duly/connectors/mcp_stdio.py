"""An MCP server as a process of this machine, spoken to over its input and output (M8).

Law 1: it starts from an absolute path, with the variables that the settings name and no others, in
       the root folder, and ends with the host (`mcp_guard.py`).
Law 2: one request is out at a time. Before its first byte is written an error is `NotSent`; from
       then on everything but its answer is unknown, and the process is ended: what it still says
       can never be taken for the answer to a later request.
Law 3: lines, the number of messages before an answer, and its errors are bounded; what it writes
       while nothing is asked stays in its pipe.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from duly import fork
from duly.connectors import mcp_guard
from duly.connectors.mcp_wire import (
    MESSAGE_BYTES_MAX,
    McpReply,
    NoAnswer,
    answer_to,
    check_hello,
    hello,
    is_change_of_list,
    read,
    reply_in,
    write,
)
from duly.connectors.reach import left_s
from duly.env import unguessable
from duly.errors import NotSent
from duly.rules.value import Json

START_S: Final = 60.0  # a program that is fetched at its first start takes long
LIST_S: Final = 20.0
END_S: Final = 5.0  # the guard needs at most two for a server that does not end by itself
MESSAGES_MAX: Final = 10_000  # before one answer
STREAM_BYTES_MAX: Final = 64 * 1024 * 1024  # likewise
ERROR_BYTES: Final = 2_000  # of its errors that are kept
MEMORY_BYTES: Final = 4 * 1024**3


# Guards that end by themselves; each is waited for when it has.
_ENDING: Final[set[subprocess.Popen[bytes]]] = set()


class _Errors(asyncio.Protocol):
    """Keeps the end of what a server writes to its errors."""

    def __init__(self) -> None:
        self.kept = b""

    def data_received(self, data: bytes) -> None:
        self.kept = (self.kept + data[-ERROR_BYTES:])[-ERROR_BYTES:]


class McpProcess:
    """One started server; when `is_over`, another is started for the next call."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], memory: int) -> None:
        _ENDING.difference_update([each for each in _ENDING if each.poll() is not None])
        lifeline, self._hold = os.pipe()
        words = [sys.executable, "-I", "-S", mcp_guard.__file__, str(lifeline), str(memory)]
        try:
            with fork.HELD:
                self._guard = subprocess.Popen(
                    [*words, *command],
                    env=dict(variables),
                    cwd="/",
                    bufsize=0,
                    pass_fds=(lifeline,),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # a person's Ctrl-C is for the host, which then ends it
                )
                fork.own(self)
        except BaseException:
            os.close(self._hold)
            raise
        finally:
            os.close(lifeline)
        self.is_over = False
        self.has_other_list = False
        self._errors = _Errors()
        self._transports: list[asyncio.BaseTransport] = []
        self._loop = asyncio.get_running_loop()

    @property
    def pid(self) -> int:
        """The process that started the server."""
        return self._guard.pid

    @property
    def is_gone(self) -> bool:
        """Tell whether nothing of the server is left."""
        return self.is_over and self._guard.poll() is not None

    async def begin(self) -> None:
        """Connect to the process and shake hands."""
        process, loop = self._guard, self._loop
        assert process.stdin is not None and process.stdout is not None
        self._reader = asyncio.StreamReader(limit=MESSAGE_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        reading, _ = await loop.connect_read_pipe(lambda: protocol, process.stdout)
        self._transports.append(reading)
        failing, _ = await loop.connect_read_pipe(lambda: self._errors, process.stderr)
        self._transports.append(failing)
        flow = asyncio.streams.FlowControlMixin
        writing, out = await loop.connect_write_pipe(flow, process.stdin)
        self._transports.append(writing)
        self._writer = asyncio.StreamWriter(writing, out, None, loop)
        async with asyncio.timeout(START_S):
            check_hello(await self._exchange("initialize", hello()))
            self._writer.write(write("notifications/initialized") + b"\n")

    async def ask(self, method: str, params: Mapping[str, Json]) -> McpReply:
        """Ask something that changes nothing; a server that does not answer is ended."""
        try:
            async with asyncio.timeout(LIST_S):
                return await self._exchange(method, params)
        except BaseException:
            self.end()
            raise

    async def send(self, method: str, params: Mapping[str, Json]) -> McpReply:
        """Send what may change something, once; a server that does not answer is ended (law 2)."""
        try:
            return await self._exchange(method, params)
        except BaseException:
            self.end()
            raise

    async def _exchange(self, method: str, params: Mapping[str, Json]) -> McpReply:
        number = unguessable()  # no server answers what it was not asked yet
        line = write(method, params, number) + b"\n"
        if len(line) > MESSAGE_BYTES_MAX:
            raise NotSent(f"The request is larger than {MESSAGE_BYTES_MAX:,} bytes.")
        if self.is_over or self._guard.poll() is not None or self._reader.at_eof():
            raise NotSent(f"nothing was sent: {self.why(NoAnswer('it has ended'))}")
        if left_s() <= 0:
            raise NotSent("nothing was sent: the time of the call was over")
        self._writer.write(line)
        await self._writer.drain()
        size = 0
        for _ in range(MESSAGES_MAX):
            given = await self._line()
            size += len(given)
            if size > STREAM_BYTES_MAX:
                break
            if not given.lstrip().startswith(b"{"):
                continue  # a line for people, which many servers write there by mistake
            message = read(given)
            self.has_other_list = self.has_other_list or is_change_of_list(message)
            reply = reply_in(message, number)
            if reply is not None:
                return reply
            if (back := answer_to(message)) is not None:
                self._writer.write(back + b"\n")
                await self._writer.drain()
        raise NoAnswer("it sent very much and no answer")

    async def _line(self) -> bytes:
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            said = f"it sent a message of more than {MESSAGE_BYTES_MAX:,} bytes"
            raise NoAnswer(said) from None
        except asyncio.IncompleteReadError:
            raise NoAnswer("it ended before its answer") from None

    def why(self, error: BaseException) -> str:
        """Say why an exchange failed, with the end of what the server wrote to its errors."""
        if isinstance(error, NoAnswer):
            said = error.why
        elif isinstance(error, TimeoutError):
            said = "it did not answer in time"
        else:
            said = f"the connection to it failed ({type(error).__name__})"
        words = " ".join(self._errors.kept.decode("utf-8", "replace").split())[-300:]
        return f"{said}; its errors end with: {words}" if words else said

    # -- The end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Let the server end; twice is once."""
        if self.is_over:
            return
        self.is_over = True
        _ENDING.add(self._guard)
        os.close(self._hold)
        for each in self._transports:
            with suppress(Exception):
                getattr(each, "abort", each.close)()
        for pipe in (self._guard.stdin, self._guard.stdout, self._guard.stderr):
            if pipe is not None:
                pipe.close()  # the loop looks at it no more; twice is once

    async def ended(self) -> None:
        """End the server and return when nothing of it is left."""
        self.end()
        await asyncio.get_running_loop().run_in_executor(None, self._wait)

    def _wait(self) -> None:
        try:
            self._guard.wait(END_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        _ENDING.discard(self._guard)

    def abandon(self) -> None:
        """Leave the server to the parent, in a forked child (H1)."""
        if not self.is_over:
            self.is_over = True
            os.close(self._hold)  # else the server would outlive the host as long as the child
        self._guard.returncode = 0  # it is not this process's to wait for
        fork.leak(self)

    def __del__(self) -> None:
        if not getattr(self, "is_over", True):
            self.end()


def check_command(command: object) -> tuple[str, ...] | None:
    """Return a command as it is started; None if it is none."""
    is_list = isinstance(command, Sequence) and not isinstance(command, str)
    words: Sequence[Any] = command if is_list else ()  # type: ignore[assignment]
    if not words or not all(isinstance(each, str) and "\0" not in each for each in words):
        return None
    return tuple(words) if Path(words[0]).is_absolute() else None
