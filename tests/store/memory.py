"""The schema and the statements of the store over a database in memory, for tests about statements.

Law: rows are put there directly, so a test can ask about facts that no verb would hurry to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import apsw

from duly.store import queries
from duly.store.base import Durability, Transaction
from duly.store.sqlite import default_schema
from duly.store.transaction import NamedTransaction

R = TypeVar("R")

WORKFLOW = {"active_version": "1.0", "created_at": 0}
HANDLER = {"kind": "consumer", "position": 0}
EVENT = {"created_by": "api", "created_at": 0}
RUN = {"version": "1.0", "handler": "file", "kind": "consumer", "phase": "preparing", "counter": 0}
RUN_TIMES = {"created_at": 0, "updated_at": 0}
MUTATION = {"tool": "a.b", "args": "{}", "inputs": "i", "key": "k", "hash": "h"}


class Memory:
    """A database that lives as long as a test."""

    def __init__(self) -> None:
        schema = default_schema()
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(schema.text)
        self.statements = queries.prepare(schema.statements)
        self.transaction = NamedTransaction(self.connection, self.statements)
        self.transaction.closed_by = None  # it is open for as long as the database is

    def insert(self, table: str, **columns: Any) -> None:
        """Put one row into a table."""
        marks = ", ".join("?" * len(columns))
        names = ", ".join(columns)
        self.connection.execute(
            f"insert into {table} ({names}) values ({marks})", tuple(columns.values())
        )

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Take back whatever is put into the database meanwhile."""
        self.connection.execute("begin")
        try:
            yield
        finally:
            self.connection.execute("rollback")

    def workflow(self, workflow_id: str, **columns: Any) -> None:
        """Put a workflow with a topic that its consumer `file` reads."""
        self.insert("workflow", id=workflow_id, name=workflow_id, **{**WORKFLOW, **columns})
        self.topic(workflow_id, "mail", "file")

    def topic(self, workflow_id: str, name: str, consumer: str | None) -> None:
        """Put a topic."""
        self.insert("topic", workflow_id=workflow_id, name=name, consumer=consumer)

    def handler(self, workflow_id: str, name: str = "file", **columns: Any) -> None:
        """Put a handler, a consumer unless something else is said."""
        self.insert("handler", workflow_id=workflow_id, name=name, **{**HANDLER, **columns})

    def event(self, workflow_id: str, seq: int, topic: str = "mail", **columns: Any) -> None:
        """Put an event with its content."""
        content = {"title": f"Event {seq}", "body": "{}", "digest": str(seq)}
        self.insert("payload", workflow_id=workflow_id, content=seq, **content)
        known = {"workflow_id": workflow_id, "seq": seq, "content": seq, "topic": topic}
        known["message_id"] = str(seq)
        self.insert("event", **{**EVENT, **known, **columns})

    def run(self, workflow_id: str, run_id: str, **columns: Any) -> None:
        """Put a run, an open and active one unless something else is said."""
        known = {"id": run_id, "workflow_id": workflow_id, "chain": run_id, "status": "active"}
        self.insert("run", **{**RUN, **RUN_TIMES, **known, **columns})

    def mutation(self, workflow_id: str, run_id: str, mutation_id: str, **columns: Any) -> None:
        """Put a row of the ledger that its run holds."""
        known = {"id": mutation_id, "workflow_id": workflow_id, "run_id": run_id}
        known["held_by"] = run_id
        self.insert("mutation", **{**MUTATION, **RUN_TIMES, **known, **columns})


class MemoryBackend:
    """A backend that forgets: verbs run over a database in memory, each whole or not at all."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def ask(self, body: Callable[[Transaction], R]) -> R:
        return await self.transact(body, Durability.READ)

    async def transact(self, body: Callable[[Transaction], R], durability: Durability) -> R:
        """Run a verb; one that raises leaves nothing."""
        execute = self._memory.connection.execute
        execute("savepoint verb")
        try:
            value = body(self._memory.transaction)
        except BaseException:
            execute("rollback to verb")
            execute("release verb")
            raise
        execute("release verb")
        return value

    async def sync(self) -> None:
        """There is no disk to wait for."""

    async def close(self) -> None:
        """Nothing is kept."""
        self._memory.connection.close()
