"""The host that a project describes: its connectors, channels and repairer are made here.

Law 1: a mistake is told with the file, the table and what to write instead, before anything of the
       store was touched.
Law 2: a project's own modules are found in its folder after all that is installed, and are imported
       only when a host is built.
Law 3: what a table uses is known to be of the right kind before it is called (K14).
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from duly.api.elsewhere import ForeignKind, foreign_kinds
from duly.api.project import FILE, Project
from duly.api.setup import Builder, ProjectSetup
from duly.api.simulator import ProjectSimulator
from duly.api.trust import check_file, judge_imports
from duly.bus.channel import Channel
from duly.config import URL_PREFIX, is_server, path_from_url
from duly.connectors.base import Connector
from duly.connectors.private import Private
from duly.connectors.registry import Registry
from duly.errors import ConfigError, DulyError, parts_of
from duly.host import Host
from duly.model_settings import ModelSettings
from duly.rules.addable import nearest_kind
from duly.rules.value import nearest

EXTENSION_SUFFIXES: Final = frozenset({".py", ".yaml", ".yml"})
LOCK: Final = "lock"  # the argument of a connector that names the file of what was agreed to
SOURCES_MAX: Final = 10_000  # files that are judged before a module of the project is imported

# What `use` names without a module; everything else is "module:name".
CONNECTORS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "airtable": "duly.connectors.airtable:Airtable",
        "calendar": "duly.connectors.calendar:Calendar",
        "clock": "duly.connectors.clock:Clock",
        "discord": "duly.connectors.declared:Discord",
        "documents": "duly.connectors.documents:Documents",
        "drive": "duly.connectors.drive:Drive",
        "feed": "duly.connectors.feed:Feed",
        "files": "duly.connectors.files:Files",
        "github": "duly.connectors.github:Github",
        "gmail": "duly.connectors.gmail:Gmail",
        "google_calendar": "duly.connectors.google_calendar:GoogleCalendar",
        "http": "duly.connectors.http:Http",
        "hubspot": "duly.connectors.declared:Hubspot",
        "ics": "duly.connectors.calendar:CalendarFeed",
        "jira": "duly.connectors.declared:Jira",
        "linear": "duly.connectors.declared:Linear",
        "llm": "duly.connectors.llm:Llm",
        "mail": "duly.connectors.mail_account:MailAccount",
        "mailbox": "duly.connectors.mailbox:Mailbox",
        "mcp": "duly.connectors.mcp:Mcp",
        "notion": "duly.connectors.notion:Notion",
        "outlook": "duly.connectors.declared:OutlookAccount",
        "s3": "duly.connectors.s3:S3",
        "sheets": "duly.connectors.sheets:Sheets",
        "slack": "duly.connectors.slack:Slack",
        "sql": "duly.connectors.sql:Sql",
        "stripe": "duly.connectors.stripe:Stripe",
        "table": "duly.connectors.table:Table",
        "telegram": "duly.connectors.telegram:Telegram",
        "todoist": "duly.connectors.declared:Todoist",
        "trello": "duly.connectors.declared:Trello",
        "webhook": "duly.connectors.webhook:Webhook",
    }
)
CHANNELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "heartbeat": "duly.bus.heartbeat:HeartbeatChannel",
        "mail": "duly.bus.letterbox:MailChannel",
        "telegram": "duly.bus.telegram:TelegramChannel",
        "terminal": "duly.bus.channel:TerminalChannel",
        "webhook": "duly.bus.channel:WebhookChannel",
    }
)


def build_host(
    project: Project,
    *,
    with_extensions: bool = True,
    end: Callable[[], None] = lambda: None,
    restart: Callable[[], None] | None = None,
) -> Host:
    """Make the host that a project describes; it is not opened.

    `end` ends the process of a host that has lost its lease while it sends (H2). `restart` lets it
    stop in order and begin again; without it a person starts the host again by hand.
    """
    config = project.config
    if config.backup.every is not None and is_server(config.url):
        raise _at(_where(project), ConfigError(code="backup_on_server", subject="backup.every"))
    extensions = config.extensions if with_extensions else None
    if extensions is not None:
        found = (project.folder / extensions).rglob("*")
        _check_sources(project, (each for each in found if each.suffix in EXTENSION_SUFFIXES))
    connectors = [*_connectors(project)]
    repairer = _repairer(project)
    channels = [*_channels(project)] if with_extensions else []
    try:
        return Host(
            project.url,
            connectors=connectors,
            policy=config.policy,
            bus=config.bus,
            repairer=repairer,
            extensions=None if extensions is None else project.folder / extensions,
            channels=channels,
            models=_models(project),
            sandbox=config.sandbox,
            fleet=config.fleet,
            end=end,
            private=private_of(project),
            simulator=ProjectSimulator(project),
            setup=make_setup(project, restart),
        )
    except DulyError as error:
        raise _at(_where(project), error) from error


def make_setup(project: Project, restart: Callable[[], None] | None = None) -> ProjectSetup:
    """Make what a host does with the settings of its project for a person who has its page."""
    builder = Builder(partial(build_host, with_extensions=False), private_of, CONNECTORS)
    return ProjectSetup(project, builder, restart)


def private_of(project: Project) -> Private:
    """Say what of a project no connector serves: settings, sources, the page's key (K13)."""
    config, folder = project.config, project.folder.absolute()
    named = [
        *(table.get("use") for table in (*config.connectors.values(), *config.channels.values())),
        config.repairer,
    ]
    # What is built in ("mailbox") names no module; a folder of that name is data.
    modules = {each.partition(":")[0] for each in named if isinstance(each, str) and ":" in each}
    packages = {each.partition(".")[0] for each in modules}
    folders = [folder / each for each in packages if (folder / each).is_dir()]
    # A project that keeps its workflows beside all the rest has its code alone for itself.
    sources = [project.workflows.absolute()]
    if config.extensions is not None:
        sources.append((folder / config.extensions).absolute())
    wide = [each for each in sources if folder.is_relative_to(each)]
    settings = project.file.absolute() if project.file is not None else folder / FILE
    locks = [lock_of(project, each) for each in config.connectors]
    key = config.page.certificate_key
    keys = () if key is None else ((folder / Path(key).expanduser()).absolute(),)
    return Private(
        files=(settings, *locks, *keys),
        folders=(*(each for each in sources if each not in wide), *folders),
        code=(folder, *wide),
    )


def lock_of(project: Project, connector: str) -> Path:
    """Say where it is written what a person agreed to use of a server (M7)."""
    given = project.config.connectors.get(connector, {}).get(LOCK)
    named = given if isinstance(given, str) else f"{connector}.lock.json"
    return project.folder.absolute() / Path(named).expanduser()


def find_class(project: Project, use: str) -> type[Connector]:
    """Return the class that `use` names; nothing of it is called."""
    place, kind = _where(project), _foreign_kind(use)
    use = use if kind is None else kind.target
    if ":" not in use and use not in CONNECTORS:
        facts = {"place": place, **nearest_kind(use, CONNECTORS)}
        raise ConfigError(code="not_built_in", subject=use, facts=facts)
    found: type[Connector] = _find(project, place, CONNECTORS.get(use, use))
    _check_connector(place, found)
    return found


def _connectors(project: Project) -> Iterator[Connector]:
    for name, table in project.config.connectors.items():
        place = f"{_where(project)}: [connectors.{name}]"
        given = dict(table)
        kind = _foreign_kind(given.get("use"))
        if kind is not None:
            given["use"] = kind.target
        made = _make(project, place, CONNECTORS, name, given, _check_connector)
        if getattr(made, "name", None) != name:
            made.name = name  # what scripts call it is said in the file
        try:
            Registry([made])  # alone, so that what is wrong with it is told with its table
        except DulyError as error:
            raise _at(place, error) from error
        made._foreign = None if kind is None else kind.told()
        yield made


def _foreign_kind(use: object) -> ForeignKind | None:
    """Find a kind that another package brings; what is built in is none, nor "module:name"."""
    if not isinstance(use, str) or ":" in use or use in CONNECTORS:
        return None
    return foreign_kinds(CONNECTORS).get(use)


def _channels(project: Project) -> Iterator[Channel]:
    for name, table in project.config.channels.items():
        place = f"{_where(project)}: [channels.{name}]"
        made: Channel = _make(project, place, CHANNELS, name, dict(table), _check_channel)
        yield made


def _repairer(project: Project) -> Any:
    named = project.config.repairer
    if named is None:
        return None
    place = _where(project)
    found = _find(project, place, named)
    if not callable(getattr(found, "repair", None)):
        raise ConfigError(code="not_repairer", subject=_kind(found), facts={"place": place})
    return _call(place, found, {}) if inspect.isclass(found) else found


def _models(project: Project) -> dict[str, ModelSettings]:
    """Return the models of the settings; the path of a certificate begins in the folder."""
    folder = project.folder
    return {
        name: each if each.ca is None else replace(each, ca=str(folder / each.ca))
        for name, each in project.config.models.items()
    }


def _check_connector(place: str, found: Any) -> None:
    if not (inspect.isclass(found) and issubclass(found, Connector)):
        raise ConfigError(code="not_connector", subject=_kind(found), facts={"place": place})


def _check_channel(place: str, found: Any) -> None:
    if not (inspect.isclass(found) and callable(getattr(found, "send", None))):
        raise ConfigError(code="not_channel", subject=_kind(found), facts={"place": place})


def _make(
    project: Project,
    place: str,
    built_in: Mapping[str, str],
    name: str,
    table: dict[str, Any],
    check: Callable[[str, Any], None],
) -> Any:
    """Make what a table describes: `use` names the class, the other keys are its arguments."""
    use = table.pop("use", None)
    if not isinstance(use, str):
        facts: dict[str, Any] = {"place": place, "known": list(built_in)}
        raise ConfigError(code="no_use", subject="use", facts=facts)
    if "name" in table:
        raise ConfigError(code="name_in_table", subject="name", facts={"place": place})
    if ":" not in use and use not in built_in:
        facts = {"place": place, **nearest(use, built_in)}
        raise ConfigError(code="not_built_in", subject=use, facts=facts)
    found = _find(project, place, built_in.get(use, use))
    check(place, found)  # before anything of it is called (K14)
    taken = _parameters(place, found)
    arguments = _settle_paths(project, taken, table)
    if LOCK in taken:
        arguments.setdefault(LOCK, lock_of(project, name))
        _check_sources(project, (each for each in (arguments[LOCK],) if Path(each).exists()))
    if "name" in taken:
        arguments["name"] = name
    return _call(place, found, arguments)


def _parameters(place: str, found: Any) -> Mapping[str, inspect.Parameter]:
    """Read what a class takes."""
    if not callable(found):
        raise ConfigError(code="not_class", subject=_kind(found), facts={"place": place})
    return inspect.signature(found).parameters


def _find(project: Project, place: str, named: str) -> Any:
    """Import what "module:name" names."""
    module_name, colon, name = named.partition(":")
    if not (module_name and colon and name):
        facts = {"place": place, "wanted": "module_and_name"}
        raise ConfigError(code="wrong_value", subject=named, facts=facts)
    package = project.folder / module_name.partition(".")[0]
    _check_sources(project, chain(project.folder.glob("*.py"), package.rglob("*.py")))
    folder = str(project.folder)
    if folder not in sys.path:
        # Behind all that is installed: a file here must not take the place of Python's own.
        sys.path.append(folder)
    judge_imports(project.folder)
    try:
        module = importlib.import_module(module_name)
    except ConfigError:
        raise  # a file that another user could have written
    except (Exception, SystemExit) as error:  # a program that ends itself must not end us unheard
        facts = {"place": place, "folder": folder, "cause": f"{type(error).__name__}: {error}"}
        raise ConfigError(code="not_imported", subject=module_name, facts=facts) from error
    if not hasattr(module, name):
        public = [each for each in vars(module) if not each.startswith("_")]
        there = {"place": place, "module": module_name, **nearest(name, public)}
        raise ConfigError(code="no_class", subject=name, facts=there)
    return getattr(module, name)


def _check_sources(project: Project, files: Iterable[Path]) -> None:
    """Refuse a source of the project that another user could have written (K14)."""
    for count, file in enumerate(files):
        if count >= SOURCES_MAX:
            most = {"limit": SOURCES_MAX}
            raise ConfigError(code="too_many_sources", subject=str(file.parent), facts=most)
        check_file(file, project.folder, os.environ)


def _settle_paths(
    project: Project, parameters: Mapping[str, inspect.Parameter], table: Mapping[str, Any]
) -> dict[str, Any]:
    """Read what stands for a path, or for a SQLite URL, from the project's folder (law 1)."""
    settled = dict(table)
    for key, value in table.items():
        if not isinstance(value, str):
            continue
        if key in parameters and "Path" in str(parameters[key].annotation):
            settled[key] = project.folder / Path(value).expanduser()
        elif value.startswith(URL_PREFIX):
            settled[key] = f"{URL_PREFIX}{project.folder / path_from_url(value)}"
    return settled


def _call(place: str, make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a class with a table's keys; what does not fit is told by its key."""
    name = _kind(make)
    parameters = _parameters(place, make)
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    for key in arguments:
        if key not in parameters and not takes_all:
            facts = {"place": place, "of": name, **nearest(key, parameters)}
            raise ConfigError(code="unknown_argument", subject=key, facts=facts)
    for each in parameters.values():
        is_open = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if each.default is each.empty and not is_open and each.name not in arguments:
            raise ConfigError(code="missing", subject=each.name, facts={"place": place, "of": name})
    try:
        return make(**arguments)
    except (Exception, SystemExit) as error:
        told = str(error) if isinstance(error, DulyError) else f"{type(error).__name__}: {error}"
        facts = {"place": place, "cause": told}
        raise ConfigError(code="not_made", subject=name, facts=facts) from error


def _at(place: str, error: DulyError) -> ConfigError:
    """Say of an error where in the settings it comes from."""
    return ConfigError(**{**parts_of(error), "message": f"{place}: {error}"})


def _kind(value: object) -> str:
    return str(getattr(value, "__name__", type(value).__name__))


def _where(project: Project) -> str:
    return "the settings" if project.file is None else str(project.file)
