"""What a person answers to proposed calls, and what they allow with it (A3, A4).

Law 1  A yes names each call by the hash that was shown.
Law 2  An allowance says for how many calls, until when and within which globs; it is listed and can
       be revoked at any moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from duly.desk.base import USER, HasDesk, find_history
from duly.desk.grant import read_globs
from duly.desk.identity import find_place, resolve
from duly.desk.page import PAGE_DEFAULT, check_page
from duly.desk.record import Allowance, Approved
from duly.desk.sight import Sight
from duly.errors import Invalid
from duly.rules.allowance import Allow, check_terms, find_end
from duly.rules.catalog import Tool
from duly.rules.identity import AllowanceId, IdKind, MutationId
from duly.rules.schedule import moment, read_moment
from duly.rules.value import Json, check_json, encode, is_text, nearest
from duly.rules.verb import Scope, act, question
from duly.store import approval, people
from duly.store.base import Transaction
from duly.store.record import AllowanceRow, WorkflowRow

SEVERAL_MAX: Final = 100  # calls approved in one act
REASON_CHARS_MAX: Final = 500
DETAIL_BYTES_MAX: Final = 64 * 1024


class Approvals(HasDesk):
    """Answers to proposed calls."""

    @act(scope=Scope.DECIDE, example={"mutation": "mutation_019a8b7c0d1e2f30", "seen": "3f9a51c2"})
    async def approve(self, mutation: MutationId, seen: str, *, by: str = USER) -> None:
        """Let exactly the call whose hash was shown be sent, once, when its workflow runs."""
        # Rules: A4.
        desk = self._desk()
        _check_seen(seen)
        action = desk.action(by, "approve")
        mutation = await resolve(desk, mutation, IdKind.MUTATION)
        found = await desk.parts.store.get_mutation(mutation)
        verb = partial(desk.engine.approve, mutation, seen, action=action)
        await desk.carry_out(verb, found.workflow_id)

    @act(scope=Scope.DECIDE, example={"calls": {"mutation_019a8b7c0d1e2f30": "3f9a51c2"}})
    async def approve_all(
        self, calls: Mapping[str, str], *, by: str = USER
    ) -> tuple[Approved, ...]:
        """Approve several waiting calls of one tool in one act, of any workflows.

        `calls` maps each mutation to the hash that was shown. Each is judged by itself: the answer
        says which were refused, and why.
        """
        # Rules: A3.
        desk = self._desk()
        if not 1 <= len(calls) <= SEVERAL_MAX:
            raise Invalid(
                code="wrong_value",
                path="calls",
                facts={"wanted": "hash_by_mutation", "most": SEVERAL_MAX},
            )
        for each in calls.values():
            _check_seen(each)
        verb = partial(desk.engine.approve_all, calls, action=desk.action(by, "approve"))
        refused = await desk.carry_out(verb, None)
        return tuple(Approved(each, said) for each, said in zip(calls, refused, strict=True))

    @act(
        scope=Scope.DECIDE,
        example={
            "mutation": "mutation_019a8b7c0d1e2f30",
            "seen": "3f9a51c2",
            "calls": 20,
            "until": "2026-05-01T18:00:00Z",
            "where": {"row": "*"},
        },
    )
    async def allow(
        self,
        mutation: MutationId,
        seen: str,
        calls: int,
        until: str,
        *,
        where: Mapping[str, str] | None = None,
        by: str = USER,
    ) -> None:
        """Approve a call, and with it the next `calls` of its tool that look like it.

        They need no further yes until `until`, a time such as 2026-05-01T18:00:00Z. `where` maps an
        argument to a glob; every argument it does not name must be that of this call. It ends with
        the version of the workflow.
        """
        # Rules: A3.
        desk = self._desk()
        _check_seen(seen)
        mutation = await resolve(desk, mutation, IdKind.MUTATION)
        found = await desk.parts.store.get_mutation(mutation)
        globs = read_globs(where)
        _check_globs(desk.parts.outside.catalog.find(found.tool), globs)
        until_ms = read_moment(until, "until")
        allowed = Allow(check_terms(calls, until_ms, desk.now_ms), until_ms, globs)
        detail = encode(
            {"calls": calls, "until": until, "where": cast("Json", globs)},
            limit_bytes=DETAIL_BYTES_MAX,
        )
        action = desk.action(by, "allow", detail)
        verb = partial(desk.engine.approve, mutation, seen, action=action, allow=allowed)
        await desk.carry_out(verb, found.workflow_id)

    @act(
        scope=Scope.DECIDE,
        example={
            "mutation": "mutation_019a8b7c0d1e2f30",
            "seen": "3f9a51c2",
            "args": {"text": "Dear Ada"},
        },
    )
    async def amend(
        self, mutation: MutationId, seen: str, args: dict[str, Any], *, by: str = USER
    ) -> str:
        """Change arguments of a proposed call that its tool lets a person change.

        Return the hash of the amended call, which an approval must name. Duly also keeps what the
        script asked for.
        """
        # Rules: A3.
        desk = self._desk()
        _check_seen(seen)
        if not args:
            raise Invalid(code="wrong_value", path="args", facts={"wanted": "values_by_argument"})
        check_json(args, "args", limit_bytes=desk.parts.policy.limits.data_bytes)
        action = desk.action(by, "amend")
        mutation = await resolve(desk, mutation, IdKind.MUTATION)
        found = await desk.parts.store.get_mutation(mutation)
        verb = partial(desk.engine.amend, mutation, seen, args, action=action)
        return await desk.carry_out(verb, found.workflow_id)

    @act(
        scope=Scope.DECIDE,
        for_agents=True,
        example={"mutation": "mutation_019a8b7c0d1e2f30", "reason": "Ada has left"},
    )
    async def reject(
        self,
        mutation: MutationId,
        *,
        reason: str | None = None,
        seen: str | None = None,
        by: str = USER,
    ) -> None:
        """Decline a proposed call: nothing is sent, and its events end skipped.

        `reason` is kept with the call and shown. With `seen`, the hash that was shown, a call that
        changed since is not declined.
        """
        # Rules: A4.
        desk = self._desk()
        _check_reason(reason)
        if seen is not None:
            _check_seen(seen)
        action = desk.action(by, "reject", reason)
        mutation = await resolve(desk, mutation, IdKind.MUTATION)
        found = await desk.parts.store.get_mutation(mutation)
        verb = partial(desk.engine.reject, mutation, reason=reason, seen=seen, action=action)
        await desk.carry_out(verb, found.workflow_id)

    @act(scope=Scope.DECIDE, for_agents=True, example={"allowance": "allowance_019a8b7c0d1e2f30"})
    async def revoke_allowance(self, allowance: AllowanceId, *, by: str = USER) -> None:
        """End an allowance: the next call that it would have covered asks again."""
        # Rules: A3.
        desk = self._desk()
        action = desk.action(by, "revoke_allowance")
        allowance = await resolve(desk, allowance, IdKind.ALLOWANCE)
        verb = partial(desk.parts.store.revoke_allowance, allowance, action=action, now=desk.now_ms)
        await desk.carry_out(verb, None)

    @question(cursor=("id",), example={"workflow": "invoices"})
    async def allowances(
        self,
        workflow: str | None = None,
        *,
        limit: int = PAGE_DEFAULT,
        before: AllowanceId | None = None,
    ) -> tuple[Allowance, ...]:
        """List the allowances, also those that ended, newest first."""
        # Rules: A3.
        check_page(limit, before, str)
        sight = Sight.of(self._desk().parts)

        def look(tx: Transaction) -> tuple[Allowance, ...]:
            workflow_id = None if workflow is None else find_history(tx, workflow).id
            place = find_place(tx, before, IdKind.ALLOWANCE)
            rows = approval.list_allowances(tx, workflow_id, limit=limit, before=place)
            found = people.list_by_ids(tx, (row.workflow_id for row in rows))
            workflows = {each.id: each for each in found}
            return tuple(_allowance(row, workflows[row.workflow_id], sight) for row in rows)

        return await self._desk().ask(look)


def _allowance(row: AllowanceRow, workflow: WorkflowRow, sight: Sight) -> Allowance:
    value = row.value
    active = workflow.active_version or ""
    return Allowance(
        id=row.id,
        workflow=workflow.name,
        mutation=row.mutation_id,
        tool=row.tool,
        version=row.version,
        args=sight.value(dict(value.args)),
        where=dict(value.where),
        calls=row.calls,
        used=row.used,
        until=moment(row.until),
        given_by=row.given_by,
        given_at=moment(row.given_at),
        ended=find_end(value, active, sight.now_ms),
        revoked_by=row.revoked_by,
    )


def _check_seen(seen: object) -> None:
    if not isinstance(seen, str):
        raise Invalid(code="wrong_value", path="seen", facts={"wanted": "hash"})


def _check_reason(reason: object) -> None:
    if reason is None:
        return
    is_said = isinstance(reason, str) and is_text(reason) and reason.strip()
    if not is_said or len(cast("str", reason)) > REASON_CHARS_MAX:
        raise Invalid(
            code="wrong_length", path="reason", facts={"least": 1, "most": REASON_CHARS_MAX}
        )


def _check_globs(tool: Tool, globs: Mapping[str, str]) -> None:
    names = [each.name for each in tool.parameters]
    for name in globs:
        if name not in names:
            raise Invalid(
                code="unknown_argument",
                path=f"where.{name}",
                facts={"of": tool.name, **nearest(name, names)},
            )
