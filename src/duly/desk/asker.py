"""Asks persons over channels, and brings their answers to the desk, while a host serves (G11, B9).

Law 1  What is asked follows from the store: a call that waits for a yes has one open slip for each
       account of each channel, and a slip whose call was decided, wherever, is closed and says so.
       So a restart asks nothing again and forgets nothing.
Law 2  A slip is on the disk before its message leaves. If the answer to the message was lost, it is
       sent again under another code: two messages may be seen, and the first is worth nothing.
Law 3  What was pressed is forgotten outside only when all that came of it is on the disk. What
       comes twice counts once: the ledger decides.
Law 4  In a fleet one host asks and listens: the one that calls the channel on the bus (H8). A host
       that is evicted can write nothing, so neither a slip nor an answer of it counts.
Law 5  Nothing here ends the host. What fails is told as the problem of its channel, and tried
       again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from traceback import format_tb
from typing import Final, Protocol, TypeVar

from duly.bus.asking import AskedCall, AskingChannel, ChannelLink
from duly.bus.channel import NOTIFY_TOPIC, Channels
from duly.bus.heartbeat import BeatingChannel
from duly.connectors.bot import BotSign
from duly.desk import slip as desk_slip
from duly.desk.alerts import keep_alerting
from duly.desk.base import Desk
from duly.desk.slip import (
    CHANNELS,
    CLOSING,
    Decides,
    find_actor,
    list_accounts,
    look_at_end,
    show_call,
)
from duly.desk.unreached import Unreached
from duly.env import Env
from duly.errors import ConnectorError, DulyError, PermissionDenied, Refused, StoreError
from duly.loop import outlast
from duly.rules import slip as rule
from duly.rules.daily import last_daily_ms
from duly.rules.delivery import OWN_SOURCE, encode_payload
from duly.rules.redaction import redact_text
from duly.rules.schedule import DAY_MS
from duly.rules.shown import cut, visible
from duly.rules.slip import PressCode, SlipEnd, SlipStatus
from duly.rules.token import digest
from duly.rules.value import Json
from duly.store import slip as stored
from duly.store.base import Transaction
from duly.store.people import PAGE_ROWS_MAX
from duly.store.record import Action, JournalEvent
from duly.store.slip import SlipRow
from duly.words.slip import (
    CODE_OVER,
    PAIRED,
    ShownCall,
    tell_call,
    tell_day,
    tell_end,
    tell_name,
    tell_press,
    tell_subject,
    tell_too_long,
)

OPEN_MAX: Final = 20  # questions that one account has at a time; the others come afterwards
SLIPS_MAX: Final = 1000
LOOK_S: Final = 1.0  # a look at the store at most so often
LOOK_AT_LEAST_S: Final = 5.0  # another host may have written
PAUSE_S: Final = 1.0  # after a failure, then twice as long each time
PAUSE_MAX_S: Final = 300.0
HEAR_S: Final = 1.0  # what tells nothing new is heard at most so often
STRANGERS_MAX: Final = 10  # answered of one batch; a flood of them must not hold up the others
TRIES_MAX: Final = 3  # of an update that makes our own code fail
PROBLEM_CHARS_MAX: Final = 300
DAILY_LOOK_S: Final = 20.0
ASKING: Final = "asking"
LISTENING: Final = "listening"
REACHING: Final = "reaching"  # one account of several, while the others are asked

log = logging.getLogger("duly.channel")
R = TypeVar("R")


class OpenHost(Decides, Protocol):
    """What an asker uses of its host."""

    async def attention_count(self) -> int:
        """Count what waits for a person."""

    def watched_by(self, told: Callable[[], None]) -> AbstractContextManager[None]:
        """Call a function after every write."""


class BusWork(Protocol):
    """What an asker uses of the bus."""

    def holds(self, subscriber_id: str) -> bool:
        """Tell whether it is this host that calls a subscriber."""

    def wake_all(self) -> None:
        """Look again: something was put on the bus."""


class Asker:
    """The channels of one host that ask; it works beside the engine and the bus."""

    def __init__(self, desk: Desk, host: OpenHost, channels: Channels, bus: BusWork) -> None:
        self._desk = desk
        self._host = host
        self._env: Env = desk.parts.env
        self._bus = bus
        self._holds = bus.holds
        self._channels = tuple(each for each in channels.all if isinstance(each, AskingChannel))
        self._places = {each.name: channels.subscriber_of(each.name) for each in self._channels}
        self._doors = {each.name: asyncio.Lock() for each in self._channels}
        self._unreached = {each.name: Unreached() for each in self._channels}
        self._problems: dict[tuple[str, str], str | None] = {}
        self._bells = {each.name: asyncio.Event() for each in self._channels}
        self._beating = channels.beating
        self._has_channels = bool(channels.all or channels.beating)
        linked: tuple[AskingChannel | BeatingChannel, ...] = (*self._channels, *self._beating)
        for each in linked:
            each.bind(self._link(each))

    def _link(self, channel: AskingChannel | BeatingChannel) -> ChannelLink:
        def find_secret(name: str) -> str | None:
            vault = self._desk.vault
            return None if vault is None else vault.find(CHANNELS, f"{channel.name}.{name}")

        async def accounts() -> tuple[str, ...]:
            if isinstance(channel, AskingChannel):
                return await self._desk.look(partial(list_accounts, channel=channel))
            return ()

        async def ask() -> None:
            if isinstance(channel, AskingChannel):
                await self.sweep(channel)

        new_key = partial(self._env.new_id, "letter")
        return ChannelLink(find_secret, accounts, ask, self._env.now_ms, new_key)

    # -- Beside the other loops -------------------------------------------------------------------

    @property
    def is_rung(self) -> bool:
        """A drain has nothing to do here: what is asked is asked by the bus."""
        return False

    async def until_rung(self) -> None:
        """Wait without end."""
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """Return at once: what is due is asked when the bus delivers it."""

    async def serve(self) -> None:
        """Ask and listen until cancelled."""
        if not self._has_channels:
            await asyncio.Event().wait()
        with self._host.watched_by(self._ring):
            async with asyncio.TaskGroup() as group:
                group.create_task(keep_alerting(self._desk, self._bus.wake_all))
                for each in self._channels:
                    group.create_task(self._keep_on(each))
                    if each.is_heard:
                        group.create_task(self._listen(each))
                    if each.daily is not None:
                        group.create_task(self._tell_days(each, each.daily))
                for beating in self._beating:
                    group.create_task(self._beat(beating))

    def _ring(self) -> None:
        for bell in self._bells.values():
            bell.set()

    # -- Asking -------------------------------------------------------------------------------

    async def sweep(self, channel: AskingChannel) -> None:
        """Ask what was not asked, and close what was decided (law 1); raise the first failure."""
        async with self._doors[channel.name]:
            failures: list[DulyError] = []
            accounts, slips = await self._desk.look(partial(_read_slips, channel=channel))
            left: list[SlipRow] = []
            for slip in slips:
                try:
                    if not await self._close(channel, slip, slip.account in accounts):
                        left.append(slip)
                except ConnectorError as error:
                    failures.append(error)
            await self._ask_all(channel, accounts, left, failures)
            if failures:
                raise failures[0]

    async def _ask_all(
        self,
        channel: AskingChannel,
        accounts: tuple[str, ...],
        slips: list[SlipRow],
        failures: list[DulyError],
    ) -> None:
        """Ask every account what it was not asked yet; one that takes nothing holds up no other."""
        if not accounts:
            return
        waiting = await self._desk.look(partial(stored.list_asking, limit=OPEN_MAX))
        asked = {
            (each.account, each.mutation_id, each.hash)
            for each in slips
            if each.status is SlipStatus.ASKED
        }
        unreached = self._unreached[channel.name]
        for account in unreached.list_due(accounts, self._env.monotonic_ms()):
            for mutation_id, seen in waiting:
                if (account, mutation_id, seen) in asked:
                    continue
                try:
                    await self._ask(channel, account, mutation_id)
                    unreached.reach(account)
                except PermissionDenied as error:
                    unreached.miss(account, error, self._env.monotonic_ms())
                    break
                except Refused as error:
                    failures.append(error)  # this message alone is not taken
                except ConnectorError as error:
                    failures.append(error)
                    break  # what comes next to this account would fail alike
        denied = unreached.last()
        if denied is not None and waiting and unreached.are_all(accounts):
            failures.append(denied)
        self._note(channel, REACHING, None if denied is None else self._tell(denied))

    async def _ask(self, channel: AskingChannel, account: str, mutation_id: str) -> None:
        """Write a slip, then send it (law 2)."""
        desk, store = self._desk, self._desk.parts.store
        call = await desk.look(partial(show_call, desk=desk, mutation_id=mutation_id))
        if call is None:
            return  # another program wrote it; the attention says so
        code = rule.write_code(self._env.random_bytes(rule.CODE_BYTES))
        here = (self._env.new_id("slip"), channel.name, account, mutation_id)
        slip = await _to_its_end(store.write_slip(*here, call.hash, digest(code), now=desk.now_ms))
        if slip is None:
            return
        text = tell_call(call)
        fits = channel.fits(text)
        shown = text if fits else tell_too_long(call, len(text))
        asked = AskedCall(account, mutation_id, tell_subject(call), shown, code, fits)
        message = await channel.ask(asked)
        await _to_its_end(store.move_slip(slip, SlipStatus.ASKED, message=message, now=desk.now_ms))

    async def _close(self, channel: AskingChannel, slip: SlipRow, is_paired: bool) -> bool:
        """Close a slip that asks no more, after its message says so; return whether it is over."""
        desk = self._desk
        look = partial(look_at_end, desk=desk, slip=slip, now_ms=desk.now_ms)
        end, by, call = await desk.look(look)
        end = end or (None if is_paired else SlipEnd.UNPAIRED)
        if end is None:
            return False
        if slip.message is not None:
            await channel.end(slip.account, slip.message, _end_text(channel, end, by, call))
        await _to_its_end(desk.parts.store.move_slip(slip, SlipStatus.CLOSED, now=desk.now_ms))
        return True

    async def _wait(self, channel: AskingChannel) -> None:
        """Wait until something was written, or for a while: another host may have (law 4)."""
        bell = self._bells[channel.name]
        await self._env.sleep(LOOK_S)
        if not bell.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AT_LEAST_S):
                    await bell.wait()
        bell.clear()

    # -- Listening ----------------------------------------------------------------------------

    async def _listen(self, channel: AskingChannel) -> None:
        """Fetch what was pressed; confirm it when all that came of it is on the disk (law 3)."""
        offset: int | None = None
        tries: dict[int, int] = {}
        pause_s = PAUSE_S
        while True:
            if not self._holds(self._places[channel.name]):
                offset = None
                await self._env.sleep(LOOK_S)
                continue
            begun_ms = self._env.monotonic_ms()
            try:
                signs = await channel.hear(offset)
                pause_s = PAUSE_S
                self._note(channel, LISTENING, None)
                budget = _Budget(STRANGERS_MAX)
                is_new = False
                for sign in signs:
                    await self._take(channel, sign, budget, tries)
                    is_new |= offset is None or sign.number >= offset
                    offset = sign.number + 1
                if not signs:
                    offset = None  # all before it is forgotten, and numbers may begin anew
                if not is_new and self._env.monotonic_ms() - begun_ms < HEAR_S * 1000:
                    await self._env.sleep(HEAR_S)  # it did not wait, or repeats itself
            except Exception as error:
                pause_s = await self._rest(channel, LISTENING, error, pause_s)

    async def _take(
        self, channel: AskingChannel, sign: BotSign, budget: _Budget, tries: dict[int, int]
    ) -> None:
        """Do what one update asks for; an error of ours must not hold up all that follow."""
        try:
            await self._do(channel, sign, budget)
        except StoreError:
            raise  # nothing is confirmed, and it comes again
        except Exception as error:
            if isinstance(error, DulyError) and error.code in CLOSING:
                raise  # the next host is asked, however long this one takes to end
            tries[sign.number] = tries.get(sign.number, 0) + 1
            if tries[sign.number] < TRIES_MAX:
                raise Unanswered(subject=channel.name) from error
            log.error("channel %s: an update was given up: %s", channel.name, self._tell(error))
        tries.pop(sign.number, None)

    async def _do(self, channel: AskingChannel, sign: BotSign, budget: _Budget) -> None:
        desk, account = self._desk, sign.account
        if account is None:
            return
        name = channel.name
        actor = await desk.look(partial(find_actor, desk=desk, channel=name, account=account))
        if sign.press is not None and actor is not None:
            told = await self._press(channel, sign, account)
        elif sign.press is not None:
            told = tell_press(PressCode.STRANGER)
        elif actor is None:
            told = await self._pair(channel, sign.text or "", account)
        else:
            return  # what a paired account writes is no answer to anything
        if told and (actor is not None or budget.take()):
            await self._reply(channel, sign, told)

    async def _press(self, channel: AskingChannel, sign: BotSign, account: str) -> str:
        choice, code = rule.read_press(sign.data) or (rule.SlipChoice.OPEN, "")
        pressed = await desk_slip.press(
            self._desk, self._host, code, choice, account=account, channel=channel.name
        )
        self._bells[channel.name].set()
        return pressed.told

    async def _pair(self, channel: AskingChannel, text: str, account: str) -> str:
        """Pair an account that sent a code; what else a stranger writes is not answered."""
        code = rule.read_pairing(text)
        if not code:
            return ""
        desk = self._desk
        look = partial(stored.find_code, channel=channel.name, digest=digest(code))
        if await desk.look(look) is None:
            return CODE_OVER  # before anything is written: a flood of codes costs little
        by = rule.actor_of(channel.kind, account, account)
        action = Action(self._env.new_id("action"), by, "paired")
        pair = partial(desk.parts.store.pair_account, channel.name, digest(code), account)
        name = await desk.complete(partial(pair, action=action, now=desk.now_ms))
        if name is None:
            return CODE_OVER  # its time is over, or another account was quicker
        self._bells[channel.name].set()
        return PAIRED.format(name=visible(name))

    async def _reply(self, channel: AskingChannel, sign: BotSign, text: str) -> None:
        """Answer, if that can be had: what was decided stands without it."""
        try:
            await channel.reply(sign, text)
        except ConnectorError as error:
            log.info("channel %s: an answer was not shown: %s", channel.name, self._tell(error))

    # -- Lines of a day, and signs of life --------------------------------------------------------

    async def _tell_days(self, channel: AskingChannel, minute: int) -> None:
        """Put a line about the last day on the bus, at its minute, once (law 4)."""
        while True:
            try:
                if self._holds(self._places[channel.name]):
                    await self.tell_day(channel, minute)
            except Exception as error:
                log.warning("channel %s: %s", channel.name, self._tell(error))
            await self._env.sleep(DAILY_LOOK_S)

    async def tell_day(self, channel: AskingChannel, minute: int) -> bool:
        """Tell of the last day if that is due; return whether it was."""
        desk = self._desk
        now_ms = desk.now_ms
        at = last_daily_ms(minute, desk.parts.policy.timezone, now_ms)
        if await desk.look(partial(stored.was_told, channel=channel.name, at=at)):
            return False
        done = await desk.ask(partial(stored.count_done, since=now_ms - DAY_MS))
        waiting = await self._host.attention_count()
        payload: dict[str, Json] = {"channel_id": channel.name}
        payload["text"] = tell_day(done, waiting, PAGE_ROWS_MAX)
        event = JournalEvent(NOTIFY_TOPIC, OWN_SOURCE, encode_payload(payload))
        tell = partial(desk.parts.store.tell_day, channel.name, event, at=at, now=now_ms)
        is_told = await desk.complete(tell)
        if is_told:
            self._bus.wake_all()
        return is_told

    async def _beat(self, channel: BeatingChannel) -> None:
        """Give a sign of life while the store takes questions between two commits."""
        while True:
            try:
                await self._desk.look(partial(stored.was_told, channel=channel.name, at=0))
                await channel.beat()
                channel.problem = None
            except Exception as error:
                told = self._tell(error)
                if channel.problem != told:
                    log.warning("channel %s: %s", channel.name, told)
                channel.problem = told
            await self._env.sleep(channel.every_s)

    # -- Going on -----------------------------------------------------------------------------

    async def _keep_on(self, channel: AskingChannel) -> None:
        """Look again and again; after a failure a pause that grows (law 5)."""
        pause_s = PAUSE_S
        while True:
            try:
                if self._holds(self._places[channel.name]):
                    await self.sweep(channel)
                pause_s = PAUSE_S
                self._note(channel, ASKING, None)
            except Exception as error:
                pause_s = await self._rest(channel, ASKING, error, pause_s)
            await self._wait(channel)

    async def _rest(
        self, channel: AskingChannel, work: str, error: Exception, pause_s: float
    ) -> float:
        """Say what is wrong, once, and wait; return how long to wait the next time."""
        told = self._tell(error)
        if self._problems.get((channel.name, work)) != told:
            log.warning("channel %s: %s", channel.name, told)
        self._note(channel, work, told)
        asked_s = getattr(error, "retry_after_s", None) or 0.0
        await self._env.sleep(max(pause_s, asked_s))
        return min(2 * pause_s, PAUSE_MAX_S)

    def _tell(self, error: Exception) -> str:
        """Say what went wrong; a server may repeat a token, and our own errors anything (A5)."""
        if not isinstance(error, DulyError):
            log.error("a channel failed inside: %s", "".join(format_tb(error.__traceback__)))
            return f"It failed inside ({type(error).__name__})."
        said = redact_text(str(error), self._desk.parts.outside.secrets())
        return cut(visible(said), PROBLEM_CHARS_MAX)

    def _note(self, channel: AskingChannel, work: str, problem: str | None) -> None:
        """Keep what is wrong with a channel: its works fail apart."""
        self._problems[channel.name, work] = problem
        found = (self._problems.get((channel.name, each)) for each in (ASKING, LISTENING, REACHING))
        channel.problem = next((each for each in found if each is not None), None)


class Unanswered(DulyError):
    """An update could not be worked on; it is tried again."""

    default_code = "failed_inside"


class _Budget:
    """How many strangers are answered of one batch."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self) -> bool:
        """Take one, if there is one left."""
        self._left -= 1
        return self._left >= 0


async def _to_its_end(write: Awaitable[R]) -> R:
    """Outlast a write, also when cancelled: the door is shut until it is over (law 2)."""
    writing = asyncio.ensure_future(write)
    await outlast(writing)
    return writing.result()


def _read_slips(
    tx: Transaction, *, channel: AskingChannel
) -> tuple[tuple[str, ...], tuple[SlipRow, ...]]:
    accounts = list_accounts(tx, channel)
    return accounts, stored.list_open_slips(tx, channel.name, limit=SLIPS_MAX)


def _end_text(channel: AskingChannel, end: SlipEnd, by: str | None, call: ShownCall | None) -> str:
    told = tell_end(end, by)
    if call is None:
        return told
    whole = f"{tell_call(call)}\n\n{told}"
    return whole if channel.fits(whole) else f"{tell_name(call)}\n\n{told}"
