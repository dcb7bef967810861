"""GraphQL that only reads: what counts as a query, and what an answer with errors means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.graphql import DOCUMENT_CHARS_MAX, find_fault
from duly.connectors.http import Http
from duly.connectors.registry import Registry
from duly.connectors.rest import Rest
from duly.errors import ConfigError, Refused, Transient, UnknownOutcome
from duly.rules.catalog import ToolKind
from tests.connectors.shop import Shop, status
from tests.connectors.test_rest import call

pytestmark = pytest.mark.anyio

QUERIES = (
    "{ orders { id } }",
    "query { orders { id } }",
    "query Orders($n: Int = 3, $f: Filter = {a: 1}) @live { orders(first: $n) { id } }",
    "query A { ...F } fragment F on Order { id mutation subscription }",
    "fragment F on Order { id } { ...F }",
    'query { a(text: "mutation { b }") # mutation { c }\n }',
    'query { a(text: """mutation { " \\""" } """) { b } }',
    "\ufeff,,query,{,a,}",
)
FAULTS = {
    "mutation { a }": "mutation is neither",
    "subscription { a }": "subscription is neither",
    "query { a } mutation { b }": "mutation is neither",
    "mutation { a } query { b }": "mutation is neither",
    "{ a } mutation { b }": "mutation is neither",
    "fragment F on A { a } mutation { b }": "mutation is neither",
    "# a comment\rmutation { b }": "mutation is neither",
    'query { a(t: "x\r") } mutation { b }': "does not end",
    "extend type Query { a: Int }": "extend is neither",
    "Query { a }": "Query is neither",
    "query A { a } query B { b }": "2 queries",
    "{ a } { b }": "2 queries",
    "fragment F on A { a }": "0 queries",
    "": "0 queries",
    "query { a": "does not end",
    "query": "does not end",
    "query { a } }": "bracket too many",
    'query { a(t: "x) }': "does not end",
    f"{{ a }} #{'x' * DOCUMENT_CHARS_MAX}": "more than",
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path) as made:
        yield made


@pytest.mark.parametrize("document", QUERIES)
def test_a_query_only_reads(document: str) -> None:
    """K5: with fragments, variables, directives, texts and comments."""
    assert find_fault(document) is None


@pytest.mark.parametrize("document", FAULTS)
def test_what_is_no_single_query_is_refused(document: str) -> None:
    """K5: a mutation is found where a comment or a text seems to hide it."""
    assert FAULTS[document] in (find_fault(document) or "")
    operation = {"path": "/graphql", "graphql": document or " "}
    with pytest.raises(ConfigError, match=r"operations\.find\.graphql: "):
        Http("https://shop.example", operations={"find": operation})


def connect(shop: Shop, **more: Any) -> Any:
    operation = {
        "path": "/graphql",
        "graphql": "query($first: Int, $state: String) { orders { id } }",
        "arguments": {"first": "integer", "state": "string?"},
        "result": "orders",
        "returns": "list",
        **more,
    }
    found = {"find": {name: each for name, each in operation.items() if each is not None}}
    return Http(f"{shop.url}/a", operations=found, allow=["127.0.0.1"], name="shop")


async def test_a_query_is_a_read_with_variables(shop: Shop) -> None:
    """K5, A1: sent by POST, and its result counts from the data."""
    connector = connect(shop)
    assert Registry([connector]).catalog.find("shop.find").kind is ToolKind.READ
    shop.next(status(200, value={"data": {"orders": [{"id": 1}]}}))
    assert await connector.find(first=2, state=None) == [{"id": 1}]
    (asked,) = shop.asks
    assert (asked.method, asked.target) == ("POST", "/a/graphql")
    assert json.loads(asked.body)["variables"] == {"first": 2}


async def test_errors_are_no_answer(shop: Shop) -> None:
    """K5, K8: also beside data; a rate limit is temporary, by its code and not by its words."""
    data = {"data": {"orders": []}, "errors": [{"message": "no field x"}]}
    shop.next(status(200, value=data))
    with pytest.raises(Refused, match="no field x"):
        await connect(shop).find(first=1)
    for error in ({"type": "RATE_LIMITED"}, {"extensions": {"code": "THROTTLED"}}):
        shop.next(status(200, value={"errors": [{"message": "slow down", **error}]}))
        with pytest.raises(Transient, match="slow down"):
            await connect(shop).find(first=1)
    shop.next(status(200, value={}), status(200, value=["x"]), status(500))
    for _ in range(3):
        with pytest.raises(Transient):
            await connect(shop).find(first=1)
    shop.next(status(302, "Location: /a/orders\r\n"))
    with pytest.raises(Transient, match="302"):
        await connect(shop).find(first=1)
    assert {each.method for each in shop.asks} == {"POST"}


async def test_a_connector_of_its_own_cannot_change_by_a_query(shop: Shop) -> None:
    """K5: the document is judged when it is sent, too."""
    rest = Rest(shop.url, allow=["127.0.0.1"])
    with pytest.raises(Refused, match="mutation is neither"):
        await rest.query_data("/graphql", "mutation { a }")
    assert shop.asks == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"method": "GET"}, 'method: "GET" is none of POST'),
        ({"kind": "mutation"}, "kind: a mutation cannot be a graphql query"),
        ({"paging": {"link": True}}, "paging: there is no such key"),
        ({"query": {"a": "b"}}, "query: there is no such key"),
        ({"arguments": {"other": "string"}}, "arguments.other: it is sent nowhere"),
    ],
)
def test_a_mistake_is_told_by_its_key(shop: Shop, changed: dict[str, Any], said: str) -> None:
    """A1: what is wrong, where, and what to write."""
    with pytest.raises(ConfigError) as caught:
        connect(shop, **changed)
    assert said in str(caught.value)


ADD = {
    "method": "POST",
    "path": "/graphql",
    "arguments": {"t": "string"},
    "key": "none",
    "body": {
        "query": "query A { a } mutation B($t: String!) { add(t: $t) { id } }",
        "variables": {"t": "{t}"},
    },
    "result": "data.add.id",
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"done": "data"},
        {"body": [{"query": "mutation { add { id } }", "variables": {"t": "{t}"}}]},
        {"body": {"t": "{t}"}, "query": {"query": "# x\nmutation { add { id } }"}},
    ],
)
def test_a_mutation_says_where_its_answer_tells_that_it_was_done(more: Any) -> None:
    """L4: its service answers 200 also to one that failed."""
    with pytest.raises(ConfigError, match=r'operations\.add\.done: .* done = "data\.'):
        Http("https://shop.example", operations={"add": {**ADD, **more}})


def test_a_text_about_a_mutation_is_none() -> None:
    body = {"query": 'query { a(t: "mutation { b }") { mutation } }', "variables": {"t": "{t}"}}
    for each in (body, {"query": "{t}"}, {"query": 7, "t": "{t}"}, {"text": "mutation {t}"}):
        operation: Any = {**ADD, "body": each}
        Http("https://shop.example", operations={"add": operation})


@pytest.mark.parametrize(
    ("value", "is_done"),
    [
        ({"data": {"add": {"id": 1}}}, True),
        ({"data": {"add": {"id": 1}}, "errors": []}, True),
        ({"data": {"add": {"id": 1}}, "errors": [{"message": "the rest failed"}]}, False),
        ({"data": None, "errors": [{"message": "not allowed"}]}, False),
        ({"errors": [{"message": "not allowed"}], "extensions": {}}, False),
        ([{"data": {}}, {"data": None, "errors": [{"message": "no"}]}], False),
        ({"id": 1, "errors": ["the name is long"]}, True),
    ],
)
async def test_a_change_answered_with_errors_is_unknown(
    shop: Shop, value: Any, is_done: bool
) -> None:
    """L4: also where the document is an argument, so that the settings do not show it."""
    free = {**ADD, "arguments": {"query": "string"}, "body": None, "result": "data"}
    tools = {"add": {name: each for name, each in free.items() if each is not None}}
    hosts: dict[str, Any] = {"allow": ["127.0.0.1"], "writes": [f"127.0.0.1:{shop.port}"]}
    connector: Any = Http(f"{shop.url}/a", operations=tools, **hosts)
    for tool, args in (
        (connector.add, {"query": "mutation { add { id } }"}),
        (connector.request, {"method": "POST", "url": f"{shop.url}/graphql", "body": {}}),
    ):
        shop.next(status(200, value=value))
        sent = call(**args)
        if is_done:
            await tool(sent, **args)
            continue
        with pytest.raises(UnknownOutcome):
            await tool(sent, **args)
