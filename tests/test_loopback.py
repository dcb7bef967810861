"""No test of this suite reaches another machine (M10)."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests import loopback

FAR = ("192.0.2.1", 443)  # of no machine; the socket is closed besides, so that nothing leaves


@pytest.mark.parametrize("call", ["connect", "connect_ex", "sendto"])
def test_a_socket_does_not_leave_this_machine(call: str) -> None:
    """M10: over TCP and over UDP, and it is remembered until the end of the test."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.close()
    args = (b"x", FAR) if call == "sendto" else (FAR,)
    try:
        with pytest.raises(loopback.Elsewhere):
            getattr(sock, call)(*args)
    finally:
        assert loopback.forget() == (str(FAR),)


async def test_what_is_on_this_machine_is_reached() -> None:
    """M10: asyncio's own connections go through the same door."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
    assert loopback.forget() == ()


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        (("127.0.0.1", 1), True),
        (("127.8.9.10", 1), True),
        (("::1", 1, 0, 0), True),
        (("0.0.0.0", 1), True),
        ("/run/duly.sock", True),
        (("10.0.0.1", 1), False),
        (("api.openai.com", 443), False),
        (("2001:db8::1", 1, 0, 0), False),
        (("fe80::1%eth0", 1, 0, 2), False),
    ],
)
def test_which_addresses_are_here(address: object, is_here: bool) -> None:
    """M10: names are looked up elsewhere, so that they are not here."""
    assert loopback.is_here(address) is is_here
