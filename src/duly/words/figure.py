"""What each figure of a host means, in one sentence for the person who draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.rules.figure import FigureName

MEANINGS: Final[Mapping[FigureName, str]] = {
    FigureName.WORKFLOWS: "Workflows by standing, up to 1000.",
    FigureName.ATTENTION: "What waits for a person, up to 1000.",
    FigureName.PENDING: "Pending events of a workflow, up to 1001 of each topic.",
    FigureName.OLDEST_PENDING: "How long the oldest pending event of a workflow has waited.",
    FigureName.OPEN_RUNS: "Open runs by status; paused:transient is backing off.",
    FigureName.OPEN_MUTATIONS: "Changes that are not settled yet, by status.",
    FigureName.UNFINISHED_DELIVERIES: "Deliveries that wait, run or are dead, of the newest 10000.",
    FigureName.STORE_BYTES: "How large the store is, with its log.",
    FigureName.LOOP_LAG: "The longest that the event loop kept work waiting, of 5 to 10 minutes.",
    FigureName.RUNS_STARTED: "Runs this host started since it opened.",
    FigureName.RUNS: "How often a run reached a status on this host since it opened.",
    FigureName.MUTATIONS: "How often a change reached a status here; in_flight counts the sends.",
    FigureName.DELIVERIES: "How often a delivery reached a status on this host since it opened.",
    FigureName.MODEL_QUESTIONS: "Questions to a model that ended on this host since it opened.",
    FigureName.MODEL_TOKENS: "Tokens that a model took and gave on this host since it opened.",
    FigureName.MODEL_COST: "What these tokens cost, by the prices in the settings.",
    FigureName.STORE_WRITES: "Writes of this host to its store since it opened.",
    FigureName.STORE_SYNCS: "How often the log of a SQLite store was synced since it was opened.",
    FigureName.STORE_SYNC_SECONDS: "How long these syncs took together.",
    FigureName.WORKER_STARTS: "Processes for scripts that this host started since it opened.",
}
