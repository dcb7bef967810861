"""Which loaded versions a host keeps: as many as fit, the ones used last."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest

from duly.engine import library as library_module
from duly.engine.library import Library, size_bytes
from duly.rules.catalog import Catalog
from duly.rules.declaration import parse
from duly.rules.source import Source
from duly.sandbox.base import Loaded

DECLARATION = b'{"name": "w", "producers": {"p": {"handler": "function"}}}'
MANY = 1_000


class Shop:
    """A store with every version and a sandbox that counts what it loads."""

    def __init__(self, *, image_bytes: int = 0, text: str = "text") -> None:
        self.loads: list[str] = []
        self._image_bytes = image_bytes
        self._text = text
        outside = SimpleNamespace(catalog=Catalog())
        parts: Any = SimpleNamespace(store=self, sandbox=self, outside=outside)
        self.library = Library(parts)

    async def get_version(self, workflow_id: str, version: str) -> Any:
        return SimpleNamespace(language="python", source=self._text, declaration=DECLARATION)

    async def load(self, source: Source, catalog: Catalog) -> Loaded:
        await asyncio.sleep(0)
        self.loads.append(source.text)
        declaration: Any = None
        return Loaded(source, declaration, bytes(self._image_bytes))

    async def run(self, *workflows: int) -> int:
        """Let workflows run in turn; return how many had to be loaded."""
        before = len(self.loads)
        for number in workflows:
            await self.library.get(f"w{number}", "1.0.0")
        return len(self.loads) - before


async def test_a_thousand_active_workflows_are_loaded_once_each() -> None:
    """N: what is kept is counted in bytes, so small versions stay however many there are."""
    shop = Shop(image_bytes=64 * 1024)
    assert await shop.run(*range(MANY)) == MANY
    assert await shop.run(*range(MANY)) == 0


@pytest.mark.parametrize(
    "options", [{"image_bytes": 1024 * 1024}, {"text": "x" * 1024 * 1024}], ids=["image", "text"]
)
async def test_what_is_kept_is_bounded_in_bytes(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """N: large versions push out those that were used longest ago, and no others."""
    monkeypatch.setattr(library_module, "LOADED_BYTES_MAX", 5 * 1024 * 1024)
    shop = Shop(**options)
    assert await shop.run(1, 2, 3, 4) == 4
    assert await shop.run(1) == 0
    assert await shop.run(5) == 1
    assert await shop.run(1, 3, 4, 5) == 0
    assert await shop.run(2) == 1
    held = sum(size_bytes(each) for each in shop.library._shelf.values())
    assert held == shop.library._bytes <= 5 * 1024 * 1024


async def test_a_version_larger_than_the_bound_is_kept_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """N: it runs like any other; nothing else is kept beside it."""
    monkeypatch.setattr(library_module, "LOADED_BYTES_MAX", 1)
    shop = Shop()
    assert await shop.run(1, 1, 2, 2) == 2


async def test_a_version_that_two_runs_load_at_once_is_counted_once() -> None:
    """N: else the count would grow until nothing is kept."""
    shop = Shop(image_bytes=1000)
    await asyncio.gather(*(shop.library.get("w1", "1.0.0") for _ in range(3)))
    (kept,) = shop.library._shelf.values()
    assert shop.library._bytes == size_bytes(kept)


NAMES = [f"{number:y>100}" for number in range(MANY // 4)]
PRODUCER = {"handler": "function", "schedule": {"interval": "5m"}, "publishes": []}


@pytest.mark.parametrize(
    "declared",
    [
        {"producers": dict.fromkeys(NAMES, PRODUCER)},
        {"topics": {name: {"ingress": {"bus": name}} for name in NAMES}},
        {
            "topics": NAMES,
            "consumers": {name: {"subscribe": [name], "prepare": "function"} for name in NAMES},
        },
    ],
    ids=["producers", "topics", "consumers"],
)
def test_a_version_counts_as_what_it_takes(declared: dict[str, Any]) -> None:
    """X2: a script makes a thousand long names with a short text; they are counted too."""
    text = json.dumps({"name": "w", "producers": {"p": "function"}, **declared})
    gc.collect()
    tracemalloc.start()
    try:
        loaded = Loaded(Source("javascript", "x"), parse(json.loads(text)))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / 2 < size_bytes(loaded) < 2 * taken
