"""Where a page may be reached, and by which names (G1, G2).

Law 1  A loopback address needs nothing. Any other one needs a certificate, or a proxy before it
       that has one, and the names it is called by: what is sent there is read on the way else.
Law 2  The `Host` of a request is one of an exact list. A name that an attacker has pointed at this
       machine is none of them, so that no page of theirs reads ours (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final

from duly.config import PageSettings
from duly.errors import ConfigError

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
LOCAL: Final = "localhost"
PORT: Final = 7337
PORTS_TRIED_MAX: Final = 10  # where no port is set and the usual one is taken
USUAL_PORTS: Final = {"http": 80, "https": 443}


def is_loopback(address: str) -> bool:
    """Tell whether only programs of this machine reach an address."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == LOCAL


def check_page(settings: PageSettings) -> None:
    """Refuse an address where what is sent could be read on the way (law 1)."""
    has_both = settings.certificate is not None and settings.certificate_key is not None
    if (settings.certificate is None) is not (settings.certificate_key is None):
        raise ConfigError(code="half_certificate", subject="page.certificate")
    hooks = settings.hooks_address
    places = [settings.address] if hooks is None else [settings.address, read_place(hooks)[0]]
    is_proxied = settings.behind_proxy == "yes"
    for address in places:
        if is_loopback(address):
            continue
        if not has_both and not is_proxied:
            raise ConfigError(code="page_in_the_clear", subject=address)
    if not settings.hosts and (is_proxied or not all(map(is_loopback, places))):
        raise ConfigError(code="page_without_hosts", subject="page.hosts")


def places_of(settings: PageSettings) -> tuple[tuple[str, Sequence[int]], ...]:
    """List where a page listens, each with the ports that may be tried: its own, that of webhooks.

    A page that nothing elsewhere leads to, and without a port of its own, takes the next free one.
    """
    ports: Sequence[int] = (PORT if settings.port is None else settings.port,)
    is_known = settings.hosts or settings.behind_proxy == "yes"
    if settings.port is None and not is_known:
        ports = range(PORT, PORT + PORTS_TRIED_MAX)
    own = (settings.address, ports)
    if settings.hooks_address is None:
        return (own,)
    address, port = read_place(settings.hooks_address)
    return (own, (address, (port,)))


def read_place(text: str) -> tuple[str, int]:
    """Read `address:port`."""
    address, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and int(port) <= 65_535
    if not colon or not address or not is_number:
        facts = {"wanted": "address_and_port", "given": text[:100]}
        raise ConfigError(code="wrong_value", subject="page.hooks_address", facts=facts)
    return address.removeprefix("[").removesuffix("]"), int(port)


def name_hooks(hosts: Iterable[str], listens: str) -> tuple[str, ...]:
    """List the names under which webhooks are reached from elsewhere, as far as settings name any.

    `listens` is the address and port of their own; a name with this port is theirs alone.

    >>> name_hooks(["duly.example.org:7337", "duly.example.org:8443"], "0.0.0.0:8443")
    ('duly.example.org:8443',)
    >>> name_hooks(["duly.example.org"], "")
    ('duly.example.org',)
    """
    named = tuple(hosts)
    port = listens.rpartition(":")[2]
    return tuple(each for each in named if port and each.endswith(f":{port}")) or named


def list_names(hosts: Iterable[str], port: int, scheme: str) -> frozenset[str]:
    """List what a `Host` header may say (law 2)."""
    local = {f"{name}:{port}" for name in LOCAL_NAMES}
    if USUAL_PORTS.get(scheme) == port:
        local |= set(LOCAL_NAMES)
    return frozenset(local | {each.lower() for each in hosts})
