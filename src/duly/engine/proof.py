"""Tries once with the user's own account whether a tool can be asked, and keeps what came of it.

Law 1: a tool that needs a trial is believed only if its newest trial was found again, and nothing
       that the trial depends on has changed: the service, the account, its settings, its secrets.
Law 2: the guard stands here, in the host, so that no connector can leave it out. Without a proof
       both a yes and a no are *unsure*, and a person decides (K10).
Law 3: a trial is a real change outside, and no workflow's: it has a row of its own, written before
       its first byte leaves. It is sent once. If its end was not written it is shown as begun, and
       asking about it comes before another is sent.
Law 4: a *no* is believed about a call that was sent with the service, the settings and the secrets
       of now. Another account knows nothing of it, whether its tool needs a trial or not.
Law 5: a *no* of a question that does not see what was deleted is believed for an hour after the
       send. Later a person decides: what was made may have been tidied away (L6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Final

from duly.connectors.base import TRIAL_WORKFLOW, Applied, Call, NotApplied, Unsure
from duly.connectors.blob import trial_box, using_blobs
from duly.connectors.raised import words_of
from duly.connectors.registry import Registry
from duly.engine.base import Parts
from duly.errors import AuthNeeded, RequestRefused
from duly.rules.asking import (
    ProofBy,
    ProofFault,
    ProofStatus,
    SecretTimes,
    Sighting,
    is_absence_stale,
    judge_trial,
)
from duly.rules.catalog import Tool
from duly.rules.failure import ANSWERED, answer_of
from duly.rules.redaction import redact_text
from duly.rules.schedule import moment
from duly.rules.value import Json, decode, encode
from duly.store.proof import ProofRow
from duly.store.record import Action
from duly.words.asking import DELETED_UNSEEN, SENT_OTHERWISE, say_unbelieved

WAITS_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)  # before each question about a trial
# On a server another host may be at a trial; after so long it has ended in any case.
UNDER_WAY_MS: Final = 10 * 60 * 1000
ARGS_BYTES_MAX: Final = 1024 * 1024
SAID_CHARS_MAX: Final = 500


def find_basis(outside: Registry, tool: str, times: SecretTimes) -> str:
    """Return the digest of all that a proof of this tool depends on."""
    return outside.basis_with(tool, times)


def is_valid(row: ProofRow | None, basis: str | None) -> bool:
    """Tell whether a trial proves that the tool can be asked today (law 1)."""
    return row is not None and row.status is ProofStatus.PROVEN and row.basis == basis


async def believe(
    parts: Parts, tool: Tool, call: Call, verdict: Applied | NotApplied | Unsure
) -> Applied | NotApplied | Unsure:
    """Return a verdict about a call as far as it is believed (laws 2, 4 and 5)."""
    if isinstance(verdict, Unsure):
        return verdict
    is_done = isinstance(verdict, Applied)
    if not is_done and call.basis != parts.outside.basis_now(tool.name):
        return Unsure(SENT_OTHERWISE)
    if tool.proof is ProofBy.TRIAL:
        row, _ = await parts.store.find_proof(tool.name)
        if not is_valid(row, parts.outside.basis_now(tool.name)):
            return Unsure(say_unbelieved(is_done=is_done))
    # One that was sent several times may have been done by the first send of all.
    since = call.sent_at if call.attempt == 1 else call.first_sent_at
    age_s = (moment(parts.env.now_ms()) - since).total_seconds()
    within = {"lag_s": tool.lag_s, "timeout_s": tool.timeout_s}
    if not is_done and is_absence_stale(tool.deleted, age_s, **within):
        return Unsure(DELETED_UNSEEN)
    return verdict


class Prover:
    """Makes the trial of one tool; `args` are those that the user has agreed to."""

    def __init__(self, parts: Parts, tool: Tool, args: Mapping[str, Json]) -> None:
        self._parts = parts
        self._tool = tool
        self._args = dict(args)

    async def prove(self, action: Action) -> None:
        """Try it, and write down what came of it."""
        row, _ = await self._parts.store.find_proof(self._tool.name)
        basis = self._parts.outside.basis_now(self._tool.name)
        assert basis is not None, self._tool
        if row is not None:
            self._refuse_second(row)
            if row.basis == basis and await self._found_late(row):
                return
        unsent = await self._look(self._call(self._new_key()), is_first=True)
        if unsent is Sighting.SILENT:
            raise RequestRefused(code="cannot_be_asked", subject=self._tool.name)
        key = self._new_key()
        await self._parts.store.begin_proof(
            self._tool.name,
            key,
            encode(self._args, limit_bytes=ARGS_BYTES_MAX),
            basis,
            over=None if row is None else row.key,
            action=action,
            now=self._parts.env.now_ms(),
        )
        if unsent is Sighting.DONE:
            await self._end(key, ProofFault.SEES_UNSENT)
        else:
            await self._try(self._call(key))

    def _refuse_second(self, row: ProofRow) -> None:
        """Refuse a trial while another host may be at one; a host beside a file is alone."""
        age_ms = self._parts.env.now_ms() - row.begun_at
        is_shared = self._parts.lease is not None
        # The clock of the other host may be ahead of this one.
        if row.status is ProofStatus.BEGUN and is_shared and abs(age_ms) < UNDER_WAY_MS:
            raise RequestRefused(code="proof_under_way", subject=self._tool.name)

    async def _found_late(self, row: ProofRow) -> bool:
        """Ask about a trial that was sent before, so that it need not be sent again (law 3)."""
        if row.status is ProofStatus.PROVEN or row.fault in (
            ProofFault.NOT_MADE,
            ProofFault.SEES_UNSENT,
        ):
            return False
        args = decode(row.args)
        assert isinstance(args, dict), row
        handle = None if row.handle is None else decode(row.handle)
        call = replace(self._call(row.key), args=args, handle=handle)
        if await self._look(call) is not Sighting.DONE:
            return False
        if await self._look(replace(call, key=self._new_key())) is Sighting.DONE:
            return False
        await self._end(row.key, None)
        return True

    async def _try(self, call: Call) -> None:
        tool = self._tool
        kept: list[Json] = []
        keeper = partial(self._keep, call.key, kept)
        with using_blobs(trial_box()):
            watch = self._parts.outside.send(
                tool, replace(call, keeper=keeper), clock=self._parts.env.monotonic_ms
            )
        reply = await watch.answered(tool.timeout_s)
        error = None if reply is None else reply.error
        if error is not None and answer_of(error) in ANSWERED:
            await self._end(call.key, ProofFault.NOT_MADE, words_of(error))
            return
        is_made = reply is not None and error is None
        asked = replace(call, handle=kept[-1] if kept else None)
        seen = Sighting.SILENT
        for wait_s in WAITS_S:
            await self._parts.env.sleep(wait_s)
            seen = await self._look(asked)
            if seen is Sighting.DONE:
                break
        unsent = await self._look(replace(asked, key=self._new_key()))
        fault = judge_trial(seen, unsent, is_made=is_made)
        await self._end(call.key, fault, "" if error is None else words_of(error))

    async def _keep(self, key: str, kept: list[Json], handle: Json) -> None:
        """Keep what the first of two steps made, as the ledger would (L14)."""
        text = encode(handle, "handle", limit_bytes=ARGS_BYTES_MAX)
        await self._parts.store.keep_proof_handle(self._tool.name, key, text)
        kept.append(handle)

    async def _look(self, call: Call, *, is_first: bool = False) -> Sighting:
        """Ask what became of a call; at first a sign-in that is missing is told."""
        limit_s = self._parts.policy.limits.reconcile_s
        try:
            verdict = await self._parts.outside.reconcile(self._tool, call, limit_s=limit_s)
        except Exception as error:
            if is_first and isinstance(error, AuthNeeded):
                raise
            return Sighting.SILENT
        if isinstance(verdict, Applied):
            return Sighting.DONE
        return Sighting.NOT_DONE if isinstance(verdict, NotApplied) else Sighting.UNSURE

    async def _end(self, key: str, fault: ProofFault | None, said: str = "") -> None:
        status = ProofStatus.PROVEN if fault is None else ProofStatus.FAILED
        clean = redact_text(said, self._parts.outside.secrets())[:SAID_CHARS_MAX]
        now = self._parts.env.now_ms()
        await self._parts.store.end_proof(
            self._tool.name, key, status, fault=fault, said=clean or None, now=now
        )

    def _call(self, key: str) -> Call:
        now = self._parts.env.now_ms()
        send_by = moment(now + round(self._tool.timeout_s * 1000))
        at = moment(now)
        return Call(self._tool.name, self._args, key, TRIAL_WORKFLOW, 1, at, at, send_by)

    def _new_key(self) -> str:
        return sha256(self._parts.env.random_bytes(32)).hexdigest()
