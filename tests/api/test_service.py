"""A web service that is added by a form: its sign-in, its operations and its OpenAPI text."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.api.build import build_host, make_setup
from duly.api.connecting import compare
from duly.api.description import read_openapi
from duly.errors import Invalid
from duly.host import Host
from duly.rules.addable import read_settings
from tests.api.test_setup import SPEC, TEXT, folder, host, read, refused, tables

__all__ = ["folder", "host"]  # the fixtures of a project and of its host

TASKS = {"url": "https://tasks.example/api", "sign_in": "bearer"}


async def test_the_text_of_a_service_says_neither_where_it_is_nor_who_asks(
    folder: Path, host: Host
) -> None:
    """K4, A5: a stranger wrote it; the token goes where a person said, and in no other header."""
    secrets = {"token": "hidden-1"}
    made = await host.add_connection("http", "tasks", {**TASKS, "openapi": SPEC}, secrets)
    table = tables(folder)["tasks"]
    assert (table["url"], table["auth"]) == (TASKS["url"], {"type": "bearer"})
    assert table["operations"].keys() == {"list_orders"}
    assert [(each.subject, each.what) for each in made.omitted] == [("POST /photo", "image/png")]
    text = (folder / "duly.toml").read_text()
    assert text.startswith(TEXT)
    assert "hidden" not in text
    # Read again by the command, it changes nothing: the mark is that of the command.
    (folder / "spec.yaml").write_text(SPEC)
    (change,) = compare(read(folder), "tasks", read_openapi(folder / "spec.yaml"))
    assert (change.is_same, change.is_edited) == (True, False)


async def test_an_operation_of_the_form_is_one_that_scripts_call(folder: Path, host: Host) -> None:
    """K1: its key and how it is found again are what the form said."""
    given = {
        **TASKS,
        "operation": "add",
        "path": "/tasks",
        "arguments": "title",
        "key": "field",
        "key_name": "reference",
        "found_by": "/tasks?r={key}",
        "found_as": "reference",
        "found_in": ".",
    }
    await host.add_connection("http", "tasks", given, {"token": "hidden-1"})
    found = build_host(read(folder)).connectors.catalog
    (tool,) = (each for each in found.tools if each.name == "tasks.add")
    assert tool.answering is not None
    assert (str(tool.answering.key_in), str(tool.answering.asked)) == ("field", "by_search")


BOMB = "a: &a {b: c}\n" + "".join(f"x{n}: &x{n} {{<<: [*a, *a]}}\n" for n in range(3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("openapi: 2.0", "OpenAPI"),
        ("[", "The text of openapi cannot be read"),
        ("{" * 5000, ""),
        ("- " * 5000 + "a", "too deep"),
        (BOMB, "by its name"),
        ("openapi: 3.0.0", "no operation"),
        ("!!python/object/apply:os.system [id]", ""),
    ],
)
async def test_a_text_that_is_no_description_is_refused_with_its_field(
    text: str, said: str, folder: Path, host: Host
) -> None:
    """G10: it is a stranger's, and read as plain values; nothing is written."""
    error = await refused(
        host,
        "not_openapi" if said == "OpenAPI" else "unreadable_text",
        use="http",
        settings={**TASKS, "openapi": text},
        secrets={"token": "hidden-1"},
    )
    assert isinstance(error, Invalid)
    assert error.path == "settings.openapi"
    assert said in str(error)
    assert (folder / "duly.toml").read_text() == TEXT


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"operation": "secret"}, "operation"),
        ({"path": "/tasks/{id}"}, "path"),
        ({"arguments": "title text"}, "arguments"),
        ({"sign_in": "header", "sign_in_name": "Host"}, ""),
        ({"key": "header", "key_name": "Content-Length"}, "key"),
        ({"key": "field", "key_name": "title"}, "key"),
    ],
)
async def test_what_the_connector_refuses_is_told_with_its_field(
    change: dict[str, str], field: str, folder: Path, host: Host
) -> None:
    """K4: no header of the transport, and no name that the connector has for itself."""
    given = {**TASKS, "operation": "add", "path": "/tasks", "arguments": "title", **change}
    error = await refused(
        host, "not_added", use="http", settings=given, secrets={"token": "hidden-1"}
    )
    assert error.facts["field"] == field
    assert (folder / "duly.toml").read_text() == TEXT


async def test_all_of_a_service_is_taken_back(folder: Path) -> None:
    """A6: what is written down as the act of no person does not stay, nor its operations."""
    setup = make_setup(read(folder))
    given = {**TASKS, "openapi": SPEC, "operation": "add", "path": "/tasks"}
    added = setup.try_out("http", "tasks", read_settings("http", given))
    setup.write(added)
    assert tables(folder)["tasks"]["operations"].keys() == {"add", "list_orders"}
    setup.take_back(added)
    assert tables(folder).keys() == {"inbox"}
