"""What `duly doctor` says of a PostgreSQL server: whether the promise of a host holds on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from duly.errors import DulyError
from duly.faces.cli.finding import Finding, State

if TYPE_CHECKING:
    from duly.api.project import Project
    from duly.api.server import Pooler, ServerFacts

PAGE: Final = "docs/postgresql.md"


def judge(project: Project) -> Iterator[Finding]:
    """Judge the server of a project; nothing where its store is a file."""
    from duly.api.server import find_server

    try:
        facts = find_server(project)
    except DulyError as error:
        yield Finding("server", State.BAD, str(error))
        return
    if facts is not None:
        yield _version(project, facts)
        yield _durability(facts)
        yield _standby(facts)
        yield from _connections(facts)
        yield from _timeouts(facts)
        yield from _clock(facts)
        yield from _homeless(facts)
        yield from _tools(facts)


def _version(project: Project, facts: ServerFacts) -> Finding:
    from duly.api.server import OLDEST

    said = f"PostgreSQL {facts.version} at {project.place}."
    if facts.version < OLDEST:
        return Finding("server", State.BAD, said, f"Hosts need version {OLDEST} or newer.")
    return Finding("server", State.OK, said)


def _durability(facts: ServerFacts) -> Finding:
    off = [
        name
        for name, is_on in (
            ("fsync", facts.has_fsync),
            ("full_page_writes", facts.has_full_pages),
        )
        if not is_on
    ]
    if off:
        said = f"{' and '.join(off)} off: a power cut may lose what the server has confirmed."
        return Finding("durability", State.BAD, said, f"Set {' and '.join(off)} to on ({PAGE}).")
    return Finding("durability", State.OK, "The server waits for its disk.")


def _standby(facts: ServerFacts) -> Finding:
    if facts.standbys and not facts.synchronous_standbys:
        said = "A standby follows, and the server does not wait for it."
        advice = f"Set synchronous_standby_names: a promoted one lacks confirmed changes ({PAGE})."
        return Finding("standby", State.BAD, said, advice)
    if facts.synchronous_standbys:
        return Finding("standby", State.OK, f"The server waits for {facts.synchronous_standbys}.")
    return Finding("standby", State.OK, "No standby follows that this user can see.")


def _connections(facts: ServerFacts) -> Iterator[Finding]:
    from duly.api.server import HOST_CONNECTIONS, Pooler

    left = facts.connections_max - facts.connections
    if left < HOST_CONNECTIONS:
        said = f"{left} of {facts.connections_max} connections are free; a host uses up to"
        advice = "Raise max_connections, or run fewer hosts."
        yield Finding("connections", State.WARN, f"{said} {HOST_CONNECTIONS}.", advice)
    if facts.pooler is not Pooler.NONE:
        yield _pooler(facts.pooler)


def _pooler(pooler: Pooler) -> Finding:
    from duly.api.server import Pooler

    if pooler is Pooler.FORGETFUL:
        said = "A pooler hands out connections by the transaction and mixes up prepared statements."
        advice = f"No host can write through it: set pool_mode to session ({PAGE})."
        return Finding("pooler", State.BAD, said, advice)
    said = "A pooler hands out connections by the transaction, so no notification arrives."
    advice = f"Hosts look once a second. Set pool_mode to session to hear at once ({PAGE})."
    return Finding("pooler", State.WARN, said, advice)


def _timeouts(facts: ServerFacts) -> Iterator[Finding]:
    for name, limit_ms in facts.timeouts:
        said = f"{name} is {limit_ms / 1000:g} s for this user: the server ends what takes longer."
        advice = f"Set it to 0 for this user; hosts set the timeouts they need ({PAGE})."
        yield Finding("timeout", State.WARN, said, advice)


def _homeless(facts: ServerFacts) -> Iterator[Finding]:
    for workflow, machine in facts.homeless:
        said = f"“{workflow}” uses files of the machine {machine}, and no host serves there."
        advice = f"Start a host there, or set machine in [fleet] where its files are now ({PAGE})."
        yield Finding("machine", State.WARN, said, advice)


def _tools(facts: ServerFacts) -> Iterator[Finding]:
    for workflow, lack in facts.unserved:
        said = f"“{workflow}” needs {', '.join(lack.tools)}, and no host has all it needs."
        looked = f"Looked at: {', '.join(lack.hosts)}."
        advice = f"Start a host that has it, or add the connector to one of these ({PAGE})."
        yield Finding("tools", State.WARN, f"{said} {looked}", advice)
    for connector, hosts in facts.differing.items():
        said = f"The connector {connector} is not the same on these hosts: {', '.join(hosts)}."
        advice = f"Give them the same settings: any of them may run what uses it ({PAGE})."
        yield Finding("tools", State.WARN, said, advice)


def _clock(facts: ServerFacts) -> Iterator[Finding]:
    from duly.api.machine import read_clocks
    from duly.api.server import CLOCK_OFF_MAX_MS

    off_ms = facts.clock_ms - read_clocks()[0]
    if abs(off_ms) > CLOCK_OFF_MAX_MS:
        way = "ahead of" if off_ms > 0 else "behind"
        said = f"The server's clock is {abs(off_ms) // 1000} s {way} this machine's."
        yield Finding("clock", State.WARN, said, "Set both by a time server.")
