"""What a person or an agent can tell a host to do.

Law 1: a command is carried out whole or refused with a sentence, and then nothing was stored.
Law 2: every command says who gave it (`by`), and that is written in its own transaction (A6).
Law 3: the engine hears of it at once: which run ended, and where to look.

A command decides nothing: the rules do, inside the transaction that carries it out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from duly.desk import deploy
from duly.desk.base import USER, After, HasDesk, find, find_topic
from duly.desk.record import Deployed
from duly.errors import Invalid
from duly.rules.event import Republish, parse_message_id, parse_publication
from duly.rules.source import Source
from duly.rules.value import Json, check_json
from duly.rules.word import Act
from duly.store.base import Transaction

# What a person can answer when nobody else knows whether a change happened (L10).
ANSWERS: Final = (Act.TRY_AGAIN, Act.DID_NOT_HAPPEN, Act.HAPPENED, Act.SKIP)


class Commands(HasDesk):
    """The commands of a host; workflows go by their names, `by` says who commands."""

    async def deploy(
        self,
        source: str | Path | Source,
        *,
        by: str = USER,
        grant: bool = False,
        strict: bool = False,
    ) -> Deployed:
        """Check a source and make it the active version of the workflow it names (W5, W8).

        `grant` allows every capability it uses, `strict` lets warnings refuse it too.
        """
        return await deploy.deploy(self._desk(), source, by=by, grant=grant, strict=strict)

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
        """Publish an event into a topic that takes events from outside (T10).

        The same message id again is the same event (T5); the answer says what became of it.
        """
        desk = self._desk()
        publisher = desk.action(by, "publish").by
        limits = desk.parts.policy.limits
        message = {"message_id": message_id, "title": title, "payload": payload}

        def look(tx: Transaction) -> str:
            found = find(tx, workflow)
            find_topic(tx, found, topic, is_orphan_fine=False)
            return found.id

        workflow_id = await desk.ask(look)
        publication = parse_publication(topic, message, limits)
        verb = desk.parts.store.publish(workflow_id, publication, by=publisher, now=desk.now_ms)
        republish, _ = await desk.carry_out(verb, workflow_id)
        return republish

    async def run_now(self, workflow: str, *, by: str = USER) -> int:
        """Make every producer due now (S7); answer how many there are."""
        desk = self._desk()
        action = desk.action(by, "run_now")
        found = await desk.find(workflow)
        verb = desk.parts.store.run_now(found.id, action=action, now=desk.now_ms)
        return await desk.carry_out(verb, found.id)

    async def pause(self, workflow: str, *, by: str = USER) -> None:
        """Let no run start; a run whose call has not begun is dropped (F7)."""
        await self._wish(workflow, by, is_paused=True)

    async def resume(self, workflow: str, *, by: str = USER) -> None:
        """Let runs start again (F7)."""
        await self._wish(workflow, by, is_paused=False)

    async def _wish(self, workflow: str, by: str, *, is_paused: bool) -> None:
        desk = self._desk()
        action = desk.action(by, "pause" if is_paused else "resume")
        found = await desk.find(workflow)
        verb = desk.parts.store.set_wish(
            found.id, is_paused=is_paused, action=action, now=desk.now_ms
        )
        await desk.carry_out(verb, found.id, then=lambda dropped: After(dropped))

    async def skip(
        self, workflow: str, topic: str, message_id: str | int, *, by: str = USER
    ) -> bool:
        """Skip an event for good (U3); answer whether that changed anything."""
        desk = self._desk()
        action = desk.action(by, "skip")
        event = parse_message_id(message_id, "message_id", desk.parts.policy.limits)

        def look(tx: Transaction) -> str:
            found = find(tx, workflow)
            find_topic(tx, found, topic)
            return found.id

        workflow_id = await desk.ask(look)
        successor_id = desk.parts.env.new_id("run")
        skipped = await desk.carry_out(
            desk.parts.store.skip_event(
                workflow_id,
                topic,
                event,
                successor_id=successor_id,
                action=action,
                now=desk.now_ms,
            ),
            workflow_id,
            then=lambda answer: After(answer.abandoned, answer.retried is not None),
            successor_id=successor_id,
        )
        return skipped.is_changed

    async def retry(self, run: str, *, by: str = USER) -> str:
        """Follow a run that stands still by a new one, now (R9); answer the new run's id."""
        desk = self._desk()
        action = desk.action(by, "retry")
        found = await desk.parts.store.get_run(run)
        successor_id = desk.parts.env.new_id("run")
        verb = desk.parts.store.retry_run(run, successor_id, action=action, now=desk.now_ms)
        await desk.carry_out(
            verb,
            found.workflow_id,
            then=lambda _: After(is_followed=True),
            successor_id=successor_id,
        )
        return successor_id

    async def abandon(self, run: str, *, by: str = USER) -> None:
        """End a run for good; its events go where the ledger says (R9)."""
        desk = self._desk()
        action = desk.action(by, "abandon")
        found = await desk.parts.store.get_run(run)
        verb = desk.parts.store.abandon_run(run, action=action, now=desk.now_ms)
        await desk.carry_out(verb, found.workflow_id, then=lambda _: After(run))

    async def settle(
        self, mutation: str, answer: str, result: Json = None, *, by: str = USER
    ) -> None:
        """Say what became of a mutation nobody else knows about (L10).

        Answer try_again, did_not_happen, happened (with its result, if it has one) or skip.
        """
        desk = self._desk()
        if answer not in ANSWERS:
            known = ", ".join(ANSWERS)
            raise Invalid(f"{answer!r} settles nothing; say one of {known}.", path="answer")
        given = Act(answer)
        if result is not None and given is not Act.HAPPENED:
            raise Invalid(f"Only a change that happened has a result, not {given}.", path="result")
        check_json(result, "result", limit_bytes=desk.parts.policy.limits.result_bytes)
        action = desk.action(by, "settle", given)
        found = await desk.parts.store.get_mutation(mutation)
        verb = desk.engine.settle(mutation, given, result=result, action=action)
        await desk.carry_out(verb, found.workflow_id)
