"""The page and the HTTP interface of a host, for a program that embeds one.

    application.mount("/duly", duly.web.app(host, hosts=["tasks.example.org"]))

Law: it decides by itself who may (G3): who signs in to the program around it is not signed in here.
"""

from __future__ import annotations

from collections.abc import Iterable

from duly.api.door import Within
from duly.faces.web.app import make_app
from duly.faces.web.guard import Guard, Place
from duly.host import Host


def app(host: Host, *, hosts: Iterable[str] = (), behind_proxy: bool = False) -> Guard:
    """Return the ASGI application of an open host, to be mounted on the host's own event loop.

    `hosts` are the names it is called by, besides those of this machine; `behind_proxy` says that
    a proxy before it has the certificate, so that browsers see `https`.
    """
    return make_app(Within(host), Place(tuple(hosts), behind_proxy, host.policy.timezone))
