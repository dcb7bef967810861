"""Real processes, really killed: what was recorded is not repeated, what was not is, once (B4)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from duly.rules.delivery import HOST_DEATHS_MAX
from tests.bus.crash.process import ATTEMPTS, EVENTS, SUBSCRIBERS
from tests.house import ROOT

LIVES_MAX = 8

BETWEEN = {"verb": "finish_delivery", "moment": "after"}
PLACES: dict[str, dict[str, Any]] = {
    "between promote and deliver": {"verb": "promote_due", "moment": "after"},
    "between two subscribers": {**BETWEEN, "count": 1},
    "between two events": {**BETWEEN, "count": 4},
    "after an attempt was counted": {"verb": "begin_delivery", "moment": "after", "count": 3},
    "inside a handler, before it did anything": {
        "handler": "first",
        "event": 2,
        "moment": "before",
    },
    "inside a handler, after it did it": {"handler": "second", "event": 2, "moment": "after"},
    "before a success was recorded": {"verb": "finish_delivery", "moment": "before", "count": 3},
}
STARTS: dict[str, dict[str, Any]] = {
    "before recovery": {"verb": "recover_bus", "moment": "before"},
    "after recovery": {"verb": "recover_bus", "moment": "after"},
    "before the first look": {"verb": "bus_outlook", "moment": "before"},
    "while subscriptions are written": {"verb": "subscribe", "moment": "after"},
}
# Where a handler had done its work and nobody had written that down.
IN_HAND = {"inside a handler, after it did it", "before a success was recorded"}


Run = Callable[..., int]


@pytest.fixture(scope="module")
def lives() -> Iterator[subprocess.Popen[str]]:
    """Start the process that forks all others."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "tests.bus.crash.process"]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def run(lives: subprocess.Popen[str], tmp_path: Path) -> Run:
    """Let one process live with some orders; answer its exit status."""

    def run(**orders: Any) -> int:
        assert lives.stdin is not None
        assert lives.stdout is not None
        lives.stdin.write(json.dumps({"folder": str(tmp_path), **orders}) + "\n")
        lives.stdin.flush()
        return int(lives.stdout.readline())

    return run


def successes(folder: Path, name: str) -> Counter[int]:
    """Count how often a subscriber has succeeded with each event."""
    path = folder / name
    return Counter(map(int, path.read_text().split())) if path.exists() else Counter()


def deliveries(folder: Path) -> dict[tuple[int, str], tuple[str, int]]:
    """Read every delivery from the file itself."""
    connection = apsw.Connection(str(folder / "duly.db"))
    rows = connection.execute("select event_id, subscriber_id, status, attempts from delivery")
    found = {(row[0], row[1]): (row[2], row[3]) for row in rows}
    connection.close()
    return found


def in_hand(folder: Path) -> set[tuple[int, str]]:
    """Read what was being delivered when the process died."""
    return {key for key, (status, _) in deliveries(folder).items() if status == "running"}


def check(folder: Path, held: set[tuple[int, str]]) -> int:
    """See that everybody succeeded once, twice at most where it was in hand; count the repeats."""
    repeated = 0
    for name in SUBSCRIBERS:
        count = successes(folder, name)
        assert set(count) == set(range(1, EVENTS + 1))
        for event_id, times in count.items():
            assert times == 1 or (times == 2 and (event_id, name) in held), (event_id, name)
            repeated += times - 1
    assert {status for status, _ in deliveries(folder).values()} == {"done"}
    return repeated


@pytest.mark.parametrize("place", PLACES)
def test_a_killed_process_repeats_at_most_what_was_in_hand(
    tmp_path: Path, run: Run, place: str
) -> None:
    """B4, B7: one success for each event and subscriber, two at most for the one in hand."""
    assert run(**PLACES[place]) == -signal.SIGKILL
    held = in_hand(tmp_path)
    assert len(held) <= len(SUBSCRIBERS)
    assert run() == 0
    assert check(tmp_path, held) >= (1 if place in IN_HAND else 0)


@pytest.mark.parametrize("place", STARTS)
def test_a_process_killed_during_its_start_leaves_everything_to_the_next(
    tmp_path: Path, run: Run, place: str
) -> None:
    """B7: recovery may itself be cut short anywhere, twice, and the third one ends in the same."""
    assert run(**PLACES["inside a handler, after it did it"]) == -signal.SIGKILL
    held = in_hand(tmp_path)
    assert run(**STARTS[place]) == -signal.SIGKILL
    assert run(**STARTS[place]) == -signal.SIGKILL
    assert run() == 0
    assert check(tmp_path, held) >= 1


def test_an_event_that_kills_every_process_is_parked(tmp_path: Path, run: Run) -> None:
    """B5: after its attempts it is a dead letter, and the others are told of what follows."""
    orders = {"handler": "first", "event": 1, "moment": "before"}
    deaths = 0
    while run(**orders) != 0:
        deaths += 1
        assert deaths < LIVES_MAX
    assert deaths == ATTEMPTS - 1 + HOST_DEATHS_MAX
    found = deliveries(tmp_path)
    assert found.pop((1, "first")) == ("dead", deaths)
    assert {status for status, _ in found.values()} == {"done"}
    assert set(successes(tmp_path, "first")) == {2, 3, 4}
    assert set(successes(tmp_path, "second")) == set(range(1, EVENTS + 1))


def test_one_event_that_kills_every_process_makes_no_dead_letter_of_its_neighbours(
    tmp_path: Path, run: Run
) -> None:
    """B5: of 21 that ran together one is dead at the end; the others were called once each."""
    assert run(neighbours=20, together=True) == -signal.SIGKILL
    assert len(in_hand(tmp_path)) == 21
    deaths = 0
    while run(neighbours=20, together=False) != 0:
        deaths += 1
        assert deaths < LIVES_MAX
    assert deaths == HOST_DEATHS_MAX
    found = deliveries(tmp_path)
    assert found.pop((21, "t20")) == ("dead", deaths)
    assert set(found.values()) == {("done", 1)}
    assert [successes(tmp_path, f"t{number}").total() for number in range(20)] == [1] * 20
