"""Bytes that call themselves a manifest: what is read, and what is refused unread."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from duly.bus.manifest import DEPTH_MAX, MANIFEST_BYTES, read_manifest, read_yaml
from duly.errors import Invalid
from duly.rules.manifest import AgentSettings, BuiltIn, Subscribes

SEED = b"""\
id: reminders
name: Reminders
version: "1.0"
entrypoint: main:Reminders
agent:
  integration_mode: tool
  model: gpt-5-mini
  instructions: |
    You handle reminders. When a reminder is due, respond with "Reminder: <text>"

events:
  subscribes:
    - topic: reminder.due
      handler: invoke_agent
"""


def refusal(data: bytes) -> str:
    with pytest.raises(Invalid) as caught:
        read_manifest(data)
    return str(caught.value)


def test_a_manifest_as_people_write_it_is_read() -> None:
    """B9: comments, blocks and lists, as YAML has them."""
    manifest = read_manifest(SEED)
    told = 'You handle reminders. When a reminder is due, respond with "Reminder: <text>"\n'
    assert manifest.agent == AgentSettings(told, "gpt-5-mini", "tool")
    assert manifest.subscribes == (Subscribes("reminder.due", BuiltIn.INVOKE_AGENT),)


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    """B9: some editors write one."""
    assert read_manifest(b"\xef\xbb\xbf" + SEED) == read_manifest(SEED)


def test_a_file_at_the_limit_is_read_and_one_past_it_is_not_even_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B9: the size is looked at before anything else."""
    padding = b"#" * (MANIFEST_BYTES - len(SEED))
    read_manifest(SEED + padding)
    monkeypatch.setattr(yaml, "compose", None)
    assert f"longer than {MANIFEST_BYTES} bytes" in refusal(SEED + padding + b"#")


def nested(depth: int) -> str:
    return "a: " + "[" * (depth - 1) + "]" * (depth - 1)


def test_a_depth_at_the_limit_is_read_and_one_past_it_is_refused() -> None:
    """B9: nothing is nested without end."""
    read_yaml(nested(DEPTH_MAX + 1))
    with pytest.raises(Invalid, match=f"nested deeper than {DEPTH_MAX}"):
        read_yaml(nested(DEPTH_MAX + 2))


def test_a_file_of_brackets_is_refused_in_a_sentence() -> None:
    """B9: the parser's own recursion has an end, too, and it is not the host's."""
    assert "nested deeper" in refusal(b"[" * 5_000)


def test_one_alias_is_refused() -> None:
    """B9: a small file stays small; the first step of a bomb is refused."""
    assert refusal(b"name: &it x\nid: *it").startswith("manifest.id (line 1, column 7) is an alias")


def test_a_bomb_of_aliases_is_refused_before_it_is_built() -> None:
    """B9: nine lines that would hold a billion texts."""
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert "an alias of another place" in refusal("\n".join(lines).encode())


def test_a_file_that_contains_itself_is_refused() -> None:
    """B9: a loop of aliases has no end to walk to."""
    assert "an alias of another place" in refusal(b"config: &it {again: *it}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "manifest is empty"),
        ("# nothing\n", "manifest is empty"),
        ("id: [", "manifest is not YAML: "),
        ("id: a\n id: b", "line 2, column 4"),
        ("id: a\n---\nid: b", "another document"),
        ("id: \x00", "a character YAML does not allow"),
        ("id: a\nid: b", "manifest.id (line 2, column 1) is given twice"),
        ("events: {subscribes: [], subscribes: []}", "manifest.events.subscribes (line 1, column"),
        ("on: 1", "manifest (line 1, column 1) has a key that is not a text"),
        ("config: {1: 2}", "manifest.config (line 1, column 10) has a key that is not a text"),
        ("? [a]\n: b", "has a key that is not a text"),
        ("<<: {id: a}", "has a key that is not a text"),
        ("version: 2026-01-01", "manifest.version (line 1, column 10) is a timestamp"),
        ("id: !!python/object/apply:os.getcwd []", "manifest.id (line 1, column 5) is a os.getcwd"),
        ("id: !!set {a}", "is a set. Put it in quotes"),
        ("id: !!binary aGk=", "is a binary"),
        ("id: !!int word", "is no number. Put it in quotes"),
        ("id: !!bool maybe", "is no truth value"),
        ("config: {a: " + "9" * 5000 + "}", "is no number"),
        ("config: {a: 0x" + "f" * 5000 + "}", "is no number"),
        ("config: {a: 1" + ":59" * 3000 + "}", "is no number"),
        ('id: "\\U00110000"', "manifest is not YAML: "),
        ('id: "\\Uffffffff"', "manifest is not YAML: "),
        ("%YAML 1." + "9" * 5000 + "\n---\nid: a", "manifest is not YAML: "),
        ("config: {a: NO}", "manifest.config.a (line 1, column 13) is False to YAML"),
        ("config: {a: 12:30}", "is 750 to YAML"),
        ("config: {a: 0755}", "is 493 to YAML"),
        ("config: {a: .nan}", "is nan to YAML"),
        ("- id: a", "manifest is a list"),
    ],
)
def test_what_yaml_would_take_or_guess_is_refused_with_its_place(text: str, words: str) -> None:
    """B9: no key wins in silence, and nothing is built that a manifest does not hold."""
    assert words in refusal(text.encode())


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    """B9: with the first byte that is not."""
    assert "not UTF-8 at byte 4" in refusal(b"id: \xff")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN.filter(lambda value: value is not None))
def test_what_yaml_writes_is_read_as_it_was(value: object) -> None:
    """B9: every plain value comes back, whatever its text looks like."""
    text = yaml.safe_dump(value)
    assert read_yaml(text) == value


@given(st.binary(max_size=200) | st.text(alphabet="ab:-{}[]&*!<|'\"?\n #%0.", max_size=80))
def test_no_bytes_do_more_than_be_refused(data: bytes | str) -> None:
    """B9: whatever stands in the file, the answer is a manifest or a sentence."""
    given = data.encode() if isinstance(data, str) else data
    assert refusal(given)
