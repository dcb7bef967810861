"""The stand of the repair's tests: a repairer that answers what it was told to, and no analysis.

What plays here is data, which no analysis of Python or JavaScript can read; so a source is loaded,
and the tools it names are the tools it uses. The real examination is in `test_repair_language.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from duly.config import Policy
from duly.engine import repair
from duly.engine.base import Parts
from duly.engine.draft import Draft
from duly.errors import NotDeployed, ScriptError
from duly.rules.repair import RepairCase
from duly.rules.source import Source
from duly.script.analysis import Fingerprint
from duly.store.people import ActionRow
from duly.store.record import VersionRow
from duly.testing import Stage
from tests.engine.stand import CONSUMER, Play, consumer, flow, opened
from verification.moves import Throw
from verification.scripted import Scripted

Answer = Source | BaseException | None | Callable[[RepairCase], Awaitable[Any]]

NAME_OF_REPAIRER = "smith"


class Smith:
    """A repairer with its answers ready; after the last it has none to offer."""

    name = NAME_OF_REPAIRER

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.cases: list[RepairCase] = []

    async def repair(self, case: RepairCase) -> Source | None:
        self.cases.append(case)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return await answer(case) if callable(answer) else answer


def broken(words: str = "no") -> Scripted:
    """A workflow whose mutate throws."""
    return flow({CONSUMER: consumer(mutate=(Throw(words),))})


async def examine(parts: Parts, source: Source, *, strict: bool) -> Draft:
    """Examine a script that is data."""
    catalog = parts.outside.catalog
    try:
        loaded = await parts.sandbox.load(source, catalog)
    except ScriptError as error:
        raise NotDeployed(str(error)) from error
    used = frozenset(each.capability for each in catalog.tools if f'"{each.name}"' in source.text)
    return Draft(source, loaded.declaration, (), {}, used, loaded)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a repair that is data be examined."""
    monkeypatch.setattr(repair, "examine", examine)

    async def read_nothing(*_: object) -> Fingerprint:
        return Fingerprint()

    monkeypatch.setattr(repair, "fingerprint", read_nothing)


async def repairing(stage: Stage, smith: Any, *, policy: Policy | None = None) -> Play:
    """Open a host that plays and has a repairer."""
    play = await opened(stage, policy=policy)
    play.options["repairer"] = smith
    await play.restart()
    return play


async def failing(stage: Stage, smith: Any, *, policy: Policy | None = None) -> Play:
    """Open such a host, with an event that makes its script fail."""
    play = await repairing(stage, smith, policy=policy)
    await play.deploy(broken())
    await play.publish("a")
    return play


async def versions(play: Play) -> dict[str, VersionRow]:
    """The versions by their number."""
    found = await play.store.list_versions(await play.workflow_id())
    return {each.version: each for each in found}


async def active(play: Play) -> str | None:
    """The active version."""
    return (await play.store.get_workflow(await play.workflow_id())).active_version


async def actions(play: Play, verb: str) -> list[ActionRow]:
    """What was done by this verb, newest first."""
    found = await play.store.list_actions(await play.workflow_id())
    return [each for each in found if each.verb == verb]


async def told_on_the_bus(play: Play) -> list[str]:
    """The repairs and the questions to a person that were announced (B10)."""
    topics = (each.topic for each in await play.store.list_journal())
    return [each for each in topics if each in ("workflow.repaired", "workflow.needs_attention")]
