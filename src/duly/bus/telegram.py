"""A bot of Telegram as a way to a person: it tells, asks, and hears what was pressed (B9, G11).

    [channels.phone]
    use = "telegram"            # then: duly secret set channels phone.token

Law 1  It goes out and listens nowhere: updates are fetched, so no port is open and no address is
       needed.
Law 2  A text is plain text. Nothing in it is markup, and no link is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from duly.bus.asking import AskedCall, ChannelLink, asks_for_yes
from duly.connectors.bot import BotApi, BotSign, Button
from duly.connectors.telegram import TEXT_UNITS_MAX, URL
from duly.errors import ConfigError, Invalid, NotSent, PermissionDenied
from duly.rules.daily import read_daily
from duly.rules.delivery import Event
from duly.rules.shown import cut
from duly.rules.slip import SlipChoice, units_of, write_press
from duly.rules.url import read_url

LABELS: Final = {SlipChoice.YES: "Yes", SlipChoice.NO: "No", SlipChoice.OPEN: "Open"}
CUT_CHARS: Final = TEXT_UNITS_MAX // 2  # a character has at most two units


class TelegramChannel:
    """One bot, which speaks with the accounts that are paired; `page` is the URL of the page."""

    kind = "telegram"
    is_heard = True
    own_accounts: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        page: str | None = None,
        url: str = URL,
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        daily: str | None = None,
        name: str = "telegram",
    ) -> None:
        self.name = name
        self.problem: str | None = None
        self.daily = None if daily is None else check_daily(daily)
        self._page = None if page is None else read_page(page)
        self._link: ChannelLink | None = None
        file = None if ca is None else Path(ca)
        self._bot = BotApi(self._find_token, name=name, url=url, allow=allow, ca=file)

    def bind(self, link: ChannelLink) -> None:
        """Take the secrets and the accounts of the host."""
        self._link = link

    def fits(self, text: str) -> bool:
        """Tell whether a message can hold a text."""
        return units_of(text) <= TEXT_UNITS_MAX

    async def send(self, text: str, *, to: str | None = None) -> None:
        """Tell every paired account, or the one that is named; one that blocks the bot is left."""
        accounts = await self._linked.list_accounts()
        chosen = [each for each in accounts if to is None or each == to]
        if not chosen:
            raise NotSent(f"No account is paired with the channel {self.name}.")
        whole = text if self.fits(text) else cut(text, CUT_CHARS)
        buttons = [] if self._page is None else [Button(LABELS[SlipChoice.OPEN], url=self._page)]
        sent = [self._bot.send(each, whole, buttons) for each in chosen]
        ended = await asyncio.gather(*sent, return_exceptions=True)
        failed = [each for each in ended if isinstance(each, BaseException)]
        if len(failed) < len(ended):  # another try would tell those again that were told
            failed = [each for each in failed if not isinstance(each, PermissionDenied)]
        if failed:
            raise failed[0]

    async def heed(self, event: Event) -> bool:
        """Ask about a call that waits for a yes, in place of telling that it waits."""
        if self._link is None or not asks_for_yes(event):
            return False
        await self._link.ask()
        return True

    async def ask(self, call: AskedCall) -> str:
        """Send a question with its buttons."""
        choices = (SlipChoice.YES, SlipChoice.NO) if call.may_answer else ()
        buttons = [Button(LABELS[each], write_press(each, call.code)) for each in choices]
        return await self._bot.send(call.account, call.text, [*buttons, self._open(call)])

    async def end(self, account: str, message: str, text: str) -> None:
        """Say in a message what was decided; its buttons go."""
        await self._bot.edit(account, message, text)

    async def hear(self, offset: int | None) -> tuple[BotSign, ...]:
        """Wait for what was pressed or written."""
        return await self._bot.get_updates(offset)

    async def reply(self, sign: BotSign, text: str) -> None:
        """Answer a press for a moment, or a message by another."""
        if sign.press is not None:
            await self._bot.answer(sign.press, text)
        elif sign.account is not None:
            await self._bot.send(sign.account, text)

    def _open(self, call: AskedCall) -> Button:
        if self._page is not None:
            return Button(LABELS[SlipChoice.OPEN], url=f"{self._page}/m/{call.mutation}")
        return Button(LABELS[SlipChoice.OPEN], write_press(SlipChoice.OPEN, call.code))

    @property
    def _linked(self) -> ChannelLink:
        if self._link is None:
            raise NotSent(f"The channel {self.name} belongs to no open host.")
        return self._link

    def _find_token(self) -> str | None:
        return self._linked.find_secret("token")


def check_daily(daily: str) -> int:
    """Return the minute of the day at which a line tells of it."""
    try:
        return read_daily(daily)
    except Invalid as error:
        raise ConfigError(code=error.code, subject=error.subject, facts=error.facts) from None


def read_page(page: str) -> str:
    """Return where the page is reached from outside, without a slash at its end."""
    try:
        found = read_url(page, path="page")
    except Invalid as error:
        raise ConfigError(code=error.code, subject=error.subject, facts=error.facts) from None
    if found.query:
        raise ConfigError(code="url_query", subject="page", facts={"given": page})
    return f"{found.origin}{found.path.rstrip('/')}"
