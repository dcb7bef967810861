"""What a host offers becomes a command that can be pasted."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.api.codec import to_json
from duly.api.registry import VERBS
from duly.desk import offer as offers
from duly.errors import DulyError
from duly.faces.cli.failure import sentence
from duly.faces.cli.offer import quote
from duly.faces.cli.spelling import spell
from duly.fact import Offer
from tests.desk.golden import sheet
from tests.error_sites import find_sites
from tests.faces.cli_stand import parse

LINE = re.compile(r"^ +([a-z_.]+) ({.*?})(?: asks ([a-z_, ]+))?  # .+$", re.MULTILINE)
GOLDEN = sorted(set(LINE.findall(sheet.FILE.read_text(encoding="utf-8"))))
OTHERS: list[Any] = [
    to_json(each)
    for each in (
        *offers.deliver(7, "post:task:send"),
        *offers.replace_secret("mail", "password"),
        *offers.adopt("flow", "1.0", "1.1"),
        offers.skip("-flow", "in", "-1"),
        offers.verify(),
        offers.resume_bus(),
    )
]


def command(offer: dict[str, Any]) -> str:
    """Spell an offer as the command line does."""
    return spell(VERBS[offer["verb"]], offer["args"], offer["asks"])


def read(verb: str, args: str, asks: str) -> dict[str, Any]:
    """Read an offer as the golden file writes it."""
    chosen = asks.split(", ") if asks else []
    return {"verb": verb, "args": json.loads(args), "asks": chosen}


@pytest.mark.parametrize("offer", [*(read(*each) for each in GOLDEN), *OTHERS])
def test_every_offer_becomes_a_command_that_click_reads(offer: dict[str, Any]) -> None:
    """U6: an offer can be pasted; only what is to be chosen is left open."""
    chosen = {"MUTATIONS_PER_DAY": "1", "WHERE": "{}", "FILE": "mail.py"}
    parse([chosen.get(each, each) for each in shlex.split(command(offer))])


def test_the_golden_file_has_offers() -> None:
    """U6: the pattern that finds them is not asleep."""
    assert len(GOLDEN) >= 15


@pytest.mark.parametrize(
    ("verb", "args", "asks", "typed"),
    [
        ("approve", {"mutation": "mutation_1", "seen": "abc"}, (), "duly approve mutation_1"),
        (
            "set_secret",
            {"connector": "mail", "name": "password"},
            ("value",),
            "duly secret set mail password",
        ),
        ("deploy", {}, ("source",), "duly deploy FILE"),
        ("bus.retry", {"event_id": 7, "subscriber_id": "a:b"}, (), "duly bus retry 7 a:b"),
        (
            "skip",
            {"workflow": "my flow", "topic": "in", "message_id": "-1"},
            (),
            "duly skip -- 'my flow' in -1",
        ),
        (
            "grant",
            {
                "workflow": "flow",
                "capability": "sheet.append",
                "mutations_per_day": 3,
                "where": {"to": "*@a"},
            },
            (),
            'duly grant flow sheet.append --mutations-per-day 3 --where \'{"to": "*@a"}\'',
        ),
        (
            "grant",
            {"workflow": "flow", "capability": "sheet.append"},
            ("mutations_per_day",),
            "duly grant flow sheet.append --mutations-per-day MUTATIONS_PER_DAY",
        ),
    ],
)
def test_an_offer_is_written_as_people_type_it(
    verb: str, args: dict[str, Any], asks: tuple[str, ...], typed: str
) -> None:
    """U6: the words of the command line are the words of the library."""
    assert command({"verb": verb, "args": args, "asks": asks}) == typed


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=3, max_size=3))
def test_whatever_an_id_contains_it_writes_nothing_to_the_terminal(ids: list[str]) -> None:
    """L11: an id from outside cannot obey itself out of a command."""
    args = dict(zip(("workflow", "topic", "message_id"), ids, strict=True))
    typed = command({"verb": "skip", "args": args, "asks": ()})
    assert typed.isprintable()


def test_a_shell_reads_back_what_was_quoted() -> None:
    """L11: spelled out or not, the id that arrives is the id that was meant."""
    odd = [
        "plain",
        "two words",
        "it's",
        "\x1b[31m",
        "a\u202eb",
        "\x9b1m'",
        '$(x) \\ "',
        "\U000e0001",
    ]
    script = f"printf '%s\\0' {' '.join(map(quote, odd))}"
    read = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=120)
    assert read.stdout.decode().split("\0")[:-1] == odd


def test_an_error_writes_its_offer_as_every_other_is_written() -> None:
    """U6: what stands behind “Next:” is taken by the command line."""
    for each, typed in (
        (Offer("skip", {"workflow": "a", "topic": "t", "message_id": "1"}, "skip"), "skip a t 1"),
        (
            Offer("grant", {"workflow": "a", "capability": "x", "mutations_per_day": 3}, "grant"),
            "grant a x --mutations-per-day 3",
        ),
        (Offer("certificate", {"id": "1", "workflow": "a"}, "see"), "certificate 1 --workflow a"),
    ):
        told = sentence(DulyError(code="stale", next=each), {})
        assert told.endswith(f"Next: `duly {typed}`.")
    newer = Offer("from_a_newer_host", {}, "see")
    assert "Next" not in sentence(DulyError(code="stale", next=newer), {})


def test_every_offer_of_an_error_names_a_verb() -> None:
    """U6: a command of one face is nothing that a program can carry out."""
    offered = {each.verb for each in find_sites() if each.verb}
    assert offered - VERBS.keys() == set()
