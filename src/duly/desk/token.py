"""Who is let in over HTTP: tokens of programs, devices of browsers, links that sign one in (G6).

Law 1  What lets a caller in is shown once, to the person who asked for it. The store keeps a
       digest, and a link is kept in memory for its minute.
Law 2  A token has a scope, and what it does is written down under its name (G4, G5).
Law 3  A token that is revoked, or whose time is over, lets no caller in from that moment: it is
       looked up at every request. A link that it made lets no browser in either.
Law 4  A name is one browser's for good: what a device did stays readable after it is revoked, so
       that no other device gets its name. A token of a program may be replaced under its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, count, islice
from typing import Final

from duly.desk.base import USER, Desk, HasDesk
from duly.errors import Invalid, NotFound, RequestRefused, see
from duly.rules import token as rule
from duly.rules.schedule import moment
from duly.rules.token import DEVICE_DAYS, LINK_MS, LINKS_MAX, OpenLink, TokenKind
from duly.rules.value import nearest
from duly.rules.verb import Scope, act, question
from duly.store import token as stored
from duly.store.base import Transaction
from duly.store.token import TokenRow

NAMES_TRIED: Final = 1000
ASKED_MAX: Final = 100  # tokens of one question


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its name; `actor` is what its acts are written down under."""

    name: str
    kind: TokenKind
    scope: Scope
    made_by: str
    made_at: datetime
    expires_at: datetime | None

    @property
    def actor(self) -> str:
        """Whom its acts are written down under."""
        return rule.actor_of(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made; `token` is shown this once."""

    name: str
    kind: TokenKind
    scope: Scope
    token: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Link:
    """A code that signs one browser in, once, until its minute is over."""

    code: str
    scope: Scope
    until: datetime


class Tokens(HasDesk):
    """What decides who is let in over HTTP."""

    @question(scope=Scope.ADMIN, example={})
    async def tokens(self) -> tuple[Token, ...]:
        """List the tokens of programs and the devices that signed in, by name."""
        # Rules: G6.
        rows = await self._desk().ask(stored.list_tokens)
        return tuple(map(_token, rows))

    @act(scope=Scope.ADMIN, example={"name": "laptop agent", "scope": "agent"})
    async def new_token(
        self, name: str, *, scope: Scope | str, days: int | None = None, by: str = USER
    ) -> NewToken:
        """Make a token for a program; it is shown this once.

        `scope` is what it may do: read, agent, decide or admin, each with all of the ones before
        it. It lasts `days`, or until it is revoked.
        """
        # Rules: G4, G6.
        desk = self._desk()
        made = rule.check_scope(scope)
        action = desk.action(by, "new_token", str(made))
        expires_at = rule.end_of(days, desk.now_ms)
        row, token = _make(
            desk, rule.check_name(name), TokenKind.TOKEN, made, action.by, expires_at
        )
        verb = partial(desk.parts.store.keep_token, row, action=action, now=desk.now_ms)
        await desk.complete(verb)
        return _new(row, token)

    @act(scope=Scope.ADMIN, example={"name": "laptop agent"})
    async def revoke_token(self, name: str, *, by: str = USER) -> None:
        """Take a token or a device back; its next request is refused."""
        # Rules: G6.
        desk = self._desk()
        action = desk.action(by, "revoke_token")
        known = [each.name for each in await desk.look(stored.list_tokens)]
        if name not in known:
            raise NotFound(
                code="no_token",
                subject=str(name),
                facts=nearest(str(name), known),
                next=see("tokens"),
            )
        verb = partial(desk.parts.store.drop_token, name, action=action, now=desk.now_ms)
        await desk.complete(verb)

    @act(scope=Scope.ADMIN, example={})
    async def new_link(self, *, scope: Scope | str = Scope.ADMIN, by: str = USER) -> Link:
        """Make the code of a link that signs one browser in, once, within a minute."""
        # Rules: G6.
        desk = self._desk()
        given = rule.check_scope(scope)
        action = desk.action(by, "new_link", str(given))
        now_ms, tick_ms = _forget_links(desk)
        if len(desk.links) >= LINKS_MAX:
            facts = {"limit": LINKS_MAX, "unit": "links"}
            raise RequestRefused(code="too_many", subject="sign-in", facts=facts)
        code = desk.parts.env.random_bytes(rule.SECRET_BYTES).hex()
        link = OpenLink(rule.digest(code), given, action.by, now_ms, tick_ms + LINK_MS)

        async def make() -> None:
            await desk.parts.store.note_act(target=None, action=action, now=now_ms)
            desk.links.append(link)

        await desk.complete(make)
        return Link(code, given, moment(link.until_ms))

    @act(scope=Scope.READ, example={"code": "4f1c", "name": "Firefox"})
    async def sign_in(self, code: str, name: str, *, by: str = USER) -> NewToken:
        """Use the code of a link: return what a browser keeps as its device.

        A name that is taken, or was another device's, gets a number. The device lasts 30 days, or
        until it is revoked.
        """
        # Rules: G6.
        desk = self._desk()
        wanted = rule.check_name(name)
        now_ms, _ = _forget_links(desk)
        link = next((each for each in desk.links if each.fits(str(code))), None)
        if link is None:
            raise RequestRefused(code="link_over")
        desk.links.remove(link)  # before anything else: a link is used once (law 1)
        action = desk.action(by, "sign_in", f"{link.scope}, by a link of {link.made_by}")
        expires_at = rule.end_of(DEVICE_DAYS, now_ms)
        free = await desk.look(partial(_find_place, link=link, wanted=wanted, now_ms=now_ms))
        row, token = _make(desk, free, TokenKind.DEVICE, link.scope, link.made_by, expires_at)
        await desk.complete(partial(desk.parts.store.keep_token, row, action=action, now=now_ms))
        return _new(row, token)

    @act(scope=Scope.READ, example={"token": "duly_0f3a_9c…"})
    async def sign_out(self, token: str, *, by: str = USER) -> None:
        """Take back the token that is given; to have it is enough."""
        # Rules: G6.
        desk = self._desk()
        action = desk.action(by, "sign_out")
        row = await _recognise(desk, token)
        verb = partial(desk.parts.store.drop_token, row.name, action=action, now=desk.now_ms)
        await desk.complete(verb)

    @question(follow=False, example={"token": "duly_0f3a_9c…"})
    async def who(self, token: str) -> Token:
        """Return whose token this is and what it may do; refuse one that is not valid."""
        # Rules: G4, G6.
        return _token(await _recognise(self._desk(), token))

    @question(follow=False, example={"tokens": ["duly_0f3a_9c…"]})
    async def admitted(self, tokens: Sequence[str]) -> tuple[bool, ...]:
        """Say of each token whether it is valid now; at most a hundred at once."""
        # Rules: G6, G13. One question for all viewers of a page, which keeps no act waiting.
        desk = self._desk()
        if len(tokens) > ASKED_MAX:
            facts = {"wanted": "tokens", "most": ASKED_MAX}
            raise Invalid(code="wrong_value", path="tokens", facts=facts)
        read = [rule.read_token(str(each)) for each in tokens]

        def look(tx: Transaction) -> list[TokenRow | None]:
            return [None if each is None else stored.get_token(tx, each[0]) for each in read]

        rows = await desk.ask(look)
        now_ms = desk.now_ms
        return tuple(
            parts is not None and row is not None and _lets_in(row, parts[1], now_ms)
            for parts, row in zip(read, rows, strict=True)
        )


async def _recognise(desk: Desk, token: str) -> TokenRow:
    """Return the row of a token that lets its holder in, or refuse it (law 3)."""
    parts = rule.read_token(str(token))
    row = None
    if parts is not None:
        row = await desk.look(partial(stored.get_token, row_id=parts[0]))
    if parts is None or row is None or not rule.is_proven(parts[1], row.digest):
        raise RequestRefused(code="not_signed_in")
    if rule.is_over(row.expires_at, desk.now_ms):
        raise RequestRefused(code="token_over", subject=row.name)
    return row


def _lets_in(row: TokenRow, secret: str, now_ms: int) -> bool:
    return rule.is_proven(secret, row.digest) and not rule.is_over(row.expires_at, now_ms)


def _make(
    desk: Desk, name: str, kind: TokenKind, scope: Scope, by: str, expires_at: int | None
) -> tuple[TokenRow, str]:
    """Make a token: what is kept of it, and what its holder gets."""
    env = desk.parts.env
    row_id = env.random_bytes(rule.ID_BYTES).hex()
    secret = env.random_bytes(rule.SECRET_BYTES).hex()
    row = TokenRow(name, row_id, kind, scope, rule.digest(secret), by, desk.now_ms, expires_at)
    return row, rule.write_token(row_id, secret)


def _forget_links(desk: Desk) -> tuple[int, int]:
    """Forget the links whose minute is over; return the time by both clocks.

    A link that was over once is never looked at again, also if the clock is set back.
    """
    now_ms, tick_ms = desk.now_ms, desk.parts.env.monotonic_ms()
    desk.links[:] = [each for each in desk.links if not each.is_over(now_ms, tick_ms)]
    return now_ms, tick_ms


def _find_place(tx: Transaction, *, link: OpenLink, wanted: str, now_ms: int) -> str:
    """Return a name for a device, or refuse a link whose maker is let in no more (law 3)."""
    rows = stored.list_tokens(tx)
    valid = (each for each in rows if not rule.is_over(each.expires_at, now_ms))
    actors = ((rule.actor_of(each.kind, each.name), each.made_at) for each in valid)
    if link.is_by_token and not any(link.is_of_holder(*each) for each in actors):
        raise RequestRefused(code="link_over")
    taken = {each.name for each in rows}
    numbered = (f"{wanted[: rule.NAME_CHARS_MAX - 5]} {number}" for number in count(2))
    for name in islice(chain([wanted], numbered), NAMES_TRIED):
        # Who did what is read by the name (law 4).
        if name not in taken and not stored.was_device(tx, name):
            return name
    raise Invalid(code="too_many", path="name", facts={"limit": NAMES_TRIED, "unit": "devices"})


def _token(row: TokenRow) -> Token:
    expires_at = None if row.expires_at is None else moment(row.expires_at)
    return Token(row.name, row.kind, row.scope, row.made_by, moment(row.made_at), expires_at)


def _new(row: TokenRow, token: str) -> NewToken:
    expires_at = None if row.expires_at is None else moment(row.expires_at)
    return NewToken(row.name, row.kind, row.scope, token, expires_at)
