"""A preview says in words what a source will do; nothing is stored and nothing is sent (M9)."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

import duly
from duly.errors import RequestRefused
from duly.rules.portion import portion_of_items
from duly.rules.preview import (
    CALLS_MAX,
    EXAMPLES_MAX,
    PLACES_MAX,
    Passes,
    choose_examples,
    find_places,
)
from duly.rules.source import Language
from duly.rules.verb import Scope
from duly.words import Clock, say_preview
from tests.desk.trying import PYTHON, SOURCES, TEXT, House, edited

CANARY = "canary-Zx81!"


@pytest.fixture
def house(url: str) -> House:
    return House(url, "m1", "m2", "m3", "m4", "m5")


@pytest.mark.parametrize("language", list(SOURCES))
async def test_a_preview_says_what_is_read_and_changed_and_does_neither(
    house: House, language: str
) -> None:
    """M9, L11: text and trial in both languages; the store is as it was."""
    async with house.host() as host:
        before = house.dump()
        told = await host.preview(SOURCES[language], grant=True)
        assert house.dump() == before
    assert house.sheets.changes == 0
    assert told.hash == SOURCES[language].hash
    assert told.tried is not None
    assert (told.tried.count, told.tried.again, len(told.tried.examples)) == (5, 0, EXAMPLES_MAX)
    said = say_preview(told, Clock(0))
    for part in (
        "A new workflow, “mail-to-row”.",
        "poll: Checks every 5 minutes; the first time at once after it is deployed.",
        "gmail.read (to read): new\n  sheets.append (to change): new",
        "It read gmail.search with after “0” once and found 5 items.",
        "One pass would make 5 changes: sheets.append_row 5 times.",
        "A second pass over the same data would change nothing more.",
        '“["m5"]”',
    ):
        assert part in said


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"*": "above:low"}, "is made without asking you (its risk is low, and the rule is RULE)"),
        ({}, "is made without asking you (its risk is low, and no rule names it)"),
        ({"*": "always"}, "asks you each time (its risk is low, and the rule is RULE)"),
        ({"*": "first:1"}, "asks you for the first 1 call of each new version, else not ("),
        ({"*": "first:5"}, "asks you for the first 5 calls of each new version, else not ("),
        ({"*": "after_model"}, "asks you where a language model may have had a part, else not ("),
        ({"*": "never", "sheets.*": "always"}, "asks you each time (its risk is low; of the rules"),
    ],
)
async def test_beside_each_change_stands_whether_a_person_is_asked(
    house: House, policy: dict[str, str], said: str
) -> None:
    """M9, A3: it is said in each case, with its rule, and with the line that asks each time."""
    async with house.host(policy=duly.Policy(approvals=policy)) as host:
        text = say_preview(await host.preview(TEXT, text_only=True), Clock(0))
    ((glob, word), *_) = [*policy.items(), ("", "")]
    rule = f'"{glob}" = "{word}"'
    assert f"sheets.append_row: {said.replace('RULE', rule)}" in text
    is_sometimes = "each time" not in said
    more = ", ".join(f'"{glob}" = "{word}"' for glob, word in policy.items())
    line = f"{more}, " if more else ""
    assert (f'approvals = {{ {line}"sheets.append_row" = "always" }}' in text) is is_sometimes


async def test_the_line_of_a_preview_asks_each_time(house: House) -> None:
    """A3: what a person copies into the settings does what stands above it."""
    async with house.host(policy=duly.Policy(approvals={"*": "above:low"})) as host:
        told = await host.preview(TEXT, text_only=True)
    lines = say_preview(told, Clock(0)).splitlines()
    at = lines.index("  Written so, you are asked each time:")
    written = tomllib.loads(lines[at + 1])["approvals"]
    async with house.host(policy=duly.Policy(approvals=written)) as host:
        (use,) = (await host.preview(TEXT, text_only=True)).changes
        assert use.asks is not None
        assert use.asks.each_time


async def test_the_text_alone_reads_nothing(house: House) -> None:
    """M9: what a text shows needs no trial."""
    async with house.host() as host:
        told = await host.preview(TEXT, text_only=True)
        assert say_preview(told, Clock(0)).endswith("Not tried.")
        assert house.gmail.asked == []
        await host.deploy(TEXT, grant=True)
        told = await host.preview(TEXT, text_only=True)
        assert all(each.is_granted for each in told.capabilities)
        assert "in place of 1.0" in say_preview(told, Clock(0))


async def test_reads_that_no_person_granted_need_the_scope_decide(house: House) -> None:
    """A1, G4: an agent cannot read through a preview what it may not read."""
    async with house.host() as host:
        with pytest.raises(RequestRefused) as caught:
            await host.preview(TEXT, grant=True, right=Scope.AGENT)
        assert caught.value.code == "beyond_scope"
        told = await host.preview(TEXT, right=Scope.AGENT)
        assert house.gmail.asked == []
        assert told.tried is not None
        assert "gmail.read" in told.tried.stops[0].sentence


async def test_a_handler_that_stops_is_said_and_a_repetition_too(house: House) -> None:
    """M9: an error, and a script that does everything again each time."""
    again = edited('message_id=mail["id"]', "message_id=f\"{mail['id']} {state}\"")
    forgets = again.text.replace('(state or {}).get("cursor", 0)', "0")
    async with house.host() as host:
        told = await host.preview(edited('page["last"]', 'page["first"]'), grant=True)
        assert "poll stopped in line 13: “KeyError" in say_preview(told, Clock(0))
        told = await host.preview(duly.Source(Language.PYTHON, forgets), grant=True)
        assert "would make 5 changes AGAIN" in say_preview(told, Clock(0))


async def test_no_secret_is_shown(house: House) -> None:
    """A5: also one that a script writes down."""
    source = edited('values=[prepared["data"]["id"]]', f'values=["{CANARY}"]')
    async with house.host() as host:
        await host.set_secret("sheets", "token", CANARY)
        told = await host.preview(source, grant=True)
    assert CANARY not in repr(told)
    assert "sheets.append_row" in repr(told)


async def test_what_is_left_out_is_said(house: House) -> None:
    """M9, N: a text cannot hide its last call behind a hundred others."""
    line = '        await ctx.sheets.append_row(values=[prepared["data"]["id"]])\n'
    many = "".join(
        f'        await ctx.sheets.append_row(values=["{n}"])\n' for n in range(CALLS_MAX)
    )
    async with house.host() as host:
        draft = duly.Source(Language.PYTHON, PYTHON.replace(line, line + many))
        told = await host.preview(draft, text_only=True)
        assert told.is_cut
        assert "This is not all of it" in say_preview(told, Clock(0))
        assert not (await host.preview(TEXT, text_only=True)).is_cut


def test_addresses_and_links_are_found_and_counted() -> None:
    """M9: a receiver is seen wherever it stands in the text."""
    text = 'x = "mailto:a@b.example"  # see https://evil.example/in?x=1, or c@d.example.'
    assert find_places(text) == ("a@b.example", "c@d.example", "https://evil.example/in?x=1")
    assert len(find_places(" ".join(f"a{n}@b.example" for n in range(99)))) == PLACES_MAX


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (r'to = "eve\x40b.example"', "eve@b.example"),
        (r'to = "eve\u0040b.example"', "eve@b.example"),
        (r"to = 'eve\u{40}b.example'", "eve@b.example"),
        (r'to = "eve\100b.example"', "eve@b.example"),
        (r'to = "eve\N{COMMERCIAL AT}b.example"', "eve@b.example"),
        ('to = "eve" + "@" + "b.example"', "eve@b.example"),
        ('to = ("eve"\n      f"@b.example")', "eve@b.example"),
        ('to = f"{name}@b.example"', "{name}@b.example"),
        ('to = name + "@b.example"', "@b.example"),
        ('to = "ev%e@b.example"', "ev%e@b.example"),
        ('to = "anna@h\u043eme.example"', "anna@h\u043eme.example"),
        ('url = "HTTPS://B.example/x"', "HTTPS://B.example/x"),
        ('url = "ht" + "tps://b.example/x"', "https://b.example/x"),
    ],
)
def test_an_address_is_found_however_it_is_written(text: str, place: str) -> None:
    """M9: by numbers of characters, in pieces, with letters of another alphabet."""
    assert place in find_places(text)
    assert find_places("@flow.consumer('mails')\nx = a @ b.c\n") == ()


FORGED = "a: always “fine”\n\nWhat it asks to be allowed\n  Nothing."


async def test_no_name_of_a_field_looks_like_a_part_of_the_preview(house: House) -> None:
    """M9, L11: neither one that a script writes nor one that came from outside."""
    source = edited("values=[", f"values=[{{{FORGED!r}: 1}}, ")
    async with house.host() as host:
        told = await host.preview(source, text_only=True)
    (change,) = told.changes
    assert FORGED in change.calls[0].args[0].name
    portion = portion_of_items("web.get", [{FORGED: "v1"}, {"a": "v2"}], ["v2"])
    assert portion is not None
    passes = Passes((), 0, 0, 0, False, (), (), (), (), (portion,))
    said = say_preview(replace(told, tried=passes), Clock(0))
    assert said.count("What it asks to be allowed\n") == 1
    assert r'“values.1.a: always "fine"\n\nWhat it asks' in said
    assert r'“a: always "fine"\n\nWhat it asks' in said


def test_examples_show_each_tool_first_and_then_first_middle_and_last() -> None:
    """M9: one odd call among many is not left out."""
    assert choose_examples(range(9), ["a"] * 9) == [0, 4, 8]
    assert choose_examples(range(9), ["a"] * 8 + ["b"]) == [0, 4, 8]
    assert choose_examples(range(4), ["a", "b", "c", "a"]) == [0, 1, 2]
    assert choose_examples([], []) == []
