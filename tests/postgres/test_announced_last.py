"""What a verb announces takes its numbers last: they are those of all workflows (T6, B10).

The counter of the journal is one row, locked until commit. A verb that went on after it would hold
up every other host for as long as it takes, and two verbs could wait for each other.
"""

from __future__ import annotations

from collections import defaultdict
from inspect import signature
from typing import Any, Final

import pytest

from duly.store.postgres_session import PostgresTransaction
from tests.postgres.pairs import cases
from tests.postgres.world import Place, PostgresWorld
from tests.store.exam import Case
from tests.store.test_exam_complete import VERBS

NUMBER: Final = "take_journal_number"
ANNOUNCES: Final = frozenset({NUMBER, "insert_journal_event"})
# What still comes is sent with the commit. What a run goes back to is read before its handler moves
# on (`store/run.py`), and its workflow is locked already.
AFTER: Final = {"commit_run": {"commit_consumer"}}


def announcing() -> list[Case]:
    """List the cases of the verbs that may announce something."""
    return [each for each in cases() if "announce" in signature(VERBS[each.verb].body).parameters]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> dict[PostgresTransaction, list[str]]:
    """Note the names of the statements of each transaction, in their order."""
    names: dict[PostgresTransaction, list[str]] = defaultdict(list)
    find = PostgresTransaction._find

    def noted(self: PostgresTransaction, statement: str, parameters: Any) -> Any:
        names[self].append(statement)
        return find(self, statement, parameters)

    monkeypatch.setattr(PostgresTransaction, "_find", noted)
    return names


async def test_what_is_announced_takes_its_numbers_last(
    place: Place, said: dict[PostgresTransaction, list[str]]
) -> None:
    """T6, B10: of every verb in every case of the exam; what comes after waits for no other row."""
    seen: dict[str, set[str]] = {}
    for case in announcing():
        world = await PostgresWorld(place).open()
        await case.arrange(world)
        said.clear()
        await case.call(world)
        for own in said.values():
            if NUMBER in own:
                after = set(own[own.index(NUMBER) :]) - ANNOUNCES
                seen.setdefault(case.verb, set()).update(after)
        await world.close()
    late = {verb: names - AFTER.get(verb, set()) for verb, names in seen.items()}
    assert {verb: names for verb, names in late.items() if names} == {}
    assert AFTER.keys() <= {verb for verb, names in seen.items() if names}
    assert seen.keys() == {each.verb for each in announcing()}
