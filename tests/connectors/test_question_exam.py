"""The part of the exam in which the answer to a question is wrong: who fails it, and who passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import duly
from duly.testing import ExamFailed, WebReply, examine_network
from tests.connectors.post_office import HOST
from tests.connectors.shop import Shop
from tests.connectors.test_network_exam import count_orders
from tests.connectors.test_network_wrong import Plain

pytestmark = pytest.mark.usefixtures("_short")


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)


class Gullible(Plain):
    """Takes an answer without a list for an empty one."""

    async def order_happened(self, call: duly.Call) -> Any:
        answer: Any = await self.fetch("/orders", is_proof=True)
        found = answer.get("orders") if isinstance(answer, dict) else None
        keys = [each["key"] for each in found or []]
        return duly.Applied() if call.key in keys else duly.NotApplied()


class Stale(Plain):
    """It may be answered out of a cache, and does not see it."""

    async def order_happened(self, call: duly.Call) -> Any:
        answer: Any = await self.fetch("/orders")
        keys = [each["key"] for each in answer["orders"]]
        return duly.Applied() if call.key in keys else duly.NotApplied()


class Credulous(Plain):
    """Takes an answer without a list for a yes."""

    async def order_happened(self, call: duly.Call) -> Any:
        answer: Any = await self.fetch("/orders", is_proof=True)
        if not isinstance(answer, dict) or not isinstance(answer.get("orders"), list):
            return duly.Applied()
        keys = [each["key"] for each in answer["orders"]]
        return duly.Applied() if call.key in keys else duly.NotApplied()


def take_exam(kind: type[Plain], folder: Path, *, asks_past: bool = False, **more: Any) -> Any:
    with Shop(folder) as shop:

        def reach(here: Path, port: int, *, is_question: bool = False) -> Plain:
            own = shop.port if is_question and asks_past else port
            return kind(f"http://{HOST}:{own}/{here.name}", allow=[HOST])

        return examine_network(
            reach,
            "order",
            {"item": "tea"},
            server=(HOST, shop.port),
            effects=count_orders(shop),
            folder=folder,
            replies=(WebReply("503 No", is_done=True),),
            asking=lambda here, port: reach(here, port, is_question=True),
            **more,
        )


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Gullible, "is answered 200 and {}: reconcile said NotApplied, and it was done"),
        (Gullible, "without its field 'orders': reconcile said NotApplied, and it was done"),
        (Stale, "is answered out of a cache: reconcile said NotApplied, and it was done"),
        (Stale, "is answered 206 and a part: reconcile said NotApplied, and it was done"),
        (Credulous, "is answered 200 and .*: reconcile said Applied, and nothing was done"),
    ],
)
def test_a_wrong_answer_that_is_believed_fails(
    tmp_path: Path, kind: type[Plain], says: str
) -> None:
    """L5: everything else that each of them does is right."""
    with pytest.raises(ExamFailed, match=says) as failed:
        take_exam(kind, tmp_path)
    wrong = str(failed.value).splitlines()[1:]
    assert all(each.startswith("the question is answered") for each in wrong)


def test_one_that_believes_no_wrong_answer_passes(tmp_path: Path) -> None:
    """L5: the report has a sentence for each."""
    said = str(take_exam(Plain, tmp_path))
    assert "When the question is answered 200 and {}: it was done, reconcile said Unsure." in said
    assert "out of a cache: it was done, reconcile said could not be asked (Transient)." in said


def test_a_question_that_is_not_broken_is_noticed(tmp_path: Path) -> None:
    """L5: an exam that breaks nothing proves nothing."""
    with pytest.raises(ExamFailed, match="is asked past the port"):
        take_exam(Plain, tmp_path / "one", asks_past=True)
    report = take_exam(Plain, tmp_path / "two", asks_past=True, is_asked_elsewhere=True)
    assert "the question is" not in str(report)
