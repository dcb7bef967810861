"""No mutation ships without its exam, and no connector opens a connection in a way of its own."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from duly import connectors
from duly.connectors.base import Connector, Mutation
from tests.connectors.test_deaths import OF_FILES, OF_GOOGLE, OF_SERVICES

FOLDER = Path(connectors.__file__).parent
GOOGLE = "test_google::test_a_change_passes_the_exam_of_the_network"
SERVICE = "test_a_change_passes_the_exam_for_the_network"

# Each mutation of a module, and the test in which it takes the exam for the network.
NETWORK = {
    **{f"airtable.{each}": f"test_airtable::{SERVICE}[{each}]" for each in ("create", "upsert")},
    "calendar.create": "test_calendar::test_a_new_event_passes_the_exam",
    **{
        f"calendar.{each}": f"test_calendar::test_a_change_passes_the_exam[{each}]"
        for each in ("update", "delete")
    },
    "drive.create": f"{GOOGLE}[drive, create]",
    **{
        f"github.{each}": f"test_github::{SERVICE}[{each}]"
        for each in ("create_issue", "comment", "add_label", "create_pull", "create_release")
    },
    **{f"gmail.{each}": f"{GOOGLE}[gmail, {each}]" for each in ("send", "label", "archive")},
    **{
        f"google_calendar.{each}": f"{GOOGLE}[google_calendar, {each}]"
        for each in ("create", "update")
    },
    "http.request": "test_network_exam::test_a_request_that_no_operation_describes_passes",
    "http.*": "test_network_exam::test_an_operation_of_a_web_service_passes",
    "mail_account.send": "test_network_exam::test_a_send_of_a_mail_passes",
    **{
        f"mail_account.{each}": f"test_network_exam::test_what_files_a_mail_passes[{each}]"
        for each in ("draft", "move", "flag")
    },
    "mcp.*": "test_mcp_exam::test_a_call_over_a_broken_network_tells_the_truth",
    **{f"notion.{each}": f"test_notion::{SERVICE}[{each}]" for each in ("create", "update")},
    "s3.put": "test_s3::test_a_put_passes_the_exam",
    "s3.delete": "test_s3::test_a_delete_passes_the_exam",
    **{f"sheets.{each}": f"{GOOGLE}[sheets, {each}]" for each in ("append", "update")},
    **{f"slack.{each}": f"test_slack::{SERVICE}[{each}]" for each in ("post", "update", "react")},
    "slack.upload": "test_slack::test_an_upload_passes_the_exam_at_its_last_step",
    "sql.*": "test_network_exam::test_a_change_of_a_database_passes",
    "stripe.create": f"test_stripe::{SERVICE}",
    "telegram.send": "test_telegram::test_a_send_passes_the_exam_for_the_network",
    "webhook.send": "test_webhook::test_a_webhook_passes_the_exam_for_the_network",
}
# Each of them, and the test in which it is killed, fails and is stopped on its way.
OWN = "survives_its_death"
IN_DEATHS = {
    f"test_a_change_of_a_service_{OWN}": (
        *("airtable.create", "airtable.upsert", "notion.create", "notion.update"),
        *("github.create_issue", "github.comment", "github.add_label", "github.create_pull"),
        *("github.create_release", "slack.post", "slack.update", "slack.react", "slack.upload"),
        "stripe.create",
    ),
    f"test_a_change_at_google_{OWN}": (
        *("drive.create", "gmail.send", "gmail.label", "gmail.archive", "sheets.append"),
        *("sheets.update", "google_calendar.create", "google_calendar.update"),
    ),
}
DEATHS = {
    **{each: f"test_deaths::{test}[{each}]" for test, tools in IN_DEATHS.items() for each in tools},
    **{
        f"calendar.{each}": f"test_deaths::test_a_change_of_a_calendar_{OWN}[{each}]"
        for each in ("create", "update", "delete")
    },
    **{
        f"s3.{each}": f"test_deaths::test_a_change_of_a_bucket_{OWN}[{each}]"
        for each in ("put", "delete")
    },
    "http.request": f"test_deaths::test_a_request_{OWN}",
    "http.*": "test_http::test_every_place_of_the_key_passes_the_exam",
    "mail_account.send": "test_mail_account::test_a_send_passes_the_exam",
    **{
        f"mail_account.{each}": f"test_mail_account::test_what_files_a_mail_passes_the_exam[{each}]"
        for each in ("draft", "move", "flag")
    },
    "mcp.*": f"test_deaths::test_a_call_over_mcp_{OWN}",
    "sql.*": "test_sql::test_a_change_in_a_file_passes_the_exam",
    "telegram.send": "test_telegram::test_a_send_passes_the_exam_of_deaths",
    "webhook.send": "test_webhook::test_a_webhook_passes_the_exam_of_deaths",
}
# These touch files of this machine alone: they are killed at every step.
DISK = {
    "files.write": "test_files::test_a_write_killed_at_any_moment_is_found_again_and_made_once",
    "files.put": "test_file_blob::test_a_blob_is_written_once",
    "table.insert": "test_table_csv::test_an_insert_into_a_file_killed_at_any_moment_makes_one_row",
}
# Modules that make their tools out of settings; `declared` says in its own test that it is whole.
MADE = {"http", "mcp", "sql"}
# Where a connection is opened, and the tests in which a server there is a wrong one.
WAYS = {
    "transport": "test_network_impostor::test_a_connector_speaks_to_its_server_alone",
    "line_wire": "test_network_exam::test_a_send_of_a_mail_passes",
    "sql_postgres": "test_network_impostor::test_a_database_with_a_wrong_certificate_hears_nothing",
}
OPENING = {"open_connection", "create_connection", "connect", "connect_ex", "start_server"}
OTHER_WAYS = re.compile(
    r"(http\.client|urllib\.request|smtplib|imaplib|ftplib|poplib|httpx2?|requests|aiohttp"
    r"|websockets|imap_tools|urllib3|socketserver)(\.|$)"
)


def declared() -> Iterator[str]:
    """Name the mutations that stand in a class, or are decorated in a function that makes one."""
    for short, tree in parse():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                "mutation" in map(_name_of, ast.walk(each)) for each in node.decorator_list
            ):
                yield f"{short}.{node.name}"
    for found in pkgutil.walk_packages([str(FOLDER)], f"{connectors.__name__}."):
        name, module = found.name, import_module(found.name)
        for kind in vars(module).values():
            is_here = isinstance(kind, type) and kind.__module__ == name
            if is_here and issubclass(kind, Connector):
                short = name.rpartition(".")[2]
                yield from (
                    f"{short}.{tool}"
                    for tool, each in vars(kind).items()
                    if isinstance(each, Mutation)
                )


@cache
def parse() -> tuple[tuple[str, ast.Module], ...]:
    """Read every module with connectors."""
    return tuple((path.stem, ast.parse(path.read_text())) for path in sorted(FOLDER.rglob("*.py")))


def called(tree: ast.AST) -> Iterator[str]:
    """Name the functions and methods that are called; decorators are not."""
    decorators = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for each in node.decorator_list
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in decorators:
            yield _name_of(node.func)


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def check_test(test: str, *, exam: str) -> None:
    """Fail if a test is not there, is not run with these values, or takes no exam."""
    place, _, given = test.removesuffix("]").partition("[")
    module, _, name = place.partition("::")
    found = getattr(import_module(f"tests.connectors.{module}"), name)
    marks = getattr(found, "pytestmark", [])
    assert not any(each.name.startswith(("skip", "xfail")) for each in marks), test
    source = inspect.getsource(found)
    assert re.search(exam, source), f"{test} takes no exam"
    if given:
        wanted = given.split(", ")
        values = [value for each in marks if each.name == "parametrize" for value in each.args[1]]
        if place == f"test_deaths::{name}":  # of which a commit takes half
            values = [*values, *OF_SERVICES, *OF_FILES, *OF_GOOGLE]
        sets = [[value] if isinstance(value, str) else list(value) for value in values]
        assert any(each[: len(wanted)] == wanted for each in sets), f"{test} is not run"


def test_no_mutation_ships_without_its_exam() -> None:
    """K1, L5: every one that stands in a class, and every module that makes some of settings."""
    made = {f"{name}.*" for name, tree in parse() if "mutation" in set(called(tree))}
    assert made == {f"{each}.*" for each in MADE}
    assert {*declared(), *made} == {*NETWORK, *DISK}
    for test in NETWORK.values():
        check_test(test, exam=r"\b(examine_network|take_exam|examined|exam)\(")
    assert DEATHS.keys() == NETWORK.keys()
    for test in DEATHS.values():
        check_test(test, exam=r"\b(examine|let_die)\(")
    for test in DISK.values():
        check_test(test, exam=r"\bexamine\(")


def test_every_connection_goes_one_of_three_ways() -> None:
    """K3: so what is tested of a way holds for each connector that goes it."""
    opening = {name for name, tree in parse() if OPENING.intersection(called(tree))}
    assert opening == WAYS.keys()
    for name, tree in parse():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [each for each in names if OTHER_WAYS.match(each)], name
    for test in WAYS.values():
        check_test(test, exam=r"impostors|\.examine\(|Gate\(")
