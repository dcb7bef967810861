"""Names that are looked up while others are not answered."""

from __future__ import annotations

import asyncio
import socket
import threading
from ipaddress import ip_address
from typing import Any

import pytest

from duly.connectors.reach import resolve_name


async def test_names_that_are_not_answered_hold_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """K2: a silent name server costs the calls that ask it, and no other connector."""
    over, asked = threading.Event(), socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> Any:
        if host.endswith(".silent.test"):
            over.wait()
        return asked("127.0.0.1", *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    waiting = [asyncio.create_task(resolve_name(f"a{at}.silent.test", 80)) for at in range(40)]
    late = threading.Timer(20, over.set)  # the time of the tests stands still meanwhile
    late.start()
    try:
        assert await resolve_name("shop.test", 80) == (ip_address("127.0.0.1"),)
        assert not any(each.done() for each in waiting)
    finally:
        late.cancel()
        over.set()
        await asyncio.gather(*waiting)
