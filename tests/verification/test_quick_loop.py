"""The quick loop leaves steps out, and changes nothing."""

from __future__ import annotations

import pytest

from duly.testing.loop import VirtualLoop
from verification.loop import QuickLoop
from verification.suite import SUITES


@pytest.mark.parametrize("kind", SUITES)
def test_the_order_is_that_of_the_virtual_loop(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same scenarios leave the same traces without it."""
    suite = SUITES[kind]
    seeds = (21, 45)
    quick = [suite.run(suite.from_seed(seed)).hash for seed in seeds]
    monkeypatch.setattr(QuickLoop, "_run_once", VirtualLoop._run_once)  # type: ignore[attr-defined]
    monkeypatch.setattr(QuickLoop, "call_soon", VirtualLoop.call_soon)
    assert [suite.run(suite.from_seed(seed)).hash for seed in seeds] == quick
