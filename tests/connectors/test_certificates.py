"""The certificates of the tests are as strict as a newer Python asks for."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.connectors.certificates import Authority

FLIGHTS_MAX = 10


def shake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Let two ends shake hands, without a network."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    for _ in range(FLIGHTS_MAX):
        for each in [*ends]:
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(each)
    assert ends == []


def strict(ca: Path) -> ssl.SSLContext:
    """Verify as `ssl.create_default_context` does from Python 3.13 on."""
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def test_a_good_certificate_is_taken_by_a_strict_reader(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    shake(authority.context("127.0.0.1"), strict(authority.ca), "127.0.0.1")


def test_a_bad_certificate_is_refused_for_what_is_bad_about_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for made, why in (
        (authority.context("127.0.0.1", is_over=True), "expired"),
        (authority.context("127.0.0.1", is_self_signed=True), "self.signed"),
        (authority.context("127.0.0.2"), "mismatch"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError, match=why):
            shake(made, strict(authority.ca), "127.0.0.1")
