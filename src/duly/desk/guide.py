"""What an author asks before and after: how to write a workflow, and whether anything changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from duly.desk.attention import Attentions
from duly.desk.explanation import Explanations
from duly.desk.record import Attention, Why
from duly.errors import Invalid, RequestRefused, short
from duly.rules.identity import ExplainedId
from duly.rules.source import Language
from duly.rules.verb import question
from duly.script.guide import write_guide

WAIT_S_DEFAULT: Final = 30
WAIT_S_MAX: Final = 45  # many clients of an agent give a call up after a minute
WAITS_MAX: Final = 16  # at one moment, of all callers of a host
ROWS_MAX: Final = 50
PAUSE_S: Final = 0.2  # at most five looks a second
LOOK_S: Final = 1.0  # some answers change with the time alone


@dataclass(frozen=True, slots=True)
class Waited:
    """How something stands after a wait; `seen` is given to the next wait, so that none is missed.

    `why` is about the id that was given; `attention` is what waits for a person, if none was.
    """

    changed: bool
    seen: str
    why: Why | None = None
    attention: tuple[Attention, ...] | None = None


class Authors(Attentions, Explanations):
    """The questions of an author, who may be an agent."""

    @question(follow=False, example={"language": "python"})
    async def guide(self, language: Language | None = None, *, on_page: bool = False) -> str:
        """Teach how to write a workflow: rules, a pattern, and the tools of this host.

        `on_page` says at its end what to do on the page, instead of which commands to type.
        """
        parts = self._desk().parts
        outside = parts.outside
        tools = [(each, outside.describe(each.name)) for each in outside.catalog.tools]
        only = None if language is None else str(Language(language))
        reader = "page" if on_page else "shell"
        policy = parts.policy
        return write_guide(
            tools, only, zone=policy.timezone, reader=reader, approvals=policy.approvals
        )

    @question(follow=False, example={"id": "invoices", "seconds": 1})
    async def wait(
        self,
        id: ExplainedId | None = None,  # noqa: A002  # as `why` calls it
        *,
        seen: str = "",
        seconds: int = WAIT_S_DEFAULT,
    ) -> Waited:
        """Wait until the state of something changes, and return it; at most so many seconds.

        `id` is what `why` takes; without it, all that waits for a person is watched. Pass `seen`
        from the answer before: then a change since that answer returns at once. Without it only
        changes from now on count.
        """
        # Rules: M5, U7.
        if type(seconds) is not int or not 1 <= seconds <= WAIT_S_MAX:
            facts = {"given": short(seconds), "least": 1, "most": WAIT_S_MAX}
            raise Invalid(code="out_of_range", path="seconds", facts=facts)

        async def look() -> Waited:
            if id is None:
                waiting = await self.attention(limit=ROWS_MAX)
                told = [(each.key, each.reason, each.offers) for each in waiting]
                return Waited(False, _digest(told), attention=waiting)
            why = await self.why(id)
            return Waited(False, _digest(why), why)

        desk = self._desk()
        if len(desk.waits) >= WAITS_MAX:
            facts = {"limit": WAITS_MAX, "unit": "waits"}
            raise RequestRefused(code="too_many", subject="wait", facts=facts)
        desk.waits.add(look)
        try:
            return await self._until_changed(look, str(seen), seconds)
        finally:
            desk.waits.discard(look)

    async def _until_changed(
        self, look: Callable[[], Awaitable[Waited]], seen: str, seconds: int
    ) -> Waited:
        env = self._desk().parts.env
        watchers = self._desk().watchers
        end_ms = env.monotonic_ms() + seconds * 1000
        written = asyncio.Event()
        watchers.add(written.set)
        try:
            while True:
                written.clear()
                now = await look()
                if now.seen != (seen or now.seen):
                    return Waited(True, now.seen, now.why, now.attention)
                seen = now.seen
                left_s = (end_ms - env.monotonic_ms()) / 1000
                if left_s <= 0:
                    return now
                await env.sleep(min(PAUSE_S, left_s))
                sleeping = env.spawn(env.sleep(min(LOOK_S, left_s)), "wait")
                heard = env.spawn(_hear(written), "wait")
                try:
                    await asyncio.wait((sleeping, heard), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    sleeping.cancel()
                    heard.cancel()
        finally:
            watchers.discard(written.set)


async def _hear(written: asyncio.Event) -> None:
    await written.wait()


def _digest(value: object) -> str:
    """Name a state by its facts; they are plain values, whose text is the same for the same."""
    return sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]
