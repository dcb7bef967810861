"""A value that refers to one object again and again is refused before it fills the memory (X2)."""

from __future__ import annotations

import tracemalloc

import pytest

from duly.errors import Invalid
from duly.rules.value import encode

LIMIT_BYTES = 1024 * 1024


def test_a_long_key_that_is_named_500_times_is_refused_before_it_is_written() -> None:
    """X2: the check counts every key, however often the same object comes back."""
    shared = {"k" * (LIMIT_BYTES // 2): None}
    value = [shared] * 500
    tracemalloc.start()
    try:
        with pytest.raises(Invalid):
            encode(value, limit_bytes=LIMIT_BYTES)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * LIMIT_BYTES
