"""Opens the store that a URL names: a SQLite file, or a database on a PostgreSQL server (H1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.config import is_server, path_from_url
from duly.env import Env
from duly.errors import ConfigError
from duly.store.sqlite import SqliteBackend, open_sqlite

if TYPE_CHECKING:
    from duly.store.postgres import PostgresBackend


async def open_store(url: str, env: Env) -> SqliteBackend | PostgresBackend:
    """Open a store and bring its schema up."""
    if not is_server(url):
        return await open_sqlite(path_from_url(url), env)
    try:
        from duly.store.postgres import open_postgres
    except ImportError:
        raise ConfigError(code="no_psycopg") from None
    return await open_postgres(url, env)
