"""The long tests are begun first, and the list of them names tests that exist."""

from __future__ import annotations

import re

from tests.house import ROOT
from tests.order import FIRST, marks, rank


def test_a_long_test_is_begun_before_the_others() -> None:
    names = ["tests/bus/test_x.py::test_y", f"{FIRST[1]}::test_z[0]", FIRST[0]]
    assert sorted(names, key=rank) == [FIRST[0], f"{FIRST[1]}::test_z[0]", names[0]]


def test_tests_of_the_same_rank_keep_their_order() -> None:
    names = [f"tests/{name}/test_x.py::test_y" for name in ("store", "bus", "desk")]
    assert sorted(names, key=rank) == names


def test_every_name_in_the_list_is_a_test() -> None:
    for name in FIRST:
        file, _, function = name.partition("::")
        assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8"), name


def test_every_test_that_starts_a_process_is_marked() -> None:
    """What `-m "not process and not sandbox"` leaves out is found by what the files import."""
    starts = re.compile(r"^(import|from) (subprocess|multiprocessing)|os\.fork\(", re.MULTILINE)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        if starts.search(path.read_text(encoding="utf-8")):
            assert {"process", "sandbox"} & set(marks(f"{name}::test_x")), name
