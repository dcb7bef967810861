"""`duly simulate`: one's own workflow through one crash after another; nothing real is touched."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import pytest

from duly import Applied, Call, Connector, NotApplied, Page, Source, mutation, read
from duly.errors import Invalid, NotDeployed
from duly.faces.cli import simulate as command
from duly.faces.cli.base import Face
from duly.rules.replay import OutsideChange
from duly.rules.value import Json
from duly.testing import crash_test as module
from duly.testing.crash_test import CrashTest, CrashTestReport, Mismatch, Props
from duly.testing.fault import Fault
from duly.testing.stage import Stage
from tests.faces.real import call, make_project

FLOW = """
from duly import workflow

flow = workflow("posts", topics={"note.found": {}, "note.posted": {}})


@flow.producer(every="2m")
async def look(ctx, state):
    page = await ctx.notes.search(after=(state or {}).get("cursor"))
    for note in page["items"]:
        await ctx.publish("note.found", message_id=note["id"], title=f"Note {note['id']}")
    return {"cursor": page["last_cursor"]}


@flow.consumer("note.found")
class post:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("note.found", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        note = pending[0]["message_id"]
        return {
            "reservations": [{"topic": "note.found", "ids": [note]}],
            "data": {"note": note},
            "ui": {"title": f"Post {note}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.TOOL(text=prepared["data"]["note"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "none":
            return
        note = prepared["data"]["note"]
        await ctx.publish("note.posted", message_id=ID, title=f"Posted {note}")
"""
asked: Counter[str] = Counter()


class Notes(Connector):
    name = "notes"

    @read
    async def search(self, after: str | None = None) -> Page:
        asked[str(after)] += 1
        return Page([{"id": "n1"}, {"id": "n2"}] if after is None else [], last_cursor="n2")


class Pinned(TypedDict):
    row: int
    text: str


class Wall(Connector):
    """A wall on which nothing may really appear."""

    name = "wall"

    def __init__(self, colour: str) -> None:
        self._colour = colour

    @mutation(noun="post", lag_s=5)
    async def post(self, call: Call, text: str) -> Json:
        raise AssertionError("the real outside was reached")

    @post.reconcile
    async def post_happened(self, call: Call) -> Applied | NotApplied:
        raise AssertionError("the real outside was asked")

    @mutation(noun="post", lag_s=5)
    async def pin(self, call: Call, text: str) -> Pinned:
        raise AssertionError("the real outside was reached")

    @mutation(noun="post", lag_s=5)
    async def shout(self, call: Call, text: str) -> Json:
        raise AssertionError("the real outside was reached")


def source(tool: str = "wall.post", message_id: str = 'f"posted:{note}"') -> Source:
    return Source("python", FLOW.replace("TOOL", tool).replace("ID", message_id), "posts.py")


@pytest.fixture
def connectors() -> list[Connector]:
    asked.clear()
    return [Notes(), Wall("white")]


def report_of(
    connectors: list[Connector], given: Source, most: int = 6, only: int | None = None
) -> CrashTestReport:
    with CrashTest(given, connectors) as test:
        return test.run(crashes_max=most, only=only)


def test_every_change_is_made_once_and_the_real_outside_is_asked_once(
    connectors: list[Connector],
) -> None:
    """L3: crash before the effect, after it, answer lost, and after writes of the store."""
    told = report_of(connectors, source(), most=8)
    assert [(each.tool, each.args) for each in told.changes] == [
        ("wall.post", {"text": "n1"}),
        ("wall.post", {"text": "n2"}),
    ]
    assert (told.troubles, told.mismatches, told.asked, told.missed) == ((), (), 0, 0)
    assert told.crashes == 8 < told.possible
    assert asked == {"None": 1, "n2": 1}


def test_a_stand_in_answers_in_the_shape_of_the_real_tool(connectors: list[Connector]) -> None:
    """L3: or a workflow that is right would fail here, and only here."""
    given = source("wall.pin", 'str(result["result"]["row"]) + result["result"]["text"]')
    told = report_of(connectors, given, most=2)
    assert (told.troubles, told.mismatches, told.crashes) == ((), (), 2)


def test_a_tool_nobody_can_ask_needs_a_person(connectors: list[Connector]) -> None:
    """L10: the person answers by the truth, so the changes are the same; the need is told."""
    told = report_of(connectors, source("wall.shout"), most=3)
    assert (told.mismatches, told.crashes, told.asked) == ((), 3, 3)


def test_an_unstable_id_is_a_mismatch_with_a_number(
    connectors: list[Connector],
) -> None:
    """T5: what is called by the moment is called otherwise after a crash."""
    text = FLOW.replace("from duly", "from datetime import datetime, timezone\n\nfrom duly", 1)
    text = text.replace(
        '"data": {"note": note}', '"data": {"note": str(datetime.now(timezone.utc))}'
    )
    given = Source("python", text.replace("TOOL", "wall.post").replace("ID", "note"), "now.py")
    told = report_of(connectors, given, only=1)
    (mismatch,) = told.mismatches
    assert (mismatch.number, mismatch.where) == (1, "wall.post, call 1: before the effect")
    assert any(" instead of " in each for each in mismatch.differences)
    assert any("is its id stable?" in each for each in mismatch.differences)


def test_a_lost_change_is_a_mismatch(
    connectors: list[Connector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: a host that forgets what it sent would be found; here the person lies instead."""
    monkeypatch.setattr(Stage, "_find", lambda self, tool, key: None)
    told = report_of(connectors, source("wall.shout"), only=2)
    (mismatch,) = told.mismatches
    assert mismatch.number == 2
    assert mismatch.where == "wall.shout, call 1: after the effect"
    assert any("was done twice instead of once" in each for each in mismatch.differences)


def test_what_fails_without_a_crash_is_told_before_any_crash(
    connectors: list[Connector],
) -> None:
    """F3: a script that throws needs no crash to go wrong."""
    told = report_of(connectors, source(message_id='result["result"]["nothing"]'))
    assert told.crashes == 0
    (trouble,) = told.troubles
    assert re.match(r"post\.next, line \d+: .*KeyError: nothing", trouble), trouble
    assert told.changes


def test_a_source_that_is_refused_is_not_tested(connectors: list[Connector]) -> None:
    """W5: the findings are those of a deploy."""
    with pytest.raises(NotDeployed):
        report_of(connectors, Source("python", "flow = 1", "broken.py"))


def test_answers_and_events_are_taken_from_what_was_given(connectors: list[Connector]) -> None:
    """T10: into any topic the source declares; a read that is given is not asked."""
    props = Props(
        events=({"topic": "note.found", "message_id": "given", "title": "Given"},),
        answers={"notes.search": {"items": [], "last_cursor": None}},
    )
    with CrashTest(source(), connectors, props=props) as test:
        told = test.run(crashes_max=1)
    assert [each.args["text"] for each in told.changes] == ["given"]
    assert asked == {}


@pytest.mark.parametrize(
    ("props", "words"),
    [
        (Props(answers={"wall.pst": {}}), "there is no tool wall.pst"),
        (Props(events=({"title": "x"},)), "names no topic"),
        (Props(events=({"topic": "nowhere", "title": "x"},)), "nowhere"),
    ],
)
def test_what_was_given_wrongly_is_refused(
    connectors: list[Connector], props: Props, words: str
) -> None:
    """W4: by its name."""
    from duly.errors import DulyError

    with pytest.raises(DulyError, match=words), CrashTest(source(), connectors, props=props) as it:
        it.run(crashes_max=1)


def test_a_crash_that_does_not_come_is_not_counted_as_tried(
    connectors: list[Connector], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: nobody is told of a crash that was not."""
    late = module.Strike(1, "late", "wall.post", nth=99, fault=Fault.CRASH_BEFORE)
    monkeypatch.setattr(module, "_strikes", lambda plain: (late,))
    told = report_of(connectors, source())
    assert (told.crashes, told.missed, told.mismatches) == (0, 1, ())


def test_as_many_crashes_are_chosen_as_fit() -> None:
    """L3: those of the outside first, the store's evenly spread; a wrong number is refused."""
    strike = module.Strike(0, "x")
    outside = tuple(replace(strike, number=n, tool="wall.post") for n in (1, 2, 3))
    store = tuple(replace(strike, number=n) for n in range(4, 14))
    chosen = [each.number for each in module._choose((*outside, *store), 8, None)]
    assert chosen == [1, 2, 3, 4, 6, 8, 10, 12]
    assert len(module._choose((*outside, *store), 2, None)) == 2
    assert len(module._choose((*outside, *store), 99, None)) == 13
    assert module._choose((*outside, *store), 1, 13)[0].number == 13
    for only in (0, 14):
        with pytest.raises(Invalid, match="say 1 to 13"):
            module._choose((*outside, *store), 1, only)


def test_the_command_says_how_many_were_tried(tmp_path: Path) -> None:
    """L3: the project of `duly init`; its outbox stays empty, and no store is made."""
    folder = make_project(tmp_path / "project")
    path = str(folder / "workflows" / "welcome.py")
    told = call(folder, "simulate", path, "--crashes", "3", "--for", "1m")
    assert told.exit_code == 0, told.output
    assert 'outbox.write {"path":"ada.txt","text":"Welcome, Ada!\\n"}' in told.stdout
    assert "3 crashes tried of " in told.stdout
    assert "; every change was made exactly once." in told.stdout
    assert list((folder / "outbox").glob("*.txt")) == []
    assert not (folder / "duly.db").exists()


def test_where_nothing_is_changed_nothing_is_proven(tmp_path: Path) -> None:
    """L3: the exit code says so too: a script that only looks at it must not take it for a yes."""
    folder = make_project(tmp_path / "project")
    for each in (folder / "inbox").iterdir():
        each.unlink()
    path = str(folder / "workflows" / "welcome.py")
    told = call(folder, "simulate", path, "--crashes", "1", "--for", "1m")
    assert told.exit_code == 3, told.output
    assert " ".join(told.stdout.split()).endswith("nothing is proven.")


def test_the_command_reads_what_is_given_and_answers_json(tmp_path: Path) -> None:
    """T10: events and answers out of a file; a file that is none is refused."""
    folder = make_project(tmp_path / "project")
    path = str(folder / "workflows" / "welcome.py")
    given = tmp_path / "given.json"
    given.write_text(
        json.dumps(
            {
                "events": [{"topic": "note.found", "title": "Bob", "payload": {"path": "b.txt"}}],
                "answers": {
                    "inbox.search": {"items": [], "last_cursor": None},
                    "inbox.read": {"text": "Bob"},
                },
            }
        )
    )
    told = call(
        folder, "simulate", path, "--events", str(given), "--only", "1", "--for", "1m", "--json"
    )
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert answer["changes"] == [
        {"tool": "outbox.write", "args": {"path": "b.txt", "text": "Welcome, Bob!\n"}}
    ]
    assert (answer["crashes"], answer["mismatches"]) == (1, [])
    given.write_text('{"event": []}')
    refused = call(folder, "simulate", path, "--events", str(given))
    assert refused.exit_code == 1
    assert "must be an object with events, a list, and answers" in refused.stderr


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({}, "2 crashes tried of 9 possible; every change was made exactly once."),
        ({"possible": 2, "asked": 1}, " In 1 of them a person had to say what had happened."),
        ({"missed": 1}, "2 crashes tried of 9 possible (1 more were not met on the way); every"),
        ({"crashes": 0, "possible": 0}, "Nothing is proven: there was no change and no write"),
        ({"changes": ()}, "2 crashes tried of 9 possible, but there was no change to make twice"),
        (
            {"mismatches": (Mismatch(7, "x", ("y",)),)},
            "2 crashes tried of 9 possible; 1 ended diff",
        ),
    ],
)
def test_what_came_of_it_is_one_sentence(told: dict[str, Any], words: str) -> None:
    """L3: what was tried, and never more than that."""
    made = (OutsideChange("wall.post", {}),)
    plain = CrashTestReport("w", made, (), possible=9, crashes=2, asked=0, missed=0, mismatches=())
    assert words in command._sum_up(replace(plain, **told))


def test_a_mismatch_is_shown_with_the_command_that_repeats_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """L3: its number, where it was struck, and what was different."""
    mismatch = Mismatch(7, "wall.post, call 1: after the effect", ("It was done twice.",))
    told = CrashTestReport(
        "w", (OutsideChange("wall.post", {"text": "n1"}),), (), 9, 9, 0, 0, (mismatch,)
    )
    again = command._again(Face(given="my shop"), "posts.py", "given.json", "1m", None)
    command.show_report(told, again, Props())
    shown = capsys.readouterr().out
    assert "Scenario 7, wall.post, call 1: after the effect:\n  It was done twice." in shown
    # Without what it was given another scenario would run, and a well one.
    typed = "duly --project 'my shop' simulate posts.py --events given.json --for 1m --only 7"
    assert f"Repeat it: {typed}\n" in shown
