"""Seals: a keyed hash that shows whether what a host wrote was changed in the store (L11).

Law 1  The key is never in the store. Without it no one can make a seal that fits.
Law 2  A seal of a ledger row covers its id, workflow, tool, key and inputs, the hash of the
       observed call, whether a person had to agree, who agreed, under which allowance, and who
       amended it.
Law 3  A row that asks for a yes and has none is not whole, whatever its status says.

A seal names its key by a short hash, so that another key and a changed row can be told apart.
"""

from __future__ import annotations

import hmac
from dataclasses import astuple, dataclass
from typing import Final

from duly.rules.value import Json, canonical

KEY_NAME_CHARS: Final = 16
# For parts that are built without a host, as in a simulation: a changed row is noticed, and
# whoever knows this program could seal it again.
OPEN_KEY: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What the seal of a ledger row covers."""

    id: str
    workflow_id: str
    tool: str
    inputs: str
    key: str
    hash: str
    asked: bool = False
    approved_by: str | None = None
    allowance_id: str | None = None
    amended_by: str | None = None


@dataclass(frozen=True, slots=True)
class AllowanceFacts:
    """What the seal of an allowance covers."""

    id: str
    workflow_id: str
    mutation_id: str
    tool: str
    version: str
    args: str
    matching: str
    calls: int
    until: int
    given_by: str
    given_at: int


Facts = RowFacts | AllowanceFacts


def name_key(key: bytes) -> str:
    """Name a key without telling anything about it."""
    return hmac.digest(key, b"the name of a key of Duly", "sha256").hex()[:KEY_NAME_CHARS]


def make_seal(key: bytes, facts: Facts) -> str:
    """Seal facts under a key."""
    own = hmac.digest(key, b"the key of Duly's seals", "sha256")
    covered: list[Json] = [type(facts).__name__, *astuple(facts)]
    return f"{name_key(key)}:{hmac.digest(own, canonical(covered), 'sha256').hex()}"


def find_flaw(key: bytes, facts: Facts, seal: str | None) -> str | None:
    """Say what is wrong with a seal; None if it fits."""
    if seal is None:
        return "it has no seal"
    if seal.partition(":")[0] != name_key(key):
        return "it was sealed with another key than this host has"
    if not hmac.compare_digest(make_seal(key, facts).encode(), seal.encode()):
        return "it was changed in the store"
    return None


def find_proposal_flaw(key: bytes, facts: RowFacts, seal: str | None, observed: str) -> str | None:
    """Say why a row is not what was written; `observed` is the hash of the call it records."""
    if observed != facts.hash:
        return "it was changed in the store"
    return find_flaw(key, facts, seal)


def find_row_flaw(key: bytes, facts: RowFacts, seal: str | None, observed: str) -> str | None:
    """Say why a row must not be sent or asked about: also one that lacks its yes."""
    flaw = find_proposal_flaw(key, facts, seal, observed)
    if flaw is None and facts.asked and facts.approved_by is None:
        return "a person has to agree to it first, and none has"
    return flaw
