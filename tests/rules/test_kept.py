"""What a run keeps of itself as JSON: errors, logs and titles are written and read in one place."""

from __future__ import annotations

import pytest

from duly.rules.kept import (
    KeptCall,
    KeptError,
    KeptLog,
    LogLine,
    read_calls,
    read_error,
    read_log,
    read_title,
    title_in,
)
from duly.rules.value import Json, decode, encode


def test_an_error_is_read_as_it_was_written() -> None:
    """F1, R1: with its class, its code, its words and where it happened."""
    where = (7, "sheet.append", '{"row": 1}')
    error = KeptError("logic", "failed:logic", "no such row", *where, "no_row")
    assert read_error(error.text) == error
    assert decode(error.text) == {
        "class": "logic",
        "code": "no_row",
        "status": "failed:logic",
        "message": "no such row",
        "line": 7,
        "tool": "sheet.append",
        "args": '{"row": 1}',
    }


@pytest.mark.parametrize("text", ["no such row", "[1]", '"no"', "{"])
def test_an_error_that_another_program_wrote_is_shown_as_it_is(text: str) -> None:
    """L11: a person must see what is there."""
    assert read_error(text) == KeptError(message=text)


def test_an_error_from_before_errors_had_codes_is_read_without_one() -> None:
    """F1: the text that a store of an earlier day keeps."""
    text = '{"class":"logic","status":"failed:logic","message":"no","line":null,"args":"{}"}'
    assert read_error(text) == KeptError("logic", "failed:logic", "no", args="{}")


@pytest.mark.parametrize(
    "text", ['{"message": 5, "line": 3}', '{"message": null}', '{"message": ["no"], "tool": "x"}']
)
def test_an_error_whose_message_another_program_spoiled_is_shown_as_it_is(text: str) -> None:
    """L11: the page that shows it must not break."""
    assert read_error(text) == KeptError(message=text)


def test_what_is_no_word_or_line_of_an_error_is_left_out() -> None:
    """L11: its message is still shown."""
    text = '{"class":1,"code":2,"status":[],"message":"no","line":"7","tool":{},"args":"{}"}'
    assert read_error(text) == KeptError(message="no", args="{}")


def test_no_error_has_no_words() -> None:
    """F1: a run that has not failed keeps nothing."""
    assert read_error(None) == read_error("{}") == KeptError()


def test_a_log_is_read_as_it_was_written() -> None:
    """X4: its lines in their order, and how many were left out."""
    log = KeptLog((LogLine(5, "prepare", "one"), LogLine(6, "duly", "two")), 3)
    assert log.text is not None
    assert read_log(log.text) == log
    assert decode(log.text) == {
        "lines": [
            {"at": 5, "from": "prepare", "text": "one"},
            {"at": 6, "from": "duly", "text": "two"},
        ],
        "dropped": 3,
    }


def test_a_log_without_a_line_is_not_kept() -> None:
    """X4: also if lines were left out."""
    assert KeptLog((), 3).text is None
    assert read_log(None) == KeptLog()


@pytest.mark.parametrize(
    "text",
    [
        "spoiled",
        "{",
        "[]",
        "{}",
        '{"lines":[],"dropped":0}',
        '{"lines":5,"dropped":0}',
        '{"lines":["one"],"dropped":0}',
        '{"lines":[{"at":5,"from":"prepare"}],"dropped":0}',
        '{"lines":[{"at":"5","from":"prepare","text":"one"}],"dropped":0}',
        '{"lines":[{"at":true,"from":"prepare","text":"one"}],"dropped":0}',
        '{"lines":[{"at":5,"from":"prepare","text":null}],"dropped":0}',
        '{"lines":[{"at":5,"from":"prepare","text":"one"}],"dropped":"3"}',
        '{"lines":[{"at":5,"from":"prepare","text":"one"}]}',
        '{"lines":[{"at":253402300800000,"from":"prepare","text":"one"}],"dropped":0}',
        '{"lines":[{"at":-1,"from":"prepare","text":"one"}],"dropped":0}',
    ],
)
def test_a_log_that_another_program_wrote_is_one_line(text: str) -> None:
    """L11: a person must see what is there, and the run goes on."""
    assert read_log(text) == KeptLog((LogLine(0, "duly", text),))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "3",
        "{}",
        "[3, null, [], {}]",
        '[{"tool":3,"args":"","outcome":"ok","duration_ms":1}]',
        '[{"tool":"a.b","args":"","outcome":[],"duration_ms":1}]',
        '[{"tool":"a.b","args":"","outcome":"ok","duration_ms":true}]',
    ],
)
def test_calls_that_another_program_wrote_are_left_out(text: str | None) -> None:
    """L11: the history of the run is shown without them."""
    right = '{"tool":"a.b","args":"{}","outcome":"ok","duration_ms":1}'
    assert read_calls(text) == ()
    if text is not None and text.startswith("["):
        assert read_calls(f"{text[:-1]}, {right}]") == (KeptCall("a.b", "{}", "ok", 1),)


@pytest.mark.parametrize(
    ("prepared", "title"),
    [
        ({"ui": {"title": "Add a row"}}, "Add a row"),
        ({"ui": {"title": 5}}, None),
        ({"ui": {}}, None),
        ({"ui": "Add a row"}, None),
        ({}, None),
        (["ui"], None),
        (None, None),
    ],
)
def test_a_title_is_read_if_it_is_one(prepared: Json, title: str | None) -> None:
    """L11: what else a script put there is no title."""
    assert title_in(prepared) == title
    assert read_title(encode(prepared, limit_bytes=1000)) == title


def test_a_spoiled_prepare_result_has_no_title() -> None:
    """L11: the page that shows it must not break."""
    assert read_title("{") is None
    assert read_title(None) is None
