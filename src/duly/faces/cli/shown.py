"""The page beside a host that serves, and `duly open`, which signs a browser in.

Law: a host serves whether its page can be shown or not. Why it is not shown is a warning.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import click

from duly.api.text import visible
from duly.errors import ConfigError, RequestRefused
from duly.faces import qr
from duly.faces.cli.base import Face, echo_json, json_option, pass_face, run
from duly.faces.cli.spelling import Spelled

if TYPE_CHECKING:
    from socket import socket

    from duly.api.clock import Env
    from duly.api.page import PageSettings
    from duly.api.project import Project
    from duly.faces.socket import Control
    from duly.faces.web.watch import Listening

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger("duly.page")


def page_options(command: F) -> F:
    """Give a command that serves the options of its page."""
    command = click.option("--no-page", is_flag=True, help="Show no page.")(command)
    told = "The port of the page; 0 is any free one. [default: 7337, or the next free one]"
    return click.option("--page-port", type=click.IntRange(0, 65_535), help=told)(command)


def read_page(project: Project, *, no_page: bool, port: int | None) -> PageSettings | None:
    """Return how the page is to be shown; None if it is not."""
    if no_page:
        return None
    settings = project.config.page
    return settings if port is None else replace(settings, port=port)


@contextmanager
def listening(
    settings: PageSettings | None, handed: Sequence[socket] = ()
) -> Iterator[Listening | None]:
    """Listen where the page is to be shown; None if it cannot be.

    `handed` are sockets of the program before; those at other places are closed.
    """
    if settings is None:
        for each in handed:
            each.close()
        yield None
        return
    from duly.faces.web.watch import listen

    try:
        place = listen(settings, handed)
    except ConfigError as error:
        log.warning("%s", visible(error))
        yield None
        return
    try:
        yield place
    finally:
        place.close()


@asynccontextmanager
async def showing(
    control: Control,
    place: Listening | None,
    settings: PageSettings | None,
    project: Project,
    env: Env,
) -> AsyncIterator[None]:
    """Show the page as long as the block lasts."""
    if place is None or settings is None:
        yield
        return
    from duly.api.folder import ProjectFolder
    from duly.faces.web.watch import watched

    log.info(
        "Page %s (`duly open` in another terminal prints a link that signs your browser in)",
        place.url,
    )
    folder = ProjectFolder(project.folder, project.workflows)
    async with watched(control, place, settings, folder, env):
        yield


def write_link(page: str, code: str) -> str:
    """Write the address that signs a browser in."""
    return f"{page}/sign-in?{urlencode({'code': code})}"


@click.command("open", cls=Spelled, verb="new_link")
@click.option(
    "--scope",
    type=click.Choice(("read", "agent", "decide", "admin")),
    default="admin",
    help="What the browser may do. [default: admin]",
)
@click.option("--qr", "is_qr", is_flag=True, help="Draw the link as well, for a phone's camera.")
@json_option
@pass_face
def open_(face: Face, scope: str, *, is_qr: bool) -> None:
    """Print a link that signs one browser in, once, within a minute.

    A phone reaches the page only at an address of the network: name it in `hosts`, in the settings
    of the page.

    \b
    Example: duly open --scope decide
             duly open --qr
    """

    async def asking() -> tuple[str, Any]:
        async with face.session() as session:
            page = None if session.host is None else session.host.page
            if page is None:
                raise RequestRefused(code="no_page_here")
            return page, await session.call("new_link", scope=scope)

    page, link = run(asking())
    url = write_link(page, link["code"])
    if face.is_json:
        echo_json({**link, "url": url})
    else:
        click.echo(url)  # in one line, so that it can be copied
        if is_qr:
            click.echo(qr.write_blocks(qr.encode(url)))
