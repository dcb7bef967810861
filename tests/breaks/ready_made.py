"""Breaks of the ready-made connectors: what a receipt says, what an error says, whose row it is."""

from __future__ import annotations

from contextlib import nullcontext

from duly.connectors.files import MARK_BYTES_MAX
from duly.connectors.folder import definite, read_file
from duly.connectors.table_csv import CsvRows
from tests.breaks import Break

FILES = "tests/connectors/test_files.py"
TABLE = "tests/connectors/test_table.py"
CSV = "tests/connectors/test_table_csv.py"
SQL = "tests/connectors/test_table_sql.py"


def _believe_a_receipt_beside_its_text(own: int, slip: str) -> bytes | None:
    found = read_file(own, slip, MARK_BYTES_MAX)
    return None if found is None else found[0]


BREAKS = (
    Break(
        "L5",
        "duly.connectors.files",
        "_placed",
        _believe_a_receipt_beside_its_text,
        (f"{FILES}::test_what_was_not_moved_did_not_happen_and_can_be_sent",),
        "a text that was never moved counts as written",
    ),
    Break(
        "K12",
        "duly.connectors.table_csv",
        "_guard",
        lambda text: text,
        ("tests/connectors/test_table_csv.py::test_a_text_of_a_stranger_is_no_formula",),
        "a text of a stranger is computed by a spreadsheet program",
    ),
    Break(
        "L7",
        "duly.connectors.files",
        "_placed",
        lambda own, slip: None,
        (f"{FILES}::test_the_same_call_sent_again_leaves_a_person_s_edit_alone",),
        "a write that is sent again writes again",
    ),
    Break(
        "L4",
        "duly.connectors.files",
        "open_ended",
        definite,
        (f"{FILES}::test_an_error_after_the_move_is_unknown_and_then_found",),
        "a file that is in its place is said not to be",
    ),
    Break(
        "L3",
        "duly.connectors.table_sql",
        "SqlRows._sync",
        lambda self, what: None,
        (f"{SQL}::test_what_was_committed_to_a_log_is_brought_to_the_disk_before_it_is_said",),
        "a row is vouched for that a power cut takes away",
    ),
    Break(
        "L7",
        "duly.connectors.table_sql",
        "_find_key",
        lambda database, table, key: None,
        (f"{TABLE}::test_a_key_makes_one_row_however_often_it_is_sent",),
        "nobody looks whether the key has its row",
    ),
    Break(
        "L5",
        "duly.connectors.table_csv",
        "CsvRows.number_of",
        lambda self, table, key: len(CsvRows._load(self, table).records) or None,
        (f"{TABLE}::test_a_key_makes_one_row_however_often_it_is_sent",),
        "the last row is taken for the one of this key",
    ),
    Break(
        "L5",
        "duly.connectors.table_keys",
        "Keys.number_of",
        lambda self, own, key: self.rows.get(key),
        (f"{CSV}::test_a_draft_that_was_never_moved_did_not_happen",),
        "a row whose draft was never moved counts as made",
    ),
    Break(
        "L5",
        "duly.connectors.table_csv",
        "CsvRows.is_lost",
        lambda self, table: False,
        (f"{CSV}::test_without_what_was_kept_beside_the_file_nobody_can_tell",),
        "a call is denied whose line is gone",
    ),
    Break(
        "A1",
        "duly.rules.permission",
        "parse_address",
        lambda text, path, *, is_named_fine=True: text,
        ("tests/rules/test_permission.py",),
        "a grant is compared with what an address looks like",
    ),
    Break(
        "K12",
        "duly.connectors.http",
        "write_plain_markdown",
        lambda text: text,
        ("tests/connectors/test_declared.py",),
        "data of strangers is formatted in services that read Markdown",
    ),
    Break(
        "L4",
        "duly.connectors.table_sql",
        "definite",
        lambda what: nullcontext(),
        (f"{SQL}::test_a_database_that_is_held_is_tried_later",),
        "an error of the database has no class",
    ),
)
