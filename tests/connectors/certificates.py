"""A certificate authority made for a test, and servers with good and bad certificates.

Law: all signatures are of one length, so that a connection has as many bytes as the one before it:
the exam for the network counts them. They are as strict as Python 3.13 asks for by default.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """It signs certificates; its own is in the file `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._key = Ed25519PrivateKey.generate()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
        own = self._sign(self._name, self._key, is_ca=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(own.public_bytes(Encoding.PEM))

    def context(
        self, *names: str, is_over: bool = False, is_self_signed: bool = False
    ) -> ssl.SSLContext:
        """Make what a server of these names speaks TLS with."""
        key = Ed25519PrivateKey.generate()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        made = self._sign(
            subject, key, names=names, is_over=is_over, by=key if is_self_signed else None
        )
        file = self._folder / f"{'-'.join(names) or 'none'}-{is_over}-{is_self_signed}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(private + made.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _sign(
        self,
        subject: x509.Name,
        key: Ed25519PrivateKey,
        *,
        names: tuple[str, ...] = (),
        is_ca: bool = False,
        is_over: bool = False,
        by: Ed25519PrivateKey | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        end = now - timedelta(days=1) if is_over else now + timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if by is not None else self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key((by or self._key).public_key()),
                False,
            )
        )
        if is_ca:
            builder = builder.add_extension(SIGNS, critical=True)
        if names:
            spelled = [
                x509.IPAddress(ip_address(each)) if each[0].isdigit() else x509.DNSName(each)
                for each in names
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(spelled), critical=False)
        return builder.sign(by or self._key, None)
