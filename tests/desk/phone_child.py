"""A host in a process of its own that is killed at the moment of a press: before or after its act.

python -m tests.desk.phone_child FOLDER URL before|after
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from duly.host import Host
from tests.desk.phone import Phone


class _Elsewhere:
    """The server of the parent process."""

    def __init__(self, url: str) -> None:
        self.url = url


class _Mortal(Host):
    """A host that dies when it is told to approve."""

    when = "before"

    async def approve(self, *args: Any, **more: Any) -> None:
        if self.when == "after":
            await super().approve(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)


async def main(store: str, url: str, when: str) -> None:
    chat: Any = _Elsewhere(url)
    stand = Phone(Path(), chat, store, kind=_Mortal)
    _Mortal.when = when
    async with stand.serving():
        await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
