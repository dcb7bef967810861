"""Tokens of programs and devices of browsers, kept as digests (G6)."""

from __future__ import annotations

from dataclasses import dataclass

from duly.errors import NotFound, RequestRefused, see
from duly.rules.token import TokenKind
from duly.rules.verb import Scope
from duly.store import statements
from duly.store.base import Transaction
from duly.store.record import Action


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as it is kept: nothing in it lets a caller in."""

    name: str
    id: str
    kind: TokenKind
    scope: Scope
    digest: str
    made_by: str
    made_at: int
    expires_at: int | None


def keep_token(tx: Transaction, row: TokenRow, *, action: Action, now: int) -> None:
    """Keep a new token; a name that is taken is refused."""
    made = tx.one(
        "insert_token",
        name=row.name,
        id=row.id,
        kind=row.kind,
        scope=row.scope,
        digest=row.digest,
        made_by=row.made_by,
        made_at=row.made_at,
        expires_at=row.expires_at,
    )
    if made is None:
        raise RequestRefused(code="token_there", subject=row.name, next=see("tokens"))
    statements.note(tx, action, now, workflow_id=None, target=row.name)


def drop_token(tx: Transaction, name: str, *, action: Action, now: int) -> None:
    """Forget a token: from this moment it lets no caller in."""
    if not tx.run("drop_token", name=name):
        raise NotFound(code="no_token", subject=name, next=see("tokens"))
    statements.note(tx, action, now, workflow_id=None, target=name)


def get_token(tx: Transaction, row_id: str) -> TokenRow | None:
    """Read the token that has this id, if there is one."""
    found = tx.one("get_token", id=row_id)
    return None if found is None else _row(found)


def was_device(tx: Transaction, name: str) -> bool:
    """Tell whether a browser ever signed in under this name; the acts are kept for good (A6)."""
    return tx.one("find_sign_in", name=name) is not None


def list_tokens(tx: Transaction) -> tuple[TokenRow, ...]:
    """Read every token by name; a host has few."""
    return tuple(map(_row, tx.all("list_tokens")))


def _row(found: tuple[object, ...]) -> TokenRow:
    name, row_id, kind, scope, *rest = found
    return TokenRow(name, row_id, TokenKind(str(kind)), Scope(str(scope)), *rest)  # type: ignore[arg-type]
