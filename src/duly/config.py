"""Settings: `duly.toml` and the environment become one frozen value, read once.

Law: an unknown key is refused with the nearest known name; every limit has a name, a unit and a
default (N in the rules). Sizes are bytes of UTF-8 JSON unless the name says otherwise. A value
out of range cannot be built, neither by `load` nor by hand.

    url = "sqlite:///duly.db"

    [policy]
    runs_max = 20
    timezone = "Europe/Berlin"
    approvals = { "sheets.*" = "above:low" }

    [policy.limits]
    state_bytes = 131072

    [policy.workflows.Invoices]
    mutate_reads = "by_id"

    [fleet]
    lease_s = 15

    [connectors.inbox]
    use = "mailbox"
    path = "mail"

In the table of a connector or a channel any key may stand: it is an argument of what `use` names.

The environment wins over the file. A variable is `DULY_` and the key in capitals, two underscores
where the file has a dot: `DULY_URL`, `DULY_POLICY__RUNS_MAX=20`. Text stands for itself; anything
else is written as in TOML: `DULY_POLICY__APPROVALS='{ "*" = "always" }'`.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duly.backup_settings import BackupSettings
from duly.errors import ConfigError, short
from duly.model_settings import ModelSettings

KIB = 1024
MIB = 1024 * KIB
BATCH_MAX = 1000  # what one read of the store may return
DEFERRED_MAX = 10_000  # events of one source that wait for their time
PORT_MAX = 65_535
PREFIX = "DULY_"
APPROVALS = ("never", "always", "above:low", "above:medium", "after_model")
FIRST = re.compile(r"first:[1-9][0-9]{0,3}")
# The schema of the store checks these as well (`store/sql/schema.sql`). A wider limit would let
# through what the store then refuses in the middle of its work.
SCHEMA_CHARS = MappingProxyType({"title_chars": 500, "message_id_chars": 500, "name_chars": 100})
MAY_BE_ZERO = frozenset({"attempts", "port", "repair_budget", "repair_budget_per_day"})
# Variables that begin like a setting and are none: the folder of the project is needed before its
# file is read, and only the vault reads the key to the secrets (A5).
NO_SETTINGS = frozenset({"DULY_KEY", "DULY_KEY_OLD", "DULY_PROJECT", "DULY_LISTENING"})

TEXTS: Any = tuple[str, ...]
Tables: TypeAlias = "Mapping[str, Mapping[str, Any]]"


def _check_numbers(section: object) -> None:
    """Refuse a number that is not positive and finite; a few may be zero."""
    for name in (each.name for each in fields(section)):  # type: ignore[arg-type]
        number = getattr(section, name)
        if not isinstance(number, int | float):
            continue
        lowest = 0 if name in MAY_BE_ZERO else math.ulp(0.0)
        if not lowest <= number < math.inf:
            raise ConfigError(
                code="wrong_number",
                subject=name,
                facts={"given": number, "least" if name in MAY_BE_ZERO else "above": 0},
            )


def _freeze_approvals(section: WorkflowPolicy | Policy) -> None:
    """Refuse an unknown word, and keep a copy that no caller can change."""
    for pattern, word in section.approvals.items():
        if word not in APPROVALS and not FIRST.fullmatch(str(word)):
            raise ConfigError(
                code="not_one_of",
                subject=f"approvals.{pattern}",
                facts={"given": short(word), "known": [*APPROVALS, "first:3"]},
            )
    object.__setattr__(section, "approvals", MappingProxyType(dict(section.approvals)))


URL_PREFIX = "sqlite:///"
SERVER_PREFIXES = ("postgresql://", "postgres://")
LEASE_S_MIN = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The default limits (N); one past any of them is a logic failure, or refused from outside."""

    state_bytes: int = 64 * KIB
    payload_bytes: int = 256 * KIB
    data_bytes: int = 1 * MIB
    result_bytes: int = 4 * MIB
    publishes_per_run: int = 1000
    publish_bytes_per_run: int = 16 * MIB
    peek_events: int = 1000
    peek_bytes: int = 4 * MIB
    reservations_per_run: int = 10_000
    answers_bytes: int = 40 * MIB
    json_depth: int = 100
    title_chars: int = 500
    message_id_chars: int = 500
    name_chars: int = 100
    calls_per_step: int = 200
    step_wall_s: float = 300
    step_cpu_s: float = 10
    step_memory_bytes: int = 64 * MIB
    load_s: float = 5
    load_wall_s: float = 60
    log_lines: int = 256
    log_line_chars: int = 1000
    source_bytes: int = 256 * KIB
    blob_bytes: int = 25 * MIB
    blobs_bytes: int = 1024 * MIB
    blobs_per_run: int = 100
    reconcile_s: float = 30
    repair_s: float = 300

    def __post_init__(self) -> None:
        _check_numbers(self)
        for name, most in SCHEMA_CHARS.items():
            if getattr(self, name) > most:
                facts = {"given": getattr(self, name), "most": most}
                raise ConfigError(code="wider_than_store", subject=name, facts=facts)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait `first_s`, then `factor` times longer, at most `longest_s`, for so many `attempts`."""

    first_s: float = 10
    factor: float = 2
    longest_s: float = 600
    attempts: int = 5

    def __post_init__(self) -> None:
        _check_numbers(self)
        if self.factor < 1:
            raise ConfigError(
                code="wrong_number", subject="factor", facts={"given": self.factor, "least": 1}
            )
        if self.longest_s < self.first_s:
            facts = {"given": self.longest_s, "other": "first_s", "value": self.first_s}
            raise ConfigError(code="less_than", subject="longest_s", facts=facts)


@dataclass(frozen=True, slots=True)
class WorkflowPolicy:
    """What one workflow's policy changes; the stricter approval holds (A3)."""

    approvals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mutate_reads: Literal["none", "by_id"] = "none"
    silent_after_days: int | None = None

    def __post_init__(self) -> None:
        _check_numbers(self)
        _freeze_approvals(self)
        if self.mutate_reads not in ("none", "by_id"):
            raise ConfigError(
                code="not_one_of",
                subject="mutate_reads",
                facts={"given": short(self.mutate_reads), "known": ["none", "by_id"]},
            )


@dataclass(frozen=True, slots=True)
class Policy:
    """What a host allows, how often it tries, and how long it waits."""

    approvals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"*": "never"}))
    limits: Limits = Limits()
    retries: Backoff = Backoff()
    reconcile: Backoff = Backoff()
    repair_budget: int = 2
    repair_budget_per_day: int = 10
    stale_after_days: int = 7
    retention_days: int | None = None
    blob_days: int = 30
    timezone: str = "UTC"
    runs_max: int = 100
    wake_min_s: float = 30
    wake_max_s: float = 86_400
    allowance_risk_max: Literal["low", "medium", "high"] = "medium"
    workflows: Mapping[str, WorkflowPolicy] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _check_numbers(self)
        _freeze_approvals(self)
        object.__setattr__(self, "workflows", MappingProxyType(dict(self.workflows)))
        if self.allowance_risk_max not in ("low", "medium", "high"):
            risks = {"given": short(self.allowance_risk_max), "known": ["low", "medium", "high"]}
            raise ConfigError(code="not_one_of", subject="allowance_risk_max", facts=risks)
        if self.wake_max_s < self.wake_min_s:
            facts = {"given": self.wake_max_s, "other": "wake_min_s", "value": self.wake_min_s}
            raise ConfigError(code="less_than", subject="wake_max_s", facts=facts)
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ConfigError(
                code="wrong_value",
                subject="timezone",
                facts={"wanted": "timezone", "given": short(self.timezone)},
            ) from None


@dataclass(frozen=True, slots=True)
class BusSettings:
    """How the bus looks for work (B14); a SQLite host is woken and never polls."""

    poll_interval_s: float = 5
    batch: int = 100
    deferred_max: int = DEFERRED_MAX

    def __post_init__(self) -> None:
        _check_numbers(self)
        if type(self.batch) is not int or self.batch > BATCH_MAX:
            facts = {"given": self.batch, "least": 1, "most": BATCH_MAX}
            raise ConfigError(code="out_of_range", subject="batch", facts=facts)


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """How scripts are locked in; `unlocked` is for machines that cannot lock a process (X1)."""

    unlocked: Literal["no", "i-accept"] = "no"


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """How long a host on PostgreSQL may be silent before another takes over what it holds (H2)."""

    lease_s: float = 15
    # Where this host's files are; hosts with the same name share them. Else the machine's own id.
    machine: str | None = None

    def __post_init__(self) -> None:
        _check_numbers(self)
        if self.lease_s < LEASE_S_MIN:
            facts = {"given": self.lease_s, "least": LEASE_S_MIN}
            raise ConfigError(code="wrong_number", subject="lease_s", facts=facts)


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Where the page and the HTTP interface are reached (G1, G2); port 0 is any free one.

    Without a `port` it is 7337, or the next free one where only this machine reaches the page.
    `hosts` are the names it is called by, besides those of this machine. Any address but a loopback
    one needs the two files of a certificate, or a proxy before it that has them. `hooks_address`
    (`address:port`) is one more place where webhooks alone are taken.
    """

    address: str = "127.0.0.1"
    port: int | None = None
    hosts: tuple[str, ...] = ()
    behind_proxy: Literal["no", "yes"] = "no"
    certificate: str | None = None
    certificate_key: str | None = None
    hooks_address: str | None = None

    def __post_init__(self) -> None:
        _check_numbers(self)
        if self.port is not None and self.port > PORT_MAX:
            facts = {"given": self.port, "least": 0, "most": PORT_MAX}
            raise ConfigError(code="out_of_range", subject="port", facts=facts)
        for name in ("address", "certificate", "certificate_key", "hooks_address"):
            if getattr(self, name) == "":
                raise ConfigError(code="blank", subject=name)


@dataclass(frozen=True, slots=True)
class OtelSettings:
    """Where traces are sent: the address of a collector of OpenTelemetry."""

    endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a host."""

    url: str = "sqlite:///duly.db"
    workflows: str = "workflows"
    extensions: str | None = None
    repairer: str | None = None
    connectors: Tables = field(default_factory=lambda: MappingProxyType({}))
    channels: Tables = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, ModelSettings] = field(default_factory=lambda: MappingProxyType({}))
    policy: Policy = Policy()
    bus: BusSettings = BusSettings()
    sandbox: SandboxSettings = SandboxSettings()
    fleet: FleetSettings = FleetSettings()
    page: PageSettings = PageSettings()
    backup: BackupSettings = field(default_factory=BackupSettings)
    otel: OtelSettings = OtelSettings()

    def __post_init__(self) -> None:
        for name in ("workflows", "extensions", "repairer"):
            if getattr(self, name) == "":
                raise ConfigError(code="blank", subject=name)
        for name in ("connectors", "channels"):
            given = getattr(self, name).items()
            tables = {key: MappingProxyType(dict(table)) for key, table in given}
            object.__setattr__(self, name, MappingProxyType(tables))
        object.__setattr__(self, "models", MappingProxyType(dict(self.models)))


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read a file, if one is given, and the environment over it, into one value."""
    tree: dict[str, Any] = {}
    if path is not None:
        try:
            tree = _read(path)
            # The file is checked by itself, so that an error names the file or the environment.
            _build(Config, tree, "")
        except ConfigError as error:
            raise _in(error, str(path)) from None
    try:
        given = {name for name in environ if name.startswith(PREFIX)} - NO_SETTINGS
        for variable in sorted(given):
            _overlay(tree, variable, environ[variable])
        config = _build(Config, tree, "")
    except ConfigError as error:
        raise _in(error, "environment") from None
    assert isinstance(config, Config)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(code="unreadable", facts={"cause": str(error)}) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(code="not_toml", facts={"cause": str(error)}) from error


def _overlay(tree: dict[str, Any], variable: str, text: str) -> None:
    """Put the value of one variable into the tree, at the place of its key in the file."""
    *path, name = variable.removeprefix(PREFIX).lower().split("__")
    kind: Any = Config
    for part in [*path, name]:
        hints = get_type_hints(kind) if is_dataclass(kind) else {}
        if part not in hints:
            raise _unknown(variable, [_variable(key) for key in _keys(Config, "")])
        kind = hints[part]
    for part in path:
        tree = tree.setdefault(part, {})
        if not isinstance(tree, dict):
            raise ConfigError(
                code="wrong_value",
                subject=_variable(part),
                facts={"wanted": "table", "given": _plain(tree)},
            )
    if _is_text(kind) or get_origin(kind) is Literal:
        tree[name] = text
        return
    try:
        tree[name] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        raise ConfigError(
            code="wrong_value", subject=variable, facts={"given": text[:100], **_wanted(kind)}
        ) from None


def _build(kind: Any, value: Any, key: str) -> Any:
    """Make a value of a kind out of a TOML value, or say what is wrong with it."""
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        for name in value.keys() - hints.keys():
            raise _unknown(_join(key, name), [*_keys(kind, key), *_keys(Config, "")])
        made = {name: _build(hints[name], each, _join(key, name)) for name, each in value.items()}
        try:
            return kind(**made)
        except ConfigError as error:
            raise _in(error, "", key) from None
    if get_origin(kind) is Mapping and isinstance(value, dict):
        inner = get_args(kind)[1]
        return {name: _build(inner, each, _join(key, name)) for name, each in value.items()}
    if kind == TEXTS and isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    if not _fits(kind, value):
        raise ConfigError(
            code="wrong_value", subject=key, facts={"given": _plain(value), **_wanted(kind)}
        )
    return value


def _is_text(kind: Any) -> bool:
    return kind in (str, str | None)


def _fits(kind: Any, value: Any) -> bool:
    if kind is Any:
        return True
    if kind == TEXTS:
        return False
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    # To Python a bool is an int; a setting that counts something must not accept one.
    if isinstance(value, bool):
        return False
    if _is_text(kind):
        return isinstance(value, str)
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, int) and (kind is int or int in get_args(kind))


def _wanted(kind: Any) -> dict[str, object]:
    if get_origin(kind) is Literal:
        return {"wanted": "word", "known": [*get_args(kind)]}
    if is_dataclass(kind) or get_origin(kind) is Mapping:
        return {"wanted": "table"}
    if _is_text(kind):
        return {"wanted": "quoted_text"}
    if kind == TEXTS:
        return {"wanted": "quoted_texts"}
    return {"wanted": "number" if kind is float else "whole_number"}


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float) else str(value)[:100]


def _in(error: ConfigError, place: str, key: str = "") -> ConfigError:
    """Return an error with the file it is in, or with the table its setting is in."""
    facts = {**error.facts, "place": place} if place else error.facts
    return ConfigError(code=error.code, subject=_join(key, error.subject), facts=facts)


def _keys(kind: Any, key: str) -> list[str]:
    """List every key below this one, as the file would spell it."""
    found = []
    for name, inner in get_type_hints(kind).items():
        found.append(_join(key, name))
        if is_dataclass(inner):
            found.extend(_keys(inner, _join(key, name)))
    return found


def _unknown(key: str, known: list[str]) -> ConfigError:
    (nearest,) = get_close_matches(key, known, n=1, cutoff=0)
    return ConfigError(code="unknown_setting", subject=key, facts={"near": nearest})


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def is_server(url: str) -> bool:
    """Tell whether a URL names a database on a PostgreSQL server.

    >>> is_server("postgresql://db.example/duly"), is_server("sqlite:///duly.db")
    (True, False)
    """
    return url.startswith(SERVER_PREFIXES)


def name_store(url: str) -> str:
    """Name the database of a server for people: without its password and its options.

    >>> name_store("postgresql://duly:secret@db.example:5432/duly?sslmode=require")
    'postgresql://duly@db.example:5432/duly'
    """
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    return f"postgresql://{user.partition(':')[0]}{at}{place}{parts.path}"


def path_from_url(url: str) -> Path:
    """Read `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    path = url.removeprefix(URL_PREFIX)
    if path == url or not path or path.endswith("/") or "\0" in path:
        raise ConfigError(code="no_sqlite_file", subject=url)
    return Path(path)
