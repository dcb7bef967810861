"""The channel between a host and the page that it started: one socket that the page inherits.

Law 1  On this channel alone a request says who acts (G5). The host made both ends and gave one
       away, so that no other process can speak over it; when either ends, the other one notices.
Law 2  Each line of the page is a sign of life, and a page without a viewer sends one as well.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from duly.faces.socket import CHUNK_BYTES, Control, Talk

REQUESTS_MAX: Final = 64  # at once, of all who look at the page


class PageTalk(Talk):
    """The conversation with the page."""

    names_actor = True
    requests_max = REQUESTS_MAX
    heard: Callable[[], None] | None = None  # what to call at each line

    @property
    def is_quiet(self) -> bool:
        """Say no: a page gives way to no other client."""
        return False

    async def _take(self, line: bytes) -> None:
        """Note that the page is alive, and begin what it asks for (law 2)."""
        if self.heard is not None:
            self.heard()
        await super()._take(line)

    def _count(self) -> None:
        """Count no bytes: the page limits those of its clients, and is not hung up on for them."""


async def speak(
    control: Control, made: socket.socket, heard: Callable[[], None] | None = None
) -> None:
    """Speak with the page at the other end until one of the two ends; `heard` is told of lines."""
    reader, writer = await asyncio.open_connection(sock=made, limit=CHUNK_BYTES)
    talk = PageTalk(control, reader, writer, os.geteuid())
    talk.heard = heard
    talk.has_spoken = True  # a page without a viewer says nothing
    await control.talk(talk)
