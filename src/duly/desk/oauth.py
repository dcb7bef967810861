"""Signing in at the provider of a service: an address, what comes back, and a sealed secret (K9).

Law 1  What a sign-in needs to end well (state, verifier, redirect, scopes) is sealed into a ticket,
       which the face brings back. So any host of a store can end it, and none has to remember it.
Law 2  A ticket ends by itself, and its code is sent once, by one host of all: the act of ending the
       sign-in is written down before. A code that is sent twice ends a sign-in at many providers.
Law 3  The scopes are those of the capabilities that some workflow was granted, those that the
       caller names, and those that were granted before. If there are none, those of reading.
       The scopes that the provider always wants (`offline_access`) go along.
Law 4  An exchange that was begun is carried out, and its grant is kept, also when the caller stops
       waiting: the code is spent by then.
Law 5  Where the provider says who signed in, another account takes the place of the one before only
       if the caller says that it may.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Final

from duly.connectors.auth import SignIn
from duly.connectors.oauth import SAID, Client, Provider
from duly.desk.base import USER, Desk, HasDesk
from duly.desk.secret import Vault
from duly.engine.base import Parts
from duly.env import ID_RANDOM_BYTES, ID_TIME_DIGITS
from duly.errors import (
    AuthNeeded,
    ConnectorError,
    Invalid,
    NotFound,
    NotSent,
    RequestRefused,
    Stale,
)
from duly.rules.oauth import (
    STATE_BYTES,
    UNNAMED,
    VERIFIER_BYTES,
    DeviceCode,
    OAuthTicket,
    TokenFault,
    TokenGrant,
    make_word,
    missing_scopes,
    read_grant,
    read_redirect,
    read_ticket,
)
from duly.rules.schedule import moment
from duly.rules.value import nearest
from duly.rules.verb import Scope, act, question
from duly.store import people
from duly.store.base import Transaction
from duly.store.record import Action

TICKET_MS: Final = 15 * 60_000
TICKETS_MAX: Final = 1000  # used ones that are remembered
LOOKS_MAX: Final = 5  # at the sign-in of before; each time another one has taken its place
NONE: Final = ""  # the seal of a secret that is not there
GIVEN_CHARS_MAX: Final = 8_000
# Where the browser of a person ends who brings the address back by hand; nothing listens there.
BY_HAND: Final = "http://127.0.0.1:8918/duly"
LOOPBACK: Final = re.compile(r"http://127\.0\.0\.1:[1-9][0-9]{0,4}/[a-z-]{0,40}")
READ: Final = "read"


@dataclass(frozen=True, slots=True)
class SignInNeeded:
    """How a connection signs in: under which secret, with which scopes, and whether it is over.

    `account` is what the provider calls who signed in. `other` is the account with whose token a
    refresh was answered: then the sign-in is over.
    """

    secret: str
    scopes: tuple[str, ...]
    is_over: bool
    has_device: bool
    warning: str
    account: str = ""
    other: str = ""


@dataclass(frozen=True, slots=True)
class SignInBegun:
    """Where a person agrees, and the ticket that ends the sign-in.

    `missing` are the scopes that are asked for and were not granted before. With `user_code` the
    person types it at `address` on any device, and the provider is asked every `wait_s` seconds.
    """

    connector: str
    address: str
    redirect: str
    ticket: str
    ends_at: datetime
    scopes: tuple[str, ...]
    missing: tuple[str, ...]
    warning: str
    user_code: str = ""
    wait_s: int = 0


@dataclass(frozen=True, slots=True)
class SignInEnded:
    """What came of a sign-in; `wait_s` says when to ask again while the person has not agreed."""

    connector: str
    is_done: bool
    scopes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    wait_s: int = 0
    account: str = ""


class OAuthSignIns(HasDesk):
    """Sign-ins at the providers of services."""

    @question(scope=Scope.ADMIN, follow=False, needs_store=True, example={"connector": "mailbox"})
    async def begin_oauth(
        self,
        connector: str,
        redirect: str = "",
        capabilities: Sequence[str] = (),
        device: bool = False,
    ) -> SignInBegun:
        """Begin a sign-in at the provider of a service: return where a person agrees.

        `redirect` is an address on 127.0.0.1 at which the caller listens; without one the person
        brings the address back by hand. The scopes follow what workflows were granted, and the
        capabilities that are named besides.
        """
        # Rules: K9.
        desk = self._desk()
        sign_in, provider = _find(desk.parts, connector)
        if redirect and not LOOPBACK.fullmatch(redirect):
            facts = {"wanted": "loopback", "given": redirect[:200]}
            raise Invalid(code="wrong_value", path="redirect", facts=facts)
        vault = _vault(desk)
        before = _grant(vault, connector, sign_in)
        granted = await desk.ask(lambda tx: _granted(tx, connector))
        scopes = wanted_scopes(provider, (*granted, *map(str, capabilities)), connector, before)
        now, env = desk.now_ms, desk.parts.env
        ticket = OAuthTicket(
            connector,
            make_word(env.random_bytes(STATE_BYTES)),
            make_word(env.random_bytes(VERIFIER_BYTES)),
            redirect or BY_HAND,
            scopes,
            now + TICKET_MS,
        )
        asked = replace(provider, scopes=scopes)
        address = asked.authorize(ticket.redirect, state=ticket.state, verifier=ticket.verifier)
        code = await _device(sign_in, asked, connector, now) if device else None
        if code is not None:
            ends = min(code.ends_at, now + TICKET_MS)
            ticket = replace(ticket, redirect="", device=code.code, ends_at=ends)
            ticket = replace(ticket, interval_s=code.interval_s)
            address = code.url
        return SignInBegun(
            connector=connector,
            address=address,
            redirect=ticket.redirect,
            ticket=await vault.seal_note(connector, ticket.text),
            ends_at=moment(ticket.ends_at),
            scopes=scopes,
            missing=scopes if before is None else missing_scopes(before, scopes),
            warning=provider.warning,
            user_code="" if code is None else code.user_code,
            wait_s=0 if code is None else code.interval_s,
        )

    @act(scope=Scope.ADMIN, example={"connector": "mailbox", "ticket": "…", "given": "http://127…"})
    async def finish_oauth(
        self,
        connector: str,
        ticket: str,
        given: str = "",
        other_account: bool = False,
        *,
        by: str = USER,
    ) -> SignInEnded:
        """End a sign-in: exchange what came back, and keep the grant as a sealed secret.

        `given` is the whole address at which the browser ended; for a sign-in on another device it
        is left out. Another account than before is refused without `other_account`. Runs that wait
        for this connection go on by themselves.
        """
        # Rules: K9, A5, F4.
        desk = self._desk()
        action = desk.action(by, "finish_oauth")
        sign_in, provider = _find(desk.parts, connector)
        vault = _vault(desk)
        opened = await vault.open_note(connector, str(ticket))
        found = None if opened is None else read_ticket(opened)
        if found is None or found.connector != connector:
            raise Invalid(code="wrong_value", path="ticket", facts={"wanted": "ticket"})
        if desk.now_ms >= found.ends_at:
            raise RequestRefused(code="sign_in_late", subject=connector)
        if len(given) > GIVEN_CHARS_MAX:
            facts = {"limit": GIVEN_CHARS_MAX, "unit": "characters"}
            raise Invalid(code="too_long", path="given", facts=facts)
        if not found.device:
            _check_redirect(found, provider, given.strip())
        client = sign_in.client(replace(provider, scopes=found.scopes))
        await _spend(desk, found, action)

        async def work() -> SignInEnded:
            try:
                granted = await _exchange(client, found, given.strip(), desk.now_ms)
            except ConnectorError as error:
                if isinstance(error, NotSent):  # the code was not used, and can be
                    desk.signing[found.state] = False
                raise _refused(connector, str(error)) from error
            if isinstance(granted, int):
                desk.signing[found.state] = False
                return SignInEnded(connector, is_done=False, wait_s=granted)
            value, name = granted.text, sign_in.secret
            sealed = await vault.seal(connector, name, value)
            kept = action if found.device else desk.action(by, "set_secret")
            verb = partial(desk.parts.store.set_secret, connector, name, sealed, action=kept)
            for _ in range(LOOKS_MAX):
                over = None
                if not other_account:
                    before, over = await _before(vault, connector, sign_in)
                    _check_account(connector, before, granted)
                with suppress(Stale):  # another sign-in has ended meanwhile, or a refresh
                    vault.keep(connector, name, value, await verb(over=over, now=desk.now_ms))
                    break
            else:
                raise RequestRefused(code="changed_meanwhile", subject=connector)
            desk.engine.wake(None)
            missing = missing_scopes(granted, found.scopes)
            return SignInEnded(
                connector, True, granted.scopes, missing, account=granted.account_name
            )

        return await desk.complete(work)


def sign_in_needed(parts: Parts, vault: Vault | None, connector: str) -> SignInNeeded | None:
    """Return how a connection signs in; None if it does not."""
    for each in parts.outside:
        sign_in = getattr(each, "_sign_in", None)
        if each.name == connector and isinstance(sign_in, SignIn) and sign_in.provider is not None:
            grant = None if vault is None else _grant(vault, connector, sign_in)
            return SignInNeeded(
                sign_in.secret,
                () if grant is None else grant.scopes,
                grant is not None and grant.is_over,
                bool(sign_in.provider.device_url),
                sign_in.provider.warning,
                "" if grant is None else grant.account_name,
                "" if grant is None else grant.other,
            )
    return None


def wanted_scopes(
    provider: Provider, capabilities: Iterable[str], connector: str, before: TokenGrant | None
) -> tuple[str, ...]:
    """Return the scopes to ask for (law 3)."""
    known = provider.of_capability
    own = [each.removeprefix(f"{connector}.") for each in capabilities]
    found = [scope for each in own for scope in known.get(each, ())]
    all_known = {scope for scopes in known.values() for scope in scopes} | {*provider.scopes}
    if before is not None:
        found += [each for each in before.scopes if each in all_known]
    if not {*found} - {*provider.scopes}:
        found += known.get(READ, ())
    return tuple(dict.fromkeys([*provider.scopes, *found]))


async def _spend(desk: Desk, ticket: OAuthTicket, action: Action) -> None:
    """Take a ticket for this host, or refuse one that was used (law 2).

    The act has an id that is made from the ticket, and no two acts have one id. `signing` has what
    this host took: False while the code was not sent yet, or the person has not agreed. About a
    device the provider is asked again and again, by any host; it gives its token once.
    """
    used = RequestRefused(code="sign_in_used", subject=ticket.connector)
    if desk.signing.get(ticket.state, False):
        raise used
    if ticket.state not in desk.signing and not ticket.device:
        own = replace(action, id=_act_of(ticket))
        try:
            await desk.parts.store.note_act(target=ticket.connector, action=own, now=desk.now_ms)
        except Stale:
            raise used from None
    desk.signing[ticket.state] = True
    while len(desk.signing) > TICKETS_MAX:
        desk.signing.pop(next(iter(desk.signing)))


def _act_of(ticket: OAuthTicket) -> str:
    """Name the act of ending this sign-in: the same on every host, at its place in time."""
    number = sha256(ticket.state.encode()).hexdigest()[: 2 * ID_RANDOM_BYTES]
    return f"action_{ticket.ends_at:0{ID_TIME_DIGITS}x}{number}"


async def _before(
    vault: Vault, connector: str, sign_in: SignIn
) -> tuple[TokenGrant | None, str | None]:
    """Read the sign-in that the store has now, and its seal; another host may have written it."""
    try:
        kept = await vault.read_kept(connector, sign_in.secret)
    except NotFound:
        return None, NONE
    except AuthNeeded:  # it does not open
        return None, None
    return read_grant(kept.value), kept.sealed


def _check_account(connector: str, before: TokenGrant | None, now: TokenGrant) -> None:
    """Refuse a sign-in of another account than the one of before (law 5)."""
    if before is not None and now.signed.is_other(before.signed):
        facts = {"before": before.account_name or UNNAMED, "now": now.account_name or UNNAMED}
        raise RequestRefused(code="other_account", subject=connector, facts=facts)


async def _exchange(client: Client, ticket: OAuthTicket, given: str, now: int) -> TokenGrant | int:
    """Return the grant, or in how many seconds the provider may be asked again."""
    if ticket.device:
        return await client.look_at_device(ticket.device, ticket.interval_s, now=now)
    how = {"redirect": ticket.redirect, "state": ticket.state, "verifier": ticket.verifier}
    grant, _ = await client.finish(given, **how, now=now)
    return grant


async def _device(sign_in: SignIn, provider: Provider, connector: str, now: int) -> DeviceCode:
    try:
        return await sign_in.client(provider).begin_device(now=now)
    except ConnectorError as error:
        raise _refused(connector, str(error)) from error


def _find(parts: Parts, connector: str) -> tuple[SignIn, Provider]:
    for each in parts.outside:
        sign_in = getattr(each, "_sign_in", None)
        if each.name == connector and isinstance(sign_in, SignIn) and sign_in.provider is not None:
            return sign_in, sign_in.provider
    if connector in parts.outside.connectors:
        raise RequestRefused(code="signs_in_nowhere", subject=connector)
    facts = nearest(str(connector), parts.outside.connectors)
    raise NotFound(code="no_connector", subject=str(connector), facts=facts)


def _check_redirect(ticket: OAuthTicket, provider: Provider, given: str) -> None:
    """Refuse an address that is not the one of this sign-in; its code is not looked at."""
    where = {"redirect": ticket.redirect, "authorize_url": provider.authorize_url}
    found = read_redirect(given, state=ticket.state, **where)
    if isinstance(found, TokenFault):
        raise _refused(ticket.connector, SAID[found])


def _refused(connector: str, why: str) -> RequestRefused:
    facts = {"why": why.removesuffix(".")}
    return RequestRefused(code="no_sign_in", subject=connector, facts=facts)


def _vault(desk: Desk) -> Vault:
    if desk.vault is None:
        raise RequestRefused(code="no_vault")
    return desk.vault


def _grant(vault: Vault, connector: str, sign_in: SignIn) -> TokenGrant | None:
    value = vault.find(connector, sign_in.secret)
    return None if value is None else read_grant(value)


def _granted(tx: Transaction, connector: str) -> tuple[str, ...]:
    """List the capabilities of this connector that some workflow was granted."""
    held = people.list_capabilities(tx)
    return tuple(each for each in held if each.startswith(f"{connector}."))
