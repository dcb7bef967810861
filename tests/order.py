"""Which tests are begun first, the marks of the long parts, and of what a test needs.

Law: the order decides how long a run takes, never what it says; every test stands by itself. At the
end no worker waits for a long test of another.

`make slow` prints the dearest tests. One that costs more than a few seconds has its line here.
`pytest -m "not fire and not breaks"` leaves parts out by their marks; `make test` runs them all.
"""

from __future__ import annotations

from typing import Final

# The beginning of a test's name is enough; the longest first.
FIRST: Final = (
    "tests/test_house.py::test_types_are_strict",
    "tests/fire/test_threads.py",
    "tests/postgres/test_fleet.py",
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
    "tests/test_bench_half_year.py",
    "tests/desk/test_statements.py",
    "tests/faces/test_restart.py",
    "tests/bus/crash/test_kill_anywhere.py",
    "tests/test_lockless.py",
    "tests/web/test_http_page.py",
    "tests/verification/test_random.py",
    "tests/postgres/test_isolation.py",
    "tests/connectors/test_http.py::test_every_place_of_the_key_passes_the_exam",
)


def rank(nodeid: str) -> int:
    """Return the place of a test among those that are begun first; all others come after them."""
    return next((place for place, name in enumerate(FIRST) if nodeid.startswith(name)), len(FIRST))


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
        *("tests/test_readme.py", "tests/testing/test_exam.py", "tests/testing/test_plugin.py"),
        "tests/verification/test_random",
        *("tests/web/test_http_page.py", "tests/web/test_process.py", "tests/browser/"),
        "tests/mcp/test_path.py",
    ),
    "sandbox": ("tests/sandbox/",),
}
ALL: Final = {**MARKS, **NEEDS}


def marks(nodeid: str) -> list[str]:
    """Return the marks of a test."""
    return [mark for mark, names in ALL.items() if nodeid.startswith(names)]
