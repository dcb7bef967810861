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
    TAKEN,
    VALUE_CHARS_MAX,
    Takes,
    check_new_name,
    check_secrets,
    find_addable,
    read_settings,
)

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
}


def filled(use: str) -> dict[str, str]:
    return {each.name: GOOD[each.takes] for each in find_addable(use).keys}


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
    assert not {each.name for each in ADDABLE[use].keys} & WIDENING
    assert read_settings(use, filled(use)).keys() == filled(use).keys()
    for key in WIDENING:
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
    ("mail", "imap"): ["127.0.0.1", "[::1]", "10.0.0.1:993", "imap.example.com:x", "a b", "a/b"],
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
