"""The kit for web services: where the key travels, how a call is found, how a list goes on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.rest import PAGES_MAX, Auth, KeyPlace, Paging, Rest, Verify
from duly.errors import (
    AuthNeeded,
    ConfigError,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from tests.connectors.shop import Shop, raw, status

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HEADER = KeyPlace("header", "Idempotency-Key")
CURSOR = Paging(items="orders", cursor="next", parameter="cursor")
LINK = Paging(items="orders", link=True)
NUMBER = Paging(items="orders", page="page")
BY_QUERY = Verify("/orders", match="key", query={"key": "{key}"}, items="orders")
BY_PATH = Verify("/by-key/{key}", match="key")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path) as made:
        yield made


def client(shop: Shop, **more: Any) -> Rest:
    made = Rest(f"{shop.url}/a", allow=["127.0.0.1"], **more)
    made.name = "shop"
    made._vault = lambda connector, name: {"token": "s3cret"}.get(name, "")
    return made


def call(key: str = "k1", *, attempt: int = 1, **args: Any) -> duly.Call:
    sent_at = NOW + timedelta(seconds=attempt - 1)
    return duly.Call("shop.order", args, key, "w", attempt, sent_at, NOW)


async def order(rest: Rest, key: str = "k1", place: KeyPlace = HEADER) -> Any:
    return await rest.change(call(key), "POST", "/orders", body={"item": "tea"}, key=place)


# -- Where the key travels ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [HEADER, KeyPlace("field", "key"), KeyPlace("query", "key")],
    ids=lambda each: each.kind,
)
async def test_the_key_travels_where_it_is_declared(shop: Shop, place: KeyPlace) -> None:
    """K2, L7: and the same key makes one order."""
    rest = client(shop)
    first = await order(rest, place=place)
    assert first == {"id": 1, "item": "tea", "key": "k1"}
    assert await order(rest, place=place) == first
    assert [each["key"] for each in shop.orders()] == ["k1"]


async def test_a_field_for_the_key_may_lie_deep_and_in_a_form(shop: Shop) -> None:
    """L7: objects on the way are made; a form has flat fields."""
    rest = client(shop)
    await order(rest, place=KeyPlace("field", "meta.duly.key"))
    assert shop.orders()[0]["meta"] == {"duly": {"key": "k1"}}
    await rest.change(
        call("k2"),
        "POST",
        "/orders",
        body={"item": "tea", "tags": ["a", "b"], "fast": True},
        key=KeyPlace("field", "key"),
        is_form=True,
    )
    assert shop.asks[-1].body == b"item=tea&tags=a&tags=b&fast=true&key=k2"
    with pytest.raises(Refused, match="no object"):
        await rest.change(call(), "POST", "/orders", body=[1], key=KeyPlace("field", "key"))


# -- Credentials ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (Auth("bearer"), "authorization", "Bearer s3cret"),
        (
            Auth("basic", user="ada"),
            "authorization",
            f"Basic {base64.b64encode(b'ada:s3cret').decode()}",
        ),
        (Auth("header", name="X-Api-Key"), "x-api-key", "s3cret"),
    ],
)
async def test_a_secret_is_sent_as_declared(
    shop: Shop, auth: Auth, header: str, value: str
) -> None:
    """A5, K4: in its header."""
    rest = client(shop, auth=auth)
    await order(rest)
    await rest.fetch("/orders")
    assert [each.headers[header] for each in shop.asks] == [value] * 2


@pytest.mark.parametrize("kind", ["bearer", "query"])
async def test_several_secret_headers_go_to_their_origin_alone(
    shop: Shop, tmp_path: Path, kind: Any
) -> None:
    """A5, K4: each with a secret of its own; a redirect leads none of them elsewhere."""
    keys = {"X-Key": "key", "X-App": "app"}
    rest = client(shop, auth=Auth(kind, name="q" if kind == "query" else "", headers=keys))
    assert rest._secret_names == ("token", "key", "app")
    secrets = {"token": "s3cret", "key": "k3y", "app": "4pp"}
    rest._vault = lambda connector, name: secrets[name]
    await order(rest)
    await rest.fetch("/orders")
    sent = [(each.headers["x-key"], each.headers["x-app"]) for each in shop.asks]
    assert sent == [("k3y", "4pp")] * 2
    (tmp_path / "other").mkdir()
    with Shop(tmp_path / "other") as other:
        shop.next(status(302, f"Location: {other.url}/a/orders\r\n"))
        request = replace(rest._request("GET", rest._at("/orders")))
        await rest.transport.read(request, timeout_s=5, may_ask=lambda url: True)
        (stray,) = other.asks
    assert not {"x-key", "x-app", "authorization"} & set(stray.headers)
    assert not [each for each in secrets.values() if each in repr(request)]
    secrets["app"] = "two\nlines"
    with pytest.raises(AuthNeeded, match="“app” cannot be sent") as caught:
        await order(rest)
    assert caught.value.secret == "app"


async def test_a_secret_in_the_query_is_shown_nowhere(shop: Shop) -> None:
    """A5, K4: errors show a URL without its query."""
    rest = client(shop, auth=Auth("query", name="api_key"))
    shop.next(status(500), status(500))
    with pytest.raises(UnknownOutcome) as change:
        await order(rest)
    with pytest.raises(Transient) as read:
        await rest.fetch("/orders")
    assert [each.query["api_key"] for each in shop.asks] == ["s3cret"] * 2
    assert "s3cret" not in f"{change.value} {read.value}"


async def test_a_missing_or_unsendable_secret_asks_a_person(shop: Shop) -> None:
    """A5: nothing is sent."""
    rest = client(shop, auth=Auth("bearer", secret="other"))
    with pytest.raises(AuthNeeded, match="duly secret set shop other"):
        await order(rest)
    rest = client(shop, auth=Auth("bearer"))
    rest._vault = lambda connector, name: "two\nlines"
    with pytest.raises(AuthNeeded, match="cannot be sent") as caught:
        await order(rest)
    assert "two" not in str(caught.value)
    assert shop.asks == []


async def test_a_read_is_not_led_to_another_origin(shop: Shop, tmp_path: Path) -> None:
    """K4: a redirect within the service is followed, one out of it is refused."""
    shop.next(status(302, "Location: /a/orders\r\n"))
    assert await client(shop).fetch("/old") == {"next": None, "orders": []}
    shop.next(status(302, "Location: http://b.test/\r\n"))
    with pytest.raises(Refused, match=r"redirects to http://b\.test"):
        await client(shop).fetch("/old")


def test_settings_that_would_show_a_secret_are_refused() -> None:
    """K4, A5: without TLS, or with one in the URL."""
    with pytest.raises(ConfigError, match="without TLS"):
        Rest("http://shop.example/", auth=Auth("bearer"))
    with pytest.raises(ConfigError, match="before the host"):
        Rest("https://ada:s3cret@shop.example/")
    with pytest.raises(ConfigError, match="has a query"):
        Rest("https://shop.example/?token=s3cret")
    with pytest.raises(ConfigError, match="headers: The header Host"):
        Rest("https://shop.example/", headers={"Host": "x"})
    Rest("http://shop.internal/", auth=Auth("bearer"), allow=["shop.internal"])


async def test_a_service_on_this_machine_must_be_named(shop: Shop) -> None:
    """K3: in the settings, by its host."""
    rest = Rest(shop.url)
    rest.name = "shop"
    with pytest.raises(PermissionDenied, match=r'allow = \["127\.0\.0\.1"\]'):
        await rest.fetch("/orders")


# -- Answers --------------------------------------------------------------------------------------


async def test_an_answer_that_is_no_json_leaves_a_change_unknown(shop: Shop) -> None:
    """L4: done, but what it says cannot be read; a read is repeated."""
    page = b"HTTP/1.1 200 X\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<ok>"
    torn = b'HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{"a"'
    open_end = b"HTTP/1.1 200 X\r\n\r\n12"
    for answer in (page, torn, open_end):
        shop.next(raw(answer), raw(answer))
        with pytest.raises(UnknownOutcome, match="its answer cannot be read"):
            await order(client(shop))
        with pytest.raises(Transient, match="its answer cannot be read"):
            await client(shop).fetch("/orders")


async def test_an_answer_without_a_body_is_done(shop: Shop) -> None:
    """L4: as is one whose end was not announced, if it is whole JSON."""
    shop.next(raw(b"HTTP/1.1 204 X\r\n\r\n"), raw(b'HTTP/1.1 201 X\r\n\r\n{"id": 1}'))
    assert await order(client(shop)) is None
    assert await order(client(shop)) == {"id": 1}


async def test_a_number_that_no_script_can_hold_becomes_a_text(shop: Shop) -> None:
    """L4: the change was made, so its answer must be readable."""
    shop.next(status(201, value={"id": 2**63, "n": [2**53 - 1, -(2**70)]}))
    assert await order(client(shop)) == {"id": str(2**63), "n": [2**53 - 1, str(-(2**70))]}


# -- Lists ----------------------------------------------------------------------------------------


async def fill(rest: Rest, count: int) -> None:
    for number in range(count):
        await order(rest, f"k{number}")


@pytest.mark.parametrize("paging", [CURSOR, LINK, NUMBER], ids=("cursor", "link", "page"))
async def test_a_list_goes_on_to_its_end(shop: Shop, paging: Paging) -> None:
    """K8: each way of paging; the cursor stays where the list ended."""
    rest, found, after = client(shop), [], None
    await fill(rest, 5)
    for _ in range(10):
        page = await rest.list_page("/orders", paging, after=after)
        found += [each["id"] for each in page.items]
        after = page.names["last_cursor"]
        if not page.names["has_more"]:
            break
    assert found == [1, 2, 3, 4, 5]


async def test_what_is_added_to_the_last_page_is_found_later(shop: Shop) -> None:
    """K11: the cursor of numbered pages goes back to the last page that had something."""
    rest, growing = client(shop), replace(NUMBER, is_growing=True)
    await fill(rest, 3)
    page = await rest.list_page("/orders", growing, after="3")
    assert (page.items, page.names) == ([], {"last_cursor": "2", "has_more": False})
    await order(rest, "k9")
    page = await rest.list_page("/orders", growing, after="2")
    assert [each["id"] for each in page.items] == [3, 4]
    with pytest.raises(Refused, match="no number of a page"):
        await rest.list_page("/orders", NUMBER, after="two")


@pytest.mark.parametrize("paging", [CURSOR, LINK, NUMBER], ids=("cursor", "link", "page"))
async def test_a_list_that_may_change_anywhere_is_read_anew(shop: Shop, paging: Paging) -> None:
    """K11: its last page has no cursor, unless the list is known to grow at its end alone."""
    rest = client(shop)
    await fill(rest, 1)
    after = "2" if paging is NUMBER else None
    page = await rest.list_page("/orders", paging, after=after)
    while page.names["has_more"]:
        page = await rest.list_page("/orders", paging, after=page.names["last_cursor"])
    assert page.names["last_cursor"] is None


async def test_a_large_answer_is_read_beside_the_loop(shop: Shop) -> None:
    """K6: and an answer deeper than a result may be is broken."""
    shop.next(status(200, value=["x" * 100] * 1000))
    assert len(await client(shop).fetch("/orders")) == 1000  # type: ignore[arg-type]
    deep = b"[" * 95 + b"]" * 95
    shop.next(raw(b"HTTP/1.1 200 X\r\nContent-Length: 190\r\n\r\n" + deep))
    with pytest.raises(Transient, match="deeper than 90"):
        await client(shop).fetch("/orders")


async def test_a_cursor_of_links_changes_no_field_of_the_query(shop: Shop) -> None:
    """K4, K5: a script that makes a cursor up asks for nothing that the operation does not."""
    rest = client(shop)
    await fill(rest, 1)
    forged = "owner=eve&cursor=0"
    await rest.list_page("/orders", LINK, {"owner": "ada"}, after=forged)
    assert shop.asks[-1].query == {"owner": "ada", "cursor": "0"}
    shop.next(status(200, 'Link: <?owner=eve&p=2>; rel="next"\r\n', value={"orders": []}))
    with pytest.raises(Refused, match="has another owner"):
        await rest.list_page("/orders", LINK, {"owner": "ada"})
    shop.next(status(200, 'Link: <?owner=ada&p=2>; rel="next"\r\n', value={"orders": []}))
    page = await rest.list_page("/orders", LINK, {"owner": "ada"})
    assert page.names == {"last_cursor": "p=2", "has_more": True}


async def test_an_answer_of_very_many_values_is_not_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K6: what is small as bytes can be large in memory; for a change the outcome is unknown."""
    monkeypatch.setattr("duly.connectors.json_answer.VALUES_MAX", 100)
    shop.next(status(200, value=[[]] * 60))
    with pytest.raises(Refused, match="more than 100 values"):
        await client(shop).fetch("/orders")
    shop.next(status(200, value=[[]] * 60))
    with pytest.raises(UnknownOutcome, match="more than 100 values"):
        await order(client(shop), "k1")


async def test_a_next_page_elsewhere_is_not_followed(shop: Shop) -> None:
    """K4: neither at another origin nor at another path."""
    for place in ("http://b.test/a/orders?x", "/a/secrets?x", "http://1/"):
        shop.next(status(200, f'Link: <{place}>; rel="next"\r\n', value={"orders": []}))
        with pytest.raises(Refused, match="next page"):
            await client(shop).list_page("/orders", LINK)
    shop.next(status(200, 'Link: <http://b.test/>; rel="prev"\r\n', value={"orders": []}))
    assert (await client(shop).list_page("/orders", LINK)).items == []
    with pytest.raises(Refused, match="no list at 'rows'"):
        await client(shop).list_page("/orders", Paging(items="rows", page="page"))


async def test_where_there_is_nothing(shop: Shop) -> None:
    """L4: None for one thing by its id, an error for everything else."""
    assert await client(shop).fetch_one("/by-key/none") is None
    with pytest.raises(Refused, match="there is nothing"):
        await client(shop).fetch("/nowhere")


# -- Finding a call again -------------------------------------------------------------------------


@pytest.mark.parametrize("verify", [BY_QUERY, BY_PATH], ids=("query", "path"))
async def test_a_call_is_found_by_its_key(shop: Shop, verify: Verify) -> None:
    """L5: itself and no look-alike."""
    rest = client(shop)
    assert await rest.find(call(), verify) == duly.NotApplied()
    await order(rest, "k0")
    assert await rest.find(call(), verify) == duly.NotApplied()
    made = await order(rest)
    assert await rest.find(call(), verify) == duly.Applied(made)
    shop.next(status(500))
    with pytest.raises(Transient):
        await rest.find(call(), verify)


@pytest.mark.parametrize("paging", [CURSOR, LINK, NUMBER], ids=("cursor", "link", "page"))
async def test_a_call_on_page_three_is_found(shop: Shop, paging: Paging) -> None:
    """L5: all pages are read before it is said that nothing happened."""
    rest = client(shop)
    await fill(rest, 6)
    verify = Verify("/orders", match="key", items="orders", paging=paging, result="id")
    assert await rest.find(call("k5"), verify) == duly.Applied(6)
    assert await rest.find(call("k9"), verify) == duly.NotApplied()


async def test_a_search_that_was_not_limited_to_the_key_says_nothing(shop: Shop) -> None:
    """L5: a server that does not know the field returns its first page of everything."""
    rest = client(shop)
    await fill(rest, 3)
    deaf = Verify("/orders", match="key", query={"external": "{key}"}, items="orders")
    assert isinstance(await rest.find(call("k2"), deaf), duly.Unsure)
    assert isinstance(await rest.find(call("k9"), deaf), duly.Unsure)


async def test_a_search_whose_end_is_not_seen_says_nothing(shop: Shop) -> None:
    """L5: more pages than are read, another shape, another thing."""
    rest = client(shop)
    endless = {"orders": [{"key": "x"}], "next": "1"}
    shop.next(*[status(200, value=endless)] * PAGES_MAX)
    verify = Verify("/orders", match="key", items="orders", paging=CURSOR)
    assert isinstance(await rest.find(call(), verify), duly.Unsure)
    assert shop.connections == PAGES_MAX
    shop.next(status(200, value={"rows": []}), status(200, value={"key": "k2"}), status(404))
    assert isinstance(await rest.find(call(), BY_QUERY), duly.Unsure)
    assert isinstance(await rest.find(call(), BY_PATH), duly.Unsure)
    one = Verify("/latest", match="key")
    assert isinstance(await rest.find(call(), one), duly.Unsure)


async def test_a_path_takes_a_value_as_one_segment(shop: Shop) -> None:
    """K4: a value never leads to another path."""
    rest = client(shop)
    verify = Verify("/by-key/{key}/{item}", match="key")
    with pytest.raises(Refused, match="cannot stand in a path"):
        await rest.find(call(item=".."), verify)
    assert await rest.find(call(item="../x?y#z"), BY_PATH) == duly.NotApplied()
    await rest.find(call(item="a/b ?#"), Verify("/by-key/{item}-{key}", match="key"))
    assert shop.asks[-1].target == "/a/by-key/a%2Fb%20%3F%23-k1"
    with pytest.raises(Refused):
        await rest.fetch("/../b/orders")


async def test_the_second_send_of_a_key_is_judged_with_care(shop: Shop) -> None:
    """L4: "key used with other parameters" must not count as a refusal of this call."""
    rest = client(shop)
    shop.next(status(422), status(422))
    with pytest.raises(Refused):
        await order(rest)
    with pytest.raises(UnknownOutcome):
        await rest.change(call(attempt=2), "POST", "/orders", body={}, key=HEADER)
