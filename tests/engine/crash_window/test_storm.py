"""Hosts killed again and again: every mail is one row, and every key stands in the book once."""

from __future__ import annotations

import random
from signal import SIGKILL
from typing import Final

import pytest

from tests.engine.crash_window.process import Flow
from tests.engine.crash_window.stand import HOUR, NAME, Death, Window

KILLS: Final = 20
SEED: Final = 4
LIVES: Final = 30
MOMENTS: Final = ("before", "inside", "after")
# Where a mail passes by, and where what a death left behind does.
PLACES: Final = (
    "effect:before",
    "effect:after",
    "next:recorded",
    *(f"{verb}:{moment}" for verb in ("send", "record", "commit_run") for moment in MOMENTS),
    *(f"succeed_run:{moment}" for moment in MOMENTS),
    "reconcile:before",
    "resend:after",
)


@pytest.mark.parametrize("tool", ["asked", "keyed", "silent"])
def test_three_deaths_in_a_row_after_the_effect(window: Window, tool: str) -> None:
    """L3, R7: each host finds out what the one before it left, before it makes a call itself."""
    mails = ("m1", "m2", "m3", "m4")
    window.die(Death("effect:after"), Flow(NAME, tool, mails=mails))
    for number in (2, 3):
        if tool == "silent":
            window.die(
                Death("effect:after", is_virtual=True),
                acts=(HOUR, ("settle", NAME, "happened"), HOUR),
            )
        else:
            window.die(Death("effect:after"))
        assert window.rows == list(mails[:number])
    acts = (HOUR, ("settle", NAME, "happened"), HOUR) if tool == "silent" else (HOUR,)
    window.live(*acts)
    window.check_whole(*mails)


def test_one_call_cut_off_three_times_is_one_effect(window: Window) -> None:
    """L7: the same row is sent again under its key, and the outside writes it once."""
    window.die(Death("effect:after"), Flow(NAME, "keyed", mails=("m1",)))
    for _ in range(2):
        window.die(Death("resend:after"))
    window.live()
    window.check_whole("m1")
    assert [each["attempt"] for each in window.seen.mutations] == [4]


def test_two_workflows_with_calls_out_are_settled_each_by_itself(window: Window) -> None:
    """L3, L8: one host dies on two calls; one is asked about, the other waits for a person."""
    flows = (Flow("first", "asked", mails=("a1", "a2")), Flow("other", "silent", mails=("b1",)))
    window.die(Death("out", nth=2), *flows)
    assert sorted(window.rows) == ["a1", "b1"]
    seen = window.live()
    window.check_whole("a1", "a2", workflow="first")
    assert seen.open_runs == {"other": "paused:reconciliation"}
    window.live(("settle", "other", "happened"), HOUR)
    window.check_whole("b1", workflow="other")


def test_twenty_deaths_anywhere_leave_every_key_in_the_book_once(window: Window) -> None:
    """L2, L3, R7: thirty mails of two workflows, hosts killed at places drawn from one seed."""
    dice = random.Random(SEED)
    tools = ("asked", "keyed")
    mails: dict[str, list[str]] = {tool: [] for tool in tools}
    flows = tuple(Flow(tool, tool) for tool in tools)
    kills = 0
    for life in range(LIVES):
        tool = tools[life % 2]
        mails[tool].append(f"m{life}")
        acts = (("post", tool, f"m{life}"), HOUR, ("retry",), HOUR)
        death = Death(dice.choice(PLACES), is_virtual=True)
        ended = window.live_or_die(death, *flows, acts=acts)
        assert ended in (0, -SIGKILL), death
        kills += ended == -SIGKILL
        flows = ()
    assert kills >= KILLS
    window.live(HOUR, ("retry",), HOUR)
    assert len(window.lines) == len({line.key for line in window.lines}) == LIVES
    for tool in tools:
        window.check_whole(*mails[tool], workflow=tool)
