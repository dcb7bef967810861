"""Breaks of the `sql` connector and of handles: what proves a change, what a statement may do."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

from duly.connectors import sql_postgres, sql_sqlite, sql_text
from duly.connectors.sql_base import STATEMENTS
from tests.breaks import Break

SQL = "tests/connectors/test_sql.py"
HANDLE = "tests/engine/test_handle.py"


async def _keep_nothing(parts: Any, sends: Any, fence: Any, sent: Any, handle: Any) -> None:
    pass


def _only_time(database: Any, allowed: Any, timeout_s: float) -> Any:
    return nullcontext()


BREAKS = (
    Break(
        "K5",
        "duly.connectors.sql_text",
        "BRACKETED",
        re.compile("(?!)"),
        ("tests/connectors/test_sql_settings.py::test_a_statement_that_cannot_be_read_is_refused",),
        "a second statement hides behind a quote in brackets",
    ),
    Break(
        "L9",
        "duly.connectors.sql_postgres",
        "STATEMENTS",
        {**STATEMENTS, "commit_on_disk": "select 1"},
        ("tests/connectors/test_sql_edges.py::test_a_commit_that_is_answered_is_on_the_disk",),
        "a commit is answered before it is on the disk",
    ),
    Break(
        "L14",
        "duly.engine.entry",
        "keep_handle",
        _keep_nothing,
        (f"{HANDLE}::test_a_handle_is_on_the_row_before_the_second_step",),
        "the second step is sent before the handle is written",
    ),
    Break(
        "L7",
        "duly.connectors.sql_sqlite",
        "_find",
        lambda database, key: sql_sqlite._find(database, key) if key == "" else None,
        (f"{SQL}::test_a_key_makes_its_change_once",),
        "the record of a key is not looked at",
    ),
    Break(
        "L5",
        "duly.connectors.sql_postgres",
        "lost",
        lambda found, sent_ms, *, has_own_clock=True: found is None,
        (f"{SQL}::test_without_its_table_of_calls_no_call_is_denied_or_sent_again",),
        "a record that began later denies a call",
    ),
    Break(
        "L5",
        "duly.connectors.sql_sqlite",
        "STATEMENTS",
        {**STATEMENTS, "now_ms": "select 0"},
        (f"{SQL}::test_a_host_whose_clock_is_behind_begins_no_record_that_denies_an_earlier_call",),
        "a new table of records is dated earlier than it was made",
    ),
    Break(
        "L5",
        "duly.connectors.sql_base",
        "CLOCK_MARGIN_MS",
        0,
        (f"{SQL}::test_the_clock_of_a_host_is_believed_with_a_margin",),
        "a clock that is ahead makes a call later than the table",
    ),
    Break(
        "L5",
        "duly.connectors.sql_postgres",
        "began_key",
        lambda key: "",
        (f"{SQL}::test_a_first_send_that_came_to_the_table_is_known_for_certain",),
        "every call counts as one that came to this table",
    ),
    Break(
        "L4",
        "duly.connectors.sql_postgres",
        "UNCOMMITTED",
        frozenset({"", *sql_postgres.UNCOMMITTED}),
        (f"{SQL}::test_a_commit_that_was_cut_off_is_unknown_and_then_known",),
        "a commit that was not answered counts as not made",
    ),
    Break(
        "K5",
        "duly.connectors.sql_sqlite",
        "_only",
        _only_time,
        (f"{SQL}::test_a_view_of_the_record_is_no_way_round",),
        "a statement may do what it likes",
    ),
    Break(
        "K5",
        "duly.connectors.sql_text",
        "OWN",
        sql_text.OWN.upper(),
        (f"{SQL}::test_no_statement_touches_the_record",),
        "the settings may change the record",
    ),
)
