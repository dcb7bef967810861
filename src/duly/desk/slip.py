"""Accounts that decide over a channel: paired, listed, revoked; and what they answer (G11).

Law 1  What an account may do is to say yes or no to the call it was asked about. The act is the
       same that every face has, with the hash that was shown (A4).
Law 2  An answer is judged before it counts, and says for itself why it does not: by another
       account, to an old message, to a call that changed, to one that was decided elsewhere.
Law 3  The ledger decides once. A press that comes again, at once or after a restart, finds the call
       decided, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from duly.bus.asking import AskingChannel
from duly.desk.base import USER, Desk, HasDesk
from duly.desk.sight import read_args
from duly.errors import DulyError, Invalid, NotFound, RequestRefused, StoreError, see
from duly.rules import slip as rule
from duly.rules.catalog import Tool, make_form
from duly.rules.redaction import redact, redact_text
from duly.rules.schedule import moment
from duly.rules.shown import cut
from duly.rules.slip import AskedStanding, PressCode, SlipChoice, SlipEnd, SlipStatus
from duly.rules.token import digest
from duly.rules.value import nearest
from duly.rules.verb import Scope, act, question
from duly.store import people
from duly.store import slip as stored
from duly.store.base import Transaction
from duly.store.slip import PairingRow, SlipRow
from duly.words.slip import ShownCall, tell_call, tell_end, tell_name, tell_press

# Under which "connector" the secrets of channels are kept; each has the name `channel.secret`.
CHANNELS: Final = "channels"
CAUSE_CHARS_MAX: Final = 150  # of a reason that is shown for a moment
INPUTS_MAX: Final = 1000
CLOSING: Final = frozenset({"closed", "not_open"})  # what a host says that takes no acts any more


@dataclass(frozen=True, slots=True)
class PairedAccount:
    """An account that may decide; without an account its code was not used yet."""

    name: str
    account: str | None
    actor: str | None
    made_by: str
    made_at: datetime
    paired_at: datetime | None


@dataclass(frozen=True, slots=True)
class ChannelState:
    """A channel: whether it asks, why it does not work now, and which accounts decide over it.

    `pairs` tells whether accounts are paired with it by a code.
    """

    name: str
    kind: str
    asks: bool
    problem: str | None
    accounts: tuple[PairedAccount, ...]
    pairs: bool = False


@dataclass(frozen=True, slots=True)
class PairingCode:
    """What pairs an account, once, until its minutes are over; `code` is shown this once."""

    channel: str
    name: str
    code: str
    until: datetime


@dataclass(frozen=True, slots=True)
class AskedSlip:
    """What a message asks: the text that it shows, the hash, and why it asks no more."""

    mutation: str
    workflow: str
    text: str
    hash: str
    actor: str
    ended: SlipEnd | None
    told: str


@dataclass(frozen=True, slots=True)
class Pressed:
    """What became of an answer; `told` says it."""

    code: PressCode
    mutation: str | None
    told: str


class Decides(Protocol):
    """The two acts that an answer leads to."""

    async def approve(self, mutation: str, seen: str, *, by: str) -> None:
        """Let exactly the call whose hash was shown be sent."""

    async def reject(
        self, mutation: str, *, reason: str | None = None, seen: str | None = None, by: str
    ) -> None:
        """Decline it."""


class Slips(HasDesk):
    """What is asked over channels, and who may answer."""

    @question(scope=Scope.ADMIN, follow=False, needs_extensions=True, example={})
    async def channels(self) -> tuple[ChannelState, ...]:
        """List the channels, and the accounts that may decide over each."""
        # Rules: G11.
        desk = self._desk()
        rows = await desk.ask(stored.list_pairings)
        given = (*desk.channels.all, *desk.channels.beating)
        return tuple(_state(each, rows) for each in given)

    @act(scope=Scope.ADMIN, needs_extensions=True, example={"channel": "phone", "name": "Ada"})
    async def pair(self, channel: str, name: str, *, by: str = USER) -> PairingCode:
        """Make a code that pairs an account with a channel, once, within ten minutes.

        The account that sends it to the bot may say yes or no from then on; its answers are
        recorded under `name`.
        """
        # Rules: G11, G4.
        desk = self._desk()
        found = find_channel(desk, channel)
        if found is None or not found.is_heard:
            raise RequestRefused(code="not_paired_here", subject=str(channel))
        wanted = rule.check_name(name)
        action = desk.action(by, "pair")
        code = rule.write_pairing(desk.parts.env.random_bytes(rule.PAIR_BYTES))
        keep = desk.parts.store.keep_pairing
        now_ms = desk.now_ms
        verb = partial(keep, channel, wanted, digest(code), action=action, now=now_ms)
        await desk.complete(verb)
        return PairingCode(channel, wanted, code, moment(now_ms + rule.PAIR_MS))

    @act(scope=Scope.ADMIN, example={"channel": "phone", "name": "Ada"})
    async def unpair(self, channel: str, name: str, *, by: str = USER) -> None:
        """Take back what pairs an account: its next answer changes nothing."""
        # Rules: G11.
        desk = self._desk()
        action = desk.action(by, "unpair")
        rows = await desk.look(stored.list_pairings)
        known = [each.name for each in rows if each.channel == channel]
        if name not in known:
            raise NotFound(
                code="no_pairing",
                subject=str(name),
                facts=nearest(str(name), known),
                next=see("channels"),
            )
        drop = desk.parts.store.drop_pairing
        await desk.complete(partial(drop, channel, name, action=action, now=desk.now_ms))

    @question(follow=False, example={"code": "x4mW0c2o3bJQm1h4s7pLzA"})
    async def asked(self, code: str) -> AskedSlip:
        """Return what the message with this code asks; to have the code is enough."""
        # Rules: G11.
        desk = self._desk()
        return await desk.ask(partial(_look_at_slip, desk=desk, code=code, now_ms=desk.now_ms))

    @act(
        scope=Scope.DECIDE,
        example={"code": "x4mW0c2o3bJQm1h4s7pLzA", "choice": "yes", "seen": "3f9a51c2"},
    )
    async def answer(
        self, code: str, choice: SlipChoice | str, seen: str, *, by: str = USER
    ) -> Pressed:
        """Answer the message with this code: yes or no to the call whose hash was shown.

        The act is written down under the account that was asked. On the page of its link the code
        is enough; a token needs the scope that decides.
        """
        # Rules: G11, A4, G4.
        desk = self._desk()
        desk.action(by, "answer")  # who brings it is checked, and is not who decides
        if choice not in (SlipChoice.YES, SlipChoice.NO):
            facts = {
                "given": str(choice)[:50],
                "known": [SlipChoice.YES.value, SlipChoice.NO.value],
            }
            raise Invalid(code="not_one_of", path="choice", facts=facts)
        return await press(desk, self, str(code), SlipChoice(str(choice)), seen=seen)  # type: ignore[arg-type]  # a host is both


async def press(
    desk: Desk,
    decides: Decides,
    code: str,
    choice: SlipChoice,
    *,
    account: str | None = None,
    channel: str | None = None,
    seen: str | None = None,
) -> Pressed:
    """Judge an answer, and let it count if it may (law 2).

    `account` is who pressed, where the channel knows it; else the code itself is the proof.
    """
    look = partial(_find, desk=desk, code=code, account=account, channel=channel)
    found = await desk.look(look)
    if isinstance(found, PressCode):
        return _told(found)
    slip, actor, standing = found
    end = _end(slip, standing, desk.now_ms)
    refused = rule.judge(end)
    if refused is None and seen is not None and seen != slip.hash:
        refused = PressCode.CHANGED
    if refused is not None:
        return _told(refused, slip.mutation_id, end, standing.decided_by)
    if choice is SlipChoice.OPEN:
        return _told(PressCode.WHERE, slip.mutation_id)
    try:
        if choice is SlipChoice.YES:
            await decides.approve(slip.mutation_id, slip.hash, by=actor)
            return _told(PressCode.SENT, slip.mutation_id)
        await decides.reject(slip.mutation_id, seen=slip.hash, by=actor)
        return _told(PressCode.DECLINED, slip.mutation_id)
    except StoreError:
        raise  # it is not known whether it counts: the answer is brought again
    except DulyError as error:
        if error.code in CLOSING:
            raise  # the next host is asked
        return await _refused(desk, slip, error)


async def _refused(desk: Desk, slip: SlipRow, error: DulyError) -> Pressed:
    """Say why an answer was refused; it may be that another one was quicker."""
    standing = await desk.look(partial(stored.read_standing, mutation_id=slip.mutation_id))
    end = _end(slip, standing, desk.now_ms)
    code = rule.judge(end) or PressCode.REFUSED
    cause = cut(str(error), CAUSE_CHARS_MAX)
    return _told(code, slip.mutation_id, end, standing.decided_by, cause)


def _told(
    code: PressCode,
    mutation: str | None = None,
    end: SlipEnd | None = None,
    by: str | None = None,
    cause: str = "",
) -> Pressed:
    told = tell_press(code, mutation=mutation or "", end=end, by=by, cause=cause)
    return Pressed(code, mutation, told)


def _end(slip: SlipRow, standing: AskedStanding, now_ms: int) -> SlipEnd | None:
    """Return why a slip asks no more; one that was closed while its call waits is old."""
    end = rule.find_end(slip.hash, slip.made_at, standing, now_ms)
    return SlipEnd.OLD if end is None and slip.status is SlipStatus.CLOSED else end


def _find(
    tx: Transaction, *, desk: Desk, code: str, account: str | None, channel: str | None
) -> tuple[SlipRow, str, AskedStanding] | PressCode:
    """Find the slip of a code and who answers it; else say why there is none."""
    slip = stored.find_slip(tx, digest(code)) if rule.is_code(code) else None
    if channel is not None and account is not None:
        is_paired = find_actor(tx, desk, channel, account) is not None
        if slip is None or (slip.channel, slip.account) != (channel, account):
            return PressCode.OLD if is_paired and slip is None else PressCode.STRANGER
    if slip is None:
        return PressCode.OLD
    place = find_channel(desk, slip.channel)
    if account is None and (place is None or place.is_heard):
        return PressCode.OLD  # the code of a button proves nothing without its account
    actor = find_actor(tx, desk, slip.channel, slip.account)
    if actor is None:
        return PressCode.STRANGER
    return slip, actor, stored.read_standing(tx, slip.mutation_id)


def find_actor(tx: Transaction, desk: Desk, channel: str, account: str) -> str | None:
    """Return whom the answers of an account are written down under; None if it may not answer."""
    found = find_channel(desk, channel)
    if found is None:
        return None
    if account in found.own_accounts:
        return rule.actor_of(found.kind, account, account)
    name = stored.find_pairing(tx, channel, account)
    return None if name is None else rule.actor_of(found.kind, name, account)


def find_channel(desk: Desk, name: object) -> AskingChannel | None:
    """Return the channel of this name, if it is one that asks."""
    asking = (each for each in desk.channels.all if isinstance(each, AskingChannel))
    return next((each for each in asking if each.name == name), None)


def list_accounts(tx: Transaction, channel: AskingChannel) -> tuple[str, ...]:
    """Read the accounts that are asked over a channel."""
    rows = stored.list_pairings(tx)
    paired = (each.account for each in rows if each.channel == channel.name and each.account)
    return tuple(dict.fromkeys((*channel.own_accounts, *paired)))


def show_call(tx: Transaction, desk: Desk, mutation_id: str) -> ShownCall | None:
    """Read a call as a message shows it; None if its arguments cannot be shown as a form."""
    parts = desk.parts
    row = people.get_mutation(tx, mutation_id)
    secrets = parts.outside.secrets()
    shown = redact(read_args(row.args), secrets)
    if not isinstance(shown, dict):
        return None
    inputs = people.list_inputs(tx, row.held_by)[:INPUTS_MAX]
    return ShownCall(
        mutation=row.id,
        workflow=people.get_workflow(tx, row.workflow_id).name,
        tool=row.tool,
        hash=row.hash,
        form=make_form(_tool(desk, row.tool), shown),
        claimed=None if row.title is None else redact_text(row.title, secrets),
        inputs=tuple(redact_text(each.title, secrets) for each in inputs),
        amended_by=row.amended_by,
    )


def look_at_end(
    tx: Transaction, *, desk: Desk, slip: SlipRow, now_ms: int
) -> tuple[SlipEnd | None, str | None, ShownCall | None]:
    """Read why a slip asks no more, who decided, and what it asked about."""
    standing = stored.read_standing(tx, slip.mutation_id)
    end = rule.find_end(slip.hash, slip.made_at, standing, now_ms)
    # Of a call that was changed only the new arguments are known.
    call = None if standing.hash != slip.hash else show_call(tx, desk, slip.mutation_id)
    return end, standing.decided_by, call


def _tool(desk: Desk, name: str) -> Tool | None:
    try:
        return desk.parts.outside.catalog.find(name)
    except Invalid:
        return None


def _look_at_slip(tx: Transaction, *, desk: Desk, code: str, now_ms: int) -> AskedSlip:
    found = _find(tx, desk=desk, code=code, account=None, channel=None)
    if isinstance(found, PressCode):
        raise RequestRefused(code="no_question")
    slip, actor, standing = found
    end = _end(slip, standing, now_ms)
    call = show_call(tx, desk, slip.mutation_id)
    if call is None:
        raise RequestRefused(code="no_question")
    # The link of a mail shows what the mail showed, for its days: not what a call became since.
    is_shown = standing.hash == slip.hash and not rule.is_old(slip.made_at, now_ms)
    return AskedSlip(
        mutation=slip.mutation_id,
        workflow=call.workflow,
        text=tell_call(call) if is_shown else tell_name(call),
        hash=slip.hash,
        actor=actor,
        ended=end,
        told="" if end is None else tell_end(end, standing.decided_by),
    )


def _state(channel: object, rows: tuple[PairingRow, ...]) -> ChannelState:
    name = str(getattr(channel, "name", ""))
    if not isinstance(channel, AskingChannel):
        kind = getattr(channel, "kind", None) or type(channel).__name__
        return ChannelState(name, str(kind), False, getattr(channel, "problem", None), ())
    paired = tuple(_account(channel, each) for each in rows if each.channel == name)
    pairs = channel.is_heard
    return ChannelState(name, channel.kind, True, channel.problem, paired, pairs=pairs)


def _account(channel: AskingChannel, row: PairingRow) -> PairedAccount:
    account = row.account
    actor = None if account is None else rule.actor_of(channel.kind, row.name, account)
    paired_at = None if row.paired_at is None else moment(row.paired_at)
    made_at = moment(row.made_at)
    return PairedAccount(row.name, row.account, actor, row.made_by, made_at, paired_at)
