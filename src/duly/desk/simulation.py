"""Crashing a workflow before it is deployed, in a process of its own.

Law: this room only asks. The simulation stands above the host, and is given to it as a callable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from duly.desk import deploy
from duly.desk.base import HasDesk
from duly.desk.deploy import GivenSource
from duly.errors import Invalid, RequestRefused, short
from duly.rules.source import EXAMPLE
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
    ) -> Simulated:
        """Crash a source everywhere, in a simulation, and count its changes; none is real.

        `events` are published to it, each as `{topic, title, message_id, payload}`. `answers` says
        what a tool answers. At most `crashes` of the possible ones are tried.
        """
        desk = self._desk()
        if type(crashes) is not int or not 1 <= crashes <= CRASHES_MAX:
            facts = {"given": short(crashes), "least": 1, "most": CRASHES_MAX}
            raise Invalid(code="out_of_range", path="crashes", facts=facts)
        if desk.simulator is None:
            raise RequestRefused(code="no_simulator")
        text = await deploy.read_source(desk, source)
        await deploy.examine(desk, text, strict=False)
        told = await desk.simulator(text, events, answers or {}, crashes)
        return msgspec.convert(told, Simulated)
