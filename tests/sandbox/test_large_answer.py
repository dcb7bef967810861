"""A large answer is read beside the event loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from duly.rules.value import check_json
from duly.sandbox import javascript
from duly.sandbox.base import Returned
from tests.sandbox.test_pool import standing


@pytest.mark.parametrize(("count", "is_beside"), [(1, False), (100_000, True)])
async def test_a_large_answer_does_not_stop_the_host(
    count: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X2: millions of small values are checked where nobody else waits for it."""
    beside: list[bool] = []

    def checked(*args: Any, **options: Any) -> None:
        beside.append(threading.current_thread() is not threading.main_thread())
        check_json(*args, **options)

    async with standing() as stand:
        script = await stand.script(f"return Array({count}).fill([])")
        monkeypatch.setattr(javascript, "check_json", checked)
        async with script:
            assert await script.start() == Returned([[]] * count)
    assert beside == [is_beside]
