"""A project's store, moved from its file to a PostgreSQL server (H1)."""

from __future__ import annotations

from duly.api.project import Project
from duly.config import is_server
from duly.env import Loop
from duly.errors import ConfigError, RequestRefused
from duly.store.move import Moved as Moved
from duly.store.move import move_store


async def move_project(project: Project, url: str) -> Moved:
    """Move the store of a project whose host is stopped to an empty server."""
    if is_server(project.url):
        raise RequestRefused(code="moved_already", subject="store")
    if not is_server(url):
        raise ConfigError(code="no_server", subject=url)
    path = project.database
    if path is None or not path.exists():
        raise RequestRefused(code="no_store_yet", subject=str(path))
    return await move_store(path, url, Loop())
