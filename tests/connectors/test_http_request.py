"""Requests that the settings do not describe: to the hosts that they name for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from duly.connectors.http import Http
from duly.errors import Refused, UnknownOutcome
from tests.connectors.shop import Shop, status
from tests.connectors.test_rest import call


async def test_a_request_changes_at_the_hosts_that_are_named_for_it(tmp_path: Path) -> None:
    """K2, K4, K5: without credentials, with its key, and never where only reads were named."""
    with Shop(tmp_path) as shop:
        await _requests(shop)


async def _requests(shop: Shop) -> None:
    here = f"127.0.0.1:{shop.port}"
    settings: dict[str, Any] = {"allow": ["127.0.0.1"], "auth": {"type": "bearer"}, "name": "web"}
    found: Any = Http(shop.url, hosts=[here], writes=[here], **settings)
    args: dict[str, Any] = {"method": "POST", "url": f"{shop.url}/a/orders", "body": {"item": "t"}}
    made = await found.request(call(**args), **args)
    assert (made["status"], made["json"]["item"]) == (201, "t")
    assert shop.orders() == [{"item": "t", "id": 1, "key": "k1"}]
    assert not any("authorization" in each.headers for each in shop.asks)
    shop.next(status(200, value="done"), status(500), status(409), status(307))
    assert (await found.request(call(**args), **args))["text"] == "done"
    for said in (UnknownOutcome, UnknownOutcome, Refused):
        with pytest.raises(said):
            await found.request(call(**args), **args)
    count = len(shop.asks)
    reads: Any = Http(shop.url, hosts=[here], **settings)
    assert (hasattr(reads, "request"), hasattr(found, "get")) == (False, True)
    writes: Any = Http(shop.url, writes=["example.com"], **settings)
    assert not hasattr(writes, "get")
    for wrong in ({"method": "GET"}, {"method": "post"}, {"url": "https://other.example/"}):
        changed = {**args, **wrong}
        with pytest.raises(Refused):
            await found.request(call(**changed), **changed)
    with pytest.raises(Refused, match="none of the hosts that web may change"):
        await writes.request(call(**args), **args)
    assert len(shop.asks) == count
