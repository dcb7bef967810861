"""Connections to outside services: what they need, and what was proven with the account (K10).

Law 1  A trial is a real change outside. What it will do is shown by `connection`, and `prove` makes
       exactly that call, once.
Law 2  A proof is of one service, account and secret. When one of them changes, nothing is proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from duly.connectors.folder import find_folders
from duly.connectors.pinning import OfferedList, PinningConnector, find_pinning
from duly.connectors.set_up import SetUpFault, find_checked
from duly.desk.base import USER, HasDesk
from duly.desk.oauth import SignInNeeded, sign_in_needed
from duly.desk.secret import Vault
from duly.engine.base import Parts
from duly.engine.proof import Prover, find_basis, is_valid
from duly.errors import Invalid, NotFound, RequestRefused
from duly.rules.asking import Answering, ProofBy, ProofFault, ProofStatus, SecretTimes
from duly.rules.catalog import Tool, ToolKind, bind, make_form
from duly.rules.foreign import ForeignCode
from duly.rules.redaction import redact, redact_text
from duly.rules.schedule import moment
from duly.rules.value import Json, nearest
from duly.rules.verb import Scope, act, question
from duly.rules.word import Waits
from duly.store import people, proof
from duly.store.base import Transaction
from duly.store.proof import ProofRow

HASH_CHARS: Final = 64
USERS_MAX: Final = 100  # workflows that are named


@dataclass(frozen=True, slots=True)
class Attempted:
    """The newest trial of a tool; `is_current` is false if what it depends on has changed since."""

    status: ProofStatus
    fault: ProofFault | None
    said: str | None
    begun_by: str
    begun_at: datetime
    ended_at: datetime | None
    is_current: bool


@dataclass(frozen=True, slots=True)
class ToolProof:
    """A change that a connection can make, and what shows that it can be asked about it (K10).

    `form` is the call that its trial would make, as a person sees it, and `does` what its author
    says about that. It has none if a person has to give the arguments, or if it needs no trial.
    """

    tool: str
    answering: Answering
    needs_trial: bool
    does: str = ""
    args: Json = None
    form: tuple[tuple[str, str], ...] = ()
    last: Attempted | None = None


@dataclass(frozen=True, slots=True)
class NeededSecret:
    """A secret that a connection needs, and since when it is set."""

    name: str
    set_at: datetime | None


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to an outside service: its place, secrets and changes, and what waits for it.

    `pins` says that its tools are those of a server to which a person agreed (M7), `foreign` of
    which package its code is, where it is not built in or the project's own. `can_check`: its
    set-up can be tried without a change outside. `folder` is where its files are on the machine of
    the host; it is None where there is none, in a list, and for a caller below the scope admin.
    `users` names the workflows that were granted something of it, also of tools that are gone;
    `more_users` says that there are more.
    """

    name: str
    origin: str | None
    secrets: tuple[NeededSecret, ...]
    tools: tuple[ToolProof, ...]
    waiting: int
    sign_in: SignInNeeded | None = None
    pins: bool = False
    foreign: ForeignCode | None = None
    can_check: bool = False
    folder: str | None = None
    users: tuple[str, ...] = ()
    more_users: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """What does not work in the set-up of a connection; one that cannot be tried has no faults."""

    name: str
    is_checked: bool
    faults: tuple[SetUpFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Proofs:
    """Every trial of a store, and when its secrets were set."""

    parts: Parts
    rows: dict[str, ProofRow]
    times: SecretTimes

    @classmethod
    def read(cls, tx: Transaction, parts: Parts) -> Self:
        """Read them all; a host has few."""
        rows = {row.tool: row for row in proof.list_proofs(tx)}
        return cls(parts, rows, proof.list_secret_times(tx))

    def answering(self, tool: Tool) -> Answering | None:
        """Return how a tool can be asked, and since when that is proven; None of a read."""
        found = tool.answering
        if found is None or tool.proof is not ProofBy.TRIAL:
            return found
        row = self.rows.get(tool.name)
        if row is None or row.ended_at is None or not self.is_valid(tool, row):
            return found
        return replace(found, proven_at=moment(row.ended_at))

    def is_valid(self, tool: Tool, row: ProofRow) -> bool:
        """Tell whether a trial proves something today."""
        return is_valid(row, find_basis(self.parts.outside, tool.name, self.times))

    def is_current(self, tool: Tool, row: ProofRow) -> bool:
        """Tell whether all that a trial depends on is as it was."""
        return row.basis == find_basis(self.parts.outside, tool.name, self.times)


class Connections(HasDesk):
    """Questions about connections, and their proof."""

    @question(example={"connector": "mailbox"})
    async def connection(self, connector: str, *, right: Scope = Scope.ADMIN) -> Connection:
        """Show what a connection needs, what it can change, and what was proven with the account.

        What `prove` would do outside is shown with each change that needs a trial.
        """
        # Rules: K10, F4, G4.
        desk = self._desk()
        _check_known(desk.parts, connector)
        found = await desk.ask(lambda tx: _connection(tx, desk.parts, connector, desk.vault))
        if not right.covers(Scope.ADMIN):
            return found
        return replace(found, folder=find_folders(desk.parts.outside).get(connector))

    @question(example={})
    async def connections(self) -> tuple[Connection, ...]:
        """List the connections to outside services, by name."""
        # Rules: K10.
        desk = self._desk()
        parts, vault = desk.parts, desk.vault
        names = sorted(parts.outside.connectors)
        return await desk.ask(
            lambda tx: tuple(_connection(tx, parts, name, vault) for name in names)
        )

    @question(scope=Scope.ADMIN, follow=False, example={"connector": "books"})
    async def check_connection(self, connector: str) -> ConnectionCheck:
        """Try whether the set-up of a connection works; nothing outside is changed.

        In a database each statement is planned and not run, and a record of a call is written and
        taken back. Most connections cannot be tried like this; `is_checked` is then false.
        """
        # Rules: K10.
        desk = self._desk()
        _check_known(desk.parts, connector)
        found = find_checked(desk.parts.outside).get(connector)
        if found is None:
            return ConnectionCheck(connector, is_checked=False)
        secrets = desk.parts.outside.secrets()
        faults = await found._check()
        shown = (replace(each, message=redact_text(each.message, secrets)) for each in faults)
        return ConnectionCheck(connector, is_checked=True, faults=tuple(shown))

    @act(scope=Scope.ADMIN, example={"tool": "mail.send"})
    async def prove(
        self, tool: str, args: dict[str, Json] | None = None, *, by: str = USER
    ) -> ToolProof:
        """Make one real call with the account and see whether the service can be asked about it.

        Without `args` it is the call that `connection` shows. Until it is proven, what the service
        says about a call with a lost answer is not believed, and a person decides.
        """
        # Rules: K10.
        desk = self._desk()
        found = _find(desk.parts, tool)
        if found.proof is not ProofBy.TRIAL:
            raise RequestRefused(code="needs_no_proof", subject=tool)
        given = desk.parts.outside.trial_of(tool)[0] if args is None else args
        if given is None:
            raise Invalid(code="missing", path="args", facts={"of": tool})
        prover = Prover(desk.parts, found, bind(found, given))
        action = desk.action(by, "prove")
        if tool in desk.proving:
            raise RequestRefused(code="proof_under_way", subject=tool)
        desk.proving.add(tool)

        async def work() -> None:
            try:
                if desk.vault is not None:  # another host may have set a secret just now (H12)
                    await desk.vault.read_again(desk.parts.store)
                await prover.prove(action)
            finally:
                desk.proving.discard(tool)

        await desk.complete(work)
        shown = await self.connection(tool.partition(".")[0])
        (made,) = (each for each in shown.tools if each.tool == tool)
        return made

    @question(scope=Scope.ADMIN, follow=False, example={"connector": "notes"})
    async def offered(self, connector: str) -> OfferedList:
        """Ask an MCP server which tools it offers, and show which of them a person agreed to.

        Duly starts the server, or calls it, as the settings say.
        """
        # Rules: M7.
        return await _pinning(self._desk().parts, connector)._offer()

    @act(scope=Scope.ADMIN, example={"connector": "notes", "hash": "…"})
    async def pin(self, connector: str, hash: str, *, by: str = USER) -> OfferedList:  # noqa: A002
        """Agree to the tools of an MCP server as they were shown; return these tools.

        `hash` names the list that was shown. If the server offers another list now, the act is
        refused. What waited for this connection goes on.
        """
        # Rules: M7, A6, F4.
        desk = self._desk()
        found = _pinning(desk.parts, connector)
        action = desk.action(by, "pin", str(hash)[:HASH_CHARS])

        async def work() -> OfferedList:
            made = await found._agree(hash)
            await desk.parts.store.reconnect(connector, action=action, now=desk.now_ms)
            return made

        return await desk.carry_out(work, None)


def _pinning(parts: Parts, connector: str) -> PinningConnector:
    _check_known(parts, connector)
    found = find_pinning(parts.outside).get(connector)
    if found is None:
        raise RequestRefused(code="pins_nothing", subject=connector)
    return found


def _check_known(parts: Parts, connector: str) -> None:
    known = parts.outside.connectors
    if connector not in known:
        facts = nearest(str(connector), known)
        raise NotFound(code="no_connector", subject=str(connector), facts=facts)


def _find(parts: Parts, name: str) -> Tool:
    found = parts.outside.catalog.names.get(name)
    if found is None or found.kind is not ToolKind.MUTATION:
        known = [each.name for each in parts.outside.catalog.tools if each.asked is not None]
        raise NotFound(code="no_tool", subject=name, facts=nearest(name, known))
    return found


def _connection(tx: Transaction, parts: Parts, name: str, vault: Vault | None) -> Connection:
    proofs = Proofs.read(tx, parts)
    set_at = {each: at for owner, each, at in proofs.times if owner == name}
    needed = dict.fromkeys((*parts.outside.secrets_of(name), *set_at))
    own = [each for each in parts.outside.catalog.tools if each.name.partition(".")[0] == name]
    users = people.list_users(tx, name, {e.capability for e in own}, limit=USERS_MAX + 1)
    waiting = people.list_waiting(tx, limit=people.PAGE_ROWS_MAX)
    return Connection(
        name=name,
        origin=parts.outside.origins().get(name),
        secrets=tuple(
            NeededSecret(each, moment(set_at[each]) if each in set_at else None) for each in needed
        ),
        tools=tuple(_shown(parts, proofs, each) for each in own if each.asked is not None),
        waiting=sum(
            each.waits == Waits.CONNECTION and (each.waits_on or "").partition(".")[0] == name
            for each in waiting
        ),
        sign_in=sign_in_needed(parts, vault, name),
        pins=name in find_pinning(parts.outside),
        foreign=next(each._foreign for each in parts.outside if each.name == name),
        can_check=name in find_checked(parts.outside),
        users=users[:USERS_MAX],
        more_users=len(users) > USERS_MAX,
    )


def _shown(parts: Parts, proofs: Proofs, tool: Tool) -> ToolProof:
    answering = proofs.answering(tool)
    assert answering is not None, tool
    if tool.proof is not ProofBy.TRIAL:
        return ToolProof(tool.name, answering, needs_trial=False)
    secrets = parts.outside.secrets()
    args, does = parts.outside.trial_of(tool.name)
    row = proofs.rows.get(tool.name)
    shown = redact(args, secrets)
    last = None
    if row is not None:
        last = Attempted(
            row.status,
            row.fault,
            None if row.said is None else redact_text(row.said, secrets),
            row.begun_by,
            moment(row.begun_at),
            None if row.ended_at is None else moment(row.ended_at),
            proofs.is_current(tool, row),
        )
    return ToolProof(
        tool.name,
        answering,
        needs_trial=True,
        does=does,
        args=shown,
        form=make_form(tool, shown) if isinstance(shown, dict) else (),
        last=last,
    )
