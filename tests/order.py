"""Which tests are begun first, the marks of the long parts, and of what a test needs.

Law: the order decides how long a run takes, never what it says; every test stands by itself. At the
end no worker waits for a long test of another.

`make slow` prints the dearest tests. One that costs more than a few seconds has its line here.
`pytest -m "not fire and not breaks"` leaves parts out by their marks; `make test` runs them all.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

# The beginning of a test's name is enough; the longest first.
FIRST: Final = (
    "tests/test_house.py::test_types_are_strict",
    "tests/fire/test_threads.py",
    "tests/test_breaks.py::test_a_fortieth_of_the_breaks_is_red",
    "tests/sandbox/hostile/test_corpus.py",
    "tests/sandbox/hostile/test_beside.py",
    "tests/fire/test_kill.py",
    "tests/fire/test_mail.py",
    "tests/browser/test_walk.py",
    "tests/browser/test_demo_page.py",
    "tests/faces/test_getting_started.py",
    "tests/browser/test_path.py",
    "tests/test_install.py",
    "tests/mcp/test_path.py",
    "tests/store/test_power_verbs.py",
    "tests/faces/test_demo.py",
    "tests/testing/test_crash_test.py",
    "tests/test_mutants.py::test_what_was_found_before_is_found_by_this_commit_too",
    "tests/test_readme.py",
    "tests/desk/test_statements.py",
    "tests/postgres/test_isolation.py",
    "tests/postgres/test_fleet.py",
    "tests/connectors/test_http.py::test_every_place_of_the_key_passes_the_exam",
)


def rank(nodeid: str) -> int:
    """Return the place of a test among those that are begun first; all others come after them."""
    return next((place for place, name in enumerate(FIRST) if nodeid.startswith(name)), len(FIRST))


# Of these a commit runs half of the cases, and the next one perhaps the others (`make test` says
# TEST_SOME=1; every other way to run tests runs all).
HALVED: Final = (
    "tests/api/test_setup.py::test_a_host_does_not_stop_for_settings_with_which_none_could_begin[",
    "tests/connectors/test_declared.py::test_a_change_passes_the_exam_for_the_network[",
    "tests/connectors/test_declared.py::test_every_other_change_passes_it_too[",
    "tests/connectors/test_google.py::test_a_change_passes_the_exam_of_the_network[",
    "tests/connectors/test_http.py::test_every_place_of_the_key_passes_the_exam[",
    "tests/desk/test_canary.py::test_a_canary_is_found_nowhere[",
    "tests/desk/test_every_state.py::test_an_offered_verb_leaves_the_state[",
    "tests/faces/test_cli_verb.py::test_every_verb_answers_the_same_with_a_running_host_and_without[",
    "tests/faces/test_demo.py::test_a_table_that_lies_is_caught_by_the_account[",
    "tests/faces/test_example.py::",
    "tests/faces/test_socket_manners.py::test_a_client_that_comes_while_the_host_ends_is_hung_up_on[",
    "tests/postgres/test_exam.py::test_every_verb_passes_its_exam[",
    "tests/sandbox/test_contract_load.py::",
    "tests/script/test_cost.py::test_four_times_the_text_costs_about_four_times_as_much[",
    "tests/store/test_walk.py::test_no_walk_strands_an_event_or_leaves_the_store_unsound[",
    "tests/testing/test_exam.py::test_every_way_of_lying_is_found[",
    "tests/words/test_codes.py::test_the_desk_says_codes_and_works[",
)


def is_left_out(nodeid: str, commit: int) -> bool:
    """Tell whether a commit of this number leaves a case to another one."""
    is_halved = nodeid.endswith("]") and nodeid.startswith(HALVED)
    return is_halved and crc32(nodeid.encode()) % 2 != commit % 2


# Every long part of the suite has a mark: the beginnings of its tests' names. `make quick` begins
# none of them.
MARKS: Final = {
    "slow": FIRST,
    "fire": ("tests/fire/", "tests/postgres/test_fleet.py"),
    "verification": ("tests/verification/",),
    "hostile": ("tests/sandbox/hostile/",),
    "breaks": ("tests/test_breaks.py",),
    "mutants": ("tests/test_mutants.py",),
    "power": ("tests/store/test_power",),
    "bench": ("tests/test_bench",),
}

# What a test needs of the machine: `pytest -m "not process and not sandbox"` leaves out the tests
# that start programs or the workers of scripts themselves.
NEEDS: Final = {
    "process": (
        *("tests/api/test_session.py", "tests/api/test_trust.py", "tests/bus/crash/"),
        "tests/api/test_command_text.py",
        *("tests/connectors/test_clock.py", "tests/engine/crash_window/", "tests/examples/"),
        *("tests/connectors/test_s3.py", "tests/connectors/test_calendar.py"),
        *("tests/connectors/test_connection.py", "tests/desk/test_slip.py"),
        "tests/connectors/test_invoice_archive.py",
        *("tests/connectors/test_documents.py", "tests/connectors/test_mcp.py"),
        *("tests/models/test_llm.py",),
        *("tests/faces/", "tests/fire/", "tests/store/test_fork.py", "tests/store/test_opening.py"),
        *("tests/postgres/", "tests/proof/"),
        *("tests/store/test_power", "tests/store/test_sqlite.py", "tests/test_bench"),
        *("tests/test_breaks.py", "tests/test_cost.py", "tests/test_env.py", "tests/test_host"),
        *(
            "tests/test_container.py",
            "tests/test_house.py",
            "tests/test_install.py",
            "tests/test_lockless.py",
            "tests/test_mutants.py",
            "tests/test_quick.py",
        ),
        *("tests/test_readme.py", "tests/testing/test_plugin.py", "tests/verification/test_random"),
        *("tests/web/test_http_page.py", "tests/web/test_process.py", "tests/browser/"),
        "tests/mcp/test_path.py",
    ),
    "sandbox": ("tests/sandbox/",),
}
ALL: Final = {**MARKS, **NEEDS}


def marks(nodeid: str) -> list[str]:
    """Return the marks of a test."""
    return [mark for mark, names in ALL.items() if nodeid.startswith(names)]
