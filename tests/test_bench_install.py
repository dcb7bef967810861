"""What an installation brings is bounded; how long it takes is measured, not tested."""

from __future__ import annotations

import re

import duly
from bench.install import ELSEWHERE, PACKAGES_MAX, ROOT, closure, locked


def test_duly_and_all_it_needs_are_few_packages() -> None:
    found = locked()
    assert {"duly", "apsw", "click", "rich"} <= found
    assert "pytest" not in found
    assert len(found - ELSEWHERE - {"duly"}) <= PACKAGES_MAX


def test_the_pages_say_the_same_number_and_version() -> None:
    """U6: a reader finds what the lock file and the program say."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    others = len(locked() - ELSEWHERE - {"duly"})
    assert f"The installation brings {others} other packages." in readme
    assert f"at most {PACKAGES_MAX} packages beside Duly" in page
    # What was measured keeps its version when the next one begins; it is none that is to come.
    row = r"^\| duly \| (\d+\.\d+\.\d+)(?:\.dev\d+)? \| (\d+) \|"
    ((number, brought),) = re.findall(row, page, re.MULTILINE)
    own = duly.__version__.partition(".dev")[0]
    assert [*map(int, number.split("."))] <= [*map(int, own.split("."))]
    assert int(brought) <= others + 1
    assert f"This is version {duly.__version__}, " in readme


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
