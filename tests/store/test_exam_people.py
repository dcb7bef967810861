"""What people look at sits its exam: a read answers what is there, in pages, and leaves it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid, NotFound
from duly.rules import lifecycle
from duly.rules.turn import OpenRun
from duly.rules.word import Progress
from duly.store.due import DueHandler, DueRun
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action, Commit, Reserve
from tests.store.exam import Arrange, Call, Effect, ReadCase, Refusal, Trial, World, exam
from tests.store.scene import (
    CAPABILITY,
    CONNECTOR,
    EMITTING,
    NAME,
    NOON,
    PATHS,
    WORKFLOW,
    Scene,
    deployed,
    deployment,
    publication,
)

OTHER = "workflow_2"
SERVICE = CAPABILITY.partition(".")[0]
FIRST, SECOND = "run_01", "run_02"


async def _arrange(world: World) -> None:
    """Make two workflows; one has a committed run, a run that waits, a grant and a secret."""
    scene = await deployed(world.store)
    other = deployment(workflow_id=OTHER, name="post")
    action = Action("action_01", "me", "deploy")
    await world.store.deploy(other, successor_id="run_none", action=action, now=NOON)
    await scene.start()
    await scene.go(*PATHS[EMITTING])
    await scene.commit(Commit((publication("row", "row:1"),)))
    await _propose_another(scene)
    action = Action("action_02", "me", "grant")
    await world.store.grant(WORKFLOW, CAPABILITY, action=action, now=NOON)
    action = Action("action_03", "me", "secret")
    await world.store.set_secret(CONNECTOR, "token", "sealed", action=action, now=NOON)


async def _propose_another(scene: Scene) -> None:
    await scene.start()
    await scene.prepare((Reserve("mail", "mail:2"),))
    await scene.go(Progress.BEGIN_MUTATE)
    after = lifecycle.advance(scene.run, Progress.ASK_APPROVAL)
    here = (scene.fence, scene.run_id, scene.run, after, scene.call(id="mutation_2"))
    await scene.store.propose(*here, now=scene.tick())


def _ask(verb: str, *given: Any, **options: Any) -> Call:
    async def call(world: World) -> Any:
        return await getattr(world.store, verb)(*given, **options)

    return call


def _see(field: str | None, *expected: Any) -> Effect:
    """Expect these values of a field, or these rows."""

    async def effect(world: World, answer: Any) -> None:
        rows = answer if isinstance(answer, tuple) else (answer,)
        found = tuple(row if field is None else getattr(row, field) for row in rows)
        assert found == expected

    return effect


def _pages(verb: str, field: str | None, *turns: tuple[dict[str, Any], tuple[Any, ...]]) -> Arrange:
    """Expect these pages, one after another."""

    async def edge(world: World) -> None:
        for options, expected in turns:
            answer = await getattr(world.store, verb)(**options)
            await _see(field, *expected)(world, answer)

    return edge


async def _users(world: World) -> None:
    """Grant more: below other names, twice to one workflow, and to one that is removed then."""
    ask = partial(world.store.list_users, SERVICE)
    grants = (
        (OTHER, f"{SERVICE}s.read"),
        (OTHER, f"{SERVICE}_x.read"),
        (WORKFLOW, f"{SERVICE}.gone"),
    )
    for number, (workflow_id, capability) in enumerate(grants):
        action = Action(f"action_1{number}", "me", "grant")
        await world.store.grant(workflow_id, capability, action=action, now=NOON)
    assert await ask([]) == (NAME,)
    assert await ask([f"{SERVICE}s.read"]) == tuple(sorted((NAME, "post")))
    assert await ask([f"{SERVICE}s.read"], limit=1) == (min(NAME, "post"),)
    await world.store.remove(OTHER, action=Action("action_20", "me", "remove"), now=NOON)
    assert await ask([f"{SERVICE}s.read"]) == (NAME,)


def _read(
    verb: str, *given: Any, sees: Effect, edge: Arrange | None = None, **refused: Any
) -> ReadCase:
    """Make the case of a read; `missing` is refused as unknown, a paged one has its limits."""
    refusals = []
    if "missing" in refused:
        says = "what nobody knows"
        refusals.append(Refusal(says, NotFound, call=_ask(verb, *refused["missing"])))
    if refused.get("is_paged"):
        says = "a page of no rows"
        refusals.append(Refusal(says, Invalid, call=_ask(verb, *given, limit=0)))
        too_many = _ask(verb, *given, limit=PAGE_ROWS_MAX + 1)
        refusals.append(Refusal("too long a page", Invalid, call=too_many, match="from 1 to 1000"))
    return ReadCase(verb, _arrange, _ask(verb, *given), sees, tuple(refusals), edge)


PUBLISHED = tuple(f"action_00_publish_100000{n}" for n in (3, 2, 1))  # newest first
HERE = {"workflow_id": WORKFLOW}
WORKFLOWS = (
    _read(
        "list_workflows",
        sees=_see("name", NAME, "post"),
        edge=_pages(
            "list_workflows",
            "name",
            ({"limit": 1}, (NAME,)),
            ({"limit": PAGE_ROWS_MAX, "after": NAME}, ("post",)),
            ({"after": "post"}, ()),
        ),
        is_paged=True,
    ),
    _read(
        "find_workflow",
        NAME,
        sees=_see("id", WORKFLOW),
        edge=_pages("find_workflow", None, ({"name": "nobody"}, (None,))),
    ),
    _read("get_workflow", WORKFLOW, sees=_see("name", NAME), missing=("workflow_9",)),
    _read(
        "list_handlers",
        WORKFLOW,
        sees=_see("name", "poll", "file", "tell"),
        edge=_pages("list_handlers", "name", ({"workflow_id": "workflow_9"}, ())),
    ),
    _read(
        "list_topics",
        WORKFLOW,
        sees=_see("consumer", "file", "file", "tell", None),
        edge=_pages("list_topics", "name", ({"workflow_id": "workflow_9"}, ())),
    ),
    _read(
        "list_versions",
        WORKFLOW,
        sees=_see("version", "1.0"),
        edge=_pages("list_versions", "version", ({**HERE, "before": "1.0"}, ())),
        is_paged=True,
    ),
    _read(
        "get_version", WORKFLOW, "1.0", sees=_see("source", "source 1.0"), missing=(WORKFLOW, "9")
    ),
    _read(
        "list_grants",
        WORKFLOW,
        sees=_see("capability", CAPABILITY),
        edge=_pages("list_grants", None, ({"workflow_id": OTHER}, ())),
    ),
    _read(
        "list_users",
        SERVICE,
        [],
        sees=_see(None, NAME),
        edge=_users,
        is_paged=True,
    ),
    _read(
        "get_secret",
        CONNECTOR,
        "token",
        sees=_see("sealed", "sealed"),
        missing=(CONNECTOR, "other"),
    ),
    _read(
        "list_secrets",
        sees=_see("sealed", "sealed"),
        edge=_pages("list_secrets", "name", ({}, ("token",))),
    ),
    _read(
        "list_actions",
        sees=_see("id", "action_03", "action_02", "action_01", *PUBLISHED, "action_00"),
        edge=_pages(
            "list_actions",
            "id",
            ({"limit": 1}, ("action_03",)),
            ({"before": PUBLISHED[-1]}, ("action_00",)),
            (HERE, ("action_02", *PUBLISHED, "action_00")),
            ({**HERE, "before": PUBLISHED[-1]}, ("action_00",)),
        ),
        is_paged=True,
    ),
)


async def _lose_its_run(world: World) -> None:
    """Do what no verb does: end a run and forget its event (R7)."""
    world.connection.execute("update run set open = 0, status = 'crashed', waits = null where open")
    (stray,) = await world.store.list_strays()
    assert (stray.message_id, stray.reserved_by) == ("mail:2", SECOND)


EVENTS = (
    _read("list_strays", sees=_see(None), edge=_lose_its_run, is_paged=True),
    _read(
        "list_events",
        WORKFLOW,
        sees=_see("message_id", "mail:1", "letter:1", "mail:2", "row:1"),
        edge=_pages(
            "list_events",
            "message_id",
            ({**HERE, "limit": 1}, ("mail:1",)),
            ({**HERE, "after": 2, "limit": 2}, ("letter:1", "mail:2")),
            ({**HERE, "topic": "mail"}, ("mail:1", "mail:2")),
            ({**HERE, "status": "consumed"}, ("mail:1", "letter:1")),
            ({**HERE, "topic": "mail", "status": "reserved"}, ("mail:2",)),
            ({"workflow_id": OTHER}, ()),
        ),
        is_paged=True,
    ),
    _read(
        "list_causes",
        WORKFLOW,
        6,
        sees=_see(None, ("mail", "mail:1"), ("letter", "letter:1")),
        edge=_pages("list_causes", None, ({**HERE, "seq": 2}, ())),
    ),
    _read(
        "list_effects",
        WORKFLOW,
        2,
        sees=_see(None, ("row", "row:1")),
        edge=_pages("list_effects", None, ({**HERE, "root": 4}, ())),
    ),
    _read(
        "list_inputs",
        FIRST,
        sees=_see("message_id", "mail:1", "letter:1"),
        edge=_pages("list_inputs", None, ({"run_id": "run_99"}, ())),
    ),
)
RUNS = (
    _read(
        "list_runs",
        sees=_see("id", SECOND, FIRST),
        edge=_pages(
            "list_runs",
            "id",
            ({"limit": 1}, (SECOND,)),
            ({"before": SECOND}, (FIRST,)),
            ({"status": "committed"}, (FIRST,)),
            ({"handler": "poll"}, ()),
            ({**HERE, "limit": 1}, (SECOND,)),
            ({**HERE, "before": SECOND, "handler": "file"}, (FIRST,)),
            ({"workflow_id": OTHER}, ()),
        ),
        is_paged=True,
    ),
    _read("get_run", SECOND, sees=_see("row", "proposed"), missing=("run_99",)),
    _read(
        "list_mutations",
        sees=_see("id", "mutation_2", "mutation_1"),
        edge=_pages(
            "list_mutations",
            "id",
            ({"limit": 1}, ("mutation_2",)),
            ({"before": "mutation_2"}, ("mutation_1",)),
            ({"status": "proposed"}, ("mutation_2",)),
            ({**HERE, "status": "applied"}, ("mutation_1",)),
            ({"workflow_id": OTHER}, ()),
        ),
        is_paged=True,
    ),
    _read("get_mutation", "mutation_2", sees=_see("held_by", SECOND), missing=("mutation_9",)),
    _read(
        "list_proposals",
        sees=_see("id", "mutation_2"),
        edge=_pages(
            "list_proposals",
            "id",
            (HERE, ("mutation_2",)),
            ({"before": "mutation_2"}, ()),
            ({"workflow_id": OTHER}, ()),
        ),
        is_paged=True,
    ),
    _read("list_waiting", sees=_see("waits", "approval"), is_paged=True),
    _read("get_held_mutation", SECOND, sees=_see("id", "mutation_2"), missing=("run_99",)),
)


async def _see_due(world: World, answer: Any) -> None:
    """See the other workflow's handlers due; the first waits for its open run (F6)."""
    assert answer.runs == ()
    assert answer.producers == (DueHandler(OTHER, "poll", 0, None, NOON),)
    assert answer.consumers == (DueHandler(OTHER, "file", 1), DueHandler(OTHER, "tell", 2))


async def _see_woken(world: World) -> None:
    await world.store.reject("mutation_2", action=Action("action_04", "me", "reject"), now=NOON)
    assert (await world.store.due(NOON)).runs == (DueRun(WORKFLOW, SECOND, "active"),)


DUE = ReadCase("due", _arrange, _ask("due", NOON), _see_due, edge=_see_woken)


async def _see_open_run(world: World, answer: Any) -> None:
    """See the open run; while there is one no handler matters (F6)."""
    assert (answer.workflow, answer.is_paused, answer.handlers) == (NAME, False, ())
    waiting = replace(answer.open_run, set_at=0, row_set_at=0)
    assert waiting == OpenRun(SECOND, "paused:approval", 1, None, "proposed", None)
    assert answer.open_run.set_at == (await world.store.get_run(SECOND)).updated_at


async def _see_handlers(world: World) -> None:
    """See what decides who is due, with the oldest pending event of each consumer (S5)."""
    other = await world.store.outlook(OTHER)
    seen = {(each.name, each.next_run_at, each.oldest_pending_seq) for each in other.handlers}
    assert seen == {("poll", NOON, None), ("file", None, None), ("tell", None, None)}
    await world.store.abandon_run(SECOND, action=Action("action_05", "me", "abandon"), now=NOON)
    free = await world.store.outlook(WORKFLOW)
    assert free.open_run is None
    oldest = {each.name: each.oldest_pending_seq for each in free.handlers}
    assert oldest == {"poll": None, "file": 4, "tell": 6}


OUTLOOK = ReadCase(
    "outlook",
    _arrange,
    _ask("outlook", WORKFLOW),
    _see_open_run,
    (Refusal("what nobody knows", NotFound, call=_ask("outlook", "workflow_9")),),
    _see_handlers,
)


@pytest.mark.parametrize("trial", exam(*WORKFLOWS, *EVENTS, *RUNS, DUE, OUTLOOK))
async def test_what_people_look_at_passes_its_exam(trial: Trial, tmp_path: Path) -> None:
    """U6, A6, T9: everything kept can be read again, page by page."""
    await trial.sit(tmp_path)
