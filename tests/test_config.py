"""What `duly.toml` and the environment become, and every way they are refused."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from datetime import date
from pathlib import Path

import pytest

from duly.config import (
    APPROVALS,
    MAY_BE_ZERO,
    SCHEMA_CHARS,
    Backoff,
    BusSettings,
    Config,
    Limits,
    Policy,
    SandboxSettings,
    WorkflowPolicy,
    load,
)
from duly.desk.secret import VARIABLE as KEY_VARIABLE
from duly.errors import ConfigError
from duly.rules.permission import AFTER_MODEL, Approval
from duly.store import queries

KIB, MIB = 1024, 1024 * 1024

# The page's own numbers, written a second time on purpose.
PAGE = {
    "state_bytes": 64 * KIB,
    "payload_bytes": 256 * KIB,
    "data_bytes": MIB,
    "result_bytes": 4 * MIB,
    "publishes_per_run": 1000,
    "publish_bytes_per_run": 16 * MIB,
    "peek_events": 1000,
    "peek_bytes": 4 * MIB,
    "reservations_per_run": 10_000,
    "answers_bytes": 40 * MIB,
    "json_depth": 100,
    "title_chars": 500,
    "message_id_chars": 500,
    "name_chars": 100,
    "calls_per_step": 200,
    "step_wall_s": 300,
    "step_cpu_s": 10,
    "step_memory_bytes": 64 * MIB,
    "load_s": 5,
    "load_wall_s": 60,
    "log_lines": 256,
    "log_line_chars": 1000,
    "source_bytes": 256 * KIB,
    "blob_bytes": 25 * MIB,
    "blobs_bytes": 1024 * MIB,
    "blobs_per_run": 100,
    "reconcile_s": 30,
    "repair_s": 300,
}
SECTIONS = (Limits, Backoff, Policy, BusSettings)
NUMBERS = [
    (section, field.name)
    for section in SECTIONS
    for field in fields(section)
    if field.type in ("int", "float", "int | None")
]


def write(folder: Path, text: str) -> Path:
    path = folder / "duly.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path | None, environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, environ)
    return str(caught.value)


def test_default_limits_are_those_of_the_rules() -> None:
    """N: every default limit is the number the page gives."""
    assert {each.name: getattr(Limits(), each.name) for each in fields(Limits)} == PAGE


def test_default_waits_and_budgets_are_those_of_the_rules() -> None:
    """F2, F3, S6: backoff 10 s × 2 up to 10 min, five times; 2 and 10 repairs; 30 s to 24 h."""
    policy = Policy()
    assert policy.retries == policy.reconcile == Backoff(10, 2, 600, 5)
    assert (policy.repair_budget, policy.repair_budget_per_day) == (2, 10)
    assert (policy.wake_min_s, policy.wake_max_s) == (30, 86_400)


def test_no_file_and_no_variable_give_the_defaults() -> None:
    assert load(None, {"PATH": "/bin"}) == Config()


def test_bus_settings_default_to_the_rules() -> None:
    """B14: the poll interval is 5 s and a turn takes 100 events."""
    assert Config().bus == BusSettings(poll_interval_s=5, batch=100)


def test_a_file_sets_every_kind_of_value(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        url = "sqlite:////var/duly.db"
        [policy]
        runs_max = 20
        retention_days = 30
        wake_min_s = 1.5
        timezone = "Europe/Berlin"
        approvals = { "sheets.*" = "above:low" }
        [policy.limits]
        state_bytes = 131072
        [policy.workflows."Invoices 2"]
        mutate_reads = "by_id"
        approvals = { "*" = "always" }
        [bus]
        poll_interval_s = 2
        [sandbox]
        unlocked = "i-accept"
        """,
    )
    assert load(path, {}) == Config(
        url="sqlite:////var/duly.db",
        policy=Policy(
            runs_max=20,
            retention_days=30,
            wake_min_s=1.5,
            timezone="Europe/Berlin",
            approvals={"sheets.*": "above:low"},
            limits=Limits(state_bytes=131072),
            workflows={"Invoices 2": WorkflowPolicy({"*": "always"}, "by_id")},
        ),
        bus=BusSettings(poll_interval_s=2),
        sandbox=SandboxSettings("i-accept"),
    )


def test_a_file_names_folders_connectors_and_channels(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        workflows = "flows"
        extensions = "more"
        repairer = "mend:Mender"
        [connectors.inbox]
        use = "mailbox"
        path = "mail"
        [connectors.rows]
        use = "shop:Rows"
        columns = ["a", "b"]
        strict = true
        more = { since = 2026-01-02, of = { anything = 1.5 } }
        [channels.desk]
        use = "terminal"
        """,
    )
    config = load(path, {"DULY_EXTENSIONS": "others", "DULY_PROJECT": str(tmp_path)})
    assert (config.workflows, config.extensions, config.repairer) == (
        "flows",
        "others",
        "mend:Mender",
    )
    assert config.connectors == {
        "inbox": {"use": "mailbox", "path": "mail"},
        "rows": {
            "use": "shop:Rows",
            "columns": ["a", "b"],
            "strict": True,
            "more": {"since": date(2026, 1, 2), "of": {"anything": 1.5}},
        },
    }
    assert list(config.connectors) == ["inbox", "rows"]
    assert config.channels == {"desk": {"use": "terminal"}}


def test_where_the_project_and_the_key_are_is_no_setting() -> None:
    """A5: a key in the environment is nobody's mistake, and is not read here."""
    assert KEY_VARIABLE == "DULY_KEY"
    assert load(None, {"DULY_PROJECT": "shop", KEY_VARIABLE: "secret"}) == Config()


def test_free_keys_stand_in_the_tables_of_connectors_and_channels_alone(tmp_path: Path) -> None:
    for text, words in (
        ("connectors = 3", "connectors is 3; it must be a table."),
        ("[connectors]\nuse = 'mailbox'", "connectors.use is 'mailbox'; it must be a table."),
        ("channels = ['desk']", "channels is \"['desk']\"; it must be a table."),
        (
            "[connector.inbox]\nuse = 'mailbox'",
            "connector is not a setting. The nearest one is conn",
        ),
        ("extension = 'more'", "extension is not a setting. The nearest one is extensions"),
        ("extensions = 3", "extensions is 3; it must be a text in quotes."),
        ("repairer = ''", "repairer is blank"),
        ("workflows = ''", "workflows is blank"),
    ):
        path = write(tmp_path, text)
        assert refusal(path, {}).startswith(f"{path}: {words}")


def test_a_config_does_not_change_with_the_tables_it_was_made_from() -> None:
    tables = {"inbox": {"use": "mailbox"}}
    config = Config(connectors=tables)
    tables["inbox"]["use"] = "files"
    tables["other"] = {}
    assert config.connectors == {"inbox": {"use": "mailbox"}}


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'url = "sqlite:///file.db"\n[policy]\nruns_max = 20\nrepair_budget = 0')
    config = load(
        path,
        {
            "DULY_URL": "sqlite:///environment.db",
            "DULY_POLICY__RUNS_MAX": "7",
            "DULY_POLICY__LIMITS__STEP_CPU_S": "0.5",
            "DULY_POLICY__APPROVALS": '{ "*" = "always" }',
            "DULY_SANDBOX__UNLOCKED": "i-accept",
        },
    )
    assert config == Config(
        url="sqlite:///environment.db",
        policy=Policy(
            runs_max=7,
            repair_budget=0,
            limits=Limits(step_cpu_s=0.5),
            approvals={"*": "always"},
        ),
        sandbox=SandboxSettings("i-accept"),
    )


def test_two_variables_are_judged_together() -> None:
    """A pair that is right only as a pair is not refused half-way."""
    environ = {"DULY_POLICY__WAKE_MAX_S": "10", "DULY_POLICY__WAKE_MIN_S": "5"}
    policy = load(None, environ).policy
    assert (policy.wake_min_s, policy.wake_max_s) == (5, 10)


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("ulr = 'x'", "ulr", "url"),
        ("runs_max = 3", "runs_max", "policy.runs_max"),
        ("[policy]\nrun_max = 3", "policy.run_max", "policy.runs_max"),
        ("[policy.retries]\nfirst = 3", "policy.retries.first", "policy.retries.first_s"),
        ("[policy.workflows.A]\nreads = ''", "policy.workflows.A.reads", ".A.mutate_reads"),
        ("[buss]\nbatch = 1", "buss", "bus"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(
    tmp_path: Path, text: str, key: str, nearest: str
) -> None:
    path = write(tmp_path, text)
    message = refusal(path, {})
    assert message.startswith(f"{path}: {key} is not a setting")
    assert message.endswith(f"{nearest}.")


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("DULY_ULR", "DULY_URL"),
        ("DULY_POLICY__RUN_MAX", "DULY_POLICY__RUNS_MAX"),
        ("DULY_POLICY_RUNS_MAX", "DULY_POLICY__RUNS_MAX"),
        ("DULY_URL__X", "DULY_URL"),
        ("DULY_POLICY__WORKFLOWS__A", "DULY_POLICY__WORKFLOWS"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(variable: str, nearest: str) -> None:
    message = refusal(None, {variable: "1"})
    assert message == f"the environment: {variable} is not a setting. The nearest one is {nearest}."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("url = 3", "url is 3; it must be a text in quotes."),
        ("[policy]\nruns_max = '3'", "policy.runs_max is '3'; it must be a whole number."),
        ("[policy]\nruns_max = 3.5", "policy.runs_max is 3.5; it must be a whole number."),
        ("[policy]\nruns_max = true", "policy.runs_max is True; it must be a whole number."),
        (
            "[policy]\nretention_days = 'x'",
            "policy.retention_days is 'x'; it must be a whole number.",
        ),
        ("[policy]\nwake_min_s = '3'", "policy.wake_min_s is '3'; it must be a number."),
        ("policy = 3", "policy is 3; it must be a table."),
        ("[policy]\napprovals = 3", "policy.approvals is 3; it must be a table."),
        ("[policy.approvals]\nx = 3", "policy.approvals.x is 3; it must be a text in quotes."),
        ("[sandbox]\nunlocked = 1", "sandbox.unlocked is 1; it must be one of no, i-accept."),
    ],
)
def test_a_wrong_type_is_refused_naming_what_was_expected(
    tmp_path: Path, text: str, words: str
) -> None:
    path = write(tmp_path, text)
    assert refusal(path, {}) == f"{path}: {words}"


def test_a_variable_that_is_no_toml_is_refused_naming_what_was_expected() -> None:
    message = refusal(None, {"DULY_POLICY__RUNS_MAX": "many"})
    assert message == "the environment: DULY_POLICY__RUNS_MAX is 'many'; it must be a whole number."


def test_a_variable_of_the_wrong_type_is_refused() -> None:
    message = refusal(None, {"DULY_POLICY__RUNS_MAX": "2.5"})
    assert message == "the environment: policy.runs_max is 2.5; it must be a whole number."


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    assert refusal(path, {}).startswith(f"{path}: the file cannot be read")


def test_a_file_that_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "url = 'x'\nrubbish\n")
    message = refusal(path, {})
    assert message.startswith(f"{path}: this is not TOML")
    assert "line 2" in message


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "duly.toml"
    path.write_bytes(b"url = '\xff'")
    assert "cannot be read" in refusal(path, {})


def test_a_wrong_file_is_refused_even_where_the_environment_would_mend_it(tmp_path: Path) -> None:
    path = write(tmp_path, "[policy]\nruns_max = 0")
    message = refusal(path, {"DULY_POLICY__RUNS_MAX": "3"})
    assert message.startswith(f"{path}: policy.runs_max is 0")


@pytest.mark.parametrize(("section", "name"), NUMBERS)
def test_every_number_has_a_lowest_value(section: type, name: str) -> None:
    """N: a limit that is not positive and finite cannot be built."""
    for number in (-1, math.nan, math.inf):
        with pytest.raises(ConfigError, match=f"^{name} is {number}"):
            section(**{name: number})
    if name in MAY_BE_ZERO:
        assert getattr(section(**{name: 0}), name) == 0
    else:
        with pytest.raises(ConfigError, match=f"^{name} is 0; give a number that is more than 0"):
            section(**{name: 0})


def test_no_limit_is_wider_than_the_check_of_the_schema() -> None:
    """N, H3: the store would refuse in the middle of its work what the policy had let through."""
    found = re.findall(r"length\((\w+)\) (?:<=|between 1 and) (\d+)", queries.read("schema"))
    checks = {(f"{name}_chars", int(most)) for name, most in found}
    # The name of a token or of an account is no name of a script: no limit of the policy is for it.
    assert checks - {("name_chars", 80), ("name_chars", 60)} == set(SCHEMA_CHARS.items())
    for name, most in SCHEMA_CHARS.items():
        assert getattr(Limits(**{name: most}), name) == most
        with pytest.raises(ConfigError, match=f"^{name} is {most + 1}, and the store keeps"):
            Limits(**{name: most + 1})


def test_every_section_with_numbers_is_in_the_walk() -> None:
    assert {name for _, name in NUMBERS} >= {"state_bytes", "factor", "retention_days", "batch"}


def test_a_factor_below_one_is_refused() -> None:
    assert Backoff(factor=1).factor == 1
    with pytest.raises(ConfigError, match=r"factor is 0\.99"):
        Backoff(factor=0.99)


def test_a_longest_wait_shorter_than_the_first_is_refused() -> None:
    assert Backoff(first_s=10, longest_s=10).longest_s == 10
    with pytest.raises(ConfigError, match=r"longest_s is 9\.9, less than first_s"):
        Backoff(first_s=10, longest_s=9.9)


def test_a_wake_range_that_is_empty_is_refused() -> None:
    """S6: the clamp needs a lowest value that is not above the highest."""
    assert Policy(wake_min_s=5, wake_max_s=5).wake_min_s == 5
    with pytest.raises(ConfigError, match="wake_max_s is 4, less than wake_min_s"):
        Policy(wake_min_s=5, wake_max_s=4)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../UTC", "Europe", "\x00"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    """S2: the policy's zone is one that cron can be computed in."""
    with pytest.raises(ConfigError, match="timezone is"):
        Policy(timezone=zone)


@pytest.mark.parametrize("section", [Policy, WorkflowPolicy])
def test_an_unknown_word_of_approval_is_refused(
    section: type[Policy] | type[WorkflowPolicy],
) -> None:
    """A3: approval is never, always, above low or above medium."""
    for word in ("never", "always", "above:low", "above:medium", "after_model"):
        assert section(approvals={"*": word}).approvals == {"*": word}
    with pytest.raises(ConfigError, match=r"approvals\.\* is 'above:high'"):
        section(approvals={"*": "above:high"})


def test_settings_and_permission_know_the_same_words_of_approval() -> None:
    """A3: config stands below the rules and cannot import their words, so a test compares them."""
    assert set(APPROVALS) == {AFTER_MODEL, *(word.value for word in Approval)}


def test_a_policy_does_not_change_with_the_dict_it_was_made_from() -> None:
    approvals = {"*": "always"}
    workflows = {"a": WorkflowPolicy()}
    policy = Policy(approvals=approvals, workflows=workflows)
    approvals["*"] = "never"
    workflows.clear()
    assert policy.approvals == {"*": "always"}
    assert policy.workflows == {"a": WorkflowPolicy()}


def test_a_policy_made_by_hand_is_checked_as_well() -> None:
    """C2: a word that is none would be found out at the first call only."""
    with pytest.raises(ConfigError, match="none, by_id"):
        WorkflowPolicy(mutate_reads="all")  # type: ignore[arg-type]  # what is refused


def test_a_variable_that_is_a_value_where_a_table_stands_is_refused() -> None:
    """The two variables contradict each other; the error names the one that is wrong."""
    with pytest.raises(ConfigError, match="must be a table"):
        load(None, {"DULY_POLICY": "5", "DULY_POLICY__RUNS_MAX": "20"})
