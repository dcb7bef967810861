"""Builds all that the settings of a project name, and says what came of it: one line of JSON.

Law 1  Nothing is opened, sent or written: a host asks this before it stops for new settings.
Law 2  What modules of the project print is no part of what is said: it goes where errors go.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from duly.api.build import build_host
from duly.api.project import Project, find_project
from duly.api.wire import write_error
from duly.errors import ConfigError, DulyError
from duly.rules.page import check_page


def main() -> None:
    """Build the settings that were named, and say where their services are."""
    # Law 2. No program that a module starts has this descriptor either.
    out = os.dup(1)
    os.dup2(2, 1)
    file, url = msgspec.json.decode(sys.argv[1], type=tuple[str, str])
    told: dict[str, Any]
    try:
        told = {"origins": _rehearse(Path(file), url)}
    except DulyError as error:
        told = {"error": write_error(error)}
    with os.fdopen(out, "wb") as answer:
        answer.write(msgspec.json.encode(told))


def _rehearse(file: Path, url: str) -> dict[str, str]:
    given = str(file) if file.exists() else None
    project = find_project(given, os.environ, file.parent)
    if project.url != url:
        raise ConfigError(code="store_moved", subject=project.place)
    _check_page(project)
    return build_host(project).connectors.origins()


def _check_page(project: Project) -> None:
    """Refuse what would leave a person without the page that they look at."""
    settings = project.config.page
    check_page(settings)
    for each in (settings.certificate, settings.certificate_key):
        if each is not None and not os.access(project.folder / Path(each).expanduser(), os.R_OK):
            raise ConfigError(code="unreadable", subject=each, facts={"cause": "no such file"})


if __name__ == "__main__":
    main()
