"""How hosts of a fleet wake each other: notifications of PostgreSQL (H9).

Law 1  A notification is only a hint where to look. Losing all of them costs time and nothing else.
Law 2  It is sent after the commit it tells of, in a transaction of its own, at most 50 a second:
       a commit that carries a notification would wait for every other one of the server.
Law 3  Where the server passes none on (a proxy may keep them), hosts look once a second instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from duly import fork
from duly.env import Env
from duly.errors import StoreError
from duly.store.base import Durability, Row, Transaction
from duly.store.postgres import PostgresBackend
from duly.store.postgres_session import dial

CHANNEL: Final = "duly"
PAUSE_S: Final = 0.02  # at most 50 a second
LOOK_S: Final = 1.0  # how often to look where no notification comes
TRY_S: Final = 2.0  # how long the first notification may take
AGAIN_S: Final = 10.0  # how long to wait before listening is tried again
TOLD_CHARS_MAX: Final = 7000  # of one notification; the server takes 8000 bytes
ALL: Final = "*"  # look at everything
BUS: Final = "bus"  # look at the bus

log = logging.getLogger("duly.store")


class Bell:
    """Rings at the other hosts, and hears them ring."""

    def __init__(self, env: Env, url: str, backend: PostgresBackend) -> None:
        self.rung: Callable[[str], None] = lambda _: None  # called with what to look at
        self._env = env
        self._url = url
        self._backend = backend
        self._own = env.new_id("bell")
        self._told: dict[str, None] = {}
        self._ringing: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()  # a notification of our own came back
        self._connection: psycopg.Connection[Row] | None = None
        self._is_closed = False
        fork.own(self)

    def abandon(self) -> None:
        """Leave the connection to the parent process."""

    @property
    def is_heard(self) -> bool:
        """Tell whether notifications arrive here."""
        return self._heard.is_set()

    def open(self) -> None:
        """Begin to listen."""
        self._listening = self._env.spawn(self._listen(), "duly bell")

    def ring(self, what: str) -> None:
        """Tell the other hosts to look at something, soon."""
        self._told[what] = None
        if self._ringing is None or self._ringing.done():
            self._ringing = self._env.spawn(self._ring(), "duly ring")

    async def close(self) -> None:
        """Ring for what is left, and stop listening."""
        if self._ringing is not None:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._ringing])
        self._is_closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _ring(self) -> None:
        while self._told:
            told, self._told = self._told, {}
            text = f"{self._own} {' '.join(told)}"
            await self._send(text if len(text) <= TOLD_CHARS_MAX else f"{self._own} {ALL}")
            await self._env.sleep(PAUSE_S)

    async def _send(self, text: str) -> None:
        def ring(tx: Transaction) -> None:
            tx.all("ring", told=text)

        try:
            await self._backend.transact(ring, Durability.RIDER)
        except StoreError as error:
            log.info(
                "the other hosts could not be told: %s", error
            )  # they look by themselves (law 1)

    async def _listen(self) -> None:
        """Listen, and look once a second for as long as nothing can be heard."""
        looking = self._env.spawn(self._look(), "duly look")
        try:
            while True:
                with suppress(psycopg.Error, OSError):
                    await self._hear()
                self._heard.clear()
                await self._env.sleep(AGAIN_S)
        finally:
            looking.cancel()
            self._leave()

    async def _look(self) -> None:
        while True:
            await self._env.sleep(LOOK_S)
            if not self.is_heard:
                self.rung(ALL)

    async def _hear(self) -> None:
        """Listen until the connection ends; return at once if our own notification is not heard."""
        connection = await self._env.call_blocking(self._connect)
        self._connection = connection
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        number = connection.fileno()  # a connection that is lost does not tell it any more

        def read() -> None:
            try:
                connection.pgconn.consume_input()
                while (found := connection.pgconn.notifies()) is not None:
                    self._take(found.extra.decode())
            except psycopg.Error:
                ended.set()

        loop.add_reader(number, read)
        try:
            self.ring(self._own)
            with suppress(TimeoutError):
                async with asyncio.timeout(TRY_S):
                    await self._heard.wait()
            if not self.is_heard:
                log.warning("no notification arrives from the server; looking once a second")
                return
            self.rung(ALL)  # for what came before
            await ended.wait()
        finally:
            loop.remove_reader(number)
            self._leave()

    def _connect(self) -> psycopg.Connection[Row]:
        connection = dial(self._url)
        connection.execute(f"listen {CHANNEL}")
        if self._is_closed:  # while it was being made
            connection.close()
        return connection

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, text: str) -> None:
        sender, *told = text.split(" ")
        if sender == self._own:
            self._heard.set()
            return
        for what in told:
            if what != sender:  # how a host tries whether it hears
                self.rung(what)
