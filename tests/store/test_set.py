"""Sets of ids: looked up in few statements, in the order given, and no further than needed (T7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from duly.errors import Invalid
from duly.rules import lifecycle
from duly.rules.event import parse_publication
from duly.rules.prepared import Judgement
from duly.rules.word import Progress
from duly.store import run
from duly.store.record import Commit, Pinned, Reserve
from duly.store.transaction import NamedTransaction
from tests.store.exam import World
from tests.store.scene import PREPARED, PREPARING, WORKFLOW, Scene, at, publishing, statuses
from tests.store.scene import opened as opened_world

STRANGE = ('a"b', "a\\b", "a'b", "ä€😀", "a\nb\t\x01", "$.a[0]", '{"a":1}', "1", "null", " ")
KIB = 1024


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened_world(tmp_path) as world:
        yield world


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every statement that is run, by its name, and how many characters it brought."""
    told: list[tuple[str, int]] = []
    plain = NamedTransaction._rows

    def rows(self: NamedTransaction, statement: str, parameters: dict[str, Any]) -> list[Any]:
        found = plain(self, statement, parameters)
        told.append(
            (statement, sum(len(cell) for row in found for cell in row if type(cell) is str))
        )
        return found

    monkeypatch.setattr(NamedTransaction, "_rows", rows)
    return told


async def publish(scene: Scene, *ids: str, text: str = "x") -> None:
    for each in ids:
        raw = {"message_id": each, "title": "A mail", "payload": {"text": text}}
        new = parse_publication("mail", raw)
        action = publishing(scene.tick())
        await scene.store.publish(WORKFLOW, new, action=action, now=scene.now)


async def prepare(scene: Scene, *reserves: Reserve) -> Judgement:
    pinned = Pinned("{}", scene.now, "seed", None)
    return await scene.store.prepare_run(
        scene.fence, scene.run_id, PREPARING, PREPARED, pinned, reserves, now=scene.tick()
    )


async def test_strange_ids_are_found_as_they_are(world: World) -> None:
    """T7, T3: quotes, backslashes, control characters and numbers in words are an id like any."""
    scene = await at(world.store, PREPARING)
    await publish(scene, *STRANGE)
    asked = (*reversed(STRANGE), "a", "b")
    found = await scene.store.get_by_ids(WORKFLOW, "mail", asked)
    assert [each.message_id for each in found] == list(reversed(STRANGE))
    assert await prepare(scene, *(Reserve("mail", each) for each in STRANGE)) is Judgement.RESERVE
    reserved = [
        each for each, status in (await statuses(world.store)).items() if status == "reserved"
    ]
    assert sorted(reserved) == sorted(STRANGE)


async def test_a_large_reservation_takes_few_statements(
    world: World, said: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7, C6: a set is looked up, reserved and pinned a few hundred at a time."""
    monkeypatch.setattr(run, "LOOKED_AT_ONCE", 10)
    scene = await at(world.store, PREPARING)
    ids = [f"m{number}" for number in range(25)]
    await publish(scene, *ids)
    said.clear()
    assert await prepare(scene, *(Reserve("mail", each) for each in ids)) is Judgement.RESERVE
    names = [name for name, _ in said]
    assert [names.count(each) for each in ("find_events", "reserve_events")] == [3, 3]
    assert len(names) < 25
    assert {(await statuses(world.store))[each] for each in ids} == {"reserved"}
    assert len(await scene.store.list_inputs(scene.run_id)) == 25


@pytest.mark.parametrize("place", [0, 9, 10, 24])
async def test_the_first_id_that_cannot_be_had_ends_the_looking(
    world: World, said: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """T7, C5: it is the one that is named, nothing is reserved, and nobody looks further."""
    monkeypatch.setattr(run, "LOOKED_AT_ONCE", 10)
    scene = await at(world.store, PREPARING)
    ids = [f"m{number}" for number in range(30)]
    await publish(scene, *(each for at, each in enumerate(ids) if at < place))
    before = world.dump()
    said.clear()
    with pytest.raises(Invalid, match=f"event m{place} of topic mail cannot be reserved"):
        await prepare(scene, *(Reserve("mail", each) for each in ids))
    assert [name for name, _ in said].count("find_events") == place // 10 + 1
    assert world.dump() == before


async def test_a_mistake_far_behind_outweighs_a_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C5: a replaced event asks again only if all the others can be had."""
    monkeypatch.setattr(run, "LOOKED_AT_ONCE", 10)
    scene = await at(world.store, PREPARING)
    ids = [f"m{number}" for number in range(25)]
    await publish(scene, *ids)
    (replaced,) = await scene.store.get_by_ids(WORKFLOW, "mail", ("m0",))
    await publish(scene, "m0", text="other")
    wishes = [Reserve("mail", "m0", replaced.content), *(Reserve("mail", each) for each in ids[1:])]
    assert await prepare(scene, *wishes) is Judgement.AGAIN
    with pytest.raises(Invalid, match="event gone of topic mail"):
        await prepare(scene, *wishes, Reserve("mail", "gone"))


async def test_peek_reads_no_more_than_it_shows(world: World, said: list[tuple[str, int]]) -> None:
    """T6, X2: what does not fit is measured, not read."""
    scene = await at(world.store, PREPARING)
    await publish(scene, *(f"m{number}" for number in range(20)), text="x" * KIB)
    said.clear()
    shown = await scene.store.peek(WORKFLOW, "mail", limit=1000, bytes_max=10 * KIB)
    assert 2 <= len(shown) < 13
    assert sum(chars for _, chars in said) < 15 * KIB


async def test_what_does_not_fit_is_not_read_at_all(
    world: World, said: list[tuple[str, int]]
) -> None:
    """T7, X2: a set that is too large is refused by its size, before any of it is read."""
    scene = await at(world.store, PREPARING)
    ids = tuple(f"m{number}" for number in range(20))
    await publish(scene, *ids, text="x" * KIB)
    said.clear()
    with pytest.raises(Invalid, match="Ask for fewer"):
        await scene.store.get_by_ids(WORKFLOW, "mail", ids, bytes_max=10 * KIB)
    assert sum(chars for _, chars in said) < KIB


async def test_what_an_event_goes_back_to_is_one_statement(
    world: World, said: list[tuple[str, int]]
) -> None:
    """T9, T7: however many events the run had reserved."""
    scene = await at(world.store, PREPARING)
    ids = [f"m{number}" for number in range(50)]
    await publish(scene, *ids)
    assert await prepare(scene, *(Reserve("mail", each) for each in ids)) is Judgement.RESERVE
    raw = {"message_id": "sum", "title": "A sum", "payload": None}
    commit = Commit(publications=(parse_publication("row", raw),))
    ended = PREPARED
    for step in (Progress.BEGIN_MUTATE, Progress.NO_CALL, Progress.BEGIN_NEXT):
        ended = lifecycle.advance(ended, step)
    change = lifecycle.commit(ended)
    said.clear()
    await scene.store.commit_run(
        scene.fence, scene.run_id, PREPARED, change, commit, now=scene.tick()
    )
    assert len(said) < 30
    (event,) = await scene.store.get_by_ids(WORKFLOW, "row", ("sum",))
    causes = await scene.store.list_causes(WORKFLOW, event.seq)
    assert sorted(causes) == sorted(("mail", each) for each in ids)
