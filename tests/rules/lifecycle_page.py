"""Writes docs/lifecycle.md from the tables of `duly.rules.lifecycle`; a test says when it is stale.

python -m tests.rules.lifecycle_page    writes the page anew (`make docs`)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from duly.rules import lifecycle
from duly.rules.lifecycle import Run, To
from duly.rules.word import Answer, Phase, Status, Verdict
from tests.rules.walk import ALL, OPEN, Move, moves

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"

HEAD = """# The life of a run

This page is generated from the tables in `src/duly/rules/lifecycle.py`. Change those, then run
`make docs`; a test fails if the two differ.

The state of a run has three parts. The **phase** says how far the run got; it only moves forward.
The **status** says why the run does not go on; it never moves the phase. The **row** is what the
mutation ledger knows of the run's one outside change; it alone decides what may follow.
"""


SENDS = """While a run is `active`, it sends a call for the first time, or again after a
definite no. While a run is `paused:reconciliation`, it sends an unknown call again. Then a
refusal proves nothing about the first send.
"""

LATE = """The host may stop waiting for a send, and the send may still answer later. If the row
is still unknown, a yes settles it, from any of its sends. A no settles it only if no other send
of the row is unknown. In all other cases the answer is only shown beside the row.
"""

EXITS = """{states} states can be reached; {open} of them are open. A run that is `committed` or
`abandoned` never moves again. The host moves a run by its work, by a restart or by asking about an
unknown mutation. A person moves it by one of the acts named here. If the row is `needs_reconcile`,
a person can act only after they were told that nothing could be asked for an hour.
"""


def render() -> str:
    """Write the whole page."""
    parts = [
        HEAD,
        "## The phases\n",
        _diagram(_phase_edges()),
        "## The mutation ledger\n",
        "Applied, failed, rejected and skipped are final.\n",
        _diagram(_ledger_edges()),
        "## How a failure stops a run\n",
        _table(("failure", "status", "waits for"), _failure_rows()),
        "## What the answer to a send means\n",
        SENDS,
        _table(("answer", "first send", "unknown call sent again"), _answer_rows()),
        "## What a late answer means\n",
        LATE,
        _table(("answer", "what becomes of it"), _to_rows(lifecycle.LATE)),
        "## What asking the outside gives\n",
        _table(("verdict", "what becomes of it"), _to_rows(lifecycle.VERDICTS)),
        "## What follows a stopped run\n",
        _table(("row it holds", "its successor begins", "its events"), _successor_rows()),
        "## Every open state and its exits\n",
        EXITS.format(states=len(ALL), open=len(OPEN)),
        _table(
            ("phase", "status", "row", "outcome", "waits for", "by the host", "by a person"),
            _exit_rows(),
        ),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _diagram(edges: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"  {old} --> {new}: {label}" for old, new, label in edges]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _phase_edges() -> list[tuple[str, str, str]]:
    labels: dict[tuple[str, str], dict[str, None]] = {}
    for (phase, _), steps in lifecycle.STEPS.items():
        for step, to in steps.items():
            labels.setdefault((phase, to.phase or phase), {})[step] = None
    applied = (Phase.MUTATING, Phase.MUTATED)
    labels.setdefault(applied, {})["applied, rejected or skipped"] = None
    return [(old, new, ", ".join(names)) for (old, new), names in labels.items()]


def _ledger_edges() -> list[tuple[str, str, str]]:
    names: dict[tuple[str, str], dict[str, None]] = {}
    for run in ALL:
        for move in moves(run):
            old, new = run.row, move.change.run.row
            if new is not None and old is not new:
                names.setdefault((old or "[*]", new), {})[_short(move)] = None
    return [(old, new, ", ".join(labels)) for (old, new), labels in sorted(names.items())]


def _short(move: Move) -> str:
    if move.by == "late answer":
        return f"late {move.name}"
    return "crash" if move.by == "restart" else move.name


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _code(word: str | None) -> str:
    return f"`{word}`" if word else ""


def _describe(to: To) -> str:
    said = [
        f"row `{to.row}`" if to.row else "",
        f"status `{to.status}`" if to.status else "",
        f"phase `{to.phase}`" if to.phase else "",
        f"waits for {to.waits}" if to.waits else "",
    ]
    return ", ".join(part for part in said if part)


def _failure_rows() -> list[tuple[str, ...]]:
    return [
        (failure, _code(to.status), to.waits or "") for failure, to in lifecycle.FAILURES.items()
    ]


def _answer_rows() -> list[tuple[str, ...]]:
    first = lifecycle.ANSWERS[Status.ACTIVE]
    again = lifecycle.ANSWERS[Status.PAUSED_RECONCILIATION]
    return [(given, _describe(first[given]), _describe(again[given])) for given in first]


def _to_rows(table: Mapping[Verdict, To] | Mapping[Answer, To]) -> list[tuple[str, ...]]:
    return [(str(key), _describe(to)) for key, to in table.items()]


def _successor_rows() -> list[tuple[str, ...]]:
    fresh = ", ".join(sorted(_code(row) or "none" for row in lifecycle.FRESH))
    rows: list[tuple[str, ...]] = [
        (fresh, "afresh: `executing` or `preparing`, `active`", "released")
    ]
    for row, heir in lifecycle.INHERITING.items():
        rows.append((_code(row), f"`{heir.phase}`, `{heir.status}`, row `{heir.row}`", "inherited"))
    return rows


def _exit_rows() -> list[tuple[str, ...]]:
    statuses, phases = list(Status), list(Phase)

    def place(run: Run) -> tuple[int, int, str, str, str]:
        return (
            phases.index(run.phase),
            statuses.index(run.status),
            run.row or "",
            run.outcome or "",
            run.waits or "",
        )

    rows: list[tuple[str, ...]] = []
    for run in sorted(OPEN, key=place):
        by_host: dict[str, None] = {}
        by_person: dict[str, None] = {}
        for move in moves(run):
            (by_person if move.by == "person" else by_host)[_short(move)] = None
        rows.append(
            (
                _code(run.phase),
                _code(run.status),
                _code(run.row),
                _code(run.outcome),
                run.waits or "",
                ", ".join(by_host),
                ", ".join(by_person),
            )
        )
    return rows


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
