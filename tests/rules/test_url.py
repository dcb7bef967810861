"""Which spellings of a URL are read, and which addresses a connector may connect to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from duly.errors import Invalid
from duly.rules.url import (
    NETWORKS,
    AddressKind,
    follow_url,
    is_name,
    judge_addresses,
    kind_of_address,
    match_host,
    read_host,
    read_url,
)

# Every one of these reaches, in one program or another, a machine that was not meant.
SPELLINGS = (
    # This machine in other numbers.
    *("http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/"),
    *("http://127.0.1/", "http://0x7f.0.0.1/", "http://0177.0.0.1/", "http://127.0.0.01/"),
    *("http://0x7f.1/", "http://00000177.0.0.1/", "http://127.000.000.001/", "http://0/"),
    *("http://0x/", "http://0x7f.0x0.0x0.0x1/", "http://256.256.256.256/", "http://1.2.3/"),
    *("http://1.2.3.4.5/", "http://127.0.0.1.5/", "http://425.510.425.510/", "http://3232235521/"),
    *("http://0xa9fea9fe/", "http://2852039166/", "http://0251.0376.0251.0376/"),
    *("http://169.254.43518/", "http://169.16689662/", "http://127.0.0.0x1/"),
    # Dots, and characters that some programs take for dots or digits.
    *("http://localhost./", "http://127.0.0.1./", "http://example.com../", "http://.example.com/"),
    *("http://a..b/", "http://127。0。0。1/", "http://127．0．0．1/", "http://１２７.0.0.1/"),
    *("http://①②⑦.⓪.⓪.①/", "http://ⓛocalhost/", "http://ⓔxample.com/", "http://exаmple.com/"),
    *("http://straße.de/", "http://example.com\u200b/", "http://exa\u00admple.com/"),
    "http://\u202eexample.com/",
    # Who is asked is hidden before or behind another name.
    *("http://good.example@127.0.0.1/", "http://127.0.0.1@good.example/", "http://@host/"),
    *("http://user:pass@host/", "http://good.example%40127.0.0.1/", "http://good.example:80@evil/"),
    *("http://good.example\\@127.0.0.1/", "http://good.example\\.evil.example/", "http:\\\\host/"),
    *("http:/\\host/", "http:///127.0.0.1/", "http:127.0.0.1/", "//127.0.0.1/", "http://"),
    *("http:///", "http://?x", "http://#@127.0.0.1/", "http://good.example#@127.0.0.1/"),
    # Zones and broken brackets.
    *("http://[fe80::1%eth0]/", "http://[fe80::1%25eth0]/", "http://[::1%lo]/", "http://[::1/"),
    *("http://::1/", "http://[::1]x/", "http://x[::1]/", "http://[127.0.0.1]/", "http://[]/"),
    *("http://[::g]/", "http://[v1.x]/", "http://[::1]]/", "http://[[::1]]/"),
    # Escapes in the host.
    *("http://%31%32%37.0.0.1/", "http://127.0.0.1%2f@x/", "http://loc%61lhost/", "http://a%00b/"),
    # Ports.
    *(
        "http://host:0/",
        "http://host:65536/",
        "http://host:080/",
        "http://host:/",
        "http://host:x/",
    ),
    *("http://host:80:80/", "http://host:-1/", "http://host:８０/"),
    # White space and control characters, which some programs drop.
    *("http://ho st/", " http://host/", "http://host/ ", "http://host/\r\nX: y", "ht\ntp://host/"),
    *("http://host\t/", "http://host/\0", "http://host/\x7f", "\x01http://host/"),
    # Other schemes.
    *("file:///etc/passwd", "ftp://host/", "gopher://127.0.0.1:6379/_x", "javascript:alert(1)"),
    *("data:text/plain,x", "unix:///run/x", "jar:http://host!/", "https:host", "httpss://host/"),
    *("url:http://127.0.0.1/", "dict://127.0.0.1:11211/", "ws://host/", "", "host", "http//host/"),
    # Paths that mean another path to the server.
    *("http://host/a/../b", "http://host/./b", "http://host/a/%2e%2e/b", "http://host/%2E./b"),
    *("http://host/a/%252e%252e/b", "http://host/..", "http://host/a/..;x/b", "http://host/..%2fb"),
    *("http://host/a/..%5cb", "http://host/%", "http://host/%zz", "http://host/?q=%f"),
    # Names no server has.
    *("http://-host/", "http://host-/", "http://ho!st/", "http://ho,st/", f"http://{'a' * 64}/"),
    f"http://{'a.' * 130}b/",
    f"http://host/{'a' * 8000}",
)

# Every one of these is read, and the machine behind it is not for connectors.
ADDRESSES = {
    AddressKind.LOOPBACK: ("127.0.0.1", "127.255.255.254", "::1"),
    AddressKind.UNSPECIFIED: ("0.0.0.0", "0.1.2.3", "::"),
    AddressKind.PRIVATE: (
        *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
        *("fc00::1", "fd12:3456::1", "fec0::1"),
    ),
    AddressKind.SHARED: ("100.64.0.1", "100.127.255.255"),
    AddressKind.LINK_LOCAL: ("169.254.0.1", "169.254.255.255", "fe80::1", "febf::1"),
    AddressKind.METADATA: (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254"),
    ),
    AddressKind.MULTICAST: ("224.0.0.1", "239.1.2.3", "255.255.255.255", "ff02::1"),
    AddressKind.RESERVED: (
        *("192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "240.0.0.1"),
        *("2001:db8::1", "3fff::1", "100::1", "2001:2::1", "2001:10::1", "5f00::1", "4000::1"),
    ),
    AddressKind.MAPPED: (
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:a9fe:a9fe", "::ffff:0:7f00:1", "::7f00:1"),
        "::8.8.8.8",
    ),
    AddressKind.NAT64: ("64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::a00:1"),
    AddressKind.TUNNEL: ("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:1::1", "192.88.99.1"),
}
OPENED = {AddressKind.LOOPBACK, AddressKind.PRIVATE, AddressKind.SHARED, AddressKind.NAT64}
KINDS = [(kind, each) for kind, row in ADDRESSES.items() for each in row]


def test_the_tables_are_long_enough() -> None:
    assert len(set(SPELLINGS)) > 120
    assert set(ADDRESSES) == set(AddressKind) - {AddressKind.PUBLIC}
    assert len(KINDS) > 45


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_spelling_that_programs_read_differently_is_refused(text: str) -> None:
    """K3: it is never converted."""
    with pytest.raises(Invalid) as caught:
        read_url(text)
    assert caught.value.code.startswith("url_") or caught.value.code == "too_long"
    assert "pass" not in str(caught.value).replace("password", "").replace("/etc/passwd", "")


@pytest.mark.parametrize(("kind", "text"), KINDS)
def test_an_address_that_is_not_public_is_refused(kind: AddressKind, text: str) -> None:
    """K3: also when a public one stands beside it; only four kinds can be opened, by name."""
    address = ip_address(text)
    assert kind_of_address(address) is kind
    both = (ip_address("93.184.216.34"), address)
    assert judge_addresses("host", both, ()) == (address, kind)
    assert judge_addresses("host", both, ("other", text)) == (address, kind)
    opened = judge_addresses("host", both, ("host",))
    assert opened == (None if kind in OPENED else (address, kind))


def test_a_public_address_may_be_connected_to() -> None:
    """K3: the table says nothing against it."""
    for text in ("93.184.216.34", "8.8.8.8", "2606:4700::1111", "2a00:1450:4001::200e", "1.1.1.1"):
        assert kind_of_address(ip_address(text)) is AddressKind.PUBLIC
        assert judge_addresses("host", [ip_address(text)], ()) is None
    assert len(NETWORKS) > 30


def test_a_url_is_read() -> None:
    """K3: scheme, host, port, path and query."""
    url = read_url("HTTPS://API.Example.com:8443/v1/a%20b?x=1&y=%C3%A9")
    assert (url.scheme, url.host, url.port) == ("https", "api.example.com", 8443)
    assert url.target == "/v1/a%20b?x=1&y=%C3%A9"
    assert url.origin == "https://api.example.com:8443"
    assert url.shown == "https://api.example.com:8443/v1/a%20b"
    assert str(read_url("http://example.com:80")) == "http://example.com/"
    assert str(read_url("http://[2606:4700:0:0::1]:81/")) == "http://[2606:4700::1]:81/"
    assert read_url("http://xn--strae-oqa.de/").host == "xn--strae-oqa.de"
    assert read_url("http://127.0.0.1:9/").host == "127.0.0.1"
    assert not is_name("127.0.0.1")
    assert not is_name("::1")
    assert is_name("localhost")


def test_a_redirect_is_read_like_any_url() -> None:
    """K3: relative, absolute, to another host; a trick in it is refused."""
    base = read_url("https://a.example/x/y?z=1")
    assert str(follow_url(base, "/n")) == "https://a.example/n"
    assert str(follow_url(base, "n?q#top")) == "https://a.example/x/n?q"
    assert str(follow_url(base, "//b.example/n")) == "https://b.example/n"
    assert str(follow_url(base, "http://b.example")) == "http://b.example/"
    for trick in ("http://2130706433/", "file:///x", "//a@b/", "http:\\\\x", "/a b", "/%2e%2e/x"):
        with pytest.raises(Invalid):
            follow_url(base, trick)


def test_hosts_of_the_settings() -> None:
    """K3: a pattern covers what is below it, never the name itself or an address."""
    assert match_host("*.example.com", "api.example.com")
    assert match_host("*.example.com", "a.b.example.com")
    assert not match_host("*.example.com", "example.com")
    assert not match_host("*.example.com", "badexample.com")
    assert match_host("example.com", "example.com")
    assert not match_host("*.1", "127.0.0.1")
    assert read_host("Shop.Internal") == "shop.internal"
    assert read_host("[::1]") == read_host("::1") == read_host("0:0:0::1") == "::1"
    for text in ("[::1]:80", "::1%lo", "host:80", "http://host", "*", "127.1", "host."):
        with pytest.raises(Invalid):
            read_host(text)
