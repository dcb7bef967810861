"""No hot statement reads a whole table: how SQLite means to run each one, over a full store.

Law: a plan that walks a table or an index from end to end, or sorts what it found, is allowed only
where the statement's own comment says so, with the reason (the words *scan* and *sort*).
"""

from __future__ import annotations

import re

import pytest

from duly.store import queries
from tests.store.memory import Memory

EVENTS = 10_000
FILES = ("queries", "bus", "views", "survey", "blob")
STATEMENTS = [(file, name) for file in FILES for name in queries.load(file)]
COMMENT = re.compile(r"^-- ([a-z][a-z0-9_]*)\n((?:--[^\n]*\n)+)", re.MULTILINE)
REASONS = {name: words for file in FILES for name, words in COMMENT.findall(queries.read(file))}

DERIVED = re.compile(r"(?:CO-ROUTINE|MATERIALIZE) (\w+)")


def fill(memory: Memory) -> None:
    """Put so much history into a database that a scan would hurt, and little that is open."""
    memory.connection.execute("begin")
    for number in range(20):
        workflow_id = f"workflow {number}"
        memory.workflow(workflow_id, counter=EVENTS)
        memory.handler(workflow_id, seen=number)
        memory.handler(workflow_id, "poll", kind="producer", position=1, next_run_at=number)
    for seq in range(1, EVENTS + 1):
        _put_history(memory, f"workflow {seq % 20}", seq)
    memory.run("workflow 1", "run open", status="paused:transient", due_at=1)
    memory.connection.execute("commit")


def _put_history(memory: Memory, workflow_id: str, seq: int) -> None:
    run_id = f"run {seq}"
    if seq % 100:
        memory.event(workflow_id, seq, status="consumed", finished_by=run_id, finished_at=1)
    else:
        memory.event(workflow_id, seq)
    memory.insert("cause", workflow_id=workflow_id, root=seq, seq=seq + 1)
    memory.run(workflow_id, run_id, phase="committed", status="committed", open=0)
    memory.insert("reservation", run_id=run_id, seq=seq, content=seq)
    memory.mutation(workflow_id, run_id, f"mutation {seq}", status="applied")
    memory.insert("action", id=f"action {seq}", at=0, by="me", verb="act", workflow_id=workflow_id)
    ended = {"status": "done", "processed_at": 0, "created_at": 0}
    known = {"topic": f"topic {seq % 7}", "source": "s", "payload": "{}"}
    memory.insert("journal", id=seq, **known, **ended)
    done = {"status": "done", "due_at": 0, "updated_at": 0, "position": 1}
    memory.insert("delivery", event_id=seq, subscriber_id="s", topic=known["topic"], **done)
    fired = {"status": "fired", "fire_at": 0, "fired_at": 0, "created_at": 0}
    memory.insert("deferred", id=seq, **known, **fired)


@pytest.fixture(scope="module", params=["without statistics", "with statistics"])
def full(request: pytest.FixtureRequest) -> Memory:
    """Fill a database once; SQLite plans otherwise when it has counted the rows, so try both."""
    memory = Memory()
    fill(memory)
    if request.param == "with statistics":
        memory.connection.execute("analyze")
    return memory


def plan(memory: Memory, text: str) -> list[str]:
    """Ask how a statement would be run."""
    unbound = dict.fromkeys(queries.parameters(text))
    rows = memory.connection.execute(f"explain query plan {text}", unbound)
    return [str(row[3]) for row in rows]


def offences(lines: list[str], reason: str) -> list[str]:
    """List the lines of a plan that its statement's comment does not answer for.

    What a sub-select gave is read to its end, of course; how it was found has lines of its own.
    """
    given = {f"SCAN {found[1]}" for line in lines if (found := DERIVED.fullmatch(line))}
    given.add("SCAN CONSTANT ROW")
    return [
        line
        for line in lines
        for sign, word in (("SCAN ", "scan"), ("TEMP B-TREE FOR ORDER BY", "sort"))
        if sign in line and word not in reason and line not in given
    ]


@pytest.mark.parametrize(("file", "name"), STATEMENTS, ids=[name for _, name in STATEMENTS])
def test_no_statement_reads_a_whole_table_without_saying_so(
    file: str, name: str, full: Memory
) -> None:
    """S9: what a statement costs grows with what it finds, never with history."""
    text = queries.load(file)[name]
    assert offences(plan(full, text), REASONS[name]) == []


NAMED = re.compile(r"\(scan of (\w+)|\((\w+)\)\.")


@pytest.mark.parametrize(("file", "name"), STATEMENTS, ids=[name for _, name in STATEMENTS])
def test_an_index_that_a_comment_names_is_the_one_that_is_walked(
    file: str, name: str, full: Memory
) -> None:
    """G13, S9: a walk along history, from its newest row on, has no scan in its plan."""
    rows = full.connection.execute("select name from sqlite_schema where type = 'index'")
    named = {found[1] or found[2] for found in NAMED.finditer(REASONS[name])}
    lines = plan(full, queries.load(file)[name])
    for (index,) in rows:
        assert index not in named or any(index in line for line in lines), lines


def test_a_scan_and_a_sort_are_found() -> None:
    """S9: what this file must catch, it catches, and a reason is heard."""
    memory = Memory()
    lines = plan(memory, "select id from run where error = :error order by updated_at")
    assert len(offences(lines, "-- Nothing said.")) == 2
    assert offences(lines, "-- Runs are few (scan of run, sort of what it finds).") == []
    assert offences(plan(memory, "select id from run where id = :id"), "") == []


def builds_a_table(memory: Memory, table: str) -> bool:
    """Tell whether SQLite builds a table of its own to check one row of this one."""
    steps = memory.connection.execute(f"explain insert into {table} default values")
    return any(step[1] == "OpenEphemeral" for step in steps)


def test_no_check_builds_a_table_at_every_write() -> None:
    """A write costs what it writes; a table of the known words costs more than the row."""
    memory = Memory()
    tables = memory.connection.execute("select name from sqlite_schema where type = 'table'")
    assert [name for (name,) in tables if builds_a_table(memory, name)] == []
    memory.connection.execute("create table lamp (colour text check (colour in ('a', 'b', 'c')))")
    assert builds_a_table(memory, "lamp")


VIEWED = {
    "select id from event_journal where topic = :topic": "journal_by_topic",
    "select id from event_journal where status = :status": "journal_by_status",
    "select id from event_journal where correlation_id = :id": "journal_by_correlation",
    "select id from deferred_events where fire_at <= :second": "deferred_by_second",
    "select id from deferred_events where fire_at between :second and :later": "deferred_by_second",
    "select id from deferred_events where status = :status": "deferred_",
}


@pytest.mark.parametrize("text", VIEWED)
def test_the_views_of_the_bus_are_read_along_an_index(full: Memory, text: str) -> None:
    """B14: by topic, status, correlation id and time, as those who look ask."""
    (step,) = plan(full, text)
    assert step.startswith("SEARCH"), step
    assert VIEWED[text] in step, step


def test_who_paused_is_found_without_reading_what_was_published_since(full: Memory) -> None:
    """U1, S9: publishes are actions too, and there may be a million of them after a pause."""
    text = queries.load("survey")["survey_pausers"]
    assert any("action_of_pause" in line for line in plan(full, text)), plan(full, text)


def test_events_are_reserved_by_their_numbers(full: Memory) -> None:
    """S9: a run reserves a few events among a million that are pending, and walks only those."""
    steps = plan(full, queries.load("queries")["reserve_events"])
    assert any("(workflow_id=? AND seq=?)" in step for step in steps), steps
