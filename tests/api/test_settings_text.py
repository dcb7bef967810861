"""Settings that a person wrote keep every byte that is not changed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from duly.api.settings_text import (
    change_file,
    is_as_written,
    put_key,
    put_table,
    remove_tables,
    write_value,
)
from duly.errors import ConfigError

MINE = """\
# Ünïcode, and a comment   with   blanks
url = "sqlite:///duly.db"   # mine

[connectors.inbox]
use = "files"
path = 'in#box'      # [not a table]
text = \"\"\"
[connectors.fake]
path = "x"
\"\"\"
list = [
  "[a]",  # one
]

# about the policy
[policy]
timezone = "Europe/Berlin"
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("text", [MINE, "", "# only a comment", MINE.rstrip("\n")])
def test_a_new_table_leaves_every_byte_as_it_was(text: str, end: str) -> None:
    """A5: comments, order, blanks and line ends stay."""
    before = text.replace("\n", end)
    after = put_table(before, ("connectors", "shop"), {"use": "http", "url": "https://x.example"})
    assert after.startswith(before)
    assert tomllib.loads(after)["connectors"]["shop"]["url"] == "https://x.example"
    assert ("\r\n" in after) == ("\r\n" in before)
    assert after.count("\r\n") in (0, after.count("\n"))


def test_a_table_is_replaced_and_what_is_around_it_stays() -> None:
    """A5: comments above the next table belong to that one."""
    after = put_table(MINE, ("connectors", "inbox"), {"use": "table", "path": "t"}, note="made")
    head, _, tail = MINE.partition("[connectors.inbox]")
    assert after.startswith(head)
    assert after.endswith("\n# about the policy" + tail.partition("# about the policy")[2])
    assert tomllib.loads(after)["connectors"] == {"inbox": {"use": "table", "path": "t"}}
    table = {"use": "table", "path": "t"}
    assert is_as_written(after, ("connectors", "inbox"), table, note="made")
    assert not is_as_written(after, ("connectors", "inbox"), table, note="other")
    assert not is_as_written(after, ("connectors", "none"), table, note="made")
    assert remove_tables(after, [("connectors", "inbox")]).startswith(head)


def test_one_key_is_changed_in_its_line_or_added_below_the_name() -> None:
    """A5: the others keep their comments."""
    changed = put_key(MINE, ("connectors", "inbox"), "use", "mailbox")
    assert changed == MINE.replace('use = "files"', 'use = "mailbox"')
    added = put_key(MINE, ("policy",), "runs_max", 7)
    assert added == MINE.replace("[policy]\n", "[policy]\nruns_max = 7\n")
    with pytest.raises(ConfigError) as caught:  # it has several lines: a person changes it
        put_key(MINE, ("connectors", "inbox"), "list", ["b"])
    assert caught.value.code == "settings_by_hand"


@pytest.mark.parametrize(
    "text",
    [
        'connectors = { shop = { use = "http" } }\n',
        'connectors.shop.use = "http"\n',
        '[connectors]\nshop = { use = "http" }\n',
        "[[connectors]]\na = 1\n",
        "this is no toml",
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    """A5: with the table to write by hand; the text is left as it is."""
    with pytest.raises(ConfigError) as caught:
        put_table(text, ("connectors", "shop"), {"use": "files"})
    assert caught.value.code == "settings_by_hand"
    assert "[connectors.shop]" in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        'quo"te\\ and \n line \x00 \x7f ü 😀',
        True,
        7,
        2.5,
        float("inf"),
        ["a", 1],
        {"a b": {"c": "{d}"}, "Ä": 1},
        {},
        [],
    ],
)
def test_every_value_comes_back_as_it_was(value: object) -> None:
    """A5: a value never becomes structure."""
    assert tomllib.loads(f"x = {write_value(value)}")["x"] == value


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    """A5: one that another program changed meanwhile is left alone."""
    file = tmp_path / "duly.toml"
    file.write_text(MINE)
    file.chmod(0o600)
    change_file(file, lambda text: put_key(text, ("policy",), "runs_max", 7))
    assert "runs_max = 7" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_bytes()

    def meddle(text: str) -> str:
        file.write_bytes(before + b"# mine\n")
        return put_key(text, ("policy",), "runs_max", 8)

    with pytest.raises(ConfigError) as caught:
        change_file(file, meddle)
    assert caught.value.code == "settings_changed"
    assert file.read_bytes() == before + b"# mine\n"
    assert [each.name for each in tmp_path.iterdir()] == ["duly.toml"]
    change_file(tmp_path / "new.toml", lambda text: put_table(text, ("a",), {"b": 1}))
    assert (tmp_path / "new.toml").read_text() == "[a]\nb = 1\n"
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError):
        change_file(tmp_path / "bad.toml", lambda text: text)
