"""The exam of a connector: an honest one passes, and each way of lying is found."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.errors import ConfigError, NotSent
from duly.testing import ExamFailed, Report, examine, look_at_disk
from duly.testing.manners import UNSEEN, stop_call


class Diary(duly.Connector):
    """One line per entry: its key and its text."""

    name = "diary"

    def __init__(self, folder: Path) -> None:
        self.file = folder / "diary.txt"

    def lines(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def append(self, line: str) -> None:
        with self.file.open("a") as file:
            file.write(f"{line}\n")
            file.flush()

    @duly.mutation(lag_s=0)
    async def write(self, call: duly.Call, text: str) -> int:
        self.append(f"{call.key} {text}")
        return len(self.lines())

    @write.reconcile
    async def write_happened(self, call: duly.Call) -> duly.Applied | duly.NotApplied | duly.Unsure:
        keys = [line.split()[0] for line in self.lines()]
        return duly.Applied(keys.index(call.key) + 1) if call.key in keys else duly.NotApplied()


class Forgetful(Diary):
    async def write_happened(self, call: duly.Call) -> Any:
        return duly.NotApplied()


class Sanguine(Diary):
    async def write_happened(self, call: duly.Call) -> Any:
        return duly.Applied(1)


class Gullible(Diary):
    """Takes an equal text for its own."""

    async def write_happened(self, call: duly.Call) -> Any:
        found = any(line.endswith(str(call.args["text"])) for line in self.lines())
        return duly.Applied(1) if found else duly.NotApplied()


class Twice(Diary):
    """Says that a key counts once, and does not look."""

    @duly.mutation(lag_s=0, idempotent=True, key_lifetime_s=60)
    async def write(self, call: duly.Call, text: str) -> int:
        self.append(f"{call.key} {text}")
        return 1

    @write.reconcile
    async def write_found(self, call: duly.Call) -> Any:
        return await Diary.write_happened(self, call)


class Hasty(Diary):
    """Says that nothing was done, whatever failed."""

    async def write(self, call: duly.Call, text: str) -> int:
        try:
            self.append(f"{call.key} {text}")
            return len(self.lines())
        except OSError as error:
            raise duly.NotSent("The disk is full.") from error


class Silent(Diary):
    """Answers, and does nothing."""

    async def write(self, call: duly.Call, text: str) -> int:
        return 1


class Shy(Diary):
    async def write_happened(self, call: duly.Call) -> Any:
        return duly.Unsure("who knows")


class Stubborn(Diary):
    """Does not stop when it is told to."""

    async def write(self, call: duly.Call, text: str) -> int:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            await asyncio.sleep(3600)
        return await Diary.write.function(self, call, text)


class StubbornAsker(Diary):
    async def write_happened(self, call: duly.Call) -> Any:
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                await asyncio.sleep(3600)
            else:
                return await Diary.write_happened(self, call)


class Handmade(Diary):
    """Works in a thread that it made itself, and that the host cannot see."""

    async def write(self, call: duly.Call, text: str) -> int:
        def work() -> None:
            time.sleep(0.01)
            self.append(f"{call.key} {text}")

        thread = threading.Thread(target=work)
        thread.start()
        await asyncio.sleep(0)
        thread.join()
        return 1


class Quitter(Diary):
    async def write(self, call: duly.Call, text: str) -> int:
        try:
            self.append(f"{call.key} {text}")
        except OSError:
            sys.exit(1)
        return 1


class Mute(Diary):
    """Its errors cannot be read."""

    class Trouble(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def write(self, call: duly.Call, text: str) -> int:
        try:
            self.append(f"{call.key} {text}")
        except OSError:
            raise Mute.Trouble from None
        return 1


class Threaded(Diary):
    """Works where the host can see it."""

    async def write(self, call: duly.Call, text: str) -> int:
        await asyncio.to_thread(self.append, f"{call.key} {text}")
        return await asyncio.ensure_future(self.in_thread(lambda: len(self.lines())))


class Bare(Diary):
    """Decorated anew, and so without a reconcile method."""

    @duly.mutation
    async def write(self, call: duly.Call, text: str) -> int:
        self.append(f"{call.key} {text}")
        return 1


class BareTwice(Bare):
    """Cannot be asked, and makes up for it."""

    async def write(self, call: duly.Call, text: str) -> int:
        try:
            return await super().write(call, text)
        except OSError:
            self.append(f"{call.key} {text}")
            return await super().write(call, text)


class BareHasty(Bare):
    """Cannot be asked, and says that nothing was done."""

    async def write(self, call: duly.Call, text: str) -> int:
        await super().write(call, text)
        try:
            return len(self.lines())
        except OSError as error:
            raise NotSent("It was not written.") from error


class Undeclared(duly.Connector):
    """Writes, and says nowhere that it does."""

    name = "diary"

    def __init__(self, folder: Path) -> None:
        self._diary = Diary(folder)

    async def write(self, call: duly.Call, text: str) -> None:
        self._diary.append(f"{call.key} {text}")


def try_it(kind: Any, folder: Path) -> Report:
    return examine(
        kind,
        "write",
        {"text": "Rain."},
        effects=lambda here: len(Diary(here).lines()),
        folder=folder,
        look=look_at_disk,
    )


def test_an_honest_connector_passes(tmp_path: Path) -> None:
    """L5: killed and failed at every point, it said what was true."""
    report = try_it(Diary, tmp_path)
    assert report.points == report.applied + report.not_applied
    assert report.applied > 0
    assert report.not_applied > 0


def test_who_is_never_sure_is_no_liar(tmp_path: Path) -> None:
    """L5: it asks a person every time, which is safe."""
    report = try_it(Shy, tmp_path)
    assert report.unsure == report.points


def test_a_tool_that_cannot_be_asked_passes_if_it_says_what_is_true(tmp_path: Path) -> None:
    """L5: a person decides about every unknown outcome."""
    report = try_it(Bare, tmp_path)
    assert report.unsure == report.points


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Forgetful, "reconcile said NotApplied, and it was done"),
        (Sanguine, "reconcile took the change of another key for its own"),
        (Gullible, "reconcile took the change of another key for its own"),
        (Twice, "sent again it said applied .*, and there were 2 changes"),
        (Hasty, "it said not sent .*, and it was done"),
        (Stubborn, "call: told to stop, it went on for 0.2 s and more"),
        (StubbornAsker, "question: told to stop, it went on"),
        (Handmade, "it went on where the host cannot see it"),
        (Quitter, "it raised SystemExit, which is no Exception"),
        (Mute, "it raised Trouble, whose words raise RuntimeError"),
        (Silent, "does not work when nothing goes wrong"),
        (BareTwice, "there were 2 changes"),
        (BareHasty, "it said not sent .*, and it was done"),
        (Undeclared, "write is no mutation"),
    ],
)
def test_every_way_of_lying_is_found(
    kind: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L5, L7, L13: by its sentence, with the line it happened at."""
    monkeypatch.setattr("duly.testing.manners.END_LIMIT_S", 0.2)
    with pytest.raises((ExamFailed, ConfigError), match=said):
        try_it(kind, tmp_path)


def test_a_request_that_arrives_late_is_not_held_against_a_connector(tmp_path: Path) -> None:
    """L6: it had left before the end of its call, and what was here is over."""
    late = """
import sys, time
for file in sys.stdin:
    time.sleep(0.02)
    open(file.strip(), "a").write("x Rain.\\n")
    print("done", flush=True)
"""
    started = [sys.executable, "-I", "-S", "-c", late]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outside:

        async def say() -> None:
            assert outside.stdin is not None
            outside.stdin.write(f"{tmp_path / 'diary.txt'}\n".encode())
            outside.stdin.flush()
            await asyncio.sleep(0)

        manners, _ = asyncio.run(stop_call(say, 1, lambda: len(Diary(tmp_path).lines())))
        assert manners == []
        assert outside.stdin is not None
        outside.stdin.close()


def test_a_process_that_a_call_leaves_behind_is_seen(tmp_path: Path) -> None:
    """L6: what it does after the end of its call, no host knows."""
    place = str(tmp_path / "diary.txt")
    writes = f"import time; time.sleep(0.02); open({place!r}, 'a').write('x y\\n')"
    left: list[subprocess.Popen[bytes]] = []

    async def start() -> None:
        left.append(subprocess.Popen([sys.executable, "-I", "-S", "-c", writes]))  # noqa: ASYNC220
        await asyncio.sleep(0)

    def effects() -> int:
        if left and left[0].poll() is None and seen:
            left[0].wait()
        seen.append(0)
        return len(Diary(tmp_path).lines())

    seen: list[int] = []
    manners, _ = asyncio.run(stop_call(start, 1, effects))
    left[0].wait()
    assert manners == [UNSEEN]


def test_work_that_is_seen_to_its_end_passes(tmp_path: Path) -> None:
    """L6: told to stop at each of its awaits, it ends, and reconcile says what came of it."""
    report = try_it(Threaded, tmp_path)
    assert report.points == report.applied + report.not_applied


def test_a_look_alike_is_found_whatever_arguments_the_other_call_has(tmp_path: Path) -> None:
    """L5: two equal rows may be two wishes."""
    with pytest.raises(ExamFailed, match="took the change of another key for its own"):
        examine(
            Gullible,
            "write",
            {"text": "Rain."},
            other_args={"text": "Snow!"},
            effects=lambda here: len(Diary(here).lines()),
            folder=tmp_path,
            look=look_at_disk,
        )


def test_every_point_needs_an_outside_of_its_own(tmp_path: Path) -> None:
    """L5: one that counts what others did proves nothing, and is told so."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with pytest.raises(ExamFailed, match="every point needs an outside of its own"):
        examine(
            lambda _: Diary(shared),
            "write",
            {"text": "Rain."},
            effects=lambda _: len(Diary(shared).lines()),
            folder=tmp_path / "points",
        )


def test_without_a_look_every_line_is_a_point_to_die_at(tmp_path: Path) -> None:
    """L5: an outside nobody can look at is tried at every step."""
    with_look = try_it(Diary, tmp_path / "a")
    report = examine(
        Diary,
        "write",
        {"text": "Rain."},
        effects=lambda here: len(Diary(here).lines()),
        folder=tmp_path / "b",
    )
    assert report.points > with_look.points


class Planted:
    """Runs in the process that reads it with pickle."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


class Smuggler(Diary):
    async def write_happened(self, call: duly.Call) -> Any:
        found = await super().write_happened(call)
        mark = self.file.parents[1] / "mark"
        return duly.Applied(Planted(mark)) if isinstance(found, duly.Applied) else found


def test_nothing_of_the_connector_runs_in_the_process_that_examines(tmp_path: Path) -> None:
    """L13: what it says comes as JSON of a known shape."""
    try_it(Smuggler, tmp_path)
    assert not (tmp_path / "mark").exists()
