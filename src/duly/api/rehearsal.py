"""Builds all that the settings of a project name, and says what came of it: one line of JSON.

Law 1  Nothing is opened, sent or written: a host asks this before it stops for new settings.
Law 2  What modules of the project print is no part of what is said: it goes where errors go.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from duly.api.build import build_host
from duly.api.port import take_port
from duly.api.project import Project, find_project
from duly.api.wire import write_error
from duly.bus.code import scan
from duly.errors import ConfigError, DulyError
from duly.rules.page import check_page, places_of


def main() -> None:
    """Build the settings that were named, and say where their services are."""
    # Law 2. No program that a module starts has this descriptor either.
    out = os.dup(1)
    os.dup2(2, 1)
    file, url, held = msgspec.json.decode(sys.argv[1], type=tuple[str, str, list[int]])
    told: dict[str, Any]
    try:
        told = {"origins": _rehearse(Path(file), url, held)}
    except DulyError as error:
        told = {"error": write_error(error)}
    with os.fdopen(out, "wb") as answer:
        answer.write(msgspec.json.encode(told))


def _rehearse(file: Path, url: str, held: Collection[int]) -> dict[str, str]:
    given = str(file) if file.exists() else None
    project = find_project(given, os.environ, file.parent)
    if project.url != url:
        raise ConfigError(code="store_moved", subject=project.place)
    _check_page(project, held)
    host = build_host(project)
    if project.config.extensions is not None:
        scan(project.folder / project.config.extensions)
    return host.connectors.origins()


def _check_page(project: Project, held: Collection[int]) -> None:
    """Refuse what would leave a person without the page that they look at."""
    settings = project.config.page
    check_page(settings)
    for address, ports in places_of(settings):
        # The host hands its own on, or lets them go before it listens.
        if not any(each in held for each in ports):
            take_port(address, ports).close()
    if settings.certificate is None or settings.certificate_key is None:
        return
    files = [
        project.folder / Path(each).expanduser()
        for each in (settings.certificate, settings.certificate_key)
    ]
    for each in files:
        try:
            each.open("rb").close()
        except OSError as error:
            facts = {"cause": error.strerror}
            raise ConfigError(code="unreadable", subject=str(each), facts=facts) from error
    try:
        # With a password of its own, so that a sealed key is refused and none is asked for.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files[0], files[1], password="")
    except (OSError, ValueError) as error:
        facts = {"cause": getattr(error, "reason", None) or str(error)}
        raise ConfigError(code="unreadable", subject=str(files[0]), facts=facts) from error


if __name__ == "__main__":
    main()
