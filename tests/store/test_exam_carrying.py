"""The exam of carrying workflows: handed over and taken in whole, or not at all (H5, T5, L15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.errors import NotFound, RequestRefused, Stale
from duly.rules.export import (
    CauseLine,
    EventLine,
    ExportLine,
    MutationLine,
    PayloadLine,
    ReservationLine,
    RunLine,
    VersionLine,
    read_line,
    write_line,
)
from duly.rules.seal import OPEN_KEY, is_imported
from duly.rules.value import DEFAULT_LIMITS
from duly.rules.word import Kind
from duly.store import seal
from duly.store.base import Durability
from duly.store.carrying import NumberedLine, read_workflow
from duly.store.record import (
    Action,
    HandlerSpec,
    JournalEvent,
    TopicSpec,
    VersionSpec,
)
from duly.store.workflow import Deployment
from tests.rules.export_sample import BLOB, ID, SOURCE, changed, sample
from tests.store.attic import NOW, act, attic
from tests.store.exam import Again, Case, Refusal, Trial, World, exam, nothing
from tests.store.scene import WORKFLOW, deployed, opened

SPEC = VersionSpec("1.0", "python", SOURCE.text, SOURCE.hash, '{"here":1}', '["here"]', "ada")
HANDLERS = (HandlerSpec("file", Kind.CONSUMER, 0),)
TOPICS = (TopicSpec("in", "file", ingress=True), TopicSpec("out"))
IMPORT = Action("action_9", "eve", "import", "{}")


def _deployment(bus_topic: str | None = None) -> Deployment:
    topics = (TopicSpec("in", "file", ingress=True, bus_topic=bus_topic), TopicSpec("out"))
    return Deployment(ID, "mail", None, SPEC, HANDLERS, topics)


def _take_in(
    world: World,
    lines: Mapping[str, ExportLine] | None = None,
    bus_topic: str | None = None,
    number: int = 9,
) -> Any:
    found = (sample() if lines is None else lines).values()

    def read() -> Iterable[NumberedLine]:
        return (NumberedLine(number, line) for number, line in enumerate(found, 1))

    return world.store.take_in(
        read,
        {ID: _deployment(bus_topic)},
        limits=DEFAULT_LIMITS,
        action=Action(f"action_{number}", "eve", "import", "{}"),
        now=NOW,
    )


def _row(world: World, statement: str) -> Any:
    (row,) = world.connection.execute(statement).fetchall()
    return row


async def _it_is_here(world: World, answer: Any) -> None:
    (taken,) = answer
    assert (taken.workflow, taken.unsealed, taken.grants) == ("mail", 0, ("sheet.append",))
    assert taken.lines == len(sample()) - 2
    paused = "select paused, blind_since, holder, epoch, counter > 9 from workflow"
    assert _row(world, paused) == (1, 6, None, 0, 1)
    # What the examination here found, not what the file says.
    assert _row(world, "select declaration, findings from version") == ('{"here":1}', '["here"]')
    assert _row(world, "select state, orphaned, seen from handler") == ('{"last":"m1"}', 0, 2)
    granted = "select capability, mutations_per_day, granted_by from granted"
    assert _row(world, granted) == ("sheet.append", 5, "eve")
    events = world.connection.execute("select message_id, status, content from event order by seq")
    assert events.fetchall() == [("m1", "consumed", 2), ("r1", "pending", 3)]
    sealed = _row(world, "select status, key, allowance_id, seal, end_seal from mutation")
    assert sealed[:3] == ("applied", "k1", "allowance_1")
    assert all(map(is_imported, sealed[3:]))
    assert _row(world, "select revoked_by, revoked_at, seal from allowance") == ("eve", NOW, "")
    blob = "select b.status, p.body from blob b join blob_part p on p.digest = b.digest"
    assert _row(world, blob) == ("kept", BLOB)
    runs = "select count(*), sum(open), count(epoch), count(due_at) from run"
    assert _row(world, runs) == (2, 0, 0, 0)
    verbs = world.connection.execute("select by, verb from action order by id").fetchall()
    assert verbs == [("ada", "deploy"), ("eve", "import")]
    causes = "select name from upkeep where substr(name, 1, 6) = 'blind '"
    assert _row(world, causes) == ("blind imported 6",)


async def _remove(world: World) -> None:
    await _take_in(world)
    action = Action("action_r", "ada", "remove")
    await world.store.remove(ID, action=action, now=NOW)


async def _same_run(world: World) -> None:
    """Let another workflow have a run of the same id."""
    await deployed(world.store)
    run = world.connection.execute
    run("update workflow set name = 'another'")
    run(
        "insert into run (id, workflow_id, version, handler, kind, chain, open, phase, status, "
        "counter, created_at, updated_at) values ('run_1', 'workflow_1', '1.0', 'file', 'consumer',"
        " 'run_1', 0, 'committed', 'committed', 0, 1, 1)"
    )


async def _untold(world: World) -> None:
    """Let an event wait on the bus whose number the file knows, too."""
    await world.store.emit(JournalEvent("news", "me", "{}"), now=NOW)


BUS = changed("output", message_id="bus:40")
TAKE_IN = Case(
    verb="take_in",
    arrange=nothing,
    call=_take_in,
    effect=_it_is_here,
    again=Again.REFUSED,
    refusals=(
        Refusal(
            "a name that is taken",
            RequestRefused,
            lambda world: deployed(world.store),
            match="deployed here already",
        ),
        Refusal("an id that was here", RequestRefused, _remove, match="would be there twice"),
        Refusal("a run that is here", Stale, _same_run, match="line 13"),
        Refusal(
            "a row whose arguments were changed",
            RequestRefused,
            call=partial(_take_in, lines=changed("mutation", args='{"text":"y"}')),
            match="mutation_1 is not as",
        ),
        Refusal(
            "a row whose inputs were changed",
            RequestRefused,
            call=partial(_take_in, lines=changed("mutation", inputs="other")),
            match="mutation_1 is not as",
        ),
        Refusal(
            "an open run",
            RequestRefused,
            call=partial(_take_in, lines=changed("run", open=1)),
            match="still open",
        ),
        Refusal(
            "a number that no bus has",
            RequestRefused,
            call=partial(_take_in, lines=changed("output", message_id=f"bus:{10**15}")),
            match="number that is too large",
        ),
        Refusal(
            "what the bus has still to tell",
            RequestRefused,
            _untold,
            call=partial(_take_in, lines=BUS, bus_topic="news"),
            match="Wait until the bus",
        ),
    ),
)


def _hand_over(world: World, *ids: str) -> Any:
    return world.store.hand_over(ids or (WORKFLOW,), action=act("hand_over"), now=NOW)


async def _it_is_given_up(world: World, answer: Any) -> None:
    assert answer == ()
    assert _row(world, "select paused, blind_since from workflow") == (1, NOW)
    assert _row(world, "select name from upkeep where substr(name, 1, 6) = 'blind '") == (
        f"blind handed_over {NOW}",
    )
    done = f"select by, verb from action where id = 'action_hand_over_{WORKFLOW}'"
    assert _row(world, done) == ("ada", "hand_over")


async def _begin(world: World) -> None:
    """Let a run have sent something, and not know yet what came of it."""
    run = world.connection.execute
    run(
        "update run set open = 1, phase = 'mutating', status = 'paused:reconciliation' "
        "where id in (select held_by from mutation)"
    )
    run("update mutation set status = 'indeterminate'")


HAND_OVER = Case(
    verb="hand_over",
    arrange=attic,
    call=_hand_over,
    effect=_it_is_given_up,
    again=Again.REFUSED,
    refusals=(
        Refusal("a workflow that is not there", NotFound, call=lambda w: _hand_over(w, "none")),
        Refusal("a call whose outcome is open", RequestRefused, _begin, match="open run|a run"),
    ),
)


@pytest.mark.parametrize("trial", exam(TAKE_IN, HAND_OVER))
async def test_carrying_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """H5, T5, L15: one transaction, whole or not at all; nothing that is open, nothing twice."""
    await trial.sit(tmp_path)


async def test_a_hand_over_drops_a_run_that_has_done_nothing_yet(tmp_path: Path) -> None:
    """F7, H5: as a pause does; what it had in hand is pending again, and is carried."""
    async with opened(tmp_path) as world:
        scene = await deployed(world.store)
        await scene.start()
        assert await _hand_over(world) == (scene.run_id,)
        assert _row(world, "select open, status from run") == (0, "abandoned")


async def _read(world: World, workflow_id: str = WORKFLOW) -> list[ExportLine]:
    """Read a workflow out as lines, as a file has them."""
    lines = await world.store.backend.transact(
        lambda tx: [*read_workflow(tx, workflow_id)], Durability.READ
    )
    text = sample()["version"]  # that of the scene has no real hash
    told = (text if isinstance(each, VersionLine) else each for each in lines)
    return [read_line(write_line(each)) for each in told]


async def test_what_was_read_out_and_taken_in_reads_out_the_same(tmp_path: Path) -> None:
    """H5, T5, L7: every line but those that say who acted in the other store."""
    async with opened(tmp_path / "a") as world, opened(tmp_path / "b") as other:
        await attic(world)
        lines = await _read(world)
        spec = VersionSpec("1.0", "python", "source", "hash", "{}", "[]", "me")
        deployment = Deployment(WORKFLOW, "mail", None, spec, (), ())
        head = sample()["head"]
        await other.store.take_in(
            lambda: (NumberedLine(n, each) for n, each in enumerate([head, *lines], 1)),
            {WORKFLOW: deployment},
            limits=DEFAULT_LIMITS,
            action=IMPORT,
            now=NOW,
        )
        again = await _read(other)
        kinds = (EventLine, PayloadLine, CauseLine, RunLine, ReservationLine, MutationLine)
        for kind in kinds:
            told, found = ([each for each in some if type(each) is kind] for some in (lines, again))
            assert told == found, kind
            assert told, kind


async def test_a_row_that_was_not_whole_is_taken_in_without_a_seal(tmp_path: Path) -> None:
    """L15: so that a check goes on naming it."""
    async with opened(tmp_path) as world:
        (taken,) = await _take_in(world, changed("mutation", is_whole=False))
        assert taken.unsealed == 1
        check = lambda tx: seal.find_flaws(tx, OPEN_KEY, 10)  # noqa: E731
        (flawed,) = await world.store.backend.transact(check, Durability.READ)
        assert (flawed.id, flawed.flaw) == ("mutation_1", "unsealed")


async def test_the_bus_gives_no_number_that_a_message_id_names(tmp_path: Path) -> None:
    """T5, T10: an event of this bus would pass for one that the other bus had."""
    async with opened(tmp_path) as world:
        await _take_in(world, BUS, bus_topic="news")
        assert await world.store.emit(JournalEvent("news", "me", "{}"), now=NOW) == 41
