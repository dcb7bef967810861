"""Values: strict JSON in, the same value out, and one digest for equal content."""

from __future__ import annotations

import json
import math
from enum import StrEnum

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import Invalid
from duly.rules.value import (
    INTEGER_MAX,
    Json,
    _is_sound,
    _Walk,
    canonical,
    check_json,
    decode,
    digest,
    encode,
    refuse_unknown,
    suggest,
)

PROPERTY = settings(derandomize=True, deadline=None, max_examples=150)
PLENTY = 1_000_000

TEXT = st.text(st.characters(codec="utf-8"))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20
)


class Word(StrEnum):
    YES = "yes"


def exact(value: Json) -> str:
    """Tell apart what == does not: 1, 1.0 and True, 0.0 and -0.0, the order of keys."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{exact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(exact(each) for each in value) + "]"
    return f"{type(value).__name__}:{value!r}"


def nested(depth: int) -> Json:
    value: Json = 0
    for _ in range(depth):
        value = [value]
    return value


@PROPERTY
@given(VALUES)
def test_a_value_comes_back_exactly_as_it_went_in(value: Json) -> None:
    """T8: the round trip is exact, to the type of a number and the order of keys."""
    assert exact(decode(encode(value, limit_bytes=PLENTY))) == exact(value)


@PROPERTY
@given(VALUES)
def test_the_text_can_be_kept_by_every_store(value: Json) -> None:
    """T8: no NUL is left in the text, and another reader understands it the same way."""
    text = encode(value, limit_bytes=PLENTY)
    assert "\0" not in text
    assert exact(json.loads(text)) == exact(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1, "1"),
        (INTEGER_MAX, "9007199254740991"),
        (-INTEGER_MAX, "-9007199254740991"),
        ("\0", '"\\u0000"'),
        ("é😀\u2028", '"é😀\u2028"'),
        ({"b": 1, "a": [True, None]}, '{"b":1,"a":[true,null]}'),
    ],
)
def test_the_text_is_compact_and_plain(value: Json, text: str) -> None:
    """T8: the same value has the same text on every store."""
    assert encode(value, limit_bytes=PLENTY) == text


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"a": [1, math.nan]}, "value.a[1]", "nan"),
        ({"a": math.inf}, "value.a", "inf"),
        ({"a": {1: 2}}, "value.a", "Keys must be strings"),
        ({"a b": {"c": (1, 2)}}, "value['a b'].c", "is a tuple"),
        ([[], {"x": "\ud800"}], "value[1].x", "half a character"),
        ({"\udfff": 1}, "value", "half a character"),
        ([INTEGER_MAX + 1], "value[0]", "string"),
        ([-INTEGER_MAX - 1], "value[0]", "string"),
        (b"bytes", "value", "is a bytes"),
        ({"when": Word.YES}, "value.when", "is a Word"),
        ([{1, 2}], "value[0]", "is a set"),
    ],
)
def test_what_is_not_strict_json_is_refused_by_path(value: object, path: str, words: str) -> None:
    """T8: a violation names the path and says what to do."""
    with pytest.raises(Invalid) as refused:
        encode(value, limit_bytes=PLENTY)
    assert refused.value.path == path
    assert words in str(refused.value)
    assert path in str(refused.value)


def test_depth_100_is_kept_and_101_is_refused() -> None:
    """T8, N: JSON depth is at most 100."""
    assert decode(encode(nested(100), limit_bytes=PLENTY)) == nested(100)
    with pytest.raises(Invalid, match="deeper than 100"):
        encode(nested(101), limit_bytes=PLENTY)


def test_a_list_100_000_deep_is_refused_and_crashes_nothing() -> None:
    """T8: depth is bounded before anything recurses, in a value and in a text."""
    with pytest.raises(Invalid, match="deeper than 100"):
        encode(nested(100_000), limit_bytes=PLENTY)
    with pytest.raises(Invalid, match="not JSON"):
        decode("[" * 100_000 + "]" * 100_000)


def test_a_value_that_contains_itself_is_refused() -> None:
    """T8: no cycles."""
    cycle: dict[str, object] = {}
    cycle["me"] = [cycle]
    with pytest.raises(Invalid, match=r"value\.me\[0\] contains itself"):
        encode(cycle, limit_bytes=PLENTY)


def test_the_same_list_twice_is_no_cycle() -> None:
    """T8: a shared value is written twice, as JSON must."""
    shared: list[Json] = [1]
    assert encode([shared, {"again": shared}], limit_bytes=PLENTY) == '[[1],{"again":[1]}]'


def test_a_small_value_that_unfolds_without_bound_is_refused() -> None:
    """T8: shared lists, or one long string named again and again, cannot fill the memory."""
    bomb: list[object] = ["x"]
    for _ in range(90):
        bomb = [bomb, bomb]
    with pytest.raises(Invalid, match="longer than 1000000 bytes"):
        encode(bomb, limit_bytes=PLENTY)
    with pytest.raises(Invalid, match="longer than 1000000 bytes"):
        encode(["x" * 100_000] * 100_000, limit_bytes=PLENTY)


@PROPERTY
@given(VALUES)
def test_the_limit_is_the_length_of_the_text_in_bytes(value: Json) -> None:
    """T8, N: one at the limit is kept, one past is refused."""
    text = encode(value, limit_bytes=PLENTY)
    size_bytes = len(text.encode())
    assert encode(value, limit_bytes=size_bytes) == text
    with pytest.raises(Invalid, match="longer than"):
        check_json(value, "payload", limit_bytes=size_bytes - 1)


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "Infinity", "1e400", "'a'", '"\\ud800"', "\ud800"]
)
def test_text_that_is_not_json_is_refused(text: str) -> None:
    """T8: what a stranger sends is refused by name, never by a crash."""
    with pytest.raises(Invalid, match="body is not JSON"):
        decode(text, "body")


@PROPERTY
@given(VALUES)
def test_equal_content_has_one_digest(value: Json) -> None:
    """T3: the digest survives the round trip and does not depend on the order of keys."""
    assert digest(_reversed(value)) == digest(value)
    assert digest(decode(encode(value, limit_bytes=PLENTY))) == digest(value)


@PROPERTY
@given(VALUES | st.lists(VALUES, min_size=1).map(tuple))
def test_what_is_hashed_is_what_the_standard_writes(value: Json) -> None:
    """T3: whichever of the two writers is taken."""
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize("text", ['\x7f\x1f\b\f\n\r\t"\\/', "\u2028\ud7ff\U0001f600", "\0"])
def test_texts_are_escaped_as_the_standard_says(text: str) -> None:
    """T3: also in keys, which are sorted by their UTF-16 units."""
    value: Json = {"z": text, text: [text], "\ufb33": 1, "\U0001f600": 2}
    assert canonical(value) == rfc8785.dumps(value)
    assert canonical([text]) == rfc8785.dumps([text])


@PROPERTY
@given(VALUES, st.integers(0, 6), st.integers(0, 60))
def test_the_plain_loop_passes_only_what_the_walk_passes(
    value: Json, depth: int, limit_bytes: int
) -> None:
    """T8: and the walk is asked where the loop does not pass it."""
    refused = ""
    try:
        _Walk("value", limit_bytes, depth).visit(value)
    except Invalid as refusal:
        refused = refusal.code
    is_passed = _is_sound(value, limit_bytes, depth)
    assert is_passed or refused
    assert not is_passed or refused in ("", "too_long")  # the text is measured when it is written
    if refused:
        with pytest.raises(Invalid) as raised:
            encode(value, limit_bytes=limit_bytes, depth=depth)
        assert raised.value.code == refused


def test_a_few_texts_that_are_long_together_are_refused_before_they_are_written() -> None:
    """X2: a thousand times the same text would fill the memory."""
    long = "x" * 10_000_000
    for value in ([long] * 900, {str(number): long for number in range(900)}):
        with pytest.raises(Invalid, match="longer than"):
            encode(value, limit_bytes=len(long) + 1)


def _reversed(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _reversed(each) for key, each in reversed(value.items())}
    if isinstance(value, list):
        return [_reversed(each) for each in value]
    return value


def test_other_content_has_another_digest() -> None:
    """T3: strings are not numbers, null is not absent, and order counts in a list."""
    values: list[Json] = [None, 0, 1, "", "1", [], [None], {}, {"a": None}, [1, 2], [2, 1], True]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(1) == digest(1.0)


def test_an_unknown_field_is_refused_with_the_nearest_name() -> None:
    """T7: unknown fields are refused, and the message helps."""
    with pytest.raises(Invalid, match=r'publish\.titel is not known\. Did you mean "title"\?'):
        refuse_unknown({"titel": 1}, ("title", "payload"), "publish")
    assert suggest("x", ["alpha", "beta"]) == "Known: alpha, beta."
    assert suggest("x", []) == "There is none."
