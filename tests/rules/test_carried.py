"""Lines of an export that do not fit together are refused, each for its own reason (H5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from duly.config import Limits
from duly.errors import RequestRefused
from duly.rules.carried import Carried, order_runs
from duly.rules.event import EventStatus
from duly.rules.export import ExportLine, read_line, write_line
from duly.rules.source import Language, Source
from duly.rules.value import DEFAULT_LIMITS, digest
from duly.rules.word import MutationStatus, Status, Waits
from tests.rules.export_sample import changed, run, sample


def take(lines: Iterable[ExportLine], limits: Limits = DEFAULT_LIMITS) -> Carried:
    """Take lines as a file of them would be read."""
    carried, number = Carried(limits), 0
    for number, line in enumerate(lines, 1):
        carried.take(read_line(write_line(line)), number)
    carried.end(number)
    return carried


def without(*names: str) -> dict[str, ExportLine]:
    return {name: line for name, line in sample().items() if name not in names}


def moved(name: str, before: str) -> list[ExportLine]:
    lines = sample()
    one = lines.pop(name)
    found: list[ExportLine] = []
    for each, line in lines.items():
        found += [one] if each == before else []
        found.append(line)
    return found


def twice(name: str, /, **fields: Any) -> list[ExportLine]:
    """Make the sample with one line twice; the second may say something else."""
    found: list[ExportLine] = []
    for each, line in sample().items():
        found += [line, changed(name, **fields)[name]] if each == name else [line]
    return found


def test_every_kind_of_line_is_read_as_it_was_written() -> None:
    """H5: the file loses nothing, and a line names only what came before."""
    for line in sample().values():
        assert read_line(write_line(line)) == line
    assert take(sample().values()).names == ["mail"]


Lines = Callable[[], Iterable[ExportLine] | Mapping[str, ExportLine]]
LONG = "x" * 300_000
MISFITS: dict[str, tuple[str, Lines]] = {
    "no head": ("order", lambda: without("head")),
    "a second head": ("order", lambda: twice("head")),
    "a line before its workflow": ("order", lambda: without("workflow")),
    "a grant behind actions": ("order", lambda: moved("grant", "blob")),
    "a part without its blob": ("order", lambda: without("blob")),
    "a part that is missing": ("order", lambda: changed("part", number=1)),
    "another workflow than the head names": ("name", lambda: changed("head", workflows=("x",))),
    "a name with a slash": ("name", lambda: changed("workflow", name="a/b")),
    "the same workflow twice": ("twice", lambda: [*sample().values(), *without("head").values()]),
    "a version twice": ("twice", lambda: twice("version")),
    "a topic twice": ("twice", lambda: twice("in")),
    "a handler twice": ("twice", lambda: twice("handler")),
    "a content twice": ("twice", lambda: twice("mail")),
    "an event twice": ("twice", lambda: twice("event")),
    "a run twice": ("twice", lambda: twice("run")),
    "a run that two runs follow": ("twice", lambda: twice("successor", id="run_3")),
    "a row twice": ("twice", lambda: twice("mutation")),
    "two rows of one run": ("twice", lambda: twice("mutation", id="mutation_2")),
    "two rows that one run holds": (
        "twice",
        lambda: twice("mutation", id="mutation_2", run_id="run_2"),
    ),
    "no active version": ("reference", lambda: without("version")),
    "an event of another topic": ("reference", lambda: changed("event", topic="x")),
    "an event without content": ("reference", lambda: changed("event", content=7)),
    "a cause without its event": ("reference", lambda: changed("cause", root=7)),
    "a run that follows itself": ("reference", lambda: changed("successor", retry_of="run_2")),
    "a run of another chain": ("reference", lambda: changed("run", chain="run_x")),
    "a reservation of another run": ("reference", lambda: changed("reservation", run_id="x")),
    "a reservation without its event": ("reference", lambda: changed("reservation", seq=7)),
    "a reservation without content": ("reference", lambda: changed("reservation", content=7)),
    "a row of another run": ("reference", lambda: changed("mutation", held_by="x")),
    "a row under an allowance that is not there": ("reference", lambda: without("allowance")),
    "an allowance of another row": ("reference", lambda: changed("allowance", mutation_id="x")),
    "an event beyond the counter": ("number", lambda: changed("workflow", counter=2)),
    "a topic beyond the counter": ("number", lambda: changed("in", worked_until=10)),
    "a handler beyond the counter": ("number", lambda: changed("handler", seen=10)),
    "a number that no bus has": ("number", lambda: changed("event", message_id=f"bus:{10**17}")),
    "a text that is not its hash": ("content", lambda: changed("version", source="flow = 2")),
    "a content that is not its digest": ("content", lambda: changed("mail", body='"y"')),
    "a title with a control character": ("content", lambda: changed("mail", title="a\nb")),
    "arguments that are no object": ("content", lambda: changed("mutation", args="[]")),
    "a grant that is no object": ("content", lambda: changed("grant", matching="[]")),
    "a limit that is no text": ("content", lambda: changed("grant", matching='{"text":1}')),
    "a rule that does not ask": ("content", lambda: changed("grant", matching='{"asks:t":"x"}')),
    "bytes that are not their digest": (
        "content",
        lambda: changed("part", base64="c29tZSBieXRlcA=="),
    ),
    "bytes that are no base64": ("content", lambda: changed("part", base64="!")),
    "a blob that is not whole": ("content", lambda: without("part")),
    "an end without a time": ("status", lambda: changed("event", finished_at=None)),
    "a phase against its status": ("status", lambda: changed("run", status=Status.COMMITTED)),
    "a wait against its status": ("status", lambda: changed("run", waits=Waits.APPROVAL)),
    "a phase of another kind": ("status", lambda: changed("run", phase="executing")),
    "a source that is too long": (
        "too_long",
        lambda: changed("version", source=LONG, hash=Source(Language.PYTHON, LONG).hash),
    ),
    "a state that is too long": ("too_long", lambda: changed("handler", state=f'"{LONG}"')),
    "a payload that is too long": (
        "too_long",
        lambda: changed("mail", body=f'"{LONG}"', digest=digest(["Mail 1", LONG])),
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_line_that_does_not_fit_is_refused(name: str) -> None:
    """H5, T1: with its number and the reason."""
    why, make = MISFITS[name]
    made = make()
    lines = made.values() if isinstance(made, Mapping) else made
    with pytest.raises(RequestRefused) as raised:
        take(lines)
    assert (raised.value.code, raised.value.facts["why"]) == ("export_misfit", why)


@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("run", changed("run", open=1)),
        ("run", changed("run", status=Status.ACTIVE)),
        ("event", changed("event", status=EventStatus.RESERVED, reserved_by="run_2")),
        *(
            ("mutation", changed("mutation", status=status))
            for status in MutationStatus
            if status not in ("applied", "failed", "rejected", "skipped")
        ),
    ],
)
def test_nothing_open_is_taken_in(what: str, lines: dict[str, ExportLine]) -> None:
    """L3, H5: two stores would answer for it, and one of them would do it again."""
    with pytest.raises(RequestRefused) as raised:
        take(lines.values())
    assert (raised.value.code, raised.value.facts["what"]) == ("export_open", what)


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b'{"kind":"secret","name":"x"}',
        b'{"kind":"cause","root":1}',
        b'{"kind":"cause","root":1,"seq":2,"more":3}',
        b'{"kind":"cause","root":1,"seq":"2"}',
        b'{"kind":"cause","root":1,"seq":9007199254740992}',
        b'{"kind":"cause","root":1,"seq":-1}',
        write_line(changed("action", detail="a\0b")["action"]),
        write_line(changed("action", by="a\x1b[2J")["action"]),
        write_line(changed("action", by="")["action"]),
        write_line(changed("action", id="../../x")["action"]),
        write_line(changed("handler", state="{")["handler"]),
        write_line(changed("workflow", name="x" * 101)["workflow"]),
    ],
)
def test_a_line_of_another_form_is_refused(raw: bytes) -> None:
    """H5: an unknown field, a wrong type, a number or a name beyond its limit."""
    with pytest.raises(ValueError, match=r"."):
        read_line(raw)


def test_the_highest_number_of_a_bus_is_found() -> None:
    """T10: an event of another bus must not pass for one that is done."""
    assert take(changed("event", message_id="bus:41").values()).bus_number == 41
    assert take(changed("event", message_id="bus:x").values()).bus_number == 0


def test_a_run_is_written_after_the_one_it_follows() -> None:
    """R1: also where a clock was set back, and the ids are the other way round."""
    runs = [run("b", retry_of="c"), run("c"), run("a", retry_of="b"), run("d")]
    assert [each.id for each in order_runs(iter(runs))] == ["c", "b", "a", "d"]
