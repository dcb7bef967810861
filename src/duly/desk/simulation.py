"""Crashing a workflow before it is deployed, in a process of its own.

Law 1: this room only asks. The simulation stands above the host, and is given to it as a callable.
Law 2: no grant is looked at there. So what no person has decided to try reads nothing real: each
       read returns what was given for it, or a sample of its form (A1, M1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from duly.connectors.clock import Clock
from duly.connectors.llm import Llm
from duly.desk import deploy
from duly.desk.base import Desk, HasDesk
from duly.desk.deploy import GivenSource
from duly.errors import Invalid, RequestRefused, short
from duly.rules.catalog import ToolKind
from duly.rules.shape import sample
from duly.rules.source import EXAMPLE
from duly.rules.value import Json
from duly.rules.verb import Scope, question

CRASHES_DEFAULT: Final = 20
CRASHES_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SimulatedChange:
    """A change that a simulated workflow made, in a world that is not real."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SimulatedMismatch:
    """A crash after which a simulated workflow did not end as it does without one."""

    number: int
    where: str
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a simulation: the changes without a fault, and every crash that made a mess.

    `troubles` is what went wrong without any fault; then no crash was tried. `crashes` were tried
    of `possible` ones; `asked` of them needed a person's answer, and `missed` were not met.
    """

    workflow: str
    changes: tuple[SimulatedChange, ...]
    troubles: tuple[str, ...]
    possible: int
    crashes: int
    asked: int
    missed: int
    mismatches: tuple[SimulatedMismatch, ...]


def sample_reads(desk: Desk) -> dict[str, Json]:
    """Return a sample for every tool that reads.

    Those of `llm` have samples of their own in a simulation, and the clock is a virtual one.
    """
    outside = desk.parts.outside
    own = {each.name for each in outside if isinstance(each, Llm | Clock)}
    return {
        each.name: sample(each.result, {})
        for each in outside.catalog.tools
        if each.kind is not ToolKind.MUTATION and each.name.partition(".")[0] not in own
    }


class Simulations(HasDesk):
    """The question of an author who wants to see it crash."""

    @question(scope=Scope.AGENT, follow=False, example={"source": EXAMPLE, "crashes": 5})
    async def simulate(
        self,
        source: GivenSource,
        *,
        events: Sequence[Mapping[str, Any]] = (),
        answers: Mapping[str, Any] | None = None,
        crashes: int = CRASHES_DEFAULT,
        right: Scope = Scope.ADMIN,
    ) -> Simulated:
        """Crash a source everywhere, in a simulation, and count its changes; none is real.

        `events` are published to it, each as `{topic, title, message_id, payload}`. `answers` says
        what a tool answers. At most `crashes` of the possible ones are tried. Other reads are
        made, once; for a caller below the scope decide they return samples instead.
        """
        # Rules: A1, M1.
        desk = self._desk()
        if type(crashes) is not int or not 1 <= crashes <= CRASHES_MAX:
            facts = {"given": short(crashes), "least": 1, "most": CRASHES_MAX}
            raise Invalid(code="out_of_range", path="crashes", facts=facts)
        if desk.simulator is None:
            raise RequestRefused(code="no_simulator")
        text = await deploy.read_source(desk, source)
        await deploy.examine(desk, text, strict=False)
        given = dict(answers or {})
        if not right.covers(Scope.DECIDE):
            given = {**sample_reads(desk), **given}
        told = await desk.simulator(text, events, given, crashes)
        return msgspec.convert(told, Simulated)
