"""The figures of a host that a monitor reads: their names, their kinds and their labels.

Law 1  A name says its unit at its end, as Prometheus wants it: `_total` grows for as long as a host
       runs, `_seconds` and `_bytes` are what they say.
Law 2  A label is a word of an enum or a name that a person chose (workflow, tool, model); no id and
       no text of an event is ever one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FigureKind(StrEnum):
    """How a monitor treats a figure."""

    COUNTER = "counter"  # since the host opened; it begins again at zero
    GAUGE = "gauge"  # at this moment


class FigureName(StrEnum):
    """Every figure there is."""

    WORKFLOWS = "duly_workflows"
    ATTENTION = "duly_attention"
    PENDING = "duly_pending_events"
    OLDEST_PENDING = "duly_oldest_pending_seconds"
    OPEN_RUNS = "duly_open_runs"
    OPEN_MUTATIONS = "duly_open_mutations"
    UNFINISHED_DELIVERIES = "duly_unfinished_deliveries"
    STORE_BYTES = "duly_store_bytes"
    LOOP_LAG = "duly_loop_lag_seconds"
    RUNS_STARTED = "duly_runs_started_total"
    RUNS = "duly_runs_total"
    MUTATIONS = "duly_mutations_total"
    DELIVERIES = "duly_deliveries_total"
    MODEL_QUESTIONS = "duly_model_questions_total"
    MODEL_TOKENS = "duly_model_tokens_total"
    MODEL_COST = "duly_model_cost_total"
    STORE_WRITES = "duly_store_writes_total"
    STORE_SYNCS = "duly_store_syncs_total"
    STORE_SYNC_SECONDS = "duly_store_sync_seconds_total"
    WORKER_STARTS = "duly_worker_starts_total"

    @property
    def kind(self) -> FigureKind:
        """How a monitor treats it; only a counter ends so."""
        return FigureKind.COUNTER if self.endswith("_total") else FigureKind.GAUGE

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, in their order."""
        return LABELS.get(self, ())


LABELS: Final[Mapping[FigureName, tuple[str, ...]]] = {
    FigureName.WORKFLOWS: ("standing",),
    FigureName.PENDING: ("workflow",),
    FigureName.OLDEST_PENDING: ("workflow",),
    FigureName.OPEN_RUNS: ("status",),
    FigureName.OPEN_MUTATIONS: ("status",),
    FigureName.UNFINISHED_DELIVERIES: ("status",),
    FigureName.RUNS_STARTED: ("kind",),
    FigureName.RUNS: ("status",),
    FigureName.MUTATIONS: ("tool", "status"),
    FigureName.DELIVERIES: ("status",),
    FigureName.MODEL_QUESTIONS: ("model", "status"),
    FigureName.MODEL_TOKENS: ("model", "direction"),
    FigureName.MODEL_COST: ("model",),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a monitor reads, with its labels."""

    name: FigureName
    value: float
    labels: Mapping[str, str]


def figure(name: FigureName, value: float, *labels: str) -> Figure:
    """Make a figure; it has as many labels as its name says."""
    return Figure(name, value, dict(zip(name.labels, labels, strict=True)))
