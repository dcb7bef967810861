"""What an installation brings is bounded; how long it takes is measured, not tested."""

from __future__ import annotations

from bench.install import PACKAGES_MAX, closure, locked


def test_duly_and_all_it_needs_are_few_packages() -> None:
    found = locked()
    assert {"duly", "apsw", "click", "rich"} <= found
    assert "pytest" not in found
    assert len(found) <= PACKAGES_MAX


def test_what_is_needed_by_what_is_needed_is_counted_once() -> None:
    lock = {
        "package": [
            {"name": "duly", "dependencies": [{"name": "a"}, {"name": "b"}]},
            {"name": "a", "dependencies": [{"name": "b"}]},
            {"name": "b"},
            {"name": "c", "dependencies": [{"name": "a"}]},
        ]
    }
    assert closure(lock) == {"duly", "a", "b"}
