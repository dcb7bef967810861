"""What a change of a run tells the bus."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from duly.fact import Reason
from duly.rules import announcement
from duly.rules.announcement import RunChange, Subject, Topic, describe, topics
from duly.rules.delivery import encode_payload
from duly.rules.lifecycle import Run
from duly.rules.value import Json
from duly.rules.word import MutationStatus, Outcome, Phase, Status, Waits

MUTATING = Run(phase=Phase.MUTATING)
NEWS = Reason("unreachable", facts={"retry_at": datetime(2026, 1, 1, 9, 12, tzinfo=UTC)})
WORD = Reason("outcome_unknown", "mutation_1", {"tool": "table.drop"})


def at(status: Status, row: MutationStatus | None = None, waits: Waits | None = None) -> Run:
    return Run(phase=Phase.MUTATING, status=status, row=row, waits=waits)


RECONCILING = at(Status.PAUSED_RECONCILIATION, MutationStatus.NEEDS_RECONCILE)
GIVEN_UP = at(Status.PAUSED_RECONCILIATION, MutationStatus.INDETERMINATE)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (RunChange(MUTATING, at(Status.ACTIVE, MutationStatus.IN_FLIGHT)), ()),
        (
            RunChange(
                Run(phase=Phase.EMITTING),
                Run(phase=Phase.COMMITTED, status=Status.COMMITTED, outcome=Outcome.NONE),
            ),
            (Topic.RUN_COMMITTED,),
        ),
        (RunChange(MUTATING, at(Status.FAILED_INTERNAL)), (Topic.RUN_FAILED,)),
        (
            RunChange(MUTATING, at(Status.FAILED_LOGIC), tells=WORD),
            (Topic.RUN_FAILED, Topic.NEEDS_ATTENTION),
        ),
        (
            RunChange(at(Status.FAILED_LOGIC), at(Status.FAILED_LOGIC), tells=WORD),
            (Topic.NEEDS_ATTENTION,),
        ),
        (
            RunChange(
                MUTATING,
                at(Status.PAUSED_APPROVAL, MutationStatus.PROPOSED, Waits.APPROVAL),
                tells=WORD,
            ),
            (Topic.APPROVAL_REQUESTED, Topic.NEEDS_ATTENTION),
        ),
        (
            RunChange(MUTATING, at(Status.PAUSED_APPROVAL, None, Waits.GRANT), tells=WORD),
            (Topic.NEEDS_ATTENTION,),
        ),
        (RunChange(MUTATING, RECONCILING), ()),
        (
            RunChange(RECONCILING, GIVEN_UP, tells=WORD),
            (Topic.INDETERMINATE, Topic.NEEDS_ATTENTION),
        ),
        (RunChange(RECONCILING, at(Status.ACTIVE, MutationStatus.APPLIED)), (Topic.SETTLED,)),
        (RunChange(GIVEN_UP, at(Status.ACTIVE, MutationStatus.SKIPPED)), (Topic.SETTLED,)),
        (RunChange(GIVEN_UP, at(Status.PAUSED_TRANSIENT, MutationStatus.FAILED)), (Topic.SETTLED,)),
        (RunChange(GIVEN_UP, RECONCILING), ()),
        (RunChange(GIVEN_UP, GIVEN_UP), ()),
    ],
)
def test_a_change_announces_what_it_changed_and_nothing_else(
    change: RunChange, expected: tuple[Topic, ...]
) -> None:
    """B10, F8: read off before and after; what stays as it was is not said again."""
    assert topics(change) == expected


def test_what_is_announced_together_keeps_one_order() -> None:
    """B10: the order of the table, so that a listener hears the cause before the call for help."""
    order = [topic for topic, _ in announcement.ANNOUNCED]
    assert order.index(Topic.RUN_FAILED) < order.index(Topic.NEEDS_ATTENTION)
    assert len(set(order)) == len(order)


def test_attention_says_what_waits_and_which_verbs_there_are() -> None:
    """F8, L11: one sentence, the titles, claimed apart from observed, the verbs offered."""
    change = RunChange(RECONCILING, GIVEN_UP, tells=WORD)
    subject = Subject(
        "mail to row",
        "run_1",
        "write",
        titles=("Mail m1",),
        claimed="Add a row",
        mutation="mutation_1",
        tool="table.drop",
        args={"table": "all"},
    )
    payload = describe(Topic.NEEDS_ATTENTION, change, subject, text="It waits for you")
    assert payload["text"] == "mail to row: It waits for you"
    assert (payload["code"], payload["facts"]) == ("outcome_unknown", {"tool": "table.drop"})
    assert payload["claimed"] == "Add a row"
    assert payload["observed"] == {"tool": "table.drop", "args": {"table": "all"}}
    assert payload["titles"] == ["Mail m1"]
    verbs = payload["verbs"]
    assert isinstance(verbs, list)
    assert {"happened", "did_not_happen", "skip"} <= set(verbs)


def test_a_notice_asks_for_nothing() -> None:
    """B10, F2: it stands beside the change, and also where nothing else changed."""
    stays = RunChange(RECONCILING, RECONCILING, notice=NEWS)
    assert announcement.topics(stays) == (Topic.NOTICE,)
    subject = Subject("mail to row", "run_1", "write")
    payload = describe(Topic.NOTICE, stays, subject, text="Out of reach")
    assert payload["text"] == "mail to row: Out of reach"
    assert payload["facts"] == {"retry_at": "2026-01-01T09:12:00.000Z"}
    assert "verbs" not in payload


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "args",
    [
        {"text": "x" * 1_000_000},
        {"text": "ü" * 200_000},
        {"deep": nested(99)},
        {"wide": [["y"] * 10] * 5_000},
    ],
)
def test_a_payload_fits_on_the_bus_whatever_the_call_was(args: Json) -> None:
    """B10, N: an announcement that did not fit would stop the change it announces."""
    subject = Subject(
        "w", "r", "h", titles=("t" * 500,) * 1000, mutation="m", tool="t.u", args=args
    )
    change = RunChange(
        RECONCILING, GIVEN_UP, tells=Reason("script_failed", "", {"message": "s" * 2500})
    )
    payload = describe(Topic.NEEDS_ATTENTION, change, subject, text="s" * 2500)
    encode_payload(payload)
    titles = payload["titles"]
    assert isinstance(titles, list)
    assert (len(titles), payload["more_titles"]) == (20, 980)


def test_short_arguments_are_shown_as_they_are_and_long_ones_by_their_beginning() -> None:
    """L11: at the limit whole, one past it cut."""
    most = announcement.PREVIEW_BYTES
    whole = "x" * (most - 2)
    assert announcement.preview(whole) == whole
    cut = str(announcement.preview(whole + "x"))
    assert cut.startswith('"' + "x" * 900)
    assert cut.endswith(f"x… ({most + 1} characters)")
    assert len(cut) == announcement.PREVIEW_CHARS
