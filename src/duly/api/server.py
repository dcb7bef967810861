"""The server of a project's store, for a face that judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly.api.project import Project
from duly.errors import ConfigError
from duly.rules.lease import CLOCK_OFF_MAX_MS as CLOCK_OFF_MAX_MS
from duly.rules.pooler import Pooler as Pooler

if TYPE_CHECKING:
    from duly.store.server import ServerFacts as ServerFacts

OLDEST: Final = 14  # the oldest version of PostgreSQL that hosts are tried on
# Of one host: its pool, its lease, what it reads beside, where it listens, and a person's SELECT.
HOST_CONNECTIONS: Final = 12


def find_server(project: Project) -> ServerFacts | None:
    """Ask the server of a project what it is like; None where its store is a file."""
    if project.database is not None:
        return None
    try:
        from duly.store.server import look_at_server
    except ImportError:
        raise ConfigError(code="no_psycopg") from None
    return look_at_server(project.config.url)
