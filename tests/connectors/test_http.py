"""A web service out of the settings: its operations are tools, and mutations tell the truth."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors.http import Http
from duly.connectors.registry import Registry
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.catalog import Catalog, JsonType, ToolKind
from duly.rules.failure import answer_of
from duly.rules.url import read_url
from duly.rules.word import Answer
from duly.script.stubs import javascript_types, python_stubs
from duly.testing import ExamFailed, examine, look_at_disk
from tests.connectors import shop as double
from tests.connectors.shop import Manner, Shop, packed, raw, status
from tests.connectors.test_rest import call

pytestmark = pytest.mark.anyio

CREATE: dict[str, Any] = {
    "does": "Order something.",
    "method": "POST",
    "path": "/orders",
    "arguments": {"item": "string", "count": "integer?"},
    "key": {"header": "Idempotency-Key"},
    "verify": {"path": "/orders", "query": {"key": "{key}"}, "items": "orders", "match": "key"},
    "returns": {"id": "integer", "item": "string"},
    "noun": "order",
    "risk": "low",
    "lag_s": 5,
}
READ: dict[str, Any] = {"path": "/orders"}
OPERATIONS: dict[str, Any] = {
    "create_order": CREATE,
    "orders": {
        "path": "/orders",
        "arguments": {"customer": "string?"},
        "paging": {"items": "orders", "cursor": "next", "parameter": "cursor"},
        "returns": {"id": "integer", "item": "string"},
    },
    "order": {
        "path": "/by-key/{order_key}",
        "kind": "read_by_id",
        "arguments": {"order_key": "string"},
        "result": "item",
        "returns": "string",
    },
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path) as made:
        yield made


def connect(shop: Shop, operations: Mapping[str, Any] = OPERATIONS, **more: Any) -> Any:
    return Http(f"{shop.url}/a", operations=operations, allow=["127.0.0.1"], name="shop", **more)


def with_create(**changed: Any) -> dict[str, Any]:
    """Return the settings with another create_order; None takes a key away."""
    whole = {**CREATE, **changed}
    return {"create_order": {key: each for key, each in whole.items() if each is not None}}


# -- Tools ----------------------------------------------------------------------------------------


def test_an_operation_is_a_tool_like_any_other(shop: Shop) -> None:
    """A1: with its kind, capability, parameters, result and words."""
    registry = Registry([connect(shop, hosts=["example.com"])])
    names = [each.name for each in registry.catalog.tools]
    assert names == [
        "shop.get",
        "shop.download",
        "shop.head",
        "shop.create_order",
        "shop.orders",
        "shop.order",
    ]
    create = registry.catalog.find("shop.createOrder")
    assert (create.kind, create.capability) == (ToolKind.MUTATION, "shop.create_order")
    assert (create.noun, create.lag_s, create.reconciles) == ("order", 5, True)
    item, count = create.parameters
    assert (item.name, item.required, set(item.types)) == ("item", True, {JsonType.STRING})
    assert (count.required, set(count.types)) == (False, {JsonType.INTEGER, JsonType.NULL})
    assert create.result is not None
    assert [name for name, _ in create.result.fields] == ["id", "item"]
    orders = registry.catalog.find("shop.orders")
    assert orders.pages
    assert [each.name for each in orders.parameters] == ["customer", "after"]
    assert registry.catalog.find("shop.order").kind is ToolKind.READ_BY_ID
    assert registry.describe("shop.create_order") == "Order something.\n\nReturns {id, item}."


def test_the_stubs_know_the_operations(shop: Shop) -> None:
    """W5: in both languages."""
    catalog: Catalog = Registry([connect(shop)]).catalog
    assert "def create_order(" in python_stubs(catalog)
    assert "item: str" in python_stubs(catalog)
    assert "createOrder(" in javascript_types(catalog)


def test_an_operation_may_have_any_other_name(shop: Shop) -> None:
    """A1: nothing of the kit stands in its way, and without hosts `get` is free."""
    names = ("get", "find", "fetch", "change", "auth", "headers", "transport", "base", "name_of")
    found = Registry([connect(shop, dict.fromkeys(names, READ))]).catalog.tools
    assert [each.name for each in found] == [f"shop.{name}" for name in names]


def test_two_connectors_have_their_own_operations(shop: Shop) -> None:
    """A1: a class for each."""
    one = connect(shop)
    two = Http(shop.url, operations=with_create(), name="store")
    tools = [each.name for each in Registry([one, two]).catalog.tools]
    assert "store.create_order" in tools
    assert "store.orders" not in tools
    assert type(one) is not type(two)


# -- Calls ----------------------------------------------------------------------------------------


async def test_a_change_is_made_and_found_again(shop: Shop) -> None:
    """L5, L7: by the verify request of its operation."""
    found = connect(shop)
    asked = call(item="tea")
    assert await found.create_order_happened(asked) == duly.NotApplied()
    made = await found.create_order(asked, item="tea")
    assert made == {"item": "tea", "id": 1, "key": "k1"}
    assert await found.create_order_happened(asked) == duly.Applied(made)
    assert shop.asks[1].body == b'{"item":"tea"}'  # what was not given is not sent
    assert await found.order(order_key="k1") == "tea"
    assert await found.order(order_key="k2") is None
    page = await found.orders(customer="ada")
    assert [each["id"] for each in page.items] == [1]
    assert shop.asks[-1].query == {"customer": "ada"}


async def test_a_template_puts_values_where_they_belong(shop: Shop) -> None:
    """K4: with their types, and never as structure."""
    found = connect(
        shop,
        with_create(
            arguments={"item": "string", "count": "integer?", "tags": "list?", "shop_id": "string"},
            path="/orders",
            query={"shop": "{shop_id}", "v": "2"},
            body={"order": {"what": "{item}", "n": "{count}", "tags": "{tags}", "x": "<{item}>"}},
            key={"field": "meta.key"},
            result="order.what",
            verify=None,
        ),
    )
    asked = call(item='a", "b', count=2, shop_id="7&x=1")
    assert await found.create_order(asked, **asked.args) == 'a", "b'
    (order,) = shop.orders()
    assert order["order"] == {"what": 'a", "b', "n": 2, "x": '<a", "b>'}
    assert order["meta"] == {"key": "k1"}
    assert shop.asks[0].query == {"shop": "7&x=1", "v": "2"}


async def test_what_a_status_means_can_be_said_in_the_settings(shop: Shop) -> None:
    """L4: the service's own words come first."""
    found = connect(shop, with_create(statuses={"409": "unknown", "418": "busy"}))
    shop.next(status(409), status(418, "Retry-After: 3\r\n"))
    with pytest.raises(UnknownOutcome):
        await found.create_order(call(item="tea"), item="tea")
    with pytest.raises(Transient) as caught:
        await found.create_order(call(item="tea"), item="tea")
    assert (caught.value.outcome, caught.value.retry_after_s) == ("refused", 3)


async def test_a_list_of_what_was_done_is_no_yes(shop: Shop) -> None:
    """L4: 207 tells of each part by itself, and some may not be done."""
    shop.next(status(207), status(207))
    with pytest.raises(UnknownOutcome):
        await connect(shop).create_order(call(item="tea"), item="tea")
    found = connect(shop, with_create(statuses={"207": "done"}))
    await found.create_order(call(item="tea"), item="tea")


@pytest.mark.parametrize(
    ("length", "found"), [(2**53 - 1, 2**53 - 1), (2**53, None), (10**19, None)]
)
async def test_a_length_that_no_script_can_hold_is_none(
    shop: Shop, length: int, found: int | None
) -> None:
    """T8: else a server could stop a workflow by one number."""
    port = read_url(shop.url).port
    shop.next(raw(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % length))
    looked = await connect(shop, hosts=[f"127.0.0.1:{port}"]).head(url=f"{shop.url}/x")
    assert looked["length"] == found


async def test_hosts_are_read_without_credentials(shop: Shop) -> None:
    """K4: the named ones alone, also behind a redirect."""
    here = f"127.0.0.1:{shop.port}"
    found = Http(shop.url, hosts=[here], allow=["127.0.0.1"], auth={"type": "bearer"}, name="web")
    got = await found.get(url=f"{shop.url}/a/text")  # type: ignore[attr-defined]
    assert got == {
        "url": f"{shop.url}/a/text",
        "status": 200,
        "type": "text/plain",
        "text": "hello",
        "json": None,
    }
    listed = await found.get(url=f"{shop.url}/a/orders")  # type: ignore[attr-defined]
    assert listed["json"] == {"next": None, "orders": []}
    looked = await found.head(url=f"{shop.url}/a/text")  # type: ignore[attr-defined]
    assert (looked["length"], looked["type"]) == (5, "text/plain")
    assert await found.get(url=f"{shop.url}/a/none") is None  # type: ignore[attr-defined]
    assert not any("authorization" in each.headers for each in shop.asks)
    for url in ("https://example.com/", "http://127.1/", "file:///etc/passwd"):
        with pytest.raises(Refused):
            await found.get(url=url)  # type: ignore[attr-defined]
    shop.next(status(302, "Location: http://example.com/\r\n"))
    with pytest.raises(Refused, match="redirects to"):
        await found.get(url=f"{shop.url}/a/text")  # type: ignore[attr-defined]


async def test_a_host_is_read_at_the_port_that_is_named(shop: Shop) -> None:
    """K4: without one that is the port of the scheme; another program may answer at the others."""
    found: Any = Http(shop.url, hosts=["127.0.0.1"], allow=["127.0.0.1"], name="web")
    with pytest.raises(Refused, match=rf"127.0.0.1:{shop.port} is none of the hosts"):
        await found.get(url=f"{shop.url}/a/text")
    assert shop.asks == []


async def test_a_page_is_read_in_its_character_set_and_up_to_a_limit(shop: Shop) -> None:
    """K6: one byte past it is refused, never cut."""
    here = f"127.0.0.1:{shop.port}"
    found: Any = Http(shop.url, hosts=[here], allow=["127.0.0.1"], name="web")
    head = "HTTP/1.1 200 X\r\nContent-Type: text/plain; charset={}\r\nContent-Length: 1\r\n\r\n"
    for charset, text in (("ISO-8859-1", "\xe9"), ("utf-8", "\ufffd"), ("rot13", "\ufffd")):
        shop.next(raw(head.format(charset).encode() + b"\xe9", is_done=False))
        assert (await found.get(url=f"{shop.url}/a"))["text"] == text
    limit = 1024 * 1024
    shop.next(status(200, value="x" * limit), status(200, value="x" * (limit + 1)))
    assert len((await found.get(url=f"{shop.url}/a"))["text"]) == limit
    with pytest.raises(Refused, match="larger than"):
        await found.get(url=f"{shop.url}/a")


async def test_a_service_that_is_not_there_was_sent_nothing(tmp_path: Path) -> None:
    """K2, L4: so the call can be made again."""
    with Shop(tmp_path) as gone:
        found = connect(gone)
    with pytest.raises(NotSent):
        await found.create_order(call(item="tea"), item="tea")


async def test_a_strange_result_of_a_change_is_still_a_change(shop: Shop) -> None:
    """L4: the answer has nothing at the place of the result, and it was done."""
    found = connect(shop, with_create(result="order.id"))
    shop.next(raw(b"HTTP/1.1 201 X\r\nContent-Length: 2\r\n\r\n[]"))
    assert await found.create_order(call(item="tea"), item="tea") is None


# -- A network that breaks ------------------------------------------------------------------------

# How the service behaves when the order comes, whether the order is made, and what is certain then.
NETWORK: dict[str, tuple[Manner, int, Answer]] = {
    "well": (double.well, 1, Answer.APPLIED),
    "cut during": (double.cut_during, 0, Answer.UNKNOWN),
    "cut after": (double.cut_after, 0, Answer.UNKNOWN),
    "answer lost": (double.lost, 1, Answer.UNKNOWN),
    "half an answer": (double.half, 1, Answer.UNKNOWN),
    "late": (double.late, 1, Answer.UNKNOWN),
    "drip": (double.drip, 1, Answer.UNKNOWN),
    "garbage": (raw(b"?\r\n\r\n"), 1, Answer.UNKNOWN),
    "malformed": (raw(b"HTTP/1.1 201 X\r\nContent-Length: 1\r\n\r\n{"), 1, Answer.UNKNOWN),
    "giant": (raw(b"HTTP/1.1 201 X\r\nContent-Length: 9000000\r\n\r\n"), 1, Answer.UNKNOWN),
    "bomb": (raw(packed(b" " * 9_000_000)), 1, Answer.UNKNOWN),
    "400": (status(400), 0, Answer.REFUSED),
    "401": (status(401), 0, Answer.AUTH),
    "403": (status(403), 0, Answer.PERMISSION),
    "409": (status(409), 0, Answer.UNKNOWN),  # its list may be behind
    "425": (status(425), 0, Answer.RATE_LIMITED),
    "429": (status(429), 0, Answer.RATE_LIMITED),
    "429 with a time": (status(429, "Retry-After: 5\r\n"), 0, Answer.RATE_LIMITED),
    "500": (status(500), 0, Answer.UNKNOWN),
    "500 after it was done": (status(500, is_done=True), 1, Answer.UNKNOWN),
    "503 with a time": (status(503, "Retry-After: 5\r\n"), 0, Answer.UNKNOWN),
    "504 after it was done": (status(504, is_done=True), 1, Answer.UNKNOWN),
    "303 after it was done": (status(303, "Location: /\r\n", is_done=True), 1, Answer.UNKNOWN),
    "307": (status(307, "Location: /a/orders\r\n"), 0, Answer.REFUSED),
}


@pytest.mark.parametrize("name", NETWORK)
async def test_the_truth_is_told_in_every_state_of_the_network(shop: Shop, name: str) -> None:
    """L4, L5, K2: by the call itself, or by its verify request."""
    manner, done, expected = NETWORK[name]
    found = connect(shop, with_create(timeout_s=0.5 if name in ("late", "drip") else 10))
    asked = call(item="tea")
    shop.next(manner)
    try:
        await found.create_order(asked, item="tea")
        told = Answer.APPLIED
    except Exception as error:
        told = answer_of(error)
    verdict = await found.create_order_happened(asked)
    assert told is expected
    assert len(shop.orders()) == done
    assert isinstance(verdict, duly.Applied if done else duly.NotApplied)
    sends = [each for each in shop.asks if each.method == "POST"]
    assert len(sends) == (0 if name == "cut during" else 1)


# -- Settings -------------------------------------------------------------------------------------

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"url": "shop.example"}, "url is 'shop.example'. Write http"),
    ({"url": "https://ada:x@shop.example"}, "user name or a password"),
    ({"operations": {}}, "scripts can do nothing"),
    ({"operations": {"a": 1}}, "operations.a must be a table"),
    ({"operations": {"Create": CREATE}}, "operations.Create: a script cannot call"),
    ({"operations": {"secret": CREATE}}, "operations.secret: the connector has something"),
    ({"operations": {"in_thread": CREATE}}, "operations.in_thread: the connector has something"),
    ({"operations": {"get": READ}, "hosts": ["a.example"]}, "operations.get: the connector has"),
    ({"auth": {"type": "token"}}, 'auth.type: "token" is none of bearer, basic'),
    ({"auth": {"type": "bearer", "user": "x"}}, "auth.user: there is no such key"),
    ({"auth": {"type": "header"}}, "auth.name: it is missing"),
    ({"auth": {"type": "header", "name": "Host"}}, "auth.name: The header Host"),
    ({"auth": {"type": "bearer", "secret": ""}}, "auth.secret: it is a str"),
    ({"auth": {"type": "bearer", "headers": {"Host": "x"}}}, r"auth.headers.Host: The header Host"),
    ({"auth": {"type": "bearer", "headers": {"authorization": "x"}}}, "this header is sent"),
    ({"auth": {"type": "bearer", "headers": {"X-A": "x", "x-a": "y"}}}, "this header is sent"),
    ({"auth": {"type": "bearer", "headers": {"X-A": 1}}}, "auth.headers.X-A: it is"),
    ({"headers": {"A": 1}}, "headers: write a table of texts"),
    ({"hosts": "example.com"}, "hosts: write a list"),
    ({"hosts": ["http://x"]}, "hosts has the host"),
    ({"writes": ["http://x"]}, "writes has the host"),
    ({"writes": "example.com"}, "writes: write a list"),
    ({"hosts": ["example.com:0"]}, "no port"),
    ({"hosts": ["example.com:99999"]}, "no port"),
    ({"allow": ["10.1"]}, "allow has the host"),
    ({"ca": "nowhere.pem"}, "ca: nowhere.pem"),
]
WRONG_OPERATIONS: list[tuple[dict[str, Any], str]] = [
    ({"methd": "POST"}, 'methd: there is no such key. Did you mean "method"?'),
    ({"method": "POTS"}, 'method: "POTS" is none of'),
    ({"method": "GET"}, "key: there is no such key"),
    ({"method": "GET", "kind": "mutation"}, "method: a mutation cannot be a GET"),
    ({"kind": "read"}, "method: a read cannot be a POST"),
    ({"path": "orders"}, 'path: it is "orders". Begin it with /'),
    ({"path": "/orders?x=1"}, "write the query under query"),
    ({"path": "/orders/{id"}, "has a brace too many"),
    ({"path": "/orders/{itm}"}, 'path: {itm} is no argument. Did you mean "item"?'),
    ({"path": "/orders/{count}"}, "arguments.count: it stands in the path"),
    ({"arguments": {"item": "text"}}, 'arguments.item: "text" is no type'),
    ({"arguments": {"key": "string"}}, "arguments.key: use lower-case"),
    ({"arguments": {"Item": "string"}}, "arguments.Item: use lower-case"),
    ({"arguments": {"call": "string"}}, 'arguments.call: "call" has a meaning of its own'),
    ({"arguments": {"self": "string"}}, 'arguments.self: "self" has a meaning of its own'),
    ({"arguments": {"from": "string"}}, 'arguments.from: "from" has a meaning of its own'),
    ({"arguments": ["item"]}, "arguments must be a table"),
    ({"body": {"a": "b"}}, "arguments.item: it is sent nowhere"),
    ({"body": {"a": "{key}", "b": "{item}", "c": "{count}"}}, "Say key = … for the key"),
    ({"key": None, "verify": None}, "key: say where the idempotency key travels"),
    ({"key": "header", "verify": None}, "key: say where the idempotency key travels"),
    ({"key": "path"}, "path: the key travels in it. Write {key}"),
    ({"key": "path", "path": "/{key}/{who}"}, "path: {who} is no argument"),
    ({"path": "/orders/{key}"}, "path: {key} is no argument. Say key = …"),
    ({"key": {"cookie": "x"}}, "key.cookie: there is no such key"),
    ({"key": {"header": "X", "field": "y"}}, "key: name one place"),
    ({"key": {"header": "Host"}}, "key.header: The header Host"),
    ({"key": {"field": "item"}}, 'key.field: "item" is an argument too'),
    ({"key": "none"}, "verify: without a key"),
    ({"key": "none", "verify": None, "key_lifetime_s": 5}, "key_lifetime_s: there is no key"),
    ({"key_lifetime_s": -1}, "key_lifetime_s: it is -1"),
    ({"timeout_s": 0}, "timeout_s: it is 0"),
    ({"lag_s": True}, "lag_s: it is True"),
    ({"risk": "huge"}, 'risk: "huge" is none of low, medium, high'),
    ({"labels": {"item": 1}}, "labels.item: it is a int"),
    ({"editable": "item"}, "editable: write a list"),
    ({"statuses": {"409": "maybe"}}, 'statuses.409: "maybe" is none of'),
    ({"statuses": {"200": "refused"}}, "statuses.200: write 207 or a status from 300"),
    ({"returns": "text"}, 'returns: "text" is none of'),
    ({"returns": {"id": "int"}}, 'returns.id: "int" is no type'),
    ({"form": "yes"}, "form: it is a str. Write true or false"),
    ({"verify": {"path": "/x"}}, "verify.match: it is missing"),
    ({"verify": {"path": "/x", "match": "a"}}, "the question names the key nowhere"),
    ({"verify": {"path": "/{who}/{key}", "match": "a"}}, "{who} is no argument and not {key}"),
    (
        {"verify": {"path": "/{key}", "match": "a", "paging": {"link": True}}},
        "verify.paging: there is no list",
    ),
    (
        {"verify": {"path": "/x", "match": "a", "items": "", "paging": {}}},
        "paging: say one of cursor",
    ),
    (
        {"verify": {"path": "/x", "match": "a", "items": "", "paging": {"cursor": "n"}}},
        "cursor and parameter go together",
    ),
]


@pytest.mark.parametrize(("changed", "said"), MISTAKES)
def test_a_mistake_in_the_table_is_told_by_its_key(changed: dict[str, Any], said: str) -> None:
    """K3, A1: what is wrong, where, and what to write."""
    given = {"url": "https://shop.example", "operations": {"create_order": CREATE}, **changed}
    with pytest.raises(ConfigError) as caught:
        Http(**given)
    assert said in str(caught.value)


@pytest.mark.parametrize(("changed", "said"), WRONG_OPERATIONS)
def test_a_mistake_in_an_operation_is_told_by_its_key(changed: dict[str, Any], said: str) -> None:
    """K5, A1: before anything is asked of the service."""
    with pytest.raises(ConfigError) as caught:
        Http("https://shop.example", operations=with_create(**changed))
    assert str(caught.value).startswith("operations.create_order.")
    assert said in str(caught.value)


# -- The exam -------------------------------------------------------------------------------------

PLACES: dict[str, dict[str, Any]] = {
    "header": {},
    "field": {"key": {"field": "key"}},
    "query": {"key": {"query": "key"}},
    "by path": {"verify": {"path": "/by-key/{key}", "match": "key"}},
    "idempotent": {"key_lifetime_s": 3600},
    "path": {
        "method": "PUT",
        "path": "/orders/{key}",
        "key": "path",
        "verify": {"path": "/by-key/{key}", "match": "key"},
    },
}


@pytest.mark.parametrize("name", PLACES)
def test_every_place_of_the_key_passes_the_exam(tmp_path: Path, name: str) -> None:
    """L4, L5, L7: killed and failing at every line of the connector."""
    is_whole = os.environ.get("TEST_EXAM") == "all"
    with Shop(tmp_path / "exam") as shop:

        def make(folder: Path) -> Http:
            return Http(
                f"{shop.url}/{folder.name}",
                operations=with_create(**PLACES[name]),
                allow=["127.0.0.1"],
            )

        report = examine(
            make,
            "create_order",
            {"item": "tea"},
            effects=count_orders(shop),
            folder=tmp_path / "exam",
            # One of them dies at the lines of kit and transport as well; `TEST_EXAM=all` at each.
            modules=["duly.connectors.transport", "duly.connectors.rest"] * (name == "header"),
            look=None if is_whole and name == "header" else look_at_disk,
        )
    assert report.applied >= 2
    assert report.not_applied > (150 if is_whole and name == "header" else 5)


def count_orders(shop: Shop) -> Any:
    """Make a function that counts orders once everything sent before was dealt with."""

    def count(folder: Path) -> int:
        way = HTTPConnection("127.0.0.1", shop.port, timeout=10)
        way.request("GET", f"/{folder.name}/text")
        way.getresponse().read()
        way.close()
        return len(shop.orders(folder.name))

    return count


def test_a_shop_that_forgets_keys_fails_where_it_is_called_idempotent(tmp_path: Path) -> None:
    """L7: the exam finds that the same key made two orders."""
    with Shop(tmp_path / "exam") as shop:
        shop.forgets_keys = True
        settings = with_create(key_lifetime_s=3600)
        with pytest.raises(ExamFailed, match="2 changes"):
            examine(
                lambda at: Http(f"{shop.url}/{at.name}", operations=settings, allow=["127.0.0.1"]),
                "create_order",
                {"item": "tea"},
                effects=count_orders(shop),
                folder=tmp_path / "exam",
                look=look_at_disk,
            )
