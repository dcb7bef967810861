"""`make proof`: the report says exactly what was run, and the soak sees what goes wrong."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.proof import kept, minder
from tests.proof.__main__ import (
    HANGS_S,
    NO_COMMIT,
    OVERTIME,
    Proof,
    Wish,
    alone,
    commit_of,
    limit_of,
    load,
    prove,
    write_report,
)
from tests.proof.part import (
    GOALS,
    PARTS,
    PYTEST,
    SEED,
    Goal,
    Part,
    add,
    read_json,
    read_pairs,
    read_planted,
    read_pytest,
    read_storm,
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
    prove(proof, Wish(parts, 0), 1, keep)
    prove(load(keep, COMMIT, is_changed=False), Wish(parts, 0), 1, keep)
    first = load(keep, COMMIT, is_changed=False)
    assert [len(first.pieces["searched"]), "whole" in first.pieces] == [1, False]
    assert "not run" in write_report(first, parts)
    for piece in first.pieces["searched"]:
        piece.seconds = 1e6  # it has had its share of any proof
    prove(first, Wish(parts, 10), 1, keep)
    second = load(keep, COMMIT, is_changed=False)
    assert [len(second.pieces[each.name]) for each in parts] == [1, 1]
    second.pieces["searched"][0].seconds = 0
    prove(second, Wish((SEARCHED,), 0.0001), 1, keep)
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
        prove(proof, Wish((WRONG,), 1), 1, keep)
    assert len(proof.pieces["wrong"]) == 1
    report = write_report(proof, (WRONG,))
    assert "- verdict: **went wrong**: wrong" in report
    assert "seed 5 went wrong" in report


@pytest.mark.parametrize("end", ["import os; os.kill(os.getpid(), 9)", "raise SystemExit(77)"])
def test_a_piece_that_was_killed_or_cannot_be_run_here_counts_for_nothing(
    tmp_path: Path, end: str
) -> None:
    """Law 2: a machine without memory, or root, says nothing; it is still to be run."""
    words = ("-c", end)
    proof = load(tmp_path / "proof.json", COMMIT, is_changed=False)
    wish = Wish((Part("killed", "", words, read_json, share=0.1),), 1)
    prove(proof, wish, 1, tmp_path / "proof.json")
    assert proof.pieces == {}


def test_a_tree_with_changes_proves_nothing_of_its_commit(tmp_path: Path) -> None:
    """Law 4: it begins anew, and says so."""
    keep = tmp_path / "proof.json"
    prove(load(keep, COMMIT, is_changed=False), Wish((SEARCHED,), 0), 1, keep)
    proof = load(keep, COMMIT, is_changed=True)
    assert proof.pieces == {}
    assert "the tree had changes" in write_report(proof, (SEARCHED,))


def test_a_tree_is_known_by_its_commit_and_its_changes(tmp_path: Path) -> None:
    """Law 4: also one without history, or on a machine without git."""
    assert commit_of(tmp_path) == (NO_COMMIT, True)
    if shutil.which("git") is None:
        return

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


def test_parts_that_are_named_share_the_minutes_and_get_them_once_more(tmp_path: Path) -> None:
    """Law 2: `--only` is for a time; a proof of everything has a share for each part."""
    proof = load(tmp_path / "proof.json", COMMIT, is_changed=False)
    prove(proof, Wish((SEARCHED,), 0), 1, tmp_path / "proof.json")
    proof.pieces["searched"][0].seconds = 100
    assert Wish((SEARCHED, WRONG), 10).until_s(proof, SEARCHED) == 300
    assert Wish((SEARCHED,), 10, is_more=True).until_s(proof, SEARCHED) == 700
    both = Wish((SEARCHED, WRONG), 6, is_more=True)
    assert [both.until_s(proof, each) for each in (SEARCHED, WRONG)] == [400, 60]


def test_one_proof_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    """Law 5: two would take the same seeds, and one would write over the other's pieces."""
    with alone(tmp_path) as first, alone(tmp_path) as second:
        assert (first, second) == (True, False)
    with alone(tmp_path) as third:
        assert third


def test_a_piece_stops_and_ends_with_its_proof() -> None:
    """Laws 2, 3 of the minder: what a person stops is quiet, and nothing outlives its proof."""
    idle = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen(idle) as proof,
        subprocess.Popen(idle, start_new_session=True) as piece,
        subprocess.Popen(
            [sys.executable, "-I", "-S", minder.__file__, str(proof.pid)],
            stdin=subprocess.PIPE,
        ) as watch,
    ):
        try:
            assert watch.stdin is not None
            watch.stdin.write(f"0\n{piece.pid}\n".encode())
            watch.stdin.flush()
            for number, is_stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
                proof.send_signal(number)
                while minder.is_stopped(piece.pid) is not is_stopped:
                    time.sleep(0.02)
            watch.stdin.close()
            assert piece.wait() == -signal.SIGKILL
        finally:
            for each in (proof, piece, watch):
                each.kill()


@pytest.mark.parametrize(
    ("is_stopped", "was_stopped", "sent"),
    [
        (True, False, signal.SIGSTOP),
        (True, True, signal.SIGSTOP),
        (False, True, signal.SIGCONT),
        (False, False, None),
    ],
)
def test_what_a_piece_has_stopped_itself_is_left_alone(
    is_stopped: bool, was_stopped: bool, sent: signal.Signals | None
) -> None:
    """Law 2 of the minder: a test that stops a process waits in vain if a proof wakes it."""
    assert minder.due(is_stopped, was_stopped) is sent


# -- The sums -------------------------------------------------------------------------------------

COMMAND = "python -m verification --bus --seeds 500 --from N --jobs 1 --json"
PROVEN = {
    "commit": COMMIT,
    "is_changed": False,
    "source": "5" * 40,
    "pieces": {
        "random scenarios, bus": [
            {
                "command": COMMAND.replace("N", str(seed)).split(),
                "begun_at": f"2026-11-0{day}T00:00:00+00:00",
                "seconds": 60.0,
                "status": status,
                "figures": {"schedules": 500, "failures": failures},
                "said": "seed 7" if status else "",
                "cpu_s": 30.0,
            }
            for day, seed, status, failures in ((1, 0, 0, 0), (2, 500, 1, 2))
        ]
    },
}


def test_the_page_says_what_the_data_say() -> None:
    """Law 2: and what went wrong has its sentence before it is kept."""
    rows = kept.load_rows()
    page = kept.PAGE.read_text(encoding="utf-8")
    assert page == kept.write_page(page, rows), "python -m tests.proof --page"
    assert kept.merge(rows, []) == rows
    assert [row.part for row in rows if row.wrong and not row.became] == []
    named = {name for goal in GOALS for name in goal.parts}
    assert named == {part.name for part in PARTS}


def test_pieces_of_a_commit_become_one_row_with_its_seeds() -> None:
    """Law 1: the next look at the same folder finds the same row, further on."""
    (row,) = kept.rows_of(PROVEN)
    assert (row.seeds, row.count, row.wrong) == ((0, 999), 1000, 2)
    assert (row.minutes, row.cpu_minutes, row.said) == (2, 1, "seed 7")
    assert row.command.endswith("--seeds 500 --from N --jobs 1 --json")
    assert kept.rows_of({**PROVEN, "is_changed": True}) == []
    told = replace(row, became="Mended.")
    shorter = replace(row, count=500, wrong=0, begun_at="2026-11-03")
    assert kept.merge([told], [row]) == [told]
    assert kept.merge([told], [shorter, replace(shorter, count=2000)]) == [told]
    longer = replace(row, count=1500)
    assert kept.merge([told], [longer]) == [replace(longer, became="Mended.")]


def test_a_sum_says_how_many_commits_and_how_much_of_it_is_newest(tmp_path: Path) -> None:
    """Law 3: what was run before the source changed is not claimed for the source of now."""
    (old,) = kept.rows_of(PROVEN)
    new = replace(old, commit="b" * 40, source="6" * 40, begun_at="2026-11-05", wrong=0)
    sums = kept.write_sums([old, new])
    assert "commit `bbbbbbbb` (2026-11-05)" in sums
    wanted = "| 1,000,000 scenarios | 2,000 scenarios | 2 | 1,000 scenarios | **2** |"
    assert f"| random scenarios {wanted}" in sums
    assert "| soak, in one run | 60 minutes | nothing | – | nothing | – |" in sums
    assert "**random scenarios, bus** on `0000000a`: 2 went wrong." in kept.write_rows([old, new])
    soak = Goal("soak", ("soak",), 60, "minutes", is_sum=False)
    assert kept.reached(soak, [replace(old, count=30), replace(old, count=40)]) == "40 minutes"
    whole = Goal("bugs", ("a", "b"))
    halves = [replace(old, part="a"), replace(new, part="b")]
    assert kept.reached(whole, halves) == "1 of 2"
    data, folder = tmp_path / "data.json", tmp_path / "proofs" / "one"
    data.write_text("[]")
    folder.mkdir(parents=True)
    (folder / "proof.json").write_text(json.dumps(PROVEN))
    assert kept.keep(folder.parent, data) == [old]
    assert kept.keep(folder.parent, data) == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: str(part.name))
def test_every_part_is_a_command_that_is_there(part: Part) -> None:
    """Law 1: its module and its folders exist, and its options are known."""
    assert part.command[0] == "-m"
    assert find_spec(part.command[1]) is not None
    for each in part.command:
        if each.startswith("tests/"):
            assert (ROOT / each).exists()
    assert bool(part.share) != bool(part.minutes_min)
    # Duly reads its settings from `DULY_…`, and its commands refuse one that is none.
    assert not any(name.startswith("DULY_") for name in part.environ or {})
    assert SEED in part.command or not part.share


def test_pytest_says_how_many_tests_a_part_had() -> None:
    """Law 2: without that line a part that passed would stand in the report with nothing."""
    part = Part("tests", "few", (*PYTEST, "tests/rules/test_late.py"), read_pytest)
    command = [sys.executable, *part.words(0, 1, 1)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert part.read(done.stdout)["passed"] > 0


def test_the_shares_are_all_of_the_time() -> None:
    assert sum(part.share for part in PARTS) == pytest.approx(1.0)


STORM = """\
4 hosts, 20 workflows; storm 154 s, then 37 s of calm; 0.7 notes a second, 14 faults a minute
     511  notes published, each posted once
     511  runs committed
       0  committed more than once
     187  events of the bus, each handled by both subscribers
       0  events of the bus left in between
      13  hosts or server: ended and started again
       3  hosts or server: killed
"""
PAIRS = (
    "14600 of 14640 pairs: 102000 interleavings, 39000 waited, 1 wrong\n"
    "14640 pairs: 9000 in the state of the first, 2736 in both, 2904 only as the second beside the"
    " first, 0 never; 66 left out for a reason\n"
    "102542 interleavings, 60000 of them inside a batch, 39567 waited for a lock, 210 refused as"
    " stale, 3 wrong; 9000 s, 4000 s of processor time, and 3000 s of the server's\n"
)


def test_a_part_of_tests_says_how_many_passed(tmp_path: Path) -> None:
    """Law 1: the settings of the project make pytest quiet; what does not count proves nothing."""
    (tmp_path / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    given = ("-p", "no:xdist", "-c", str(ROOT / "pyproject.toml"), str(tmp_path))
    words = [sys.executable, *PYTEST, *given]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert read_pytest(done.stdout) == {"passed": 2}
    for part in PARTS:
        assert part.command[: len(PYTEST)] == PYTEST or "pytest" not in part.command


def test_a_whole_part_may_take_hours_and_hangs_at_last() -> None:
    """Law 2: it has no share of the minutes, and most of them take longer than half an hour."""
    assert limit_of(WHOLE, 0.0) == HANGS_S + OVERTIME * WHOLE.minutes_min * 60
    assert limit_of(SEARCHED, 2.0) == HANGS_S + OVERTIME * 2 * 60


def test_figures_are_read_as_the_commands_print_them() -> None:
    text = '{"schedules": 5, "per_second_per_core": 3.5, "points": {}, "failures": ["x"]}'
    assert read_json(text) == {"schedules": 5, "failures": 1}
    assert read_storm(STORM) == {
        "notes published": 511,
        "runs committed": 511,
        "committed more than once": 0,
        "events of the bus": 187,
        "events of the bus left in between": 0,
        "faults": 16,
        "hosts": 4,
        "workflows": 20,
        "minutes": 2.6,
    }
    assert read_pairs(PAIRS) == {
        "pairs": 14640,
        "never": 0,
        "interleavings": 102542,
        "waited for a lock": 39567,
        "refused as stale": 210,
        "wrong": 3,
    }
    for read in (read_storm, read_pairs):
        with pytest.raises(ValueError, match=r"counts nothing|no end"):
            read("Traceback\n")
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
