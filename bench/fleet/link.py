"""A link to the server that holds every byte for a while: `python -m bench.fleet.link SOCKET S`.

It prints its port, and ends when its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial

CHUNK_BYTES = 65_536


async def carry(delay_s: float, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """Pass bytes on, each chunk after the same delay."""
    loop = asyncio.get_running_loop()
    while chunk := await source.read(CHUNK_BYTES):
        loop.call_later(delay_s, to.write, chunk)
    loop.call_later(delay_s, to.close)


async def join(
    server: str, delay_s: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Join a client with the server."""
    back, forth = await asyncio.open_unix_connection(server)
    with suppress(OSError):
        await asyncio.gather(carry(delay_s, reader, forth), carry(delay_s, back, writer))


async def serve(server: str, delay_s: float) -> None:
    """Take connections until the input ends."""
    listener = await asyncio.start_server(partial(join, server, delay_s), "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
