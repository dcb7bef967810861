"""Every question: which fields it answers, in which order, from where a page goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duly.config import Policy
from duly.desk.record import Deployed, Event, Mutation, Run, RunError, Workflow
from duly.errors import DulyError, Invalid, NotFound
from duly.rules import lifecycle
from duly.rules.count import Activity, Count
from duly.rules.event import EventStatus
from duly.rules.planned import Pace, Planned
from duly.rules.redaction import Redactor
from duly.rules.standing import Code, Standing
from duly.rules.word import Failure, Kind, MutationStatus, Outcome, Phase, Progress, Status
from duly.store.record import Commit, Stop
from tests.desk.stand import Reception, reception
from tests.spoken import short
from tests.store import scene
from tests.store.scene import KEY, NAME, NOON

FIELDS = {
    Deployed: "workflow version findings missing new changes",
    Workflow: (
        "name version standing reason schedule next_check_at wakes_at activity pending stale"
        " orphaned paused findings created_at ingress offers"
    ),
    Event: (
        "topic message_id title payload status seq reserved_by created_by caused_by created_at"
        " dropped is_output"
    ),
    Run: (
        "id workflow version handler kind retry_of phase status outcome error created_at updated_at"
    ),
    Mutation: (
        "id run held_by workflow tool args title key status result attempt hash sent_at late "
        "known approved_by allowance amended_by proposed form proposed_form"
    ),
}

Question = Callable[[Reception], Awaitable[object]]


def moment(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


@pytest.mark.parametrize("kind", FIELDS)
def test_a_record_has_exactly_the_fields_that_were_promised(kind: type) -> None:
    assert [each.name for each in fields(kind)] == FIELDS[kind].split()


# -- Workflows ----------------------------------------------------------------------------------


async def test_an_idle_workflow_is_shown_with_its_schedule(tmp_path: Path) -> None:
    """U1: standing, reason and schedule are words for a person."""
    async with reception(tmp_path) as desk:
        shown = await desk.workflow(NAME)
        assert shown == Workflow(
            name=NAME,
            version="1.0",
            standing=Standing.IDLE,
            reason=shown.reason,
            schedule=(Planned("poll", Pace.INTERVAL, 300),),
            next_check_at=moment(NOON),
            wakes_at=None,
            activity=Activity(),
            pending=(Count(1, "letter"), Count(2, "mail")),
            stale=0,
            orphaned=0,
            paused=False,
            findings=(),
            created_at=moment(NOON),
            ingress=("letter", "mail"),
            offers=shown.offers,
        )
        assert [each.verb for each in shown.offers] == ["run_now", "pause"]
        assert (shown.reason.code, shown.reason.subject) == (Code.DUE, NAME)
        assert await desk.workflows() == (shown,)
        with pytest.raises(FrozenInstanceError):
            shown.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("run", "standing", "reason"),
    [
        (scene.PREPARED, Standing.RUNNING, "At work"),
        (scene.INDETERMINATE, Standing.NEEDS_ATTENTION, "Waiting for you to say whether"),
        (scene.PROPOSED, Standing.NEEDS_ATTENTION, "Waiting for you to approve"),
        (scene.UNSIGNED, Standing.NEEDS_ATTENTION, "Waiting for you to reconnect gmail"),
        (scene.LATER, Standing.RUNNING, "retrying in"),
    ],
)
async def test_a_workflow_stands_as_its_open_run_does(
    tmp_path: Path, run: lifecycle.Run, standing: Standing, reason: str
) -> None:
    """U1: the open run decides, and what it waits for is named."""
    async with reception(tmp_path, run) as desk:
        shown = await desk.workflow(NAME)
        assert shown.standing is standing
        assert reason in short(desk, shown)
        assert [each.verb for each in shown.offers] == ["pause"]  # S7: *Run now* would be refused


async def test_a_paused_workflow_says_who_stopped_it(tmp_path: Path) -> None:
    """U1, F7: a pause is a wish, and shown as one."""
    async with reception(tmp_path) as desk:
        await desk.pause(NAME)
        shown = await desk.workflow(NAME)
        assert (shown.standing, short(desk, shown)) == (Standing.STOPPED, "Paused by you")
        assert shown.next_check_at is None
        await desk.pause(NAME, by="anna")
        assert short(desk, await desk.workflow(NAME)) == "Paused by anna"


async def test_no_check_is_promised_before_a_person_has_moved_things_on(tmp_path: Path) -> None:
    """U1, F6: while something waits for a person nothing else of the workflow begins."""
    async with reception(tmp_path, scene.PROPOSED) as desk:
        assert (await desk.workflow(NAME)).next_check_at is None
    async with reception(tmp_path / "other", scene.LATER) as desk:
        assert (await desk.workflow(NAME)).next_check_at == moment(NOON)


async def test_workflows_are_listed_by_name_from_behind_a_name(tmp_path: Path) -> None:
    async with reception(tmp_path) as desk:
        for number, name in enumerate(("zoo", "abc"), 2):
            other = scene.deployment(workflow_id=f"workflow_{number}", name=name)
            await desk.world.store.deploy(
                other, successor_id="none", action=desk.scene.action(), now=NOON
            )
        assert [each.name for each in await desk.workflows()] == ["abc", NAME, "zoo"]
        assert [each.name for each in await desk.workflows(limit=1, after="abc")] == [NAME]


# -- Events -------------------------------------------------------------------------------------


async def test_an_event_is_shown_with_everything_that_is_known(tmp_path: Path) -> None:
    """T2: an input has no causes but itself."""
    async with reception(tmp_path, scene.PREPARED) as desk:
        first = (await desk.events(NAME))[0]
        assert first == Event(
            topic="mail",
            message_id="mail:1",
            title="mail:1, first",
            payload={"text": "first"},
            status=EventStatus.RESERVED,
            seq=first.seq,
            reserved_by=desk.scene.run_id,
            created_by="api",
            caused_by=(),
            created_at=moment(NOON + 1),
        )


async def test_contents_that_came_too_late_are_counted_where_the_event_is_shown(
    tmp_path: Path,
) -> None:
    """T5: other content for an event that is over is never dropped without a trace."""
    async with reception(tmp_path, scene.PREPARED) as desk:
        await desk.skip(NAME, "mail", "mail:1")
        for content in ("first", "other", "third"):
            await desk.scene.publish("mail", "mail:1", content)
        assert [each.dropped for each in await desk.events(NAME)] == [2, 0, 0]


async def test_what_an_event_goes_back_to_is_named(tmp_path: Path) -> None:
    """T9: by topic and message id, each root once."""
    async with reception(tmp_path, scene.EMITTING) as desk:
        await desk.scene.commit(Commit((scene.publication("row", "row:1"),)))
        (row,) = await desk.events(NAME, topic="row")
        assert row.caused_by == (("mail", "mail:1"), ("letter", "letter:1"))
        assert row.created_by == desk.scene.run_id


async def test_events_come_oldest_first_and_go_on_behind_a_number(tmp_path: Path) -> None:
    async with reception(tmp_path) as desk:
        ids = [each.message_id for each in await desk.events(NAME)]
        assert ids == ["mail:1", "letter:1", "mail:2"]
        seen: list[str] = []
        after: int | None = None
        while page := await desk.events(NAME, limit=1, after=after):
            seen += [each.message_id for each in page]
            after = page[-1].seq
        assert seen == ids


async def test_events_are_narrowed_by_topic_and_status(tmp_path: Path) -> None:
    async with reception(tmp_path, scene.PREPARED) as desk:
        (free,) = await desk.events(NAME, topic="mail", status="pending")
        assert free.message_id == "mail:2"
        assert await desk.events(NAME, topic="row") == ()


# -- Runs ---------------------------------------------------------------------------------------


async def test_a_run_is_shown_by_the_words_of_the_rules(tmp_path: Path) -> None:
    """R1, R3: every word is its enum."""
    async with reception(tmp_path, scene.APPLIED) as desk:
        shown = await desk.run(desk.scene.run_id)
        assert shown == Run(
            id=desk.scene.run_id,
            workflow=NAME,
            version="1.0",
            handler="file",
            kind=Kind.CONSUMER,
            retry_of=None,
            phase=Phase.MUTATED,
            status=Status.ACTIVE,
            outcome=Outcome.APPLIED,
            error=None,
            created_at=shown.created_at,
            updated_at=shown.updated_at,
        )
        assert all(type(each) is not str for each in (shown.kind, shown.phase, shown.status))
        assert shown.created_at.tzinfo is UTC


async def test_runs_come_newest_first_and_go_on_before_an_id(tmp_path: Path) -> None:
    async with reception(tmp_path, scene.FAILED) as desk:
        failed = desk.scene.run_id
        followed = await desk.retry(failed)
        assert [each.id for each in await desk.runs()] == [followed, failed]
        assert [each.id for each in await desk.runs(NAME, before=followed)] == [failed]
        # A person types the beginning that was shown, with its kind or without (U6).
        typed = (await desk.short_ids([followed]))[followed]
        for before in (typed, typed.removeprefix("run_")):
            assert [each.id for each in await desk.runs(NAME, before=before)] == [failed]
        assert [each.id for each in await desk.runs(NAME, limit=1)] == [followed]
        assert [each.id for each in await desk.runs(NAME, status="failed:logic")] == [failed]
        assert await desk.runs(NAME, handler="poll") == ()
        assert len(await desk.runs(handler="file")) == 2


async def test_why_a_run_stopped_is_shown_as_it_was_kept(tmp_path: Path) -> None:
    """R1: class, message, line, tool, arguments; a text nobody can read is shown as it is."""
    async with reception(tmp_path) as desk:
        await desk.scene.start()
        stopped = scene.reach(Failure.LOGIC)
        kept = (
            '{"class":"logic","code":"blank","message":"no","line":3,"tool":"a.b","args":{"x":1}}'
        )
        await desk.world.store.stop_run(
            desk.scene.fence,
            desk.scene.run_id,
            desk.scene.run,
            stopped,
            Stop(desk.scene.counts, kept),
            now=NOON,
        )
        shown = await desk.run(desk.scene.run_id)
        assert shown.error == RunError("logic", "no", 3, "a.b", {"x": 1}, "blank")
    async with reception(tmp_path / "other", scene.FAILED) as desk:
        shown = await desk.run(desk.scene.run_id)
        assert shown.error == RunError("", "stopped: failed:logic")


async def test_history_is_readable_after_its_workflow_was_removed(tmp_path: Path) -> None:
    """W10: runs and rows of a removed workflow still say its name."""
    async with reception(tmp_path, scene.EMITTING) as desk:
        await desk.scene.commit()
        store = desk.world.store
        await store.remove(scene.WORKFLOW, action=desk.scene.action("remove"), now=NOON)
        assert await desk.workflows() == ()
        assert [each.workflow for each in await desk.runs()] == [NAME]
        assert (await desk.mutation(desk.scene.mutation_id)).workflow == NAME


# -- Mutations ----------------------------------------------------------------------------------


async def test_a_mutation_is_shown_as_claimed_and_as_observed(tmp_path: Path) -> None:
    """L1, L11: its title is the script's, tool and arguments are the host's."""
    async with reception(tmp_path, scene.APPLIED) as desk:
        shown = await desk.mutation(desk.scene.mutation_id)
        assert shown == Mutation(
            id=desk.scene.mutation_id,
            run=desk.scene.run_id,
            held_by=desk.scene.run_id,
            workflow=NAME,
            tool="sheets.append",
            args={"a": 1},
            title="Add a row",
            key=KEY,
            status=MutationStatus.APPLIED,
            result={"id": 7},
            attempt=1,
            hash="shown",
            sent_at=shown.sent_at,
            form=(("a", "1"),),
        )
        assert shown.sent_at is not None
        assert shown.sent_at.tzinfo is UTC
        assert await desk.mutations() == await desk.mutations(NAME, status="applied") == (shown,)
        assert await desk.mutations(before=shown.id) == ()
        assert await desk.mutations(status="failed") == ()


async def test_a_secret_is_not_shown_in_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5, L11: neither in what was sent nor in what came back."""
    async with reception(tmp_path) as desk:
        await desk.scene.start()
        await desk.scene.go(*scene.PATHS[scene.MUTATING])
        call = replace(desk.scene.call(), args='{"token":"hunter2"}')
        monkeypatch.setattr(desk.scene, "call", lambda: call)
        await desk.scene.go(Progress.SEND)
        monkeypatch.setattr(desk.parts.outside, "secrets", lambda: Redactor(("hunter2",)))
        shown = await desk.mutation(desk.scene.mutation_id)
        assert "hunter2" not in str(shown)
        assert "hunter2" not in str(await desk.mutations())
        assert shown.result is None


# -- Refusals -----------------------------------------------------------------------------------

REFUSALS: list[tuple[Question, type[DulyError], str]] = [
    (lambda d: d.workflow("mial"), NotFound, 'Did you mean "mail"?'),
    (lambda d: d.events("mial"), NotFound, 'Did you mean "mail"?'),
    (lambda d: d.runs("mial"), NotFound, 'Did you mean "mail"?'),
    (lambda d: d.mutations("mial"), NotFound, 'Did you mean "mail"?'),
    (lambda d: d.events(NAME, topic="mial"), NotFound, 'Did you mean "mail"?'),
    (lambda d: d.runs(NAME, handler="fiel"), NotFound, 'Did you mean "file"?'),
    (lambda d: d.events(NAME, status="done"), Invalid, "pending, reserved, consumed, skipped"),
    (lambda d: d.runs(status="failed"), Invalid, "failed:logic"),
    (lambda d: d.mutations(status="sent"), Invalid, "in_flight"),
    (lambda d: d.run("run_none"), NotFound, "There is no run run_none"),
    (lambda d: d.mutation("none"), NotFound, "There is no mutation none"),
    (lambda d: d.events(NAME, after="m"), Invalid, "number"),  # type: ignore[arg-type]
    (lambda d: d.runs(before=3), Invalid, "id or name"),  # type: ignore[arg-type]
    (lambda d: d.runs(limit="all"), Invalid, "whole number"),  # type: ignore[arg-type]
    *(
        (ask, Invalid, "from 1 to 1000")
        for limit in (0, 1001)
        for ask in (
            lambda d, limit=limit: d.workflows(limit=limit),
            lambda d, limit=limit: d.events(NAME, limit=limit),
            lambda d, limit=limit: d.runs(limit=limit),
            lambda d, limit=limit: d.mutations(limit=limit),
        )
    ),
]


@pytest.mark.parametrize(("question", "error", "words"), REFUSALS)
async def test_a_question_that_makes_no_sense_is_answered_with_what_to_ask(
    tmp_path: Path, question: Question, error: type[DulyError], words: str
) -> None:
    """N: at most a thousand entries, by known names and words."""
    async with reception(tmp_path) as desk:
        with pytest.raises(error) as refused:
            await question(desk)
        assert words in str(refused.value)


async def test_a_page_may_have_a_thousand_entries(tmp_path: Path) -> None:
    """N: the limit itself is taken."""
    async with reception(tmp_path, policy=Policy()) as desk:
        assert len(await desk.workflows(limit=1000)) == 1
        assert len(await desk.events(NAME, limit=1000)) == 3
        assert await desk.runs(limit=1000) == ()
        assert await desk.mutations(limit=1000) == ()
