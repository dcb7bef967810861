"""`make proof`: the report says exactly what was run, and the soak sees what goes wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.proof.__main__ import Proof, commit_of, load, prove, write_report
from tests.proof.part import (
    PARTS,
    SEED,
    Part,
    add,
    read_json,
    read_planted,
    read_pytest,
    read_words,
)
from tests.proof.soak import CountingOutside, Soak, SoakReport, memory_mib

COMMIT = "0000000a" + "0" * 32
SEARCHED = Part(
    "searched",
    "seeds",
    ("-c", "import sys, json; print(json.dumps({'seeds': 2, 'first': int(sys.argv[1])}))", SEED),
    read_json,
    share=0.5,
    piece=2,
)
WHOLE = Part("whole", "all", ("-c", "print('{\"cases\": 7}')"), read_json, minutes_min=10)
WRONG = Part("wrong", "no", ("-c", "raise SystemExit('seed 5 went wrong')"), read_json, share=0.1)


# -- The runner -----------------------------------------------------------------------------------


def test_a_part_that_is_done_is_not_run_again_and_more_minutes_go_on(tmp_path: Path) -> None:
    """Law 2: pieces are kept, and the next one begins at the next seed."""
    keep = tmp_path / "proof.json"
    parts = (SEARCHED, WHOLE)
    proof = load(keep, COMMIT, is_changed=False)
    prove(proof, parts, 0, 1, keep)
    prove(load(keep, COMMIT, is_changed=False), parts, 0, 1, keep)
    first = load(keep, COMMIT, is_changed=False)
    assert [len(first.pieces["searched"]), "whole" in first.pieces] == [1, False]
    assert "not run" in write_report(first, parts)
    for piece in first.pieces["searched"]:
        piece.seconds = 1e6  # it has had its share of any proof
    prove(first, parts, 10, 1, keep)
    second = load(keep, COMMIT, is_changed=False)
    assert [len(second.pieces[each.name]) for each in parts] == [1, 1]
    second.pieces["searched"][0].seconds = 0
    prove(second, (SEARCHED,), 0.0001, 1, keep)
    firsts = [each.figures["first"] for each in second.pieces["searched"]]
    assert firsts == [11_000_000, 11_000_002]
    report = write_report(second, parts)
    assert "| searched | seeds | 2 |" in report
    assert "N = 11000000, 11000002 … 11000002" in report
    assert "cases 7 | right |" in report
    assert f"`{COMMIT}`" in report


def test_a_part_that_goes_wrong_is_told_with_what_it_said(tmp_path: Path) -> None:
    """Law 3: it stays in the report and is not tried again until it fits."""
    keep = tmp_path / "proof.json"
    for _ in range(2):
        proof = load(keep, COMMIT, is_changed=False)
        prove(proof, (WRONG,), 1, 1, keep)
    assert len(proof.pieces["wrong"]) == 1
    report = write_report(proof, (WRONG,))
    assert "- verdict: **went wrong**: wrong" in report
    assert "seed 5 went wrong" in report


def test_a_piece_that_was_killed_counts_for_nothing(tmp_path: Path) -> None:
    """Law 2: a machine without memory says nothing about the commit; it is still to be run."""
    words = ("-c", "import os; os.kill(os.getpid(), 9)")
    proof = load(tmp_path / "proof.json", COMMIT, is_changed=False)
    prove(proof, (Part("killed", "", words, read_json, share=0.1),), 1, 1, tmp_path / "proof.json")
    assert proof.pieces == {}


def test_a_tree_with_changes_proves_nothing_of_its_commit(tmp_path: Path) -> None:
    """Law 4: it begins anew, and says so."""
    keep = tmp_path / "proof.json"
    prove(load(keep, COMMIT, is_changed=False), (SEARCHED,), 0, 1, keep)
    proof = load(keep, COMMIT, is_changed=True)
    assert proof.pieces == {}
    assert "the tree had changes" in write_report(proof, (SEARCHED,))


def test_a_tree_is_known_by_its_commit_and_its_changes(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        name = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *name, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    assert commit_of(tmp_path) == (git("rev-parse", "HEAD"), False)
    (tmp_path / "file").write_text("new")
    assert commit_of(tmp_path)[1] is True


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.name))
def test_every_part_is_a_command_that_is_there(part: Part) -> None:
    """Law 1: its module and its folders exist, and its options are known."""
    assert part.command[0] == "-m"
    assert find_spec(part.command[1]) is not None
    for each in part.command:
        if each.startswith("tests/"):
            assert (ROOT / each).exists()
    assert bool(part.share) != bool(part.minutes_min)
    assert (SEED in part.command) == bool(part.share)


def test_the_shares_are_all_of_the_time() -> None:
    assert sum(part.share for part in PARTS) == pytest.approx(1.0)


def test_figures_are_read_as_the_commands_print_them() -> None:
    text = '{"schedules": 5, "per_second_per_core": 3.5, "points": {}, "failures": ["x"]}'
    assert read_json(text) == {"schedules": 5, "failures": 1}
    assert read_planted('[{"bug": "a", "seed": 3}, {"bug": "b", "seed": null}]') == {
        "hunts": 2,
        "not found": 1,
    }
    assert read_pytest("....\n3 passed, 1 failed in 2.10s\n") == {"passed": 3, "failed": 1}
    line = "\rseed 1 ███ round 2\nkills 20 · seconds 16.5 · harm term, kill 2\n"
    assert read_words(line) == {"kills": 20, "harm term, kill": 2}
    assert add([{"a": 1, "memory_last_mib": 5}, {"a": 2, "memory_last_mib": 4}]) == {
        "a": 3,
        "memory_last_mib": 4,
    }


# -- The power cuts and the soak ------------------------------------------------------------------


def test_power_cuts_are_counted() -> None:
    """L2: one seed of what a proof runs by the hundred."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.proof.power", "--seeds", "1", "--from", "101"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["problems"], found["power_cuts"] > 100) == (0, True)


async def test_the_outside_of_a_soak_counts_what_really_happened() -> None:
    """L3: an effect whose answer is lost has happened; one that comes too late has not."""
    outside = CountingOutside(1)

    async def write(fault: str, key: str, row: str, *, once: bool, until_ms: int = 2**62) -> object:
        outside._draw = lambda: fault  # type: ignore[method-assign]
        asked = {"do": "write", "key": key, "row": row, "once": once, "until_ms": until_ms}
        return await outside._answer(asked)

    assert await write("lost", "k1", "a", once=False) is None
    assert await write("cut", "k2", "b", once=False) is None
    assert await write("plain", "k3", "c", once=True) == {"line": 2}
    assert await write("plain", "k3", "c", once=True) == {"line": 2}
    assert await write("plain", "k4", "d", once=False, until_ms=0) == {"line": None}
    assert outside.rows == {"a": 1, "c": 1}
    assert await write("plain", "k5", "a", once=False) == {"line": 3}
    assert outside.rows["a"] == 2
    assert await outside._answer({"do": "find", "key": "k1"}) == {"line": 1}
    assert not SoakReport(twice=1).is_right
    assert not SoakReport(stuck=1).is_right


def test_a_soak_that_is_slow_or_grows_is_not_right() -> None:
    """R7: 50 a second were to be published, and memory is flat."""

    def judged(published: int, memory_last_mib: float) -> bool:
        report = SoakReport(wanted=3000, published=published)
        report.memory_first_mib, report.memory_last_mib = 100.0, memory_last_mib
        assert report.is_safe
        return report.is_right

    assert judged(2850, 110.0)
    assert not judged(2849, 110.0)
    assert not judged(2850, 110.1)


def test_a_soak_of_seconds_loses_nothing_through_a_kill(tmp_path: Path) -> None:
    """L5, R7: `duly serve`, SQLite, the sandbox, faults outside, and a SIGKILL on the way."""
    soak = Soak(tmp_path, rate=20, kill_every_s=3, seed=7)
    report = asyncio.run(soak.run(5))
    assert (report.twice, report.lost, report.stuck, report.kills) == (0, 0, 0, 1)
    assert report.published == report.effects > 0
    assert report.memory_first_mib > 0
    assert report.wanted == 100


def test_memory_is_that_of_a_session(tmp_path: Path) -> None:
    holds = "held = b'x' * 2**23; print(flush=True); input()"
    words = [sys.executable, "-I", "-S", "-c", holds]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, start_new_session=True, stdin=pipe, stdout=pipe) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            assert 8 <= memory_mib(child.pid) < 50
        finally:
            child.kill()
    assert memory_mib(2**30) == 0
    assert Proof(COMMIT, is_changed=False).next_seed(SEARCHED) == 11_000_000
