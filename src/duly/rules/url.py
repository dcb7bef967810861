"""Reads URLs strictly, and decides which addresses a connector may connect to (K3).

Law 1: a URL has one spelling. A host is a name in ASCII, four decimal numbers or `[…]`; every other
       form (decimal, octal, hexadecimal, full-width, a trailing dot, a zone, userinfo) is refused
       and never converted.
Law 2: an address is public only if no table below says otherwise. An address that carries another
       one (mapped, NAT64, 6to4, Teredo) is judged as what it is, not as what it carries.
Law 3: a host named in the settings opens loopback, private, shared and NAT64 addresses for itself
       alone. Nothing opens the others: those of metadata, of this link, of many receivers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Final, TypeAlias
from urllib.parse import unquote, urljoin

from duly.errors import Invalid

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

URL_CHARS_MAX: Final = 8000
GIVEN_CHARS: Final = 200
HOST_CHARS_MAX: Final = 253
PORT_MAX: Final = 65_535
PORTS: Final[Mapping[str, int]] = MappingProxyType({"http": 80, "https": 443})

# The characters of RFC 3986, and no others: no space, no backslash, no control character.
PLAIN: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
PARTS: Final = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.IGNORECASE)
LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
WITH_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):([0-9]{1,5})")
PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
DOTS: Final = frozenset({".", ".."})


class AddressKind(StrEnum):
    """What an address is for."""

    PUBLIC = "public"
    LOOPBACK = "loopback"
    PRIVATE = "private"
    SHARED = "shared"
    NAT64 = "nat64"
    LINK_LOCAL = "link_local"
    METADATA = "metadata"
    MAPPED = "mapped"
    TUNNEL = "tunnel"
    MULTICAST = "multicast"
    UNSPECIFIED = "unspecified"
    RESERVED = "reserved"


# What a host that the settings name may also be (law 3).
OPENABLE: Final = frozenset(
    {AddressKind.LOOPBACK, AddressKind.PRIVATE, AddressKind.SHARED, AddressKind.NAT64}
)

# The first row that fits decides, so an exception stands before its network.
_TABLE: Final[tuple[tuple[AddressKind, str], ...]] = (
    # Services of clouds that give credentials to every program on the machine.
    (AddressKind.METADATA, "169.254.169.254/32 169.254.169.253/32 169.254.170.2/32"),
    (AddressKind.METADATA, "169.254.170.23/32 169.254.169.123/32 100.100.100.200/32"),
    (AddressKind.METADATA, "168.63.129.16/32 192.0.0.192/32"),
    (AddressKind.METADATA, "fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128"),
    (AddressKind.LOOPBACK, "127.0.0.0/8 ::1/128"),
    (AddressKind.UNSPECIFIED, "0.0.0.0/8 ::/128"),
    (AddressKind.PRIVATE, "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10"),
    (AddressKind.SHARED, "100.64.0.0/10"),
    (AddressKind.LINK_LOCAL, "169.254.0.0/16 fe80::/10"),
    (AddressKind.MULTICAST, "224.0.0.0/4 ff00::/8 255.255.255.255/32"),
    (AddressKind.RESERVED, "192.0.0.0/24 192.0.2.0/24 198.18.0.0/15 198.51.100.0/24"),
    (AddressKind.RESERVED, "203.0.113.0/24 240.0.0.0/4 2001:db8::/32 3fff::/20 100::/64"),
    (AddressKind.MAPPED, "::ffff:0:0/96 ::ffff:0:0:0/96 ::/96"),
    (AddressKind.NAT64, "64:ff9b::/96 64:ff9b:1::/48"),
    (AddressKind.TUNNEL, "192.88.99.0/24 2002::/16 2001::/32"),
    (AddressKind.RESERVED, "2001::/23 5f00::/16"),
    (AddressKind.PUBLIC, "0.0.0.0/0 2000::/3"),
    (AddressKind.RESERVED, "::/0"),
)
NETWORKS: Final[tuple[tuple[AddressKind, IpNetwork], ...]] = tuple(
    (kind, ip_network(each)) for kind, row in _TABLE for each in row.split()
)


@dataclass(frozen=True, slots=True)
class Url:
    """A URL of the web, read and checked."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a secret belongs to (K4)."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as a request names them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def target(self) -> str:
        """Path and query, as a request names them."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def shown(self) -> str:
        """The URL without its query, which may hold what is not for everyone."""
        return f"{self.origin}{self.path}"

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"


def read_url(text: str, *, path: str = "url") -> Url:
    """Read a URL, or raise Invalid with the one thing that is wrong with it."""
    if len(text) > URL_CHARS_MAX:
        raise Invalid(
            code="too_long", path=path, facts={"limit": URL_CHARS_MAX, "unit": "characters"}
        )
    found = PARTS.fullmatch(text) if PLAIN.fullmatch(text) else None
    if found is None:
        raise _wrong(path, "url_form", text)
    scheme, authority, place, query, fragment = found.groups()
    if "@" in authority:
        raise Invalid(code="url_userinfo", path=path)  # it is not shown: it may be a password
    if fragment is not None:
        raise _wrong(path, "url_fragment", text)
    if BAD_ESCAPE.search(text) or has_dots(place):
        raise _wrong(path, "url_path", text)
    scheme = scheme.lower()
    host, port = _split(authority, path)
    number = PORTS[scheme] if port is None else int(port)
    return Url(scheme, _read_host(host, path), number, place or "/", query or "")


def follow_url(base: Url, location: str) -> Url:
    """Read where a redirect leads, seen from the URL that was asked."""
    if not PLAIN.fullmatch(location):
        raise _wrong("location", "url_form", location)
    try:
        joined = urljoin(str(base), location.partition("#")[0])
    except ValueError:  # a bracket without its other half
        raise _wrong("location", "url_form", location) from None
    return read_url(joined, path="location")


def is_name(host: str) -> bool:
    """Tell whether a host is a name, to be resolved, and no address."""
    return ":" not in host and not NUMERIC.fullmatch(host.rpartition(".")[2])


def is_own_address(host: str) -> bool:
    """Tell whether a host is an address that only a host named in the settings may have (law 3)."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return kind_of_address(ip_address(host)) in OPENABLE
    return False


def kind_of_address(address: IpAddress) -> AddressKind:
    """Return what an address is for."""
    return next(
        kind
        for kind, network in NETWORKS
        if network.version == address.version and address in network
    )


def judge_addresses(
    host: str, addresses: Iterable[IpAddress], allowed: Collection[str]
) -> tuple[IpAddress, AddressKind] | None:
    """Return the first address that must not be connected to; None if all may.

    One bad address condemns the name: an honest one has no reason to lead to both kinds.
    """
    is_named = host in allowed
    for each in addresses:
        kind = kind_of_address(each)
        if kind is not AddressKind.PUBLIC and not (is_named and kind in OPENABLE):
            return each, kind
    return None


def match_host(pattern: str, host: str) -> bool:
    """Tell whether a host is meant by a pattern: itself, or `*.example.com` for all below it."""
    if pattern.startswith("*."):
        return is_name(host) and host.endswith(pattern[1:]) and host != pattern[2:]
    return host == pattern


def match_url(pattern: str, text: str) -> bool:
    """Tell whether a URL is within a pattern: its scheme, its host and port, its path and query.

    Each part is matched by itself, as it was read: "https://*.example.com/*" means no other host
    that has this somewhere behind its name (K4).
    """
    scheme, _, rest = pattern.partition("://")
    authority, slash, place = rest.partition("/")
    found = WITH_PORT.fullmatch(authority)
    host, port = found.groups() if found else (authority, "")
    try:
        url = read_url(text)
    except Invalid:
        return False
    return (
        scheme in (url.scheme, "*")
        and (host == "*" or match_host(host.strip("[]").lower(), url.host))
        and url.port == int(port or PORTS[url.scheme])
        and fnmatchcase(url.target, f"{slash or '/'}{place}")
    )


def read_host(text: str, *, path: str = "host") -> str:
    """Read a host as it stands in the settings: a name or an address, with or without `[…]`."""
    lowered = text.lower()
    is_bare = ":" in lowered and not lowered.startswith("[")
    return _read_host(f"[{lowered}]" if is_bare else lowered, path)


def _split(authority: str, path: str) -> tuple[str, str | None]:
    bracket = authority.rpartition("]")[0]
    host, colon, port = authority[len(bracket) :].partition(":")
    host = bracket + host
    if colon and (not PORT.fullmatch(port) or int(port) > PORT_MAX):
        raise _wrong(path, "url_port", authority)
    return host.lower(), port if colon else None


def _read_host(host: str, path: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        try:
            if "%" in host:
                raise ValueError("zone")
            return str(IPv6Address(host[1:-1]))
        except ValueError:
            raise _wrong(path, "url_host", host) from None
    labels = host.split(".")
    if len(host) > HOST_CHARS_MAX or not all(map(LABEL.fullmatch, labels)):
        raise _wrong(path, "url_host", host)
    if not is_name(host):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise _wrong(path, "url_host", host) from None
    return host


def has_dots(place: str) -> bool:
    """Tell whether a path has a `.` or `..`, also an escaped one: a grant is by path (K4)."""
    parts = re.split(r"[/\\;]", unquote(unquote(place)))
    return not DOTS.isdisjoint(parts)


def _wrong(path: str, code: str, given: str) -> Invalid:
    return Invalid(code=code, path=path, facts={"given": given[:GIVEN_CHARS]})
