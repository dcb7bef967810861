"""The breaks of what is asked over channels: accounts, contents, codes, what is shown (G9, G11)."""

from __future__ import annotations

from duly.rules.slip import AskedStanding, SlipEnd
from duly.rules.word import MutationStatus
from tests.breaks import Break

RULES = ("tests/rules/test_slip.py",)
PHONE = ("tests/desk/test_slip.py",)
ALERTS = ("tests/desk/test_alerts.py",)


def _any_content(
    asked_hash: str, made_at: int, standing: AskedStanding, now_ms: int
) -> SlipEnd | None:
    """Take a yes for the call as it is by now."""
    if standing.approved_by is not None:
        return SlipEnd.APPROVED
    if standing.status is MutationStatus.REJECTED:
        return SlipEnd.REJECTED
    return None if standing.is_waiting else SlipEnd.OVER


def _anyone(*_: object, **__: object) -> str:
    """Let every account answer."""
    return "telegram:anyone"


def _never(*_: object) -> bool:
    """Let no message grow old."""
    return False


async def _does_nothing(*_: object) -> None:
    """Note no end of anything."""


BREAKS = (
    Break(
        rule="G11",
        module="duly.rules.slip",
        attribute="find_end",
        replacement=_any_content,
        tests=RULES,
        says="a press counts for a call that was changed",
    ),
    Break(
        rule="G11",
        module="duly.rules.slip",
        attribute="is_old",
        replacement=_never,
        tests=RULES,
        says="a press counts for ever",
    ),
    Break(
        rule="G11",
        module="duly.desk.slip",
        attribute="find_actor",
        replacement=_anyone,
        tests=PHONE,
        says="an account that is not paired decides",
    ),
    Break(
        rule="G9",
        module="duly.words.slip",
        attribute="MARK",
        replacement="",
        tests=("tests/words/test_slip.py",),
        says="a line of a text looks like a field",
    ),
    Break(
        rule="G11",
        module="duly.rules.slip",
        attribute="read_press",
        replacement=lambda data: None,
        tests=RULES,
        says="no button is read",
    ),
    Break(
        rule="F8",
        module="duly.rules.alert",
        attribute="is_new",
        replacement=_never,
        tests=ALERTS,
        says="what no run begins is never told over a channel",
    ),
    Break(
        rule="F8",
        module="duly.desk.backups",
        attribute="end_alert",
        replacement=_does_nothing,
        tests=ALERTS,
        says="only the first failure of the backups is ever told",
    ),
    Break(
        rule="F8",
        module="duly.store.slip",
        attribute="SKEW_MS",
        replacement=10**15,
        tests=(
            "tests/store/test_exam_slip.py::test_what_began_is_told_once_and_again_when_it_began_anew",
        ),
        says="a clock that was wrong silences an alert for years",
    ),
)
