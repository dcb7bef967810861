"""Ids as people type them: any beginning that only one thing has."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.api.registry import VERBS
from duly.desk.identity import find_id, shorten_all
from duly.env import Loop
from duly.errors import NotFound, RequestRefused
from duly.rules.identity import IdKind, Typed, is_whole, kind_of, read_typed, shorten
from tests.desk.stand import reception
from tests.store import scene
from tests.store.memory import Memory

FLOW = "invoices"
LONG = "019a8b7c0d1" + "0" * 16


def test_what_is_shown_is_eight_digits_or_as_many_as_it_takes() -> None:
    """U6: what stands beside an id in order shares most with it."""
    whole = "run_019a8b7c0d1e2f30aa11"
    assert shorten(whole, (None, None)) == "run_019a8b7c"
    assert shorten(whole, ("run_019a8b7b", "run_019a8b7d")) == "run_019a8b7c"
    assert shorten(whole, ("run_019a8b7c0d00", None)) == "run_019a8b7c0d1"
    assert shorten(whole, (None, "run_019a8b7c0d1e2f30aa12")) == whole
    assert shorten("run_1", ("run_01", "run_10")) == "run_1"


def test_what_a_person_typed_is_read_with_and_without_its_kind() -> None:
    """U6: other words are no ids, and are left to the verb."""
    every = tuple(IdKind)
    assert read_typed("019a", every) == Typed(every, "019a")
    assert read_typed("run_019a", every) == Typed((IdKind.RUN,), "019a")
    for text in ("invoices", "run_", "bus:7", "mutation_019a", "", "019A", "9" * 41):
        assert read_typed(text, (IdKind.RUN,)) is None, text
    assert is_whole(Loop().new_id("run"))
    assert is_whole("run_" + "0" * 27)
    assert not is_whole("run_" + "0" * 26)
    assert not is_whole("walk_" + "0" * 27)
    assert (kind_of("mutation_1"), kind_of("action_1")) == (IdKind.MUTATION, None)


def test_every_argument_that_is_an_id_says_so() -> None:
    """U6: faces complete and shorten what the method says is an id."""
    every = [(verb.name, each) for verb in VERBS.values() for each in verb.parameters]
    named = {(verb, each.name) for verb, each in every if each.names}
    by_name = {(verb, each.name) for verb, each in every if each.name in set(IdKind)}
    own = {(name, "id") for name in ("run", "mutation", "why", "certificate", "history", "wait")}
    pages = {(name, "before") for name in ("runs", "mutations", "approvals", "allowances")}
    assert named == by_name | own | pages


@pytest.fixture(scope="module")
def full() -> Memory:
    """Put runs and mutations there that begin alike."""
    memory = Memory()
    memory.connection.execute("begin")
    memory.workflow(FLOW)
    ended = {"phase": "committed", "status": "committed", "open": 0}
    for number in range(3000):
        run_id = f"run_019a8b{number:04x}{number:018x}"
        memory.run(FLOW, run_id, created_at=number, **ended)
        mutation_id = run_id.replace("run_", "mutation_")
        memory.mutation(FLOW, run_id, mutation_id, status="applied", created_at=number)
    for number, run_id in enumerate(("run_ab12", "run_ab1234", "run_ab12ff", "run_cd")):
        memory.run(FLOW, run_id, created_at=9000 + number, **ended)
    memory.connection.execute("commit")
    return memory


def test_an_id_in_full_comes_before_any_that_begins_so(full: Memory) -> None:
    """U6: also where it is short itself; and one in full costs no look at all."""
    tx = full.transaction
    assert find_id(tx, "run_ab12", IdKind.RUN) == "run_ab12"
    assert find_id(tx, "ab12", IdKind.RUN, IdKind.MUTATION) == "run_ab12"
    assert find_id(tx, "cd", IdKind.RUN) == "run_cd"
    whole = f"run_{LONG}"
    assert find_id(None, whole, IdKind.RUN) == whole  # type: ignore[arg-type]  # nothing is read


def test_a_beginning_that_one_thing_has_names_it(full: Memory) -> None:
    """U6: with its kind and without; what names nothing is left to the verb."""
    tx = full.transaction
    assert find_id(tx, "ab123", IdKind.RUN) == "run_ab1234"
    assert find_id(tx, "run_019a8b0007", IdKind.RUN).endswith(f"{7:018x}")
    assert find_id(tx, "mutation_019a8b0007", IdKind.MUTATION).startswith("mutation_")
    for text in ("run_ffff", "ffff", "invoices", "mutation_019a8b0007"):
        assert find_id(tx, text, IdKind.RUN) == text


def test_a_beginning_that_several_have_is_refused_with_their_ids(full: Memory) -> None:
    """U6: whatever the history, a few candidates are read, and each of them names one."""
    tx = full.transaction
    for text, kinds in (("019a8b", (IdKind.RUN,)), ("019a8b0007", (IdKind.RUN, IdKind.MUTATION))):
        with pytest.raises(RequestRefused) as refused:
            find_id(tx, text, *kinds)
        error = refused.value
        assert (error.code, error.subject) == ("ambiguous_id", text)
        assert error.next is not None
        assert (error.next.verb, error.next.args) == ("ids", {"begins": text})
        candidates = error.facts["candidates"]
        assert 2 <= len(candidates) <= 5
        for each in candidates:
            assert each in str(error)
            assert find_id(tx, each, *kinds).startswith(each)


@pytest.mark.parametrize("text", ["0", "019", "run_019", "c"])
def test_too_little_of_an_id_names_nothing(full: Memory, text: str) -> None:
    """U6: three digits are typed by mistake, even where only one thing begins so."""
    with pytest.raises(RequestRefused) as refused:
        find_id(full.transaction, text, IdKind.RUN)
    assert refused.value.code == "short_id"


def test_every_id_is_shown_so_that_it_names_itself(full: Memory) -> None:
    """U6: among all there are, and not only among those that are shown."""
    tx = full.transaction
    rows = full.connection.execute("select id from run union all select id from mutation")
    ids = [str(row[0]) for row in rows]
    short = shorten_all(tx, [*ids, "action_1", "no id"])
    assert set(short) == set(ids)
    assert all(find_id(tx, short[each], *IdKind) == each for each in ids)
    seventh = f"run_019a8b{7:04x}{7:018x}"
    assert short[seventh] == "run_019a8b0007"
    # What is made in a moment begins almost alike; what is shown then stays unique.
    for now_ms, shown in ((0x019A8B00075, 1), (0x019A8B00070, 2), (0x019A8B00080, 0)):
        made = shorten_all(tx, [seventh], now_ms)[seventh]
        assert len(made) == len("run_019a8b0007") + shown, made


async def test_acts_and_questions_take_a_beginning(tmp_path: Path) -> None:
    """U6: where a program gives the id in full, a person types some of it."""
    async with reception(tmp_path, scene.INDETERMINATE) as desk:
        (mutation,) = await desk.mutations()
        assert (await desk.mutation(mutation.id)).id == mutation.id
        (found,) = await desk.ids(mutation.id)
        assert (found.id, found.kind, found.workflow) == (
            mutation.id,
            "mutation",
            mutation.workflow,
        )
        assert await desk.short_ids([mutation.id, "x"]) == {mutation.id: found.short}
        assert await desk.ids("no id") == ()
        assert [each.kind for each in await desk.ids(kind="run")] == ["run"] * len(
            await desk.runs()
        )
        with pytest.raises(NotFound):
            await desk.mutation("mutation_ffff")
