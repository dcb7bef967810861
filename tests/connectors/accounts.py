"""A service with two accounts: which of them is asked is in the secret of the connector."""

from __future__ import annotations

from typing import Any

import duly
from duly.connectors.base import Applied, Call, NotApplied, Verdict

FLOW = """
from duly import workflow

flow = workflow("adds", topics={"wish": {"ingress": True}})


@flow.consumer("wish")
class add:
    async def prepare(self, ctx, state):
        found = await ctx.peek("wish", limit=1)
        if not found:
            return {"reservations": []}
        return {"reservations": [{"topic": "wish", "ids": [found[0]["message_id"]]}]}

    async def mutate(self, ctx, prepared):
        await ctx.lost.add(text="x")
"""


class Accounts(duly.Connector):
    """Two accounts of one service; `made` is what each of them has done."""

    name = "lost"

    def __init__(self) -> None:
        self.made: dict[str, list[str]] = {"first": [], "second": []}
        self.is_silent = True

    @duly.mutation(key_in="id", asked="exactly", lag_s=0)
    async def add(self, call: Call, text: str) -> None:
        self.made[self.secret("token")].append(call.key)
        if self.is_silent:
            raise duly.UnknownOutcome("lost")

    @add.reconcile
    async def add_happened(self, call: Call) -> Verdict:
        if self.is_silent:
            raise duly.Transient("silent")
        return Applied(None) if call.key in self.made[self.secret("token")] else NotApplied()

    @add.trial
    def add_tried(self) -> dict[str, Any]:
        """Adds a text."""
        return {"text": "trial"}


class Plain(Accounts):
    """The same without a trial: it is believed as it is."""

    @duly.mutation(key_in="id", asked="exactly", lag_s=0)
    async def add(self, call: Call, text: str) -> None:
        self.made[self.secret("token")].append(call.key)
        raise duly.UnknownOutcome("lost")

    @add.reconcile
    async def add_happened(self, call: Call) -> Verdict:
        return await Accounts.add_happened(self, call)


class Tidied(Plain):
    """What it made can be deleted, and its question does not see that."""

    @duly.mutation(key_in="id", asked="exactly", lag_s=0, deleted="unseen")
    async def add(self, call: Call, text: str) -> None:
        self.made[self.secret("token")].append(call.key)
        if self.is_silent:
            raise duly.UnknownOutcome("lost")

    @add.reconcile
    async def add_happened(self, call: Call) -> Verdict:
        return await Accounts.add_happened(self, call)


class Repeated(Accounts):
    """It makes one change for each key, in each account, and cannot be asked."""

    # Called before the secret is asked for.
    before: Any = None

    @duly.mutation(key_in="id", idempotent=True, key_lifetime_s=1e9, lag_s=0)
    async def add(self, call: Call, text: str) -> None:
        if self.before is not None:
            await self.before()
        made = self.made[self.secret("token")]
        if call.key not in made:
            made.append(call.key)
        if self.is_silent:
            raise duly.UnknownOutcome("lost")
