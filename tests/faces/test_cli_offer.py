"""What a host offers becomes a command that can be pasted."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.desk import offer as offers
from duly.faces.cli.offer import command, in_commands, quote, words
from tests.desk.golden import sheet
from tests.faces.cli_stand import parse

OFFER = re.compile(r"^ +[a-z_]+: (host\..*?)  # .+$", re.MULTILINE)
GOLDEN = sorted(set(OFFER.findall(sheet.FILE.read_text(encoding="utf-8"))))
OTHERS = [
    each.say
    for each in (
        *offers.deliver(7, "post:task:send"),
        *offers.replace_secret("mail", "password"),
        *offers.adopt("flow", "1.0", "1.1"),
        offers.skip("-flow", "in", "-1"),
        offers.verify(),
    )
]


@pytest.mark.parametrize("said", [*GOLDEN, *OTHERS])
def test_every_offer_becomes_a_command_that_click_reads(said: str) -> None:
    """U6: whoever is offered something can paste it; only what is to be chosen is left open."""
    typed = shlex.split(command(said))
    assert typed == words(said)
    parse([{"N": "1", "FILE": "mail.py"}.get(each, each) for each in typed])


def test_the_golden_file_has_offers() -> None:
    """U6: the pattern that finds them is not asleep."""
    assert len(GOLDEN) >= 15


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ('host.approve("mutation_1", seen="abc")', "duly approve mutation_1"),
        ('host.set_secret("mail", "password", …)', "duly secret set mail password"),
        ("host.deploy(source)", "duly deploy FILE"),
        ('host.bus.retry(7, "a:b")', "duly bus retry 7 a:b"),
        ('host.skip("my flow", "in", "-1")', "duly skip -- 'my flow' in -1"),
        (
            'host.grant("flow", "sheet.append", mutations_per_day=3, where={"to": "*@a"})',
            'duly grant flow sheet.append --mutations-per-day 3 --where \'{"to": "*@a"}\'',
        ),
        (
            'host.grant("flow", "sheet.append", mutations_per_day=…)',
            "duly grant flow sheet.append --mutations-per-day N",
        ),
    ],
)
def test_an_offer_is_written_as_people_type_it(said: str, typed: str) -> None:
    """U6: the words of the command line are the words of the library."""
    assert command(said) == typed


def test_a_sentence_of_the_library_names_commands() -> None:
    """U6: no Python where a person reads."""
    said = 'Report what host.verify() finds, or `host.skip("a)", "b", "c")`; host.unheard( stays.'
    assert in_commands(said) == (
        "Report what `duly verify` finds, or `duly skip 'a)' b c`; host.unheard( stays."
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_whatever_an_id_contains_it_writes_nothing_to_the_terminal(ids: list[str]) -> None:
    """L11: an id of somebody else's cannot obey itself out of a command."""
    typed = command(f"host.skip({', '.join(offers.quote(each) for each in ids)})")
    assert typed.isprintable()
    assert words(f"host.skip({', '.join(offers.quote(each) for each in ids)})")[-len(ids) :] == ids


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
