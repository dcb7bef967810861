"""A host killed at every place of a run: one effect, or one question that names the call."""

from __future__ import annotations

from typing import Final

import pytest

from tests.engine.crash_window.process import Flow
from tests.engine.crash_window.script import INBOX, WRITTEN
from tests.engine.crash_window.stand import NAME, Death, Window

MAILS: Final = ("m1", "m2")
MOMENTS: Final = ("before", "inside", "after")

# Where nobody can know what happened, unless the outside tells.
UNKNOWN: Final = {
    "before the first byte": (Death("send:after"),),
    "before the effect": (Death("effect:before"),),
    "after the effect": (Death("effect:after"),),
    "before the answer is recorded": (Death("record:before"),),
    "while the answer is being recorded": (Death("record:inside"),),
    "in next, its answer not yet recorded": (Death("next:early"),),
    **{
        f"{moment} the successor's insert": (Death("effect:after"), Death(f"succeed_run:{moment}"))
        for moment in MOMENTS
    },
}
# Where the ledger says that it happened.
KNOWN: Final = {
    "after applied is committed": (Death("record:after"),),
    "in next": (Death("next:recorded"),),
    **{f"{moment} the commit": (Death(f"commit_run:{moment}"),) for moment in MOMENTS},
    "in next, then in the successor's insert": (
        Death("next:recorded"),
        Death("succeed_run:inside"),
    ),
}
# Where it is being found out, once more.
SETTLING: Final = {
    "asked": {
        "while asking": (Death("effect:after"), Death("reconcile:before")),
        "when the outside said yes": (Death("effect:after"), Death("record:before")),
        # The first insert is the recovery's; the second follows the believed no, afresh.
        **{
            f"{moment} the fresh successor's insert": (
                Death("effect:before"),
                Death("succeed_run:" + moment, nth=2, is_virtual=True),
            )
            for moment in MOMENTS
        },
    },
    "keyed": {
        "before the second send": (Death("effect:after"), Death("send_again:after")),
        "in the second send": (Death("effect:before"), Death("resend:before")),
        "after the second send": (Death("effect:before"), Death("resend:after")),
    },
    "silent": {
        "before the question is stored": (Death("effect:after"), Death("record:before")),
        "while the question is being stored": (Death("effect:after"), Death("record:inside")),
        "when the question is stored": (Death("effect:after"), Death("record:after")),
    },
}


def kill(window: Window, deaths: tuple[Death, ...], tool: str, language: str) -> None:
    first, *others = deaths
    window.die(first, Flow(NAME, tool, language, MAILS))
    for death in others:
        window.die(death)


def check_one_effect(
    window: Window, deaths: tuple[Death, ...], tool: str, language: str = "javascript"
) -> None:
    kill(window, deaths, tool, language)
    window.live()
    window.check_whole(*MAILS)


@pytest.mark.parametrize("tool", ["asked", "keyed"])
@pytest.mark.parametrize("place", UNKNOWN)
def test_an_unknown_call_is_found_out_and_made_once(window: Window, place: str, tool: str) -> None:
    """L3, L5, L7: a tool that can be asked is asked; one that writes a key once is sent again."""
    check_one_effect(window, UNKNOWN[place], tool)


@pytest.mark.parametrize("tool", ["asked", "keyed", "silent"])
@pytest.mark.parametrize("place", KNOWN)
def test_a_recorded_answer_is_never_asked_for_again(window: Window, place: str, tool: str) -> None:
    """C11, R5, L9: what the ledger knows holds; `next` runs again and commits once."""
    check_one_effect(window, KNOWN[place], tool)
    assert [each["attempt"] for each in window.seen.mutations] == [1, 1]


@pytest.mark.parametrize("tool", ["asked", "keyed"])
def test_a_python_workflow_keeps_the_same_promise(window: Window, tool: str) -> None:
    """L3, L5: the language of the script has no say in what the ledger believes."""
    check_one_effect(window, UNKNOWN["after the effect"], tool, "python")


@pytest.mark.parametrize("place", SETTLING["asked"])
def test_a_death_while_asking_changes_no_answer(window: Window, place: str) -> None:
    """L5, L6, R7: recovery may itself crash anywhere."""
    check_one_effect(window, SETTLING["asked"][place], "asked")


@pytest.mark.parametrize("place", ["reconcile:before", "record:before", "record:inside"])
def test_a_death_while_asking_inline_asks_again(window: Window, place: str) -> None:
    """L5, R7: the answer got lost, the host asked, and died before it wrote what it heard."""
    check_one_effect(window, (Death(place),), "lost")


@pytest.mark.parametrize("place", SETTLING["keyed"])
def test_a_death_while_sending_again_sends_again(window: Window, place: str) -> None:
    """L7, R7: the same row, the same key, one more attempt."""
    check_one_effect(window, SETTLING["keyed"][place], "keyed")
    assert window.ledger("m1")[0]["attempt"] == 3


@pytest.mark.parametrize(
    ("place", "language"),
    [
        *((place, "javascript") for place in (*UNKNOWN, *SETTLING["silent"])),
        ("after the effect", "python"),
    ],
)
def test_what_cannot_be_asked_waits_for_a_person(window: Window, place: str, language: str) -> None:
    """L5, L8, L10: one question, naming the call; nothing is sent, and nothing else starts."""
    deaths = {**UNKNOWN, **SETTLING["silent"]}[place]
    kill(window, deaths, "silent", language)
    written = [] if deaths[0].at in ("send:after", "effect:before") else ["m1"]
    assert window.rows == written
    seen = window.live()
    assert window.rows == written
    (row,) = seen.mutations
    assert (row["status"], row["tool"], row["args"]) == (
        "indeterminate",
        "book.silent",
        {"row": "m1"},
    )
    assert row["title"] == "Write a row for Mail m1"
    assert [line.key for line in window.lines] == [row["key"]] * len(written)
    inbox = seen.events[NAME][INBOX]
    assert [inbox[mail]["status"] for mail in MAILS] == ["reserved", "pending"]
    assert WRITTEN not in seen.events[NAME]
    assert seen.open_runs == {NAME: "paused:reconciliation"}
    assert seen.strays == 0


@pytest.mark.parametrize("moment", ["before", "inside"])
def test_a_call_that_is_not_in_the_ledger_was_not_made(window: Window, moment: str) -> None:
    """L2, R5: what dies before the row is durable has sent nothing, and starts afresh."""
    window.die(Death(f"send:{moment}"), Flow(NAME, "silent", mails=MAILS))
    assert window.rows == []
    window.live()
    window.check_whole(*MAILS)
