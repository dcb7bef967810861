"""The tests go out to the processes once each: the long ones first and apart, files together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest

from tests.order import FIRST
from tests.spread import SHARE, Spread, circle, shares

LONG_FILES = [name for name in FIRST if "::" not in name][:2]
LONG = [f"{name}::test_long[{n}]" for name in LONG_FILES for n in range(3)]
FILES = [f"tests/{room}/test_x.py::test_y[{n}]" for room in ("bus", "desk") for n in range(100)]


class Worker:
    """A process that keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def begin(names: Sequence[str], *workers: Worker) -> Spread:
    spread = Spread(len(workers))
    for worker in workers:
        spread.add_node(worker)
        spread.add_node_collection(worker, names)
    assert spread.collection_is_completed
    spread.schedule()
    return spread


def finish(spread: Spread, *workers: Worker) -> list[list[int]]:
    """Let each process in turn end one test until nothing is left; return what each has run."""
    done: list[list[int]] = [[] for _ in workers]
    while spread.has_pending:
        for worker, own in zip(workers, done, strict=True):
            if len(own) < len(worker.given):
                own.append(worker.given[len(own)])
                spread.mark_test_complete(worker, own[-1])
    return done


def test_the_long_tests_go_out_first_and_one_by_one() -> None:
    queues = shares([*FILES, *LONG])
    assert [list(queue) for queue in queues[:2]] == [
        [[index] for index in range(200, 203)],
        [[index] for index in range(203, 206)],
    ]


def test_two_processes_are_given_different_long_tests() -> None:
    workers = [Worker(), Worker()]
    begin([*LONG, *FILES], *workers)
    assert [worker.given for worker in workers] == [[0, 1], [3, 4]]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_every_test_goes_out_once(count: int) -> None:
    names, workers = [*LONG, *FILES], [Worker() for _ in range(count)]
    spread = begin(names, *workers)
    done = finish(spread, *workers)
    assert sorted(chain.from_iterable(done)) == list(range(len(names)))
    assert spread.tests_finished
    assert all(worker.shutting_down for worker in workers)


def test_a_process_that_begins_a_file_is_given_the_rest_of_it() -> None:
    workers = [Worker(), Worker()]
    done = finish(begin(FILES, *workers), *workers)
    assert done == [list(range(100)), list(range(100, 200))]


def test_a_process_that_is_free_helps_with_a_file_that_another_began() -> None:
    one, other = Worker(), Worker()
    begin(FILES[:100], one, other)
    assert (one.given, other.given) == (list(range(SHARE)), list(range(SHARE, 2 * SHARE)))


def test_what_a_dead_process_had_goes_out_again_but_for_the_test_it_was_in() -> None:
    dead, other = Worker(), Worker()
    spread = begin(FILES, dead, other)
    spread.mark_test_complete(dead, 0)
    assert spread.remove_node(dead) == FILES[1]
    (done,) = finish(spread, other)
    assert sorted(done) == list(range(2, len(FILES)))


def test_a_process_that_replaces_a_dead_one_is_given_tests() -> None:
    dead, other, later = Worker(), Worker(), Worker()
    spread = begin(FILES, dead, other)
    assert spread.remove_node(dead) == FILES[0]
    spread.add_node(later)
    spread.add_node_collection(later, FILES)
    spread.schedule()
    assert later.given


def test_processes_that_collected_different_tests_are_an_error() -> None:
    spread = Spread(2)
    for worker in (one := Worker(), other := Worker()):
        spread.add_node(worker)
    spread.add_node_collection(one, FILES)
    with pytest.raises(AssertionError, match=r"desk.*\[99\]"):
        spread.add_node_collection(other, FILES[:-1])


def test_each_process_begins_elsewhere_and_imports_everything() -> None:
    files = [Path(f"tests/test_{n}.py") for n in range(10)]
    begun = [circle(files, process, 4) for process in range(4)]
    assert [order[0] for order in begun] == [files[0], files[2], files[5], files[7]]
    assert all(sorted(order) == files for order in begun)
    assert circle(files, 4, 4) == begun[0], "one that comes for one that died"
    assert circle([], 1, 2) == []
