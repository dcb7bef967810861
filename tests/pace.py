"""Which cases of a test with many a commit runs, and which it leaves to other commits.

Law 1: a case is left out only of a test that stands here, and only with TEST_SOME=1 (`make test`).
       It is not collected then, so it counts neither as passed nor as skipped. TEST_EVERY_CASE=1
       and every other way to run tests run all.
Law 2: of each block of neighbours exactly one runs. So many commits in a row with numbers one
       after the other run every case; the hash of a commit is its number, so a failed run fails
       again. A test that stands here runs at least one case, and one of each of its `KINDS`.
Law 3: only cases that differ in their data stand here, of which another test or another case
       proves the same promise in every commit. What is the only proof of a promise does not, nor
       does a seed that once found a fault.
Law 4: where a file chooses cases by the commit itself, the size of its part and the share here have
       no common divisor. Else some cases would run for no commit.

Why: docs/decisions/620-a-commit-runs-a-share-of-the-cases.md.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from zlib import crc32

# One case of so many runs.
SHARES: Final[Mapping[int, tuple[str, ...]]] = {
    2: (
        "tests/api/test_setup.py::test_a_host_does_not_stop_for_settings_with_which_none_could_begin",
        "tests/bus/test_story.py::test_every_story_ends_with_everybody_told_or_in_sight",
        "tests/connectors/test_account.py::test_a_no_of_another_account_is_not_believed",
        "tests/connectors/test_google.py::test_a_change_passes_the_exam_of_the_network",
        "tests/connectors/test_http.py::test_every_place_of_the_key_passes_the_exam",
        "tests/desk/test_canary.py::test_a_canary_is_found_nowhere",
        "tests/desk/test_every_state.py::test_an_offered_verb_leaves_the_state",
        "tests/desk/test_why.py::test_attention_lists_exactly_what_only_a_person_can_move_on",
        "tests/desk/test_why.py::test_what_a_person_is_told_is_what_was_read_and_agreed",
        "tests/faces/test_cli_verb.py::test_every_verb_answers_the_same_with_a_running_host_and_without",
        "tests/faces/test_demo.py::test_a_table_that_lies_is_caught_by_the_account",
        "tests/faces/test_socket_manners.py::test_a_client_that_comes_while_the_host_ends_is_hung_up_on",
        "tests/sandbox/test_contract_load.py",
        "tests/script/test_cost.py::test_four_times_the_text_costs_about_four_times_as_much",
        "tests/store/test_faults.py::test_every_failing_operation_is_all_or_nothing",
        "tests/store/test_power.py::test_what_a_barrier_confirmed_survives_every_power_cut",
        "tests/testing/test_exam.py::test_every_way_of_lying_is_found",
        "tests/web/test_verb.py::test_every_verb_reaches_the_host_as_it_was_asked_and_answers_what_the_host_says",
        "tests/words/test_codes.py::test_the_desk_says_codes_and_works",
    ),
    3: (
        "tests/api/test_command_text.py::test_an_example_on_the_page_is_taken_as_it_stands",
        "tests/connectors/test_declared.py::test_a_change_passes_the_exam_for_the_network",
        "tests/connectors/test_declared.py::test_every_other_change_passes_it_too",
        "tests/connectors/test_github.py::test_a_change_passes_the_exam_for_the_network",
        "tests/faces/test_template.py::test_a_template_works_as_it_is_and_does_nothing_twice",
        "tests/store/test_faults_verbs.py::test_each_failing_write_of_a_verb_is_all_or_nothing",
    ),
    4: (
        "tests/connectors/test_network_wrong.py::test_what_differs_in_that_one_thing_passes",
        "tests/faces/test_example.py",
        "tests/postgres/test_exam.py::test_every_verb_passes_its_exam",
        "tests/store/test_walk.py::test_no_walk_strands_an_event_or_leaves_the_store_unsound",
    ),
}
SHARE_OF: Final = {name: share for share, names in SHARES.items() for name in names}
# What in the name of a case says its kind, where a commit must run one of each.
KINDS: Final[Mapping[str, str]] = {
    "tests/postgres/test_exam.py::test_every_verb_passes_its_exam": r"^[^-]+",  # the verb
}


def is_some() -> bool:
    """Tell whether this run leaves cases to other commits."""
    return bool(os.environ.get("TEST_SOME")) and not os.environ.get("TEST_EVERY_CASE")


def left_out(names: Sequence[str], commit: int) -> set[str]:
    """Return which of these tests a commit of this number leaves to other ones."""
    gone: set[str] = set()
    for share, cases in _paced(names):
        for start in range(0, len(cases), share):
            block = cases[start : start + share]
            kept = block[(crc32(block[0].encode()) + commit) % len(block)]
            gone.update(each for each in block if each != kept)
    return gone


def _paced(names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Group the cases that may be left out by their test and their kind."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in names:
        test, _, case = name.partition("[")
        if case and _share(test):
            kind = re.search(KINDS[test], case) if test in KINDS else None
            groups[test, kind[0] if kind else ""].append(name)
    return ((_share(test), cases) for (test, _), cases in groups.items())


def _share(test: str) -> int:
    return SHARE_OF.get(test) or SHARE_OF.get(test.partition("::")[0], 0)
