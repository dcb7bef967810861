"""The channel between a host and the page that it started: one socket that the page inherits.

Law: on this channel alone a request says who acts (G5). The host made both ends and gave one away,
so that no other process can speak over it; when either ends, the other one notices.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

from duly.faces.socket import CHUNK_BYTES, Control, Talk

REQUESTS_MAX: Final = 64  # at once, of all who look at the page


class PageTalk(Talk):
    """The conversation with the page."""

    names_actor = True
    requests_max = REQUESTS_MAX

    @property
    def is_quiet(self) -> bool:
        """Say no: a page gives way to no other client."""
        return False

    def _count(self) -> None:
        """Count no bytes: the page limits those of its clients, and is not hung up on for them."""


async def speak(control: Control, made: socket.socket) -> None:
    """Speak with the page at the other end until one of the two ends."""
    reader, writer = await asyncio.open_connection(sock=made, limit=CHUNK_BYTES)
    talk = PageTalk(control, reader, writer, os.geteuid())
    talk.has_spoken = True  # a page without a viewer says nothing
    await control.talk(talk)
