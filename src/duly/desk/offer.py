"""What a person can do about something, spelled so that it can be said to a host (R9, U6).

Law: what is offered is what the rules allow at this moment; the ids are the ones to give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from duly.desk.record import Offer
from duly.desk.sight import Sight
from duly.rules.word import Act
from duly.store.record import EventRow, MutationRow, RunRow

SKIPS_MAX: Final = 5  # of all that could be skipped so much is offered by name


@dataclass(frozen=True, slots=True)
class Place:
    """Where something can be done: the workflow, the open run, its call and its inputs."""

    workflow: str
    run: RunRow
    held: MutationRow | None
    inputs: tuple[EventRow, ...]

    @property
    def mutation(self) -> str:
        """The call an answer is given to; the rules offer none where there is none."""
        assert self.held is not None, self.run
        return self.held.id


def _answer(act: Act) -> Callable[[Place], Iterable[Offer]]:
    return lambda place: (Offer(act.value, place.mutation, _say("settle", place.mutation, act)),)


def _approve(place: Place) -> Iterable[Offer]:
    assert place.held is not None, place.run
    said = f'host.approve("{place.held.id}", seen="{place.held.hash}")'
    yield Offer("approve", place.held.id, said)


def _grant(place: Place) -> Iterable[Offer]:
    capability = place.run.waits_on or ""
    yield Offer("grant", capability, _say("grant", place.workflow, capability))


def _reconnect(place: Place) -> Iterable[Offer]:
    connection = place.run.waits_on or ""
    yield Offer("reconnect", connection, _say("reconnect", connection))


def _skips(place: Place) -> Iterable[Offer]:
    for each in place.inputs[:SKIPS_MAX]:
        yield skip(place.workflow, each.topic, each.message_id)


OFFERS: Final[Mapping[Act, Callable[[Place], Iterable[Offer]]]] = {
    Act.APPROVE: _approve,
    Act.REJECT: lambda place: (Offer("reject", place.mutation, _say("reject", place.mutation)),),
    Act.RECONNECT: _reconnect,
    Act.GRANT: _grant,
    Act.TRY_AGAIN: _answer(Act.TRY_AGAIN),
    Act.DID_NOT_HAPPEN: _answer(Act.DID_NOT_HAPPEN),
    Act.HAPPENED: _answer(Act.HAPPENED),
    Act.SKIP: _answer(Act.SKIP),
    Act.SKIP_EVENT: _skips,
    Act.DEPLOY: lambda place: (deploy(place.workflow),),
    Act.RETRY: lambda place: (Offer("retry", place.run.id, _say("retry", place.run.id)),),
    Act.ABANDON: lambda place: (Offer("abandon", place.run.id, _say("abandon", place.run.id)),),
    Act.PAUSE: lambda place: (on_workflow("pause", place.workflow),),
}


def offers(
    acts: Iterable[Act], place: Place, sight: Sight, *, is_paused: bool
) -> tuple[Offer, ...]:
    """Spell what is offered; a paused workflow can be resumed as well."""
    wanted = [act for act in acts if act is not Act.TRY_AGAIN or _can_be_asked(place, sight)]
    spelled = [offer for act in wanted for offer in OFFERS[act](place)]
    return (*spelled, on_workflow("resume", place.workflow)) if is_paused else tuple(spelled)


def _can_be_asked(place: Place, sight: Sight) -> bool:
    """Tell whether asking or sending again could tell anything (L10)."""
    tool = None if place.held is None else sight.find_tool(place.held.tool)
    return tool is not None and (tool.reconciles or tool.idempotent)


def on_workflow(verb: str, workflow: str) -> Offer:
    """Offer something that is done to a whole workflow."""
    return Offer(verb, workflow, _say(verb, workflow))


def deploy(workflow: str) -> Offer:
    """Offer to bring another version."""
    return Offer("deploy", workflow, "host.deploy(source)")


def skip(workflow: str, topic: str, message_id: str) -> Offer:
    """Offer to skip one event."""
    return Offer("skip", f"{topic}/{message_id}", _say("skip", workflow, topic, message_id))


def adopt(workflow: str, active: str, version: str) -> tuple[Offer, ...]:
    """Offer to look at a proposed version, and to put it to use."""
    return (
        Offer("diff", version, _say("diff", workflow, active, version)),
        Offer("rollback", version, _say("rollback", workflow, version)),
    )


def _say(verb: str, *given: str) -> str:
    return f"host.{verb}({', '.join(quote(each) for each in given)})"


def quote(text: str) -> str:
    """Write a text as a program would; what cannot be printed is spelled out."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    spelled = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped)
    return f'"{"".join(spelled)}"'
