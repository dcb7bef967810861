"""A mail server on loopback: a real IMAP server in a process, a real SMTP server in a thread.

IMAP is spoken by Dovecot, or by pymap. The SMTP server keeps what it takes in a folder of the IMAP
server, as a provider of mail does, and misbehaves on command.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from duly.connectors.imap import encode_folder, quote
from duly.connectors.mail_account import MailAccount
from tests.connectors.certificates import Authority
from tests.connectors.dovecot import HOST as HOST
from tests.connectors.dovecot import Dovecot, find, free_port

logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # aiosmtpd tells of every cut

USER = "ada"
PASSWORD = "geheim-4711"


class ImapServer(Protocol):
    """A server that runs; `tls_port` is None where it knows STARTTLS alone."""

    @property
    def port(self) -> int:
        """Where it listens; TLS begins with STARTTLS."""

    @property
    def tls_port(self) -> int | None:
        """Where TLS begins at once."""

    def close(self) -> None:
        """End it."""


class Pymap:
    """A server in memory, from the package registry."""

    tls_port = None

    def __init__(self, certificate: Path) -> None:
        self.port = free_port()
        program = Path(__file__).with_name("imap_server.py")
        self._process = subprocess.Popen(
            [
                *(sys.executable, str(program), "--host", HOST, "--port", str(self.port)),
                *("--cert", str(certificate), "--key", str(certificate)),
                *("dict", "--demo-user", USER, "--demo-password", PASSWORD),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2400):
            with suppress(OSError), socket.create_connection((HOST, self.port), timeout=5):
                return
            threading.Event().wait(0.025)
        raise AssertionError("the IMAP server did not start")

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


class Handler:
    """What the SMTP server does with a mail."""

    def __init__(self, office: PostOffice) -> None:
        self._office = office

    async def handle_RCPT(  # noqa: N802  # the name that aiosmtpd calls
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        self._office.tell("receiver")
        if address.startswith("nobody@"):
            return "550 no such user"
        if address.startswith("busy@"):
            return "451 later, please"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        office = self._office
        if office.refuses_data:
            return "552 too much"
        office.tell("before taking")
        office.busy += 1
        # Decided before the mail is seen to be taken: a test may change it as soon as it sees that.
        is_silent = office.is_silent
        # In a thread, so that a client that hangs up does not leave half of it done.
        taking = server.loop.run_in_executor(None, office.take, envelope)
        await asyncio.shield(taking)
        office.tell("after taking")
        if is_silent:
            server.transport.abort()
        return "250 taken"


class Taking:
    """Takes every mail, and keeps none."""

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        return "250 taken"


@dataclass(frozen=True, slots=True)
class AnotherSmtp:
    """A server that is not the one of the account."""

    port: int
    controller: Controller

    def close(self) -> None:
        """End it."""
        self.controller.stop()


class PostOffice:
    """Both servers, and what a test sees of them without the connector."""

    def __init__(self, folder: Path, kind: str = "dovecot") -> None:
        self.authority = Authority(folder)
        self.authority.context(HOST, "localhost")
        self.certificate = next(folder.glob(f"{HOST}*.pem"))
        self.taken: list[tuple[str, tuple[str, ...], bytes]] = []
        self.keeps_sent = True
        self.refuses_data = self.is_silent = False
        self._door = threading.Lock()
        self.busy = 0  # mails that are being taken
        self.tell: Callable[[str], None] = lambda moment: None
        program = find() if kind == "dovecot" else None
        self.is_dovecot = program is not None
        self.imap: ImapServer = (
            Pymap(self.certificate)
            if program is None
            else Dovecot(program, self.certificate, PASSWORD)
        )
        self.imap_port, self.smtp_port = self.imap.port, free_port()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self._smtp = self._start_smtp(Handler(self), self.smtp_port, context)

    def account(
        self, name: str = "ada", *, kind: type[MailAccount] = MailAccount, **more: Any
    ) -> MailAccount:
        """Make a connector that signs in; its sent mails are in a folder of its own."""
        given: dict[str, Any] = {
            "imap": f"{HOST}:{self.imap_port}",
            "smtp": f"{HOST}:{self.smtp_port}",
            "user": USER,
            "sent": f"Sent-{name}",
            "tls": "starttls",
            "allow": [HOST],
            "ca": self.authority.ca,
            "name": "mail",
        }
        made = kind(f"{name}@example.com", **{**given, **more})
        object.__setattr__(made, "_vault", lambda connector, secret: PASSWORD)
        return made

    # -- What a test sees and does ----------------------------------------------------------------

    @contextmanager
    def signed_in(self) -> Iterator[imaplib.IMAP4]:
        """Speak to the IMAP server with another client."""
        context = ssl.create_default_context(cafile=self.authority.ca)
        client = imaplib.IMAP4(HOST, self.imap_port)
        client.starttls(context)
        client.login(USER, PASSWORD)
        try:
            yield client
        finally:
            with suppress(OSError, imaplib.IMAP4.error):
                client.logout()

    def make_folder(self, name: str) -> None:
        """Make a folder."""
        with self.signed_in() as client:
            client.create(_named(name))

    def delete(self, *names: str) -> None:
        """Take folders away, if they are there."""
        with self.signed_in() as client:
            for each in names:
                client.delete(_named(each))

    def put(self, folder: str, data: bytes) -> None:
        """Put a mail into a folder, which is made if it is missing."""
        with self._door, self.signed_in() as client:
            client.create(_named(folder))
            status, said = client.append(_named(folder), "", "", data)
            assert status == "OK", said

    def take(self, envelope: Any) -> None:
        """Take a mail, and keep it where its sender finds it."""
        try:
            if self.keeps_sent:
                self.put(f"Sent-{envelope.mail_from.partition('@')[0]}", envelope.content)
            self.taken.append((envelope.mail_from, tuple(envelope.rcpt_tos), envelope.content))
        finally:
            self.busy -= 1

    def ids(self, folder: str, *terms: str) -> list[int]:
        """Find mails in a folder."""
        with self.signed_in() as client:
            if client.select(_named(folder), readonly=True)[0] != "OK":
                return []
            return [int(each) for each in client.uid("search", *(terms or ("ALL",)))[1][0].split()]

    def known_ids(self, folder: str) -> list[str]:
        """Name the mails in a folder as the connector does."""
        with self.signed_in() as client:
            client.select(_named(folder), readonly=True)
            validity = int(client.response("UIDVALIDITY")[1][0] or b"0")
        return [f"{folder}#{validity}.{each}" for each in self.ids(folder)]

    def close(self) -> None:
        """End both servers."""
        self._smtp.stop()
        self.imap.close()

    def another_smtp(self, folder: Path) -> AnotherSmtp:
        """Run an SMTP server that takes every mail, with a certificate of another authority."""
        port = free_port()
        context = Authority(folder / "other-ca").context(HOST, "localhost")
        return AnotherSmtp(port, self._start_smtp(Taking(), port, context))

    def _start_smtp(self, handler: Any, port: int, context: ssl.SSLContext) -> Controller:
        controller = Controller(
            handler,
            hostname=HOST,
            port=port,
            tls_context=context,
            require_starttls=True,
            auth_require_tls=True,
            authenticator=_authenticate,
        )
        controller.start()
        return controller


def _named(folder: str) -> str:
    return quote(encode_folder(folder))


def _authenticate(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> Any:
    given = (data.login, data.password)
    return AuthResult(success=given == (USER.encode(), PASSWORD.encode()), handled=False)
