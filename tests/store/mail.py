"""Mails through the verbs: three workflows at once take them from the outside to the last commit.

Law: whatever a verb has written can be read back as a *fact*, so a test knows after any accident
which verbs happened. The facts of one mail come in the order of `LIFE`, and over all workflows in
the order in which the verbs returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from duly.rules import lifecycle
from duly.rules.event import Publication, parse_publication
from duly.rules.lifecycle import Run
from duly.rules.word import Answer, Progress
from duly.store import Store
from duly.store.base import Fence
from duly.store.record import Action, Call, Commit, JournalEvent, Pinned, Recorded, Reserve
from tests.store.scene import deployment, starting

WORKFLOWS = 3
LIFE = ("published", "started", "prepared", "sent", "applied", "committed")
BARRIERS = frozenset({"deployed", "claimed", "published", "sent", "granted", "emitted"})


@dataclass
class Office:
    """Three workflows and everything their verbs were told; `confirm` hears of each barrier."""

    store: Store
    confirm: Callable[[str], None]
    returned: list[str] = field(default_factory=list)
    now: int = 1_000_000

    def note(self, fact: str) -> None:
        """Write down that a verb returned."""
        self.returned.append(fact)
        if fact.split(" ", 1)[0] in BARRIERS:
            self.confirm(fact)

    def tick(self) -> int:
        """Let a millisecond pass."""
        self.now += 1
        return self.now

    async def work(self, chance: Random, mails: int) -> None:
        """Let every workflow take its mails, all at the same time."""
        await self.store.join("host", now=self.tick())
        await asyncio.gather(*(self._workflow(n, chance, mails) for n in range(WORKFLOWS)))

    async def _workflow(self, number: int, chance: Random, mails: int) -> None:
        workflow_id = f"workflow_{number}"
        made = deployment(workflow_id=workflow_id, name=f"mail {number}")
        action = Action(f"action_{number}", "me", "deploy")
        await self.store.deploy(made, successor_id="none", action=action, now=self.tick())
        self.note(f"deployed {workflow_id}")
        fence = await self.store.claim("host", workflow_id)
        self.note(f"claimed {workflow_id}")
        for mail in range(mails):
            await self._mail(fence, f"{number}.{mail}", "x" * chance.choice([10, 500, 6_000]))
            await self._aside(fence, f"{number}.{mail}", chance)

    async def _mail(self, fence: Fence, name: str, text: str) -> None:
        """Take one mail from the outside to the commit of its run."""
        run_id = f"run_{name}"
        new = _event("mail", name, text)
        action = Action(f"action_{name}", "api", "publish")
        await self.store.publish(fence.workflow_id, new, action=action, now=self.tick())
        self.note(f"published {name}")
        await self.store.take_turn(fence, run_id, starting("file"), now=self.tick())
        self.note(f"started {name}")
        run, after = lifecycle.CONSUMER_START, _go(lifecycle.CONSUMER_START, Progress.PREPARE_DONE)
        pinned = Pinned('{"data":{}}', self.now, "seed")
        reserves = (Reserve("mail", name),)
        await self.store.prepare_run(fence, run_id, run, after, pinned, reserves, now=self.tick())
        self.note(f"prepared {name}")
        run, after = after, _go(after, Progress.BEGIN_MUTATE, Progress.SEND)
        call = Call(f"mutation_{name}", "sheets.append", "{}", "Add a row", name, "hash")
        await self.store.send(fence, run_id, run, after, call, now=self.tick())
        self.note(f"sent {name}")
        run, after = after, lifecycle.answer(after, Answer.APPLIED)
        recorded = Recorded(1, result='{"id":7}')
        await self.store.record(fence, run_id, run, after, recorded, now=self.tick())
        self.note(f"applied {name}")
        change = lifecycle.commit(_go(after, Progress.BEGIN_NEXT))
        commit = Commit((_event("row", f"row:{name}", text),), state='{"n":1}')
        await self.store.commit_run(fence, run_id, after, change, commit, now=self.tick())
        self.note(f"committed {name}")

    async def _aside(self, fence: Fence, name: str, chance: Random) -> None:
        """Do one of the things that happen beside the mails."""
        if chance.random() < 0.5:
            action = Action(f"action_grant {name}", "me", "grant")
            await self.store.grant(fence.workflow_id, f"cap.{name}", action=action, now=self.now)
            self.note(f"granted {name}")
        else:
            await self.store.emit(JournalEvent(f"topic.{name}", "test", "{}"), now=self.now)
            self.note(f"emitted {name}")


async def facts(store: Store) -> set[str]:
    """Read which verbs have happened, and see that no transaction is torn."""
    found: set[str] = set()
    for workflow in await store.list_workflows():
        found.add(f"deployed {workflow.id}")
        assert len(await store.list_handlers(workflow.id)) == 3, "a deploy is torn"
        if workflow.holder is not None:
            found.add(f"claimed {workflow.id}")
        found |= {f"granted {g.capability[4:]}" for g in await store.list_grants(workflow.id)}
        events = {event.message_id: event for event in await store.list_events(workflow.id)}
        found |= {f"published {name}" for name, event in events.items() if event.topic == "mail"}
        for run in await store.list_runs(workflow.id):
            name = run.id.removeprefix("run_")
            found.add(f"started {name}")
            reached = {"prepared": 1, "mutating": 2, "mutated": 3, "committed": 4}
            found |= {f"{fact} {name}" for fact in LIFE[2 : 2 + reached.get(run.phase, 0)]}
            mail, row = events[name], events.get(f"row:{name}")
            is_over = run.phase == "committed"
            assert (row is not None) is is_over, "a commit is torn"
            expected = "consumed" if is_over else "reserved" if run.prepared else "pending"
            assert mail.status == expected, "a reservation is torn"
            sent = {"mutating": "in_flight", "mutated": "applied", "committed": "applied"}
            assert run.row == sent.get(run.phase), "a send is torn"
    found |= {f"emitted {event.topic[6:]}" for event in await store.list_journal()}
    return found


def _event(topic: str, message_id: str, text: str) -> Publication:
    raw = {"message_id": message_id, "title": f"Mail {message_id}", "payload": {"text": text}}
    return parse_publication(topic, raw)


def _go(run: Run, *steps: Progress) -> Run:
    for step in steps:
        run = lifecycle.advance(run, step)
    return run
