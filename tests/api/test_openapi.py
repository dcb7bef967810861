"""Operations are made of descriptions: a plain one, one with cycles, a huge, a hostile, a newer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duly.api.description import DESCRIPTION_BYTES_MAX, read_openapi
from duly.connectors.http import Http
from duly.connectors.place import OWN
from duly.errors import Invalid
from duly.rules.openapi import OPERATIONS_MAX, LeftOut, read_description, snake
from duly.words.openapi import REASONS, say_omission

PETS = """
openapi: 3.0.3
info: {title: Pets, version: "1"}
servers: [{url: "https://{region}.pets.example/v2/", variables: {region: {default: eu}}}]
components:
  securitySchemes:
    cookie: {type: apiKey, in: cookie, name: sid}
    key: {type: apiKey, in: header, name: X-Api-Key}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        id: {type: integer, readOnly: true}
        name: {type: string}
        photoUrls: {type: array, items: {type: string}}
        class: {type: string}
paths:
  /pets:
    get:
      operationId: findPetsByStatus
      summary: "Find\\n pets"
      parameters:
        - {name: petStatus, in: query, schema: {type: string}}
        - {name: limit, in: query, required: true, schema: {type: integer}}
      responses: {"200": {content: {application/json: {schema: {type: array}}}}}
    post:
      operationId: addPet
      parameters: [{name: Idempotency-Key, in: header, schema: {type: string}}]
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Pet"}}}
      responses: {"201": {$ref: "#/components/responses/Pet"}}
  /pets/{petId}:
    parameters: [{name: petId, in: path, required: true, schema: {type: integer}}]
    get: {operationId: get, responses: {}}
    delete: {operationId: find-pets-by-status, responses: {}}
    put:
      requestBody:
        content:
          application/x-www-form-urlencoded: {schema: {properties: {key: {type: string}}}}
    options: {}
  /pets/{petId}/photo:
    post:
      parameters: [{name: petId, in: path, required: true, schema: {type: integer}}]
      requestBody: {content: {image/png: {}}}
    get:
      parameters:
        - {name: petId, in: path, required: true, schema: {type: integer}}
        - {name: X-Trace, in: header, required: true, schema: {type: string}}
"""


def read(tmp_path: Path, text: str | bytes, name: str = "spec.yaml") -> Any:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_openapi(file)


def test_a_description_becomes_operations_that_a_connector_takes(tmp_path: Path) -> None:
    """K1, K5: names, types, places; what reads and what changes; where the key travels."""
    made = read(tmp_path, PETS)
    assert (made.url, made.auth) == (
        "https://eu.pets.example/v2",
        {"type": "header", "name": "X-Api-Key"},
    )
    assert made.operations["find_pets_by_status"] == {
        "does": "Find pets",
        "method": "GET",
        "path": "/pets",
        "arguments": {"pet_status": "string?", "limit": "integer"},
        "query": {"petStatus": "{pet_status}", "limit": "{limit}"},
        "returns": "list",
    }
    assert made.operations["add_pet"] == {
        "does": "POST /pets",
        "method": "POST",
        "path": "/pets",
        "arguments": {"name_value": "string", "photo_urls": "list?", "class_value": "string?"},
        "body": {
            "name": "{name_value}",
            "photoUrls": "{photo_urls}",
            "class": "{class_value}",
        },
        "key": {"header": "Idempotency-Key"},
    }
    assert made.operations["get_value"]["kind"] == "read_by_id"
    assert made.operations["find_pets_by_status_2"]["key"] == "none"
    put = made.operations["put_pets_by_pet_id"]
    assert (put["form"], put["body"]) == (True, {"key": "{key_value}"})
    why = [(each.subject, each.why) for each in made.omitted]
    assert why == [
        ("cookie", LeftOut.AUTH),
        ("OPTIONS /pets/{petId}", LeftOut.METHOD),
        ("POST /pets/{petId}/photo", LeftOut.BODY_TYPE),
        ("GET /pets/{petId}/photo", LeftOut.HEADER),
    ]
    assert all(say_omission(each) for each in made.omitted)
    Http(made.url, operations=made.operations, auth=made.auth)
    assert read(tmp_path, PETS).operations == made.operations


def test_references_that_go_round_end(tmp_path: Path) -> None:
    """N: a type within itself, a reference to itself, one to another file, one to nothing."""
    schemas: dict[str, Any] = {
        "Node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": {"type": "string"}},
        },
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
        "a/b~c": {"type": "boolean"},
    }

    def post(reference: str) -> dict[str, Any]:
        body = {"content": {"application/json": {"schema": {"$ref": reference}}}}
        return {"post": {"requestBody": body}}

    spec = {
        "openapi": "3.0.0",
        "components": {"schemas": schemas, "pathItems": {}},
        "paths": {
            "/node": post("#/components/schemas/Node"),
            "/round": post("#/components/schemas/A"),
            "/odd": post("#/components/schemas/a~1b~0c"),
            "/far": post("https://evil.example/spec.json#/x"),
            "/file": post("../secret.yaml"),
            "/none": post("#/components/schemas/None"),
            "/item": {"$ref": "#/paths/~1item"},
            "/list": {"$ref": ["x"]},
        },
    }
    made = read(tmp_path, json.dumps(spec), "spec.json")
    assert made.operations["post_node"]["arguments"] == {"next": "object?", "v": "string?"}
    assert made.operations["post_round"]["arguments"] == {"body": "any?"}
    assert made.operations["post_odd"]["arguments"] == {"body": "boolean?"}
    assert made.operations["post_none"]["arguments"] == {"body": "any?"}
    assert {each.subject: each.why for each in made.omitted} == {
        "POST /far": LeftOut.ELSEWHERE,
        "POST /file": LeftOut.ELSEWHERE,
        "/item": LeftOut.TOO_DEEP,
        "/list": LeftOut.ELSEWHERE,
    }


def test_a_huge_description_gives_the_first_operations_and_counts_the_rest(tmp_path: Path) -> None:
    """N: one past the limit is left out, and said."""
    paths = {f"/thing{n}": {"get": {"operationId": f"t{n}x"}} for n in range(OPERATIONS_MAX + 1)}
    made = read(tmp_path, json.dumps({"openapi": "3.0.1", "paths": paths}), "spec.json")
    assert len(made.operations) == OPERATIONS_MAX
    assert [each.why for each in made.omitted] == [LeftOut.TOO_MANY]
    with pytest.raises(Invalid) as caught:
        read(tmp_path, b" " * (DESCRIPTION_BYTES_MAX + 1))
    assert caught.value.code == "too_long"


@pytest.mark.parametrize(
    "text",
    [
        "openapi: !!python/object/apply:os.system ['touch /tmp/owned']",
        "[" * 100_000,
        '{"a":' * 100_000,
        "a: &a [x]\nb: [*a, *c]",
        b"\xff\xfe\x00",
        "swagger: '2.0'",
        "just a text",
        "openapi: 2.9",
        "",
    ],
)
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path: Path, text: str | bytes) -> None:
    """K7: nothing is run, nothing hangs."""
    with pytest.raises(Invalid) as caught:
        read(tmp_path, text)
    assert caught.value.code in ("unreadable", "not_openapi")


def test_hostile_parts_cost_their_own_operation_alone(tmp_path: Path) -> None:
    """K4, K5, N: names, paths and texts of a stranger never become anything else."""
    many = [{"name": f"a{n}x", "in": "query"} for n in range(100)]
    spec: dict[str, Any] = {
        "openapi": "3.0.0",
        "servers": [{"url": "javascript:alert(1)"}],
        "components": {"securitySchemes": {"x": 7}},
        "paths": {
            "/a": {"get": {"operationId": "../../etc", "summary": "x\u202e\x1b[31m" * 100}},
            "/b?x=1#y": {"post": {}},
            "no-slash": {"get": {}},
            "//evil.example/x": {"get": {"operationId": "far"}},
            "/c/{x}": {"get": {"operationId": "unnamed"}},
            "/d": {"get": {"operationId": "many", "parameters": many}},
            "/e": {"get": {"operationId": "漢字"}, "post": 7, "parameters": 7},
            "/f": None,
            "/g": {"post": {"operationId": "import", "requestBody": {"content": 5}}},
            "/h": {"get": {"operationId": "odd", "parameters": [7]}},
            "/i/../j": {"get": {"operationId": "up"}},
            "/k": {"get": {"parameters": [{"in": "query", "name": each} for each in OWN]}},
        },
    }
    made = read(tmp_path, json.dumps(spec), "spec.json")
    assert made.url is None
    assert made.operations["etc"]["does"].isprintable()
    assert len(made.operations["etc"]["does"]) <= 200
    assert {"get_e", "import_value"} <= made.operations.keys()
    assert "up" not in made.operations
    assert made.operations["get_k"]["arguments"].keys() == {f"{each}_value" for each in OWN}
    refused = {each.subject for each in made.omitted if each.why is LeftOut.REFUSED}
    assert any("b" in each for each in refused)
    for each in made.operations.values():
        assert each["path"].startswith("/")
        assert "?" not in each["path"]
    assert {each.why for each in made.omitted} >= {LeftOut.MALFORMED, LeftOut.TOO_MANY}
    assert {*REASONS} == {*LeftOut}
    Http("https://x.example", operations=made.operations)


def test_a_description_of_3_1_is_read(tmp_path: Path) -> None:
    """K1: lists of types, null among them, and a form without a type."""
    text = """
openapi: 3.1.0
servers: [{url: /relative}]
components: {securitySchemes: {login: {type: oauth2, flows: {}}}}
paths:
  /v1/items:
    post:
      operationId: v1.items.create
      requestBody:
        content:
          application/vnd.shop+json:
            schema:
              allOf:
                - {properties: {itemName: {type: [string, "null"]}}}
                - {required: [count], properties: {count: {type: [integer]}}}
      responses:
        "2XX":
          content:
            application/json:
              schema: {required: [id], properties: {id: {type: integer}, note: {type: string}}}
"""
    made = read(tmp_path, text)
    assert (made.url, made.auth) == (None, {"type": "bearer"})
    assert made.operations["v_1_items_create"] == {
        "does": "POST /v1/items",
        "method": "POST",
        "path": "/v1/items",
        "arguments": {"item_name": "any?", "count": "integer"},
        "body": {"itemName": "{item_name}", "count": "{count}"},
        "key": "none",
        "returns": {"id": "integer", "note": "string?"},
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("getHTTPResponse", "get_http_response"),
        ("list-all__Things", "list_all_things"),
        ("3things", "things"),
        ("class", "class_value"),
        ("get", "get_value"),
        ("call", "call_value"),
        ("漢", ""),
    ],
)
def test_names_are_written_as_scripts_write_them(text: str, name: str) -> None:
    """W1: in lower case, and never a word that is taken."""
    assert snake(text) == name


def test_what_is_no_description_is_refused() -> None:
    """K7: with what was found."""
    wrong: list[Any] = [None, [], {}, {"openapi": 3}, {"openapi": "4.0"}]
    for spec in wrong:
        with pytest.raises(Invalid):
            read_description(spec)


@pytest.mark.parametrize("word", ["basic", "bearer", "Basic"])
def test_a_scheme_of_http_says_who_asks(word: str) -> None:
    """A5: the user and the password of basic are one secret, `user:password`."""
    scheme = {"login": {"type": "http", "scheme": word}}
    made = read_description(
        {"openapi": "3.0.0", "components": {"securitySchemes": scheme}, "paths": {}}
    )
    assert made.auth == {"type": word.lower()}
