"""Mail as a way to a person: it tells, and asks with a link to the page (B9, G6, G11).

    [channels.post]
    use = "mail"                # then: duly secret set channels post.password
    to = "you@example.com"
    address = "duly@example.com"
    smtp = "smtp.example.com"
    page = "https://duly.example.com"

Law 1  A mail is plain text. Its link is for one question and one receiver: it opens the question,
       and nothing is decided before a button is pressed there.
Law 2  A mail that was sent cannot be changed: what was decided stands on the page of its link.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duly.bus.asking import AskedCall, ChannelLink, asks_for_yes
from duly.bus.telegram import check_daily, read_page
from duly.connectors.base import Call
from duly.connectors.bot import BotSign
from duly.connectors.letter import TEXT_CHARS_MAX, write_letter
from duly.connectors.post import read_server
from duly.connectors.reach import make_context
from duly.connectors.smtp import Letter, SmtpAccount, send_letter
from duly.errors import AuthNeeded, ConfigError, Invalid, NotSent
from duly.rules.address import parse_address
from duly.rules.delivery import Event
from duly.rules.schedule import moment
from duly.rules.shown import cut
from duly.rules.url import read_host
from duly.words.slip import tell_how_to_answer, tell_where

SEND_S: Final = 25.0
SMTP_PORT: Final = 465
ROOM_CHARS: Final = 2_000  # of a mail for the link and the words around it
SUBJECT: Final = "Duly"


class MailChannel:
    """One receiver, `to`, reached by an account that hands in mail; `page` is the page's URL."""

    kind = "mail"
    is_heard = False

    def __init__(
        self,
        to: str,
        *,
        address: str,
        smtp: str,
        user: str | None = None,
        page: str | None = None,
        tls: str | None = None,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        daily: str | None = None,
        name: str = "mail",
    ) -> None:
        self.name = name
        self.problem: str | None = None
        self.daily = None if daily is None else check_daily(daily)
        try:
            self._to, plain = parse_address(to, "to"), parse_address(address, "address")
            allowed = frozenset(read_host(each, path="allow") for each in allow)
        except Invalid as error:
            raise ConfigError(code=error.code, subject=error.subject, facts=error.facts) from None
        self.own_accounts: tuple[str, ...] = (self._to,)
        self._address, self._user = address, user or plain
        self._server = read_server(smtp, "smtp", SMTP_PORT, tls, allowed)
        self._page = None if page is None else read_page(page)
        self._ca = None if ca is None else Path(ca)
        self._context: ssl.SSLContext | None = None
        self._link: ChannelLink | None = None

    def bind(self, link: ChannelLink) -> None:
        """Take the secrets and the clock of the host."""
        self._link = link

    def fits(self, text: str) -> bool:
        """Tell whether a mail can hold a text."""
        return len(text) <= TEXT_CHARS_MAX - ROOM_CHARS

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Send a text to the receiver, with where the page is."""
        whole = text if self.fits(text) else cut(text, TEXT_CHARS_MAX - ROOM_CHARS)
        await self._send(SUBJECT, whole if self._page is None else f"{whole}\n\n{self._page}\n")

    async def heed(self, event: Event) -> bool:
        """Ask about a call that waits for a yes, in place of telling that it waits."""
        if self._link is None or not asks_for_yes(event):
            return False
        await self._link.ask()
        return True

    async def ask(self, call: AskedCall) -> str:
        """Send a question with its link; without a page it says where to answer."""
        how = tell_where(call.mutation)
        if self._page is not None and call.may_answer:
            how = tell_how_to_answer(f"{self._page}/ask?code={call.code}")
        return await self._send(call.subject, f"{call.text}\n\n{how}\n")

    async def end(self, account: str, message: str, text: str) -> None:
        """Leave the mail as it is (law 2)."""

    async def hear(self, offset: int | None) -> tuple[BotSign, ...]:
        """Return nothing: answers come over the page."""
        return ()

    async def reply(self, sign: BotSign, text: str) -> None:
        """Answer nothing: see `hear`."""

    async def _send(self, subject: str, text: str) -> str:
        if self._link is None:
            raise NotSent(f"The channel {self.name} belongs to no open host.")
        password = self._link.find_secret("password")
        if password is None:
            raise AuthNeeded(
                f"The channel {self.name} has no password. Set it as the secret"
                f" {self.name}.password of channels."
            )
        if self._context is None:
            self._context = make_context(self._ca)
        call = Call(self.name, {}, self._link.new_key(), "", 1, moment(self._link.now_ms()))
        mail = write_letter(call, self._address, to=[self._to], subject=subject, text=text)
        account = SmtpAccount(self._server, self._user, password, self.name)
        letter = Letter(mail.sender, mail.receivers, mail.data)
        await send_letter(account, letter, self._context, timeout_s=SEND_S)
        return mail.message_id
