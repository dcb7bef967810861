"""The description of the HTTP interface: valid, complete, and enough to make a client of (U6)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from duly.api.registry import VERBS, Scope
from duly.faces.web.openapi import describe_api
from tests.web.stand import Reply, serving

Send = Callable[..., Awaitable[Reply]]


@cache
def described() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(describe_api(VERBS)))
    return made


def test_the_description_is_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(described()).validate()


def test_every_verb_is_described_as_it_is_declared() -> None:
    """U6: its methods, its arguments, its scope and its words."""
    paths = described()["paths"]
    assert paths.keys() == {f"/api/v1/{name}" for name in VERBS}
    for name, verb in VERBS.items():
        path = paths[f"/api/v1/{name}"]
        assert path.keys() == ({"get", "post"} if verb.is_question else {"post"})
        assert path["post"]["x-scope"] == verb.scope
        assert verb.doc.startswith(path["post"]["summary"])
        if verb.is_question:
            given = [(each["name"], each["required"]) for each in path["get"]["parameters"]]
            assert given == [(each.name, each.is_required) for each in verb.parameters]


def test_what_an_act_takes_has_no_place_for_who_acts() -> None:
    """G5: a client cannot even be generated that sends it."""
    for name, record in described()["components"]["schemas"].items():
        if name.endswith("arguments"):
            assert "by" not in record["properties"], name
            assert record["additionalProperties"] is False


class Client:
    """A client made of the description alone: a method for each operation."""

    def __init__(self, description: dict[str, Any], send: Send) -> None:
        self._send = send
        for path, methods in description["paths"].items():
            for method, operation in methods.items():
                name = operation["operationId"].replace(".", "_")
                setattr(self, name, self._make(path, method, operation))

    def _make(self, path: str, method: str, operation: dict[str, Any]) -> Callable[..., Any]:
        by_name = {each["name"]: each for each in operation.get("parameters", ())}

        async def call(**given: Any) -> Any:
            if method == "get":
                pairs = {key: self._spell(by_name[key], each) for key, each in given.items()}
                reply = await self._send(f"{path}?{urlencode(pairs)}", "GET")
            else:
                reply = await self._send(path, method.upper(), body=given)
            assert str(reply.status) in operation["responses"], reply.text
            return reply.json

        return call

    @staticmethod
    def _spell(parameter: dict[str, Any], value: Any) -> str:
        is_text = isinstance(value, str) and "content" not in parameter
        return value if is_text else json.dumps(value)


async def test_a_client_that_was_made_of_the_description_works(tmp_path: Path) -> None:
    """U6: deploy, publish, look, pause; nothing is known but the description."""
    async with serving(tmp_path) as web:
        description = (await web.ask("/api/v1/openapi.json", scope=Scope.READ)).json
        client: Any = Client(description, web.ask)
        source = VERBS["deploy"].example["source"]
        made = await client.deploy(source=source, grant=True)
        assert (made["workflow"], made["version"]) == ("invoices", "1.0")
        told = await client.publish(workflow="invoices", topic="mail.received", title="Mail & co")
        assert told == "new"
        (event,) = await client.events(workflow="invoices", status="pending", limit=10)
        assert event["title"] == "Mail & co"
        await client.bus_emit(topic="tea.ready", payload={"cups": 2}, source="kettle")
        (heard,) = await client.bus_journal(topic="tea.ready")
        assert heard["payload"] == {"cups": 2}
        assert await client.bus_deliveries(after=[0, ""]) == []
        assert await client.pause(workflow="invoices") is None
        assert (await client.workflow(name="invoices"))["standing"] == "stopped"
        _check(description, "workflow", await client.workflow(name="invoices"))
        _check(description, "events", await client.events(workflow="invoices"))


def _check(description: dict[str, Any], verb: str, answer: Any) -> None:
    """See that an answer is what its schema says."""
    returns = description["paths"][f"/api/v1/{verb}"]["get"]["responses"]["200"]
    schema = returns["content"]["application/json"]["schema"]
    whole = {**schema, "components": description["components"]}
    OAS31Validator(whole).validate(answer)
