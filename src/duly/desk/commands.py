"""What a person or an agent can tell a host to do.

Law 1: a command is carried out whole or refused with a sentence, and then nothing was stored.
Law 2: every command says who gave it (`by`), and that is written in its own transaction (A6).
Law 3: the engine hears of it at once: which run ended, and where to look.

A command decides nothing: the rules do, inside the transaction that carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from duly.bus.cause import handled_event
from duly.desk import deploy
from duly.desk import grant as granting
from duly.desk.adding import Adding
from duly.desk.approval import Approvals
from duly.desk.backups import Backups
from duly.desk.base import USER, find, find_topic
from duly.desk.carrying import Carrying
from duly.desk.deploy import GivenSource
from duly.desk.forgetting import Forgetting
from duly.desk.hook import HOOKS, Hooks
from duly.desk.identity import resolve
from duly.desk.proposing import Proposing
from duly.desk.publication import publish
from duly.desk.record import Deployed
from duly.desk.secret import check_secret
from duly.desk.slip import CHANNELS, Slips
from duly.desk.token import Tokens
from duly.desk.upkeep import Keeping
from duly.errors import Invalid, NotFound, RequestRefused, see, short
from duly.rules.event import Republish, parse_message_id
from duly.rules.identity import IdKind, MutationId, RunId
from duly.rules.permission import write_matching
from duly.rules.source import EXAMPLE
from duly.rules.value import Json, check_json, encode, nearest
from duly.rules.verb import Scope, act
from duly.rules.word import Act, Waits
from duly.store import people
from duly.store.base import Transaction
from duly.store.granted import MATCHING_BYTES_MAX

# What a person can answer when the host cannot find out whether a change happened (L10).
ANSWERS: Final = (Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP)
DETAIL_BYTES_MAX: Final = 64 * 1024


class Commands(
    Keeping, Backups, Carrying, Forgetting, Approvals, Tokens, Hooks, Proposing, Slips, Adding
):
    """The commands of a host; workflows go by their names, `by` says who commands."""

    @act(scope=Scope.DECIDE, example={"source": EXAMPLE, "grant": True})
    async def deploy(
        self,
        source: GivenSource,
        *,
        by: str = USER,
        grant: bool = False,
        strict: bool = False,
        again: bool = True,
        replay: bool = False,
        rights: Mapping[str, str] | None = None,
    ) -> Deployed:
        """Check a source and make it the active version of the workflow it names.

        `grant` allows every capability it uses, `strict` lets warnings refuse it too. Not `again`:
        a text that is active already makes no new version, and is granted only what it lacks.
        `replay` lets a version through that does things again because a producer with a state, a
        topic with events or the workflow itself bears another name. `rights` allows what it names
        of what the source uses, each with what was shown of it (`seen` of a preview): if one was
        given with limits it stays, and if one was taken back since, nothing is deployed.
        """
        # Rules: W5, W8, W9, A2.
        given = granting.read_given(grant=grant, rights=rights)
        how = {"strict": strict, "again": again, "replay": replay}
        return await deploy.deploy(self._desk(), source, by=by, given=given, **how)

    @act(scope=Scope.DECIDE, example={"workflow": "invoices", "version": "1.0"})
    async def rollback(self, workflow: str, version: str, *, by: str = USER) -> Deployed:
        """Make the text of an older or a proposed version the newest one, examined anew."""
        # Rules: W8.
        return await deploy.rollback(self._desk(), workflow, version, by=by)

    @act(scope=Scope.ADMIN, example={"workflow": "invoices"})
    async def remove(self, workflow: str, *, by: str = USER) -> None:
        """Take a workflow out of service; its history stays, and its name is free.

        Its webhooks are closed.
        """
        # Rules: W10, G12.
        desk = self._desk()
        action = desk.action(by, "remove")
        found = await desk.find(workflow)
        verb = partial(desk.parts.store.remove, found.id, action=action, now=desk.now_ms)

        async def remove() -> None:
            for secret in await verb():
                if desk.vault is not None:
                    desk.vault.forget(HOOKS, secret)

        await desk.carry_out(remove, found.id)

    @act(
        scope=Scope.AGENT,
        example={
            "workflow": "invoices",
            "topic": "mail.received",
            "title": "Mail 42",
            "payload": {"id": 42},
        },
    )
    async def publish(
        self,
        workflow: str,
        topic: str,
        *,
        title: str,
        message_id: str | int | None = None,
        payload: Json = None,
        by: str = USER,
    ) -> Republish:
        """Publish an event into a topic that takes events from outside.

        The same message id again is the same event; the answer says what became of it.
        """
        # Rules: T10, T5.
        desk = self._desk()
        message = {"message_id": message_id, "title": title, "payload": payload}
        return await publish(desk, workflow, topic, message, desk.action(by, "publish"))

    @act(scope=Scope.AGENT, example={"workflow": "invoices"})
    async def run_now(self, workflow: str, producer: str | None = None, *, by: str = USER) -> int:
        """Run every producer now, or only the one that is named; return how many."""
        desk = self._desk()
        action = desk.action(by, "run_now")
        found = await desk.find(workflow)
        verb = partial(desk.parts.store.run_now, found.id, producer, action=action, now=desk.now_ms)
        return await desk.carry_out(verb, found.id)

    @act(scope=Scope.AGENT, example={"workflow": "invoices"})
    async def pause(self, workflow: str, *, by: str = USER) -> None:
        """Let no run start; a run whose call has not begun is dropped."""
        # Rules: F7.
        await self._wish(workflow, by, is_paused=True)

    @act(scope=Scope.AGENT, restored_argument="workflow", example={"workflow": "invoices"})
    async def resume(self, workflow: str, *, by: str = USER, right: Scope = Scope.ADMIN) -> None:
        """Let runs start again; what was restored from a backup needs the scope decide."""
        # Rules: F7, G4, H5.
        await self._wish(workflow, by, is_paused=False, right=right)

    async def _wish(
        self, workflow: str, by: str, *, is_paused: bool, right: Scope = Scope.ADMIN
    ) -> None:
        desk = self._desk()
        action = desk.action(by, "pause" if is_paused else "resume")
        found = await desk.find(workflow)
        verb = partial(
            desk.parts.store.set_paused,
            found.id,
            is_paused=is_paused,
            action=action,
            now=desk.now_ms,
            right=right,
        )
        await desk.carry_out(verb, found.id, ended=lambda dropped: dropped)

    @act(
        scope=Scope.DECIDE,
        for_agents=True,
        example={"workflow": "invoices", "topic": "mail.received", "message_id": "42"},
    )
    async def skip(
        self, workflow: str, topic: str, message_id: str | int, *, by: str = USER
    ) -> bool:
        """Skip an event for good; return whether that changed anything."""
        # Rules: U3.
        desk = self._desk()
        action = desk.action(by, "skip")
        event = parse_message_id(message_id, "message_id", desk.parts.policy.limits)

        def look(tx: Transaction) -> str:
            found = find(tx, workflow)
            find_topic(tx, found, topic)
            return found.id

        workflow_id = await desk.look(look)
        successor_id = desk.parts.env.new_id("run")
        skipped = await desk.carry_out(
            partial(
                desk.parts.store.skip_event,
                workflow_id,
                topic,
                event,
                successor_id=successor_id,
                action=action,
                now=desk.now_ms,
            ),
            workflow_id,
            ended=lambda answer: answer.abandoned,
        )
        return skipped.is_changed

    @act(scope=Scope.AGENT, example={"run": "run_019a8b7c0d1e2f30"})
    async def retry(self, run: RunId, *, by: str = USER) -> str:
        """Start a new run in place of a stopped one, now; return its id."""
        # Rules: R9.
        desk = self._desk()
        action = desk.action(by, "retry")
        run = await resolve(desk, run, IdKind.RUN)
        found = await desk.parts.store.get_run(run)
        successor_id = desk.parts.env.new_id("run")
        verb = partial(
            desk.parts.store.retry_run,
            run,
            successor_id,
            action=action,
            # A handler that retries each failed run is a loop like any other (B12).
            bus_event=handled_event(desk.parts.store),
            now=desk.now_ms,
        )
        await desk.carry_out(verb, found.workflow_id)
        return successor_id

    @act(scope=Scope.DECIDE, for_agents=True, example={"run": "run_019a8b7c0d1e2f30"})
    async def abandon(self, run: RunId, *, by: str = USER) -> None:
        """End a run for good; the ledger decides what becomes of its events."""
        # Rules: R9.
        desk = self._desk()
        action = desk.action(by, "abandon")
        run = await resolve(desk, run, IdKind.RUN)
        found = await desk.parts.store.get_run(run)
        verb = partial(desk.parts.store.abandon_run, run, action=action, now=desk.now_ms)
        await desk.carry_out(verb, found.workflow_id, ended=lambda _: run)

    @act(
        scope=Scope.DECIDE, example={"mutation": "mutation_019a8b7c0d1e2f30", "answer": "happened"}
    )
    async def settle(
        self,
        mutation: MutationId,
        answer: str,
        result: Json = None,
        *,
        seen: int | None = None,
        by: str = USER,
    ) -> None:
        """Say what became of a mutation where the host cannot find out.

        Answer try_again, did_not_happen, happened (with its result, if it has one) or skip. With
        `seen`, the number of sends that was shown, a mutation that was sent again since is not
        settled.
        """
        # Rules: L10, L6.
        desk = self._desk()
        said_ms = desk.parts.env.monotonic_ms()
        if answer not in ANSWERS:
            raise Invalid(
                code="not_one_of",
                path="answer",
                facts={"given": short(answer), "known": [*ANSWERS]},
            )
        given = Act(answer)
        if result is not None and given is not Act.HAPPENED:
            raise Invalid(code="no_result", path="result", facts={"answer": given})
        check_json(result, "result", limit_bytes=desk.parts.policy.limits.result_bytes)
        action = desk.action(by, "settle", given)
        mutation = await resolve(desk, mutation, IdKind.MUTATION)
        found = await desk.parts.store.get_mutation(mutation)
        verb = partial(
            desk.engine.settle,
            mutation,
            given,
            said_ms=said_ms,
            seen=seen,
            result=result,
            action=action,
        )
        await desk.carry_out(verb, found.workflow_id)

    # -- What is allowed ------------------------------------------------------------------------

    @act(
        scope=Scope.DECIDE,
        example={"workflow": "invoices", "capability": "table.insert", "mutations_per_day": 100},
    )
    async def grant(
        self,
        workflow: str,
        capability: str,
        *,
        mutations_per_day: int | None = None,
        where: Mapping[str, str] | None = None,
        asks: Mapping[str, str] | None = None,
        seen: str | None = None,
        by: str = USER,
    ) -> bool:
        """Allow a capability within limits, which replace those of an earlier grant.

        `asks` says of a tool when you want to be asked first: `always`, or `first:5` for the first
        five calls of each new version. It adds to the rules of the settings, and the strictest
        holds. Without `asks` it stays as it was; {} takes it back. `seen` is what was shown of it
        (`right`): if it was given, limited or taken back since, nothing is changed. Return whether
        a run that waited for the grant goes on.
        """
        # Rules: A1, A3, F4.
        desk = self._desk()
        catalog = desk.parts.outside.catalog
        given = granting.check_grant(catalog, capability, mutations_per_day, where, asks)
        detail = granting.to_json(given, keeps_asks=asks is None)
        action = desk.action(by, "grant", encode(detail, limit_bytes=DETAIL_BYTES_MAX))
        found = await desk.find(workflow)
        verb = partial(
            desk.parts.store.grant,
            found.id,
            capability,
            mutations_per_day=given.mutations_per_day,
            matching=encode(write_matching(given), "where", limit_bytes=MATCHING_BYTES_MAX),
            keeps_asks=asks is None,
            seen=granting.check_seen(seen),
            action=action,
            now=desk.now_ms,
        )
        return await desk.carry_out(verb, found.id) is not None

    @act(
        scope=Scope.DECIDE,
        example={
            "workflow": "invoices",
            "capability": "table.insert",
            "asks": {"table.insert": "always"},
            "seen": {"table.insert": ""},
        },
    )
    async def choose_asks(
        self,
        workflow: str,
        capability: str,
        asks: Mapping[str, str],
        seen: Mapping[str, str],
        *,
        by: str = USER,
    ) -> bool:
        """Choose when you are asked before the changes that a grant allows.

        `asks` says it of a tool: `always`, or `first:5` for the first five calls of each new
        version; an empty word takes it back. `seen` says what was shown of the same tools; if
        something else stands by now, nothing is changed. The limits of the grant stay. Return
        whether anything changed.
        """
        # Rules: A1, A3.
        desk = self._desk()
        given, shown = granting.check_choice(desk.parts.outside.catalog, capability, asks, seen)
        detail = encode({"asks": given, "seen": shown}, limit_bytes=DETAIL_BYTES_MAX)
        action = desk.action(by, "choose_asks", detail)
        found = await desk.find(workflow)
        verb = partial(
            desk.parts.store.choose_asks,
            found.id,
            capability,
            asks=given,
            seen=shown,
            action=action,
            now=desk.now_ms,
        )
        return await desk.carry_out(verb, found.id)

    @act(
        scope=Scope.DECIDE,
        example={"workflow": "invoices", "capability": "table.insert"},
    )
    async def revoke(self, workflow: str, capability: str, *, by: str = USER) -> None:
        """Take a capability back; the next call that needs it waits for a new grant."""
        # Rules: A1.
        desk = self._desk()
        action = desk.action(by, "revoke")
        found = await desk.find(workflow)
        held = [each.capability for each in await desk.parts.store.list_grants(found.id)]
        if capability not in held:
            raise NotFound(
                code="no_grant",
                subject=str(capability),
                facts={"workflow": workflow, **nearest(str(capability), held)},
                next=see("actions", workflow=workflow),
            )
        verb = partial(
            desk.parts.store.revoke, found.id, capability, action=action, now=desk.now_ms
        )
        await desk.carry_out(verb, found.id)

    @act(scope=Scope.DECIDE, for_agents=True, example={"connector": "mailbox"})
    async def reconnect(self, connector: str, *, by: str = USER) -> int:
        """Say that a connection works again; return how many runs that waited for it go on."""
        # Rules: F4.
        desk = self._desk()
        action = desk.action(by, "reconnect")
        waiting = await desk.parts.store.list_waiting(limit=people.PAGE_ROWS_MAX)
        named = {each.waits_on or "" for each in waiting if each.waits == Waits.CONNECTION}
        known = {*desk.parts.outside.connectors, *(each.partition(".")[0] for each in named)} - {""}
        if connector not in known:
            raise NotFound(
                code="no_connector", subject=str(connector), facts=nearest(str(connector), known)
            )
        verb = partial(desk.parts.store.reconnect, connector, action=action, now=desk.now_ms)
        return len(await desk.carry_out(verb, None))

    @act(scope=Scope.ADMIN, example={"connector": "mailbox", "name": "password", "value": "…"})
    async def set_secret(self, connector: str, name: str, value: str, *, by: str = USER) -> None:
        """Keep a secret for a connector, sealed; it is used from the next call on.

        Runs that wait for this connection go on by themselves.
        """
        # Rules: A5, F4.
        desk = self._desk()
        action = desk.action(by, "set_secret")
        check_secret(connector, name, value, (*desk.parts.outside.connectors, CHANNELS))
        vault = desk.vault
        if vault is None:
            raise RequestRefused(code="no_vault")
        sealed = await vault.seal(connector, name, value)
        verb = partial(
            desk.parts.store.set_secret, connector, name, sealed, action=action, now=desk.now_ms
        )

        async def keep() -> None:
            vault.keep(connector, name, value, await verb())

        await desk.carry_out(keep, None)
