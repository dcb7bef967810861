"""Which server a connector reaches, and how long it may take: for every protocol alike (K2, K3).

Law 1: a name is resolved once, every address of it is judged, and the connection goes to an address
       that was judged.
Law 2: a server proves who it is by a certificate of the system, or of the file that the settings
       name. The environment changes nothing.
Law 3: nothing is begun when the time of the call is over (L7).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from duly.connectors.response import BrokenExchange
from duly.connectors.watch import Watch
from duly.env import CALL
from duly.errors import ConfigError, PermissionDenied
from duly.rules.url import IpAddress, is_name, judge_addresses

Resolve: TypeAlias = Callable[[str, int], Awaitable[tuple[IpAddress, ...]]]

ADDRESSES_MAX: Final = 4  # of one name, tried one after the other
STREAM: Final[Mapping[str, int]] = MappingProxyType(
    {"type": socket.SOCK_STREAM, "proto": socket.IPPROTO_TCP}
)
CONNECT_S: Final = 10.0  # for one address, so that the next one gets its turn
# Where the certificates of the system are, if OpenSSL's own place is empty.
CA_FILES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


async def find_addresses(
    host: str,
    port: int,
    *,
    allow: Collection[str],
    resolve: Resolve | None = None,
) -> tuple[IpAddress, ...]:
    """Resolve a host and judge every address of it (K3)."""
    if is_name(host):
        addresses = await (resolve or resolve_name)(host, port)
    else:
        addresses = (ip_address(host),)
    found = judge_addresses(host, addresses, allow)
    if found is not None:
        address, kind = found
        raise PermissionDenied(
            f"{host} leads to {address}, which is not public but {kind}. If you mean it,"
            f' write allow = ["{host}"] in the table of the connector (private and loopback'
            " addresses only)."
        )
    if not addresses:
        raise BrokenExchange(f"{host} has no address")
    return addresses[:ADDRESSES_MAX]


async def resolve_name(host: str, port: int) -> tuple[IpAddress, ...]:
    """Ask the system for the addresses of a name, in a thread of its own.

    The loop has a few threads for this. With names whose servers are silent they would all wait,
    for half a minute each, and every other connector with them.
    """
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="duly-name")
    try:
        found = await asyncio.get_running_loop().run_in_executor(
            thread, partial(socket.getaddrinfo, host, port, **STREAM)
        )
    finally:
        thread.shutdown(wait=False)
    return tuple(dict.fromkeys(ip_address(str(each[4][0])) for each in found))


def make_context(ca: Path | None, *, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """Make what verifies a server, by the certificates of a file or of the system (K3)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if ca is not None:
        try:
            context.load_verify_locations(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            message = f"ca: {ca} has no certificates in PEM form ({error.strerror or error})."
            raise ConfigError(message) from error
        return context
    # `ssl.create_default_context` would read the files that the environment names.
    places = ssl.get_default_verify_paths()
    file, folder = Path(places.openssl_cafile), Path(places.openssl_capath)
    known = (each for each in (file, *map(Path, CA_FILES)) if each.is_file())
    chosen = next(known, None)
    if chosen is not None or folder.is_dir():
        context.load_verify_locations(chosen, folder if folder.is_dir() else None)
    return context


def left_s() -> float:
    """Return how much time the call that runs here has left."""
    watch = CALL.get()
    return watch.left_s if isinstance(watch, Watch) else float("inf")


def within(timeout_s: float) -> float:
    """Return how long the exchange may last: the host itself stops the call at `timeout_s`.

    A little less, so that this file says what the end means and not the cancelled task.
    """
    return max(0.0, min(timeout_s, left_s()) * 0.95)


def why_of(error: Exception, timeout_s: float) -> str:
    """Say why an exchange failed, without any words of the other side."""
    if isinstance(error, BrokenExchange):
        return error.why
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not accepted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or type(error).__name__})"
    if isinstance(error, TimeoutError):
        return f"it took longer than {timeout_s:g} s"
    if isinstance(error, socket.gaierror):
        return f"its name could not be resolved ({error.strerror})"
    return f"the connection failed ({type(error).__name__})"
