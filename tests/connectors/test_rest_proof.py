"""Attacks on connectors of web services: a change made twice, a key and a secret led elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import rest
from duly.connectors.http import Http
from duly.connectors.rest import Auth, KeyPlace, Rest, Verify
from duly.connectors.transport import Transport
from duly.errors import DulyError, Refused, UnknownOutcome
from tests.connectors import shop as double
from tests.connectors.shop import Manner, Shop, raw, status
from tests.connectors.test_http_host import PYTHON
from tests.connectors.test_rest import BY_PATH, BY_QUERY, HEADER, NUMBER, call, client
from tests.connectors.test_transport import Names
from tests.web.stand import Shifted

CUT = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
# What a service may say about a key that it knows, and that is no "there is none".
EMPTY: dict[str, tuple[Manner, ...]] = {
    "a connection that ends behind the head": (raw(CUT),),
    "a body of no bytes": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),),
    "204": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"),),
    "null": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull"),),
    "410, it was there": (status(410),),
    "a redirect, which is not followed": (status(302, "Location: /a/sign-in\r\n"),),
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop").mkdir()
    with Shop(tmp_path / "shop") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "other").mkdir()
    with Shop(tmp_path / "other") as made:
        yield made


@pytest.mark.parametrize("name", EMPTY)
async def test_an_answer_that_says_nothing_is_no_proof_that_nothing_happened(
    shop: Shop, name: str
) -> None:
    """L5, K2: only "there is none with this key", said at the place of the key, is a no."""
    rest = client(shop)
    await rest.change(call(), "POST", "/orders", body={"item": "tea"}, key=HEADER)
    shop.next(*EMPTY[name])
    try:
        verdict: Any = await rest.find(call(), BY_PATH)
    except DulyError:
        return  # it could not be asked: nothing was said about the call
    assert not isinstance(verdict, duly.NotApplied), name


ORDER: dict[str, Any] = {
    "create_order": {
        "method": "POST",
        "path": "/orders",
        "arguments": {"item": "string", "count": "integer?"},
        "key": {"header": "Idempotency-Key"},
        "verify": {"path": "/by-key/{key}", "match": "key"},
        "returns": {"id": "integer", "item": "string"},
        "lag_s": 0,
    },
    "orders": {
        "path": "/orders",
        "paging": {"items": "orders", "cursor": "next", "parameter": "cursor"},
    },
}


async def work(shop: Shop, folder: Path, clock: Shifted, *, is_new: bool = True) -> None:
    """Open a host for a shop and let it work for a day; it waits between its tries."""
    web = Http(f"{shop.url}/a", operations=ORDER, allow=["127.0.0.1"], name="shop")
    url = f"sqlite:///{folder / 'duly.db'}"
    async with duly.Host(url, connectors=(web,), env=clock) as host:
        if is_new:
            await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        for _ in range(12):
            await host.drain()
            clock.shift_ms += 600_000


@pytest.mark.parametrize("name", EMPTY)
async def test_a_change_is_not_made_twice_because_the_question_about_it_had_no_answer(
    shop: Shop, tmp_path: Path, name: str
) -> None:
    """L5, K2: the whole host. The answer to a change is lost, and the verify request too."""
    shop.forgets_keys = True  # a service that knows no idempotency, as most do
    shop.next(double.well, double.lost, *EMPTY[name])  # a list, the change, the question
    clock = Shifted()
    await work(shop, tmp_path, clock)
    clock.close()
    assert [each.method for each in shop.asks if each.method == "POST"] == ["POST"]
    assert len(shop.orders()) == 1


@pytest.mark.parametrize("path", [".evil.example/orders", ":8443/orders", "orders"])
async def test_no_path_leaves_the_origin_or_the_place_of_a_service(path: str) -> None:
    """K4, rest.py law 3: a path that does not begin with a slash is part of no name."""
    names = Names(("192.0.2.1",))
    rest = Rest("https://shop.example", transport=Transport(resolve=names))
    rest.name = "shop"
    with pytest.raises(DulyError):
        await rest.change(call(), "POST", path, body={"item": "tea"}, key=KeyPlace("field", "key"))
    assert names.asked in ([], ["shop.example"])
    with pytest.raises(Refused):
        Rest("https://shop.example/api")._at("-of-another/keys")


async def test_a_secret_is_not_sent_in_the_clear_to_a_public_address() -> None:
    """K3, K4: `allow` opens the own network for a host; it does not make the internet safe."""
    names = Names(("8.8.8.8",))
    seen: list[str] = []

    class Watched(Transport):
        async def _connect(self, url: Any, addresses: Any) -> Any:
            seen.append(str(addresses[0]))
            raise ConnectionRefusedError

    rest = Rest(
        "http://shop.internal",
        auth=Auth("bearer"),
        allow=["shop.internal"],
        transport=Watched(allow=["shop.internal"], resolve=names),
    )
    rest.name = "shop"
    rest._vault = lambda connector, name: "s3cret"
    with pytest.raises(DulyError):
        await rest.fetch("/orders")
    assert seen == []


async def test_a_list_that_moves_between_two_pages_proves_no_absence(shop: Shop) -> None:
    """L5: an older order is deleted after page 1 was read, so the one sought moves to page 1."""
    rest = client(shop)
    verify = Verify("/orders", match="key", items="orders", paging=NUMBER)
    before, after = [{"key": "a"}, {"key": "b"}], [{"key": "b"}, {"key": "k1"}]
    shop.next(
        status(200, value={"orders": before}),  # page 1; k1 stands on page 2
        status(200, value={"orders": []}),  # page 2, after a was deleted
        status(200, value={"orders": after}),  # page 1, if it is looked at again
    )
    verdict: Any = await rest.find(call(), verify)
    assert not isinstance(verdict, duly.NotApplied)


async def test_a_change_whose_answer_ends_behind_its_head_is_unknown(shop: Shop) -> None:
    """K2, decision 140: an end that was not announced counts only behind a whole JSON value."""
    shop.next(raw(CUT))
    with pytest.raises(UnknownOutcome):
        await client(shop).change(call(), "POST", "/orders", body={"item": "tea"}, key=HEADER)


@pytest.mark.parametrize("verify", [BY_QUERY, BY_PATH], ids=("list", "one"))
async def test_an_answer_out_of_a_cache_is_no_proof_that_nothing_happened(
    shop: Shop, verify: Verify
) -> None:
    """L5: a proxy says with `Age` that its answer was made an hour ago, before the call was."""
    rest = client(shop)
    await rest.change(call(), "POST", "/orders", body={"item": "tea"}, key=HEADER)
    stale = status(200, "Age: 3600\r\n", value={"orders": []})
    shop.next(stale if verify is BY_QUERY else status(404, "Age: 3600\r\n"))
    try:
        verdict: Any = await rest.find(call(), verify)
    except DulyError:
        return
    assert not isinstance(verdict, duly.NotApplied)
    assert "no-cache" in shop.asks[-1].headers.get("cache-control", "")


# What does not go through `_read_signed` and `_change_signed`, and why it needs no token.
OTHER_WAYS = {
    "rest.py": "the two ways themselves",
    "oauth.py": "asks for the tokens",
    "s3.py": "signs each request itself",
    "http.py": "other hosts are read without credentials",
    "bot.py": "is no connector of the kit; its token is in the path",
    "telegram.py": "reads with its token in the path",
    "model.py": "has a key and no sign-in",
    "mcp_http.py": "is no connector of the kit; its key is a header",
    "slack.py": "an upload goes to the address that Slack gave, without credentials",
    "transport.py": "what sends",
}


def test_every_request_of_the_kit_goes_one_way() -> None:
    """K9: a connector that sends by itself would use a token that has run out."""
    folder = Path(rest.__file__).parent
    sends = re.compile(r"transport\.(read|change)\(")
    found = {each.name for each in folder.glob("*.py") if sends.search(each.read_text())}
    assert found - OTHER_WAYS.keys() == set()
