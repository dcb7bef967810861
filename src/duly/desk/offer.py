"""What a person can do about something, spelled so that it can be said to a host (R9, U6).

Law 1  What is offered is what the rules allow at this moment; the ids are the ones to give.
Law 2  Whoever is offered something is told what comes of it, in the words of one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from duly.desk.record import Offer
from duly.desk.sight import Sight
from duly.rules.permission import Grant, Lack
from duly.rules.word import Act, MutationStatus
from duly.store.record import EventRow, MutationRow, RunRow

SKIPS_MAX: Final = 5  # of all that could be skipped so much is offered by name

# What comes of each thing that can be done, in half a sentence.
DOES: Final[Mapping[str, str]] = {
    "approve": "exactly this call is sent, once",
    "reject": "nothing is sent, and what it was for ends skipped",
    "reconnect": "it goes on, if you have signed in again",
    "grant": "the workflow may do this, and goes on",
    "try_again": "Duly finds out once more what became of it",
    "did_not_happen": "it counts as not made, and the work is begun again",
    "happened": "it counts as made, and is never sent again",
    "settle skip": "it is left open and never sent again; what it was for ends skipped",
    "skip": "it ends skipped for good; nothing is sent for it",
    "skip suspect": "only if it is the cause: it ends skipped for good, and the rest is tried",
    "deploy": "the new version takes it up",
    "retry": "it is tried again, with the version in use",
    "retry proposed": "nothing is sent; the script works it out anew and asks again",
    "abandon": "this attempt ends, and its work comes up again",
    "abandon applied": "the change stays, and nothing follows from it",
    "abandon skipped": "what it was for ends skipped, and nothing follows from it",
    "pause": "nothing new begins until you resume it",
    "resume": "it goes on",
    "run_now": "it checks at once",
    "bus.retry": "it is delivered again",
    "bus.discard": "it is never delivered",
    "bus.resume": "what waits there is told",
    "set_secret": "the new value is sealed and used",
    "drop_secret": "it is forgotten for good",
    "verify": "the store is checked; nothing is changed",
    "diff": "shows what is different",
    "rollback": "this version is put to use",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where something can be done: the workflow, the open run, its call and its inputs."""

    workflow: str
    run: RunRow
    held: MutationRow | None
    inputs: tuple[EventRow, ...]
    grant: Grant | None = None
    lack: Lack | None = Lack.CAPABILITY

    @property
    def mutation(self) -> str:
        """The call an answer is given to; the rules offer none where there is none."""
        assert self.held is not None, self.run
        return self.held.id


def _answer(act: Act) -> Callable[[Place], Iterable[Offer]]:
    does = DOES["settle skip" if act is Act.SKIP else act]
    return lambda place: (
        Offer(act.value, place.mutation, _say("settle", place.mutation, act), does),
    )


def _on_run(verb: str) -> Callable[[Place], Iterable[Offer]]:
    """Offer something that is done to the open run; what comes of it is in its ledger row (R5)."""

    def make(place: Place) -> Iterable[Offer]:
        run_id = place.run.id
        does = DOES.get(f"{verb} {ROWS.get(place.run.state.row)}") or DOES[verb]
        yield Offer(verb, run_id, _say(verb, run_id), does)

    return make


# Where it makes a difference to what comes of an act.
ROWS: Final[Mapping[MutationStatus | None, str]] = {
    MutationStatus.PROPOSED: "proposed",
    MutationStatus.APPLIED: "applied",
    MutationStatus.REJECTED: "skipped",
    MutationStatus.SKIPPED: "skipped",
}


def _approve(place: Place) -> Iterable[Offer]:
    assert place.held is not None, place.run
    said = f'host.approve("{place.held.id}", seen="{place.held.hash}")'
    yield Offer("approve", place.held.id, said, DOES["approve"])


def _reject(place: Place) -> Iterable[Offer]:
    yield Offer("reject", place.mutation, _say("reject", place.mutation), DOES["reject"])


def _grant(place: Place) -> Iterable[Offer]:
    capability = place.run.waits_on or ""
    said = _say("grant", place.workflow, capability)
    limits = "".join(f", {each}" for each in _limits(place))
    yield Offer("grant", capability, f"{said[:-1]}{limits})", DOES["grant"])


def _limits(place: Place) -> Iterable[str]:
    """Spell the limits a grant has: one without them would take them away in silence (A1).

    What is to be chosen anew is left open.
    """
    grant = place.grant
    if grant is None:
        return
    if place.lack is Lack.MUTATIONS_PER_DAY:
        yield "mutations_per_day=…"
    elif grant.mutations_per_day is not None:
        yield f"mutations_per_day={grant.mutations_per_day}"
    if place.lack is Lack.WHERE:
        yield "where={…}"
    elif grant.where:
        globs = (f"{quote(name)}: {quote(glob)}" for name, glob in grant.where.items())
        yield f"where={{{', '.join(globs)}}}"


def _reconnect(place: Place) -> Iterable[Offer]:
    connection, _, name = (place.run.waits_on or "").partition(".")
    if name:
        yield replace_secret(connection, name)[0]
    yield Offer("reconnect", connection, _say("reconnect", connection), DOES["reconnect"])


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
    Act.DEPLOY: lambda place: (deploy(place.workflow),),
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
    return (*spelled, on_workflow("resume", place.workflow)) if is_paused else tuple(spelled)


def _can_be_asked(place: Place, sight: Sight) -> bool:
    """Tell whether asking or sending again could tell anything (L10)."""
    tool = None if place.held is None else sight.find_tool(place.held.tool)
    return tool is not None and (tool.reconciles or tool.idempotent)


def on_workflow(verb: str, workflow: str) -> Offer:
    """Offer something that is done to a whole workflow."""
    return Offer(verb, workflow, _say(verb, workflow), DOES[verb])


def deploy(workflow: str) -> Offer:
    """Offer to bring another version."""
    return Offer("deploy", workflow, "host.deploy(source)", DOES["deploy"])


def skip(workflow: str, topic: str, message_id: str) -> Offer:
    """Offer to skip one event."""
    said = _say("skip", workflow, topic, message_id)
    return Offer("skip", f"{topic}/{message_id}", said, DOES["skip"])


def skip_suspect(workflow: str, topic: str, message_id: str) -> Offer:
    """Offer to skip what a script that took nothing may have failed over (U3)."""
    return replace(skip(workflow, topic, message_id), does=DOES["skip suspect"])


def deliver(event_id: int, receiver: str) -> tuple[Offer, ...]:
    """Offer what can be done about something the bus gave up (B5)."""
    target = f"{event_id}/{receiver}"
    given = f"{event_id}, {quote(receiver)}"
    return (
        Offer("retry", target, f"host.bus.retry({given})", DOES["bus.retry"]),
        Offer("discard", target, f"host.bus.discard({given})", DOES["bus.discard"]),
    )


def resume_bus() -> Offer:
    """Offer to let a restored bus tell what waits (H5)."""
    return Offer("resume", "bus", "host.bus.resume()", DOES["bus.resume"])


def replace_secret(connector: str, name: str) -> tuple[Offer, ...]:
    """Offer to set a secret again, or to forget it (A5)."""
    target = f"{connector}.{name}"
    setting = f"host.set_secret({quote(connector)}, {quote(name)}, …)"
    dropping = _say("drop_secret", connector, name)
    return (
        Offer("set_secret", target, setting, DOES["set_secret"]),
        Offer("drop_secret", target, dropping, DOES["drop_secret"]),
    )


def verify() -> Offer:
    """Offer to check the whole store (H5)."""
    return Offer("verify", "", _say("verify"), DOES["verify"])


def adopt(workflow: str, active: str, version: str) -> tuple[Offer, ...]:
    """Offer to look at a proposed version, and to put it to use."""
    return (
        Offer("diff", version, _say("diff", workflow, active, version), DOES["diff"]),
        Offer("rollback", version, _say("rollback", workflow, version), DOES["rollback"]),
    )


def _say(verb: str, *given: str) -> str:
    return f"host.{verb}({', '.join(quote(each) for each in given)})"


def quote(text: str) -> str:
    """Write a text as a program would; what cannot be printed is spelled out."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    spelled = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in escaped)
    return f'"{"".join(spelled)}"'
