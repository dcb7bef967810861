"""What of a connection may be set from a page: one table, and everything else refused."""

from __future__ import annotations

from typing import Any

import pytest

from duly.api.build import CONNECTORS
from duly.errors import DulyError, Invalid, RequestRefused
from duly.rules.addable import (
    ADDABLE,
    FOLDER_PARTS_MAX,
    HOSTS_MAX,
    NAME_CHARS_MAX,
    OPENAPI_CHARS_MAX,
    OTHER_WORDS,
    TAKEN,
    VALUE_CHARS_MAX,
    check_new_name,
    check_secrets,
    find_addable,
    make_table,
    read_new,
    read_settings,
)
from duly.rules.addable_kind import Takes
from duly.rules.addable_operation import OPERATIONS, field_of, place_refused

# Keys that would widen what this machine gives away; no kind lets a page set one.
WIDENING = {
    *("allow", "ca", "tls", "socket", "command", "env", "lock", "headers", "auth", "writes"),
    *("operations", "reads", "verify", "secret", "secrets", "client_secret", "memory_mb", "use"),
}
GOOD: dict[Takes, str] = {
    Takes.TEXT: "ada",
    Takes.ADDRESS: "https://shop.example/api",
    Takes.HOST: "imap.example.com:993",
    Takes.HOSTS: "shop.example, www.shop.example",
    Takes.FOLDER: "in/box",
    Takes.DOCUMENT: "openapi: 3.0.0",
}
# Of the fields of an operation those that a change needs.
OPERATION: dict[str, str] = {
    "operation": "add_task",
    "method": "POST",
    "path": "/tasks",
    "arguments": "title, due string?",
    "key": "field",
    "key_name": "reference",
    "found_by": "/tasks?reference={key}",
    "found_in": "tasks",
    "found_as": "reference",
}


def filled(use: str) -> dict[str, str]:
    found = {
        each.name: each.choices[-1] if each.choices else GOOD[each.takes]
        for each in find_addable(use).keys
    }
    if use != "http":
        return found
    operations = {
        field_of(number, part): f"{text}_{number}" if part == "operation" else text
        for number in range(1, OPERATIONS + 1)
        for part, text in OPERATION.items()
    }
    return {**found, **operations, "sign_in": "header", "sign_in_name": "X-Api-Key"}


def test_only_kinds_that_ship_here_can_be_added_and_those_with_programs_or_statements_cannot() -> (
    None
):
    """K14: no class of the project, no kind of another package, no statement."""
    assert CONNECTORS.keys() - ADDABLE.keys() == {"sql", "clock"}
    assert CONNECTORS.keys() >= ADDABLE.keys()
    for use in ("sql", "clock", "filechat:FileChat", "os:system", "elsewhere", "", "Files"):
        with pytest.raises(RequestRefused) as caught:
            find_addable(use)
        assert caught.value.code == "beyond_page", use


@pytest.mark.parametrize("use", ADDABLE)
def test_a_key_that_widens_what_this_machine_gives_away_is_refused_for_every_kind(use: str) -> None:
    """K3: neither an address of this network, nor a certificate, a program or a socket."""
    # How TLS begins may be said of a mail account; that it is off cannot.
    own = {"tls"} if use == "mail" else set()
    assert {each.name for each in ADDABLE[use].keys} & WIDENING == own
    assert read_settings(use, filled(use)).keys() == filled(use).keys()
    for key in WIDENING - own:
        with pytest.raises(RequestRefused) as caught:
            read_settings(use, {**filled(use), key: "x"})
        assert (caught.value.code, caught.value.subject) == ("beyond_page", key)


def test_a_table_of_a_database_and_a_server_that_is_a_program_are_not_added() -> None:
    """K13: `url` of a table is a file of this machine."""
    assert [each.name for each in ADDABLE["table"].keys] == ["path", "key"]
    assert [each.name for each in ADDABLE["mcp"].keys] == ["url"]
    for use in ("files", "mailbox", "table"):
        assert {each.takes for each in ADDABLE[use].keys if each.name == "path"} == {Takes.FOLDER}


WRONG: dict[tuple[str, str], list[str]] = {
    ("files", "path"): [
        *("/etc", "~", "~/mails", "..", "../other", "in/../../x", ".", "./in", ".ssh", "in/.git"),
        *("in//box", "in\\box", "in/box.", "C:", "$HOME", "in\x00", "in\nbox", "sqlite:///x.db"),
        *("/".join("a" * (FOLDER_PARTS_MAX + 1)), "年" * 86),
        "a" * (VALUE_CHARS_MAX + 1),
    ],
    ("feed", "url"): [
        *("http://news.example/feed.xml", "file:///etc/passwd", "sqlite:///x.db", "news.example"),
        *("https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1:8080/x", "https://2130706433/"),
        *("https://ada:secret@news.example/", "https://news.example/ a", "ftp://news.example/"),
    ],
    ("mail", "tls"): ["off", "plain", "DIRECT", "verify"],
    ("http", "sign_in"): ["oauth", "query", "Bearer"],
    ("http", "method"): ["CONNECT", "TRACE", "post", "GET /"],
    ("http", "path"): [
        *("tasks", "//evil.example/x", "/../admin", "/a/%2e%2e/b", "/a//b", "/a#b", "/a b", "/a?x"),
        *("https://evil.example/x", "/a\\b", "/{id", "@evil.example"),
    ],
    ("http", "found_by"): ["//evil.example?k={key}", "https://evil.example/{key}", "tasks"],
    ("http", "arguments"): [
        "Title",
        "a b c",
        "a, a",
        "a;b",
        "1a",
        ", ".join("abcdefghijklmnopqrstu"),
    ],
    ("http", "operation"): ["add task", "Add", "_perform", "__init__", "a.b"],
    ("http", "openapi"): ["a" * (OPENAPI_CHARS_MAX + 1), "a\ud800"],
    ("mail", "imap"): [
        "127.0.0.1",
        "[::1]",
        "10.0.0.1:993",
        "[::1]:993",
        "imap.example.com:x",
        "a b",
        "a/b",
    ],
    ("http", "hosts"): [
        *("127.0.0.1", "shop.example 10.0.0.1", "*.example.com", "https://shop.example", "a/b"),
        " ".join(f"h{each}.example" for each in range(HOSTS_MAX + 1)),
    ],
    ("mail", "user"): ["sqlite:///x.db", "https://x.example", "a\nb", "a\x1b[1m", "a\u202eb"],
}


@pytest.mark.parametrize(("use", "key"), WRONG)
def test_a_value_that_is_not_what_its_key_may_be_is_refused_with_its_field(
    use: str, key: str
) -> None:
    """G10: the person learns which field it is."""
    for text in WRONG[use, key]:
        with pytest.raises(Invalid) as caught:
            read_settings(use, {**filled(use), key: text})
        assert caught.value.path == f"settings.{key}", text


def test_what_is_at_a_limit_is_taken() -> None:
    most = "/".join("a" * FOLDER_PARTS_MAX)
    assert read_settings("files", {"path": most}) == {"path": most}
    assert read_settings("files", {"path": "年" * 85}) == {"path": "年" * 85}
    hosts = " ".join(f"h{each}.example" for each in range(HOSTS_MAX))
    found = read_settings("http", {"url": "https://shop.example", "hosts": hosts})
    text = "a" * OPENAPI_CHARS_MAX
    given = {"url": "https://shop.example", "openapi": text}
    assert read_settings("http", given)["openapi"] == text
    assert len(found["hosts"]) == HOSTS_MAX
    text = "a" * VALUE_CHARS_MAX
    assert read_settings("airtable", {"base": text}) == {"base": text}


def test_a_needed_key_that_was_left_empty_is_named_and_others_may_be() -> None:
    with pytest.raises(Invalid) as caught:
        read_settings("mail", {"address": "  "})
    assert (caught.value.code, caught.value.path) == ("missing", "settings.address")
    assert read_settings("mail", {"address": "ada@example.com", "imap": ""}) == {
        "address": "ada@example.com"
    }
    assert read_settings("files", {"path": "in box/"}) == {"path": "in box"}


@pytest.mark.parametrize(
    "name",
    [
        *sorted(TAKEN),
        "",
        "Inbox",
        "1box",
        "in-box",
        "in box",
        "in.box",
        "_in",
        "a" * (NAME_CHARS_MAX + 1),
    ],
)
def test_a_name_that_scripts_could_not_use_is_refused_and_not_repeated(name: str) -> None:
    """A5: a secret that was typed into the wrong field is not shown."""
    with pytest.raises(Invalid) as caught:
        check_new_name(name)
    assert caught.value.path == "name"
    assert not name or name not in str(caught.value)
    assert check_new_name("a" * NAME_CHARS_MAX) == "a" * NAME_CHARS_MAX


def test_secrets_are_those_of_the_kind_and_none_that_is_needed_lacks() -> None:
    """A5: nothing of a secret stands in a refusal."""
    assert check_secrets("telegram", {"token": "12:abc"}) == {"token": "12:abc"}
    assert check_secrets("ics", {"token": ""}) == {}
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("telegram", {}, "missing"),
        ("telegram", {"token": ""}, "missing"),
        ("s3", {"access_key": "hidden-1"}, "missing"),
        ("files", {"token": "hidden-1"}, "beyond_page"),
        ("telegram", {"token": "hidden-1", "password": "hidden-2"}, "beyond_page"),
    ]
    for use, given, code in wrong:
        with pytest.raises(DulyError) as caught:
            check_secrets(use, given)
        assert caught.value.code == code
        assert "hidden" not in str(caught.value)


TASKS = {"url": "https://tasks.example/api", "sign_in": "bearer", **OPERATION}


def test_the_small_fields_of_an_operation_become_its_table() -> None:
    """K1: a change has its key and how it is found again; a read has neither."""
    read = {"operation_2": "tasks", "method_2": "GET", "path_2": "/tasks?all=true"}
    more = {**read, "arguments_2": "page integer?"}
    assert make_table("http", read_settings("http", {**TASKS, **more})) == {
        "use": "http",
        "url": "https://tasks.example/api",
        "auth": {"type": "bearer"},
        "operations": {
            "add_task": {
                "method": "POST",
                "path": "/tasks",
                "arguments": {"title": "string", "due": "string?"},
                "key": {"field": "reference"},
                "verify": {
                    "path": "/tasks",
                    "match": "reference",
                    "query": {"reference": "{key}"},
                    "items": "tasks",
                },
            },
            "tasks": {
                "method": "GET",
                "path": "/tasks",
                "arguments": {"page": "integer?"},
                "query": {"all": "true", "page": "{page}"},
            },
        },
    }
    bare = {"url": "https://tasks.example", "operation": "add", "path": "/tasks"}
    assert make_table("http", read_settings("http", bare))["operations"] == {
        "add": {"method": "POST", "path": "/tasks", "key": "none"}
    }
    headed = {**bare, "key": "header", "sign_in": "basic", "sign_in_name": "ada"}
    made = make_table("http", read_settings("http", headed))
    assert made["operations"]["add"]["key"] == {"header": "Idempotency-Key"}
    assert made["auth"] == {"type": "basic", "user": "ada"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"operation": ""}, "operation"),
        ({"path": ""}, "path"),
        ({"key": "none"}, "key"),
        ({"key": "none", "key_name": ""}, "key"),
        ({"key_name": ""}, "key_name"),
        ({"found_by": ""}, "found_by"),
        ({"found_as": ""}, "found_as"),
        ({"method": "GET"}, "key_name"),
        ({"sign_in": "header"}, "sign_in_name"),
        ({"operation_2": "add_task", "path_2": "/x"}, "operation_2"),
        ({"path_3": "/x"}, "operation_3"),
    ],
)
def test_what_an_operation_lacks_is_told_with_its_field(change: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_settings("http", {**TASKS, **change})
    assert caught.value.path == f"settings.{field}"


def test_a_service_of_which_nothing_is_described_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        read_settings("http", {"url": "https://tasks.example", "method": "POST", "key": "none"})
    assert (caught.value.code, caught.value.path) == ("no_operation", "settings.operation")


def test_all_that_is_wrong_is_told_at_once_and_no_secret_with_it() -> None:
    """A5, G10: the first error has the others, each with its field."""
    given = {"address": "", "imap": "10.0.0.1", "smtp": "a b", "user": "https://x.example"}
    with pytest.raises(Invalid) as caught:
        read_new("mail", "No name", given, {"password": ""})
    also = caught.value.facts["also"]
    assert [caught.value.path, *(each["path"] for each in also)] == [
        *("name", "settings.address", "settings.imap", "settings.smtp", "settings.user"),
        "secrets.password",
    ]
    again = [Invalid(**each) for each in also]
    assert "imap must be the name of a host" in str(again[1])
    with pytest.raises(Invalid) as caught:
        read_new("s3", "No name", {}, {"access_key": "hidden-1"})
    assert "hidden" not in repr(caught.value.facts)


def test_a_token_is_not_kept_for_nothing_and_not_missing_where_it_is_sent() -> None:
    """A5: a secret that no request carries would be kept, and no one would know."""
    assert read_new("http", "tasks", TASKS, {"token": "hidden-1"}).secrets == {"token": "hidden-1"}
    for change, token, path in (
        ({"sign_in": "none"}, "hidden-1", "settings.sign_in"),
        ({"sign_in": "bearer"}, "", "secrets.token"),
    ):
        with pytest.raises(Invalid) as caught:
            read_new("http", "tasks", {**TASKS, **change}, {"token": token})
        assert caught.value.path == path


def test_what_the_reader_of_operations_refuses_is_placed_in_the_form() -> None:
    given = {**TASKS, "operation_2": "other"}
    for said, field in (
        ("operations.add_task.arguments.title: it is sent nowhere", "arguments"),
        ("operations.add_task.verify.path: the question names the key nowhere", "found_by"),
        ("operations.other.key.field: taken", "key_2"),
        ("operations.other: the connector has something of this name already", "operation_2"),
        ("operations.unknown.path: no", ""),
        ("url: no", ""),
    ):
        assert place_refused(said, given) == field, said


def test_another_word_for_a_kind_leads_to_it() -> None:
    assert {*OTHER_WORDS.values()} <= CONNECTORS.keys()
    with pytest.raises(RequestRefused) as caught:
        find_addable("folder")
    assert caught.value.facts["near"] == "files"
