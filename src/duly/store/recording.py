"""What past runs were given and asked for, so that another version can be tried on it (F3).

Law 1: what a step read is stored apart, by the chain of runs it belongs to. An heir goes on with
       what its predecessor prepared, a fresh attempt replaces it, and no view loads it.
Law 2: it is written in the transaction of the step it belongs to. It is kept only for the newest
       runs of a workflow: older ones are not tried again, and cost no disk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from duly.errors import Invalid
from duly.rules.access import Step
from duly.store import statements
from duly.store.base import Transaction
from duly.store.record import EventRow, MutationRow, RunRow

RECORDINGS_MAX: Final = 100  # per workflow; a run has one, or two if its policy lets mutate read
PAST_RUNS_MAX: Final = RECORDINGS_MAX // 2  # so that of all of these every recording is there


@dataclass(frozen=True, slots=True)
class Published:
    """An event a run put out; `digest` is of its content, None where that was replaced since."""

    topic: str
    message_id: str
    digest: str | None


@dataclass(frozen=True, slots=True)
class Past:
    """A run that ended: its inputs as it was shown them, its mutation, and what its reads gave."""

    run: RunRow
    inputs: tuple[EventRow, ...]
    mutation: MutationRow | None
    reads: tuple[str, ...]
    published: tuple[Published, ...] = ()


def begin_recording(
    tx: Transaction, workflow_id: str, run_id: str, chain: str, reads: str | None
) -> None:
    """Keep what a prepare read, in place of what an earlier attempt of its chain did."""
    if chain != run_id:
        tx.write("clear_recording", workflow_id=workflow_id, chain=chain)
    if reads is not None:
        keep_reads(tx, run_id, Step.PREPARE, reads)
        tx.write("prune_recordings", workflow_id=workflow_id, kept=RECORDINGS_MAX)


def keep_reads(tx: Transaction, run_id: str, step: Step, reads: str) -> None:
    """Keep what one step read."""
    tx.change("put_recording", f"Run {run_id}", run_id=run_id, step=step.value, reads=reads)


def keep_produced(tx: Transaction, workflow_id: str, run_id: str, handler: str, text: str) -> None:
    """Keep what a producer read and published, in place of what its run before did."""
    tx.write("drop_produced", workflow_id=workflow_id, handler=handler)
    keep_reads(tx, run_id, Step.PRODUCE, text)


def list_produced(tx: Transaction, workflow_id: str) -> tuple[str, ...]:
    """Read what the newest run of each producer that published something was given and gave."""
    return tuple(text for (text,) in tx.all("list_produced", workflow_id=workflow_id))


def list_past(tx: Transaction, workflow_id: str, *, limit: int = 20) -> tuple[Past, ...]:
    """Read the newest runs that ended having worked on something, so many of each consumer.

    One that runs often does not hide one that seldom does; newest first.
    """
    if not 1 <= limit <= PAST_RUNS_MAX:
        raise Invalid(
            code="out_of_range",
            path="limit",
            facts={"given": limit, "least": 1, "most": PAST_RUNS_MAX},
        )
    taken: Counter[str] = Counter()
    found: list[str] = []
    for run_id, handler in tx.all("list_past_runs", workflow_id=workflow_id, limit=PAST_RUNS_MAX):
        taken[handler] += 1
        if taken[handler] <= limit:
            found.append(run_id)
    return tuple(_past(tx, run_id) for run_id in found)


def _past(tx: Transaction, run_id: str) -> Past:
    run = statements.read_run(tx, run_id)
    held = tx.one("get_held_mutation", held_by=run_id)
    kept = tx.all("list_recordings", workflow_id=run.workflow_id, chain=run.chain)
    return Past(
        run,
        tuple(EventRow(*row) for row in tx.all("list_inputs", run_id=run_id)),
        None if held is None else MutationRow(*held),
        tuple(reads for (reads,) in kept),
        tuple(
            Published(*row)
            for row in tx.all("list_published", workflow_id=run.workflow_id, run_id=run_id)
        ),
    )
