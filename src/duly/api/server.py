"""The server of a project's store, for a face that judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly.api.project import Project
from duly.errors import ConfigError

if TYPE_CHECKING:
    from duly.store.server import ServerFacts as ServerFacts

OLDEST: Final = 14  # the oldest version of PostgreSQL that hosts are tried on
HOST_CONNECTIONS: Final = 10  # of one host: its pool, its lease, and where it listens


def find_server(project: Project) -> ServerFacts | None:
    """Ask the server of a project what it is like; None where its store is a file."""
    if project.database is not None:
        return None
    try:
        from duly.store.server import look_at_server
    except ImportError:
        raise ConfigError(code="no_psycopg") from None
    return look_at_server(project.config.url)
