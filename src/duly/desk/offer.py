"""What a person can do about something, as a verb of the host with its arguments (R9, U6).

Law: what is offered is what the rules allow at this moment; the ids are the ones to give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from duly.desk.sight import Sight, show_error
from duly.fact import Offer
from duly.rules.permission import NOTHING_CHOSEN, Asks, Grant, Lack, tell_asks
from duly.rules.word import Act, MutationStatus
from duly.store.record import MutationRow, RunRow
from duly.store.trace import TraceRow

SKIPS_MAX: Final = 5  # of all that could be skipped so much is offered by name


@dataclass(frozen=True, slots=True)
class Place:
    """Where something can be done: the workflow, the open run, its call and its inputs."""

    workflow: str
    run: RunRow
    held: MutationRow | None
    inputs: tuple[TraceRow, ...]
    grant: Grant | None = None
    seen: str = ""  # the word for what stands of the right that is waited for (A6)
    lack: Lack | None = Lack.CAPABILITY
    # The rules that stand with the grants (A3).
    chosen: Mapping[str, str] = field(default_factory=lambda: NOTHING_CHOSEN)
    may_be_allowed: bool = False  # an allowance may cover what comes after a retry (A3)

    @property
    def call(self) -> MutationRow:
        """The call an answer is given to; the rules offer none where there is none."""
        assert self.held is not None, self.run
        return self.held


def _answer(act: Act) -> Callable[[Place], Iterable[Offer]]:
    does = "settle_skip" if act is Act.SKIP else act.value

    def offer(place: Place) -> Iterable[Offer]:
        # An answer is about the sends that were shown; of one more it says nothing (G11).
        args = {"mutation": place.call.id, "answer": act.value, "seen": place.call.attempt}
        yield Offer("settle", args, does)

    return offer


# Where it makes a difference to what comes of an act.
ROWS: Final[Mapping[tuple[str, MutationStatus | None], str]] = {
    ("abandon", MutationStatus.APPLIED): "abandon_applied",
    ("abandon", MutationStatus.REJECTED): "abandon_skipped",
    ("abandon", MutationStatus.SKIPPED): "abandon_skipped",
}


def _on_run(verb: str) -> Callable[[Place], Iterable[Offer]]:
    """Offer something that is done to the open run; what comes of it is in its ledger row (R5)."""
    return lambda place: (
        Offer(verb, {"run": place.run.id}, ROWS.get((verb, place.run.state.row), verb)),
    )


def _approve(place: Place) -> Iterable[Offer]:
    yield Offer("approve", {"mutation": place.call.id, "seen": place.call.hash}, "approve")


def _reject(place: Place) -> Iterable[Offer]:
    yield Offer("reject", {"mutation": place.call.id, "seen": place.call.hash}, "reject")


def _grant(place: Place) -> Iterable[Offer]:
    """Offer a grant with the limits it has: without them it would lose them in silence (A1).

    What is to be chosen anew is asked for.
    """
    args: dict[str, Any] = {"workflow": place.workflow, "capability": place.run.waits_on or ""}
    asks: tuple[str, ...] = ()
    grant = place.grant
    if grant is not None and place.lack is Lack.MUTATIONS_PER_DAY:
        asks = ("mutations_per_day",)
    elif grant is not None and grant.mutations_per_day is not None:
        args["mutations_per_day"] = grant.mutations_per_day
    if grant is not None and place.lack is Lack.WHERE:
        asks = (*asks, "where")
    elif grant is not None and grant.where:
        args["where"] = dict(grant.where)
    args["seen"] = place.seen
    yield Offer("grant", args, "grant", asks)


def _reconnect(place: Place) -> Iterable[Offer]:
    connection, _, name = (place.run.waits_on or "").partition(".")
    if name:
        yield replace_secret(connection, name)[0]
    yield Offer("reconnect", {"connector": connection}, "reconnect")


def _skips(place: Place) -> Iterable[Offer]:
    for each in place.inputs[:SKIPS_MAX]:
        yield skip(place.workflow, each.topic, each.message_id)


OFFERS: Final[Mapping[Act, Callable[[Place], Iterable[Offer]]]] = {
    Act.APPROVE: _approve,
    Act.REJECT: _reject,
    Act.RECONNECT: _reconnect,
    Act.GRANT: _grant,
    Act.TRY_AGAIN: _answer(Act.TRY_AGAIN),
    Act.DID_NOT_HAPPEN: _answer(Act.DID_NOT_HAPPEN),
    Act.HAPPENED: _answer(Act.HAPPENED),
    Act.SKIP: _answer(Act.SKIP),
    Act.SKIP_EVENT: _skips,
    Act.DEPLOY: lambda place: (deploy(),),
    Act.RETRY: _on_run("retry"),
    Act.ABANDON: _on_run("abandon"),
    Act.PAUSE: lambda place: (on_workflow("pause", place.workflow),),
}


def offers(
    acts: Iterable[Act], place: Place, sight: Sight, *, is_paused: bool
) -> tuple[Offer, ...]:
    """Spell what is offered; a paused workflow can be resumed as well."""
    # What a person may amend stands with the call itself, and where it can be approved (A3).
    acts = tuple(act for act in acts if act is not Act.AMEND)
    wanted = [act for act in acts if act is not Act.TRY_AGAIN or _can_be_asked(place, sight)]
    spelled = [offer for act in wanted for offer in OFFERS[act](place)]
    spelled = [
        replace(each, does=TOLD[each.verb](place, sight)) if each.verb in TOLD else each
        for each in spelled
    ]
    return (*spelled, on_workflow("resume", place.workflow)) if is_paused else tuple(spelled)


def _granted(place: Place, sight: Sight) -> str:
    """Name what a grant leads to: a change that is made, one that is asked about first, or more."""
    name = "" if place.run.error is None else show_error(place.run.error).tool
    is_new = place.held is None and place.lack is Lack.CAPABILITY
    asks = _asks(name, place, sight) if name and is_new else None
    if asks is None:
        return "grant"
    if asks.each_time:
        return "grant_asks"
    # Whether it is one of the first calls of a version, or comes after a model, is not known here.
    return "grant_sometimes" if asks.first or asks.after_model else "grant_makes"


def _retried(place: Place, sight: Sight) -> str:
    """Name what follows a retry: the rules of that moment decide whether a change is asked about.

    A proposal is withdrawn, and its work begins at prepare (R5).
    """
    if place.held is None or place.held.status != MutationStatus.PROPOSED:
        return "retry"
    asks = _asks(place.held.tool, place, sight)
    if asks is None or place.may_be_allowed:
        return "retry_sometimes"
    if asks.each_time:
        return "retry_asks"
    return "retry_sometimes" if asks.first or asks.after_model else "retry_makes"


TOLD: Final[Mapping[str, Callable[[Place, Sight], str]]] = {"grant": _granted, "retry": _retried}


def _asks(name: str, place: Place, sight: Sight) -> Asks | None:
    """Tell when a person is asked before a change; None of a tool that is not here (A3)."""
    tool = sight.find_tool(name)
    own = sight.policy.workflows.get(place.workflow)
    policies = (sight.policy.approvals, *(() if own is None else (own.approvals,)))
    return None if tool is None else tell_asks(tool, *policies, chosen=place.chosen)


def _can_be_asked(place: Place, sight: Sight) -> bool:
    """Tell whether asking or sending again could tell anything (L10)."""
    tool = None if place.held is None else sight.find_tool(place.held.tool)
    return tool is not None and (tool.reconciles or tool.idempotent)


def on_workflow(verb: str, workflow: str) -> Offer:
    """Offer something that is done to a whole workflow."""
    return Offer(verb, {"workflow": workflow}, verb)


def of_workflow(workflow: str, *, is_paused: bool, can_be_run: bool) -> tuple[Offer, ...]:
    """Offer what is done to a whole workflow: one that is paused begins nothing (F7).

    `can_be_run`: it has a producer, and no open run that one would have to wait for (S7).
    """
    if is_paused:
        return (on_workflow("resume", workflow),)
    verbs = ("run_now", "pause") if can_be_run else ("pause",)
    return tuple(on_workflow(each, workflow) for each in verbs)


def deploy() -> Offer:
    """Offer to bring another version."""
    return Offer("deploy", {}, "deploy", ("source",))


def skip(workflow: str, topic: str, message_id: str) -> Offer:
    """Offer to skip one event."""
    return Offer("skip", {"workflow": workflow, "topic": topic, "message_id": message_id}, "skip")


def skip_suspect(workflow: str, topic: str, message_id: str) -> Offer:
    """Offer to skip what a script that took nothing may have failed over (U3)."""
    return replace(skip(workflow, topic, message_id), does="skip_suspect")


def deliver(event_id: int, receiver: str) -> tuple[Offer, ...]:
    """Offer what can be done about something the bus gave up (B5)."""
    args = {"event_id": event_id, "subscriber_id": receiver}
    return (Offer("bus.retry", args, "deliver_again"), Offer("bus.discard", args, "discard"))


def resume_bus() -> Offer:
    """Offer to let a restored bus deliver what waits (H5)."""
    return Offer("bus.resume", {}, "resume_bus")


def replace_secret(connector: str, name: str) -> tuple[Offer, ...]:
    """Offer to set a secret again, or to forget it (A5)."""
    args = {"connector": connector, "name": name}
    return (
        Offer("set_secret", args, "set_secret", ("value",)),
        Offer("drop_secret", args, "drop_secret"),
    )


def verify() -> Offer:
    """Offer to check the whole store (H5)."""
    return Offer("verify", {}, "verify")


def adopt(workflow: str, active: str, version: str) -> tuple[Offer, ...]:
    """Offer to look at a proposed version, to put it to use, and to turn it down."""
    return (
        Offer("diff", {"workflow": workflow, "a": active, "b": version}, "diff"),
        Offer("rollback", {"workflow": workflow, "version": version}, "adopt"),
        Offer("decline", {"workflow": workflow, "version": version}, "decline"),
    )


def decide_on(workflow: str, proposal: str, *, is_seen_first: bool) -> tuple[Offer, ...]:
    """Offer to look at a proposed source, to put it to use, and to drop it (M6).

    What a model wrote is put to use where a person has seen in words what it does (M9).
    """
    given = {"proposal": proposal}
    put = () if is_seen_first else (Offer("adopt", given, "adopt"),)
    drop = Offer("decline", {"workflow": workflow, "version": proposal}, "decline")
    return (Offer("proposal", given, "see"), *put, drop)
