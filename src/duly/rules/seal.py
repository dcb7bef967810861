"""Seals: a keyed hash that shows whether what a host wrote was changed in the store (L11, L15).

Law 1  The key is never in the store. Without it no one can make a seal that fits.
Law 2  A seal of a ledger row covers its id, workflow, tool, key and inputs, the hash of the
       observed call, whether a person had to agree, who agreed, under which allowance, who amended
       it, and the handle of its first step (L14).
Law 3  A row that asks for a yes and has none is not whole, in any status.
Law 4  A row that ends gets a second seal, over all that does not change any more. Texts and
       contents are in it as digests, which stay on the row when retention removes the texts (L15).
Law 5  A row that was changed before it ended gets no second seal.
Law 6  The seals cover every column that a certificate, `mutation` or `why` tells a person. Which
       run holds the row, how often it was asked about and when it was written last are not
       sealed: they change after the end, or are told by no one.
Law 7  A row that came in a file has seals with a mark. They cover the mark, so that no row gains
       or loses it: they prove that the row was not changed since, not that it was made here.

A seal names its key by a short hash, so that another key and a changed row can be told apart.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Final

from duly.errors import Invalid
from duly.rules.forgetting import ERASED_ARGS
from duly.rules.permission import proposal_hash
from duly.rules.retention import REMOVED, REMOVED_ARGS
from duly.rules.value import Json, canonical, decode, digest

KEY_NAME_CHARS: Final = 16
IMPORTED: Final = "imported"
KEYS_KEPT: Final = 4  # what is made of a key is kept for so many: a host has one, and an old one
# For parts that are built without a host, as in a simulation: a changed row is noticed, and
# a person who knows this program could seal it again.
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
    handle: str | None = None


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


@dataclass(frozen=True, slots=True)
class EndFacts:
    """What the second seal of a ledger row covers, once the row has ended (L15)."""

    begun: RowFacts
    run_id: str
    created_at: int
    status: str
    refused: bool
    attempt: int
    resends: int
    first_sent_at: int | None
    sent_at: int | None
    known_how: str | None
    known_at: int | None
    known_by: str | None
    known_said: str | None
    digests: str


Facts = RowFacts | AllowanceFacts | EndFacts


class Flaw(StrEnum):
    """Why a seal does not fit."""

    UNSEALED = "unsealed"
    OTHER_KEY = "other_key"
    CHANGED = "changed"
    UNAGREED = "unagreed"  # a person has to agree to it first, and none has


class Part(StrEnum):
    """What the second seal covers by a digest (L15).

    Retention may remove some of it, an answer may still come late, and a check names what differs.
    """

    ARGS = "args"
    RESULT = "result"
    ERROR = "error"
    CONTENTS = "contents"
    TITLE = "title"
    PROPOSED = "proposed"
    PROMISE = "promise"
    RESENT = "resent"
    LATE = "late"


# What every sealed row has a digest of. Rows that an older Duly sealed have no others.
_FIRST: Final = frozenset({Part.ARGS, Part.RESULT, Part.ERROR, Part.CONTENTS})


@dataclass(frozen=True, slots=True)
class Texts:
    """The parts of an ended row that are sealed by their digests, as they are now.

    `contents` holds topic, message id and content digest of each input; it is None where
    retention removed one of them. `promise` is what the tool promised when the row was made: lag,
    timeout and how long it knows a key.
    """

    args: str
    result: str | None
    error: str | None
    contents: tuple[tuple[str, str, str], ...] | None
    title: str | None = None
    proposed: str | None = None
    promise: tuple[int | None, ...] = ()
    resent: int = 0
    late: str | None = None


@lru_cache(maxsize=KEYS_KEPT)
def name_key(key: bytes) -> str:
    """Name a key without telling anything about it."""
    return hmac.digest(key, b"the name of a key of Duly", "sha256").hex()[:KEY_NAME_CHARS]


def _values(facts: Facts) -> list[Json]:
    names = list(facts.__dataclass_fields__)
    if isinstance(facts, RowFacts) and facts.handle is None:
        names.remove("handle")  # a row without one has the seal that an older Duly made
    values = (getattr(facts, name) for name in names)
    return [_values(each) if isinstance(each, RowFacts) else each for each in values]


@lru_cache(maxsize=KEYS_KEPT)
def _own_key(key: bytes) -> bytes:
    return hmac.digest(key, b"the key of Duly's seals", "sha256")


def make_seal(key: bytes, facts: Facts, *, is_imported: bool = False) -> str:
    """Seal facts under a key; the seal of a row that came in a file says so, and covers that."""
    covered: list[Json] = [type(facts).__name__, *_values(facts)]
    if is_imported:
        covered.insert(0, IMPORTED)
    made = f"{name_key(key)}:{hmac.digest(_own_key(key), canonical(covered), 'sha256').hex()}"
    return f"{made}:{IMPORTED}" if is_imported else made


def is_imported(seal: str | bytes | None) -> bool:
    """Tell whether a seal says that its row came in a file, and was not made in this store."""
    return isinstance(seal, str) and seal.endswith(f":{IMPORTED}")


def judge(key: bytes, facts: Facts, seal: str | bytes | None) -> Flaw | None:
    """Return what is wrong with a seal; None if it fits."""
    if seal is None:
        return Flaw.UNSEALED
    if not isinstance(seal, str):  # another program can write bytes into a column of text
        return Flaw.CHANGED
    if name_seal_key(seal) != name_key(key):
        return Flaw.OTHER_KEY
    try:
        made = make_seal(key, facts, is_imported=is_imported(seal))
    except (Invalid, TypeError, ValueError):  # no host writes facts that cannot be sealed
        return Flaw.CHANGED
    return None if hmac.compare_digest(made.encode(), seal.encode()) else Flaw.CHANGED


def name_seal_key(seal: str | bytes) -> str:
    """Return the name of the key that a seal was made with; bytes are no seal, and name none."""
    return seal.partition(":")[0] if isinstance(seal, str) else ""


def observe(tool: str, args_text: str, prepared_text: str | None) -> str:
    """Hash the call a row records, as it is read now; one that cannot be read has no hash."""
    try:
        args, prepared = decode(args_text), decode(prepared_text or "null")
        if not isinstance(args, dict):
            return ""
        return proposal_hash(tool, args, prepared)
    except (Invalid, ValueError):
        return ""


def find_proposal_flaw(key: bytes, facts: RowFacts, seal: str | None, observed: str) -> Flaw | None:
    """Return why a row is not what was written; `observed` is the hash of the call it records."""
    if observed != facts.hash:
        return Flaw.CHANGED
    return judge(key, facts, seal)


def find_row_flaw(key: bytes, facts: RowFacts, seal: str | None, observed: str) -> Flaw | None:
    """Return why a row must not be sent or asked about: also one that lacks its yes."""
    flaw = find_proposal_flaw(key, facts, seal, observed)
    if flaw is None and facts.asked and facts.approved_by is None:
        return Flaw.UNAGREED
    return flaw


# -- Rows that ended (L15) ------------------------------------------------------------------------


def digest_parts(texts: Texts) -> str:
    """Write the digests of what retention may remove, as they are kept on the row."""
    made: dict[str, Json] = {each: _digest_part(texts, each) for each in Part}
    return canonical(made).decode()


def renew_parts(digests: str, texts: Mapping[Part, str | None]) -> str:
    """Write the digests of a row with other texts in some parts; None is no text."""
    kept = decode(digests)
    assert isinstance(kept, dict), digests
    new = {part.value: None if text is None else _digest_text(text) for part, text in texts.items()}
    return canonical({**kept, **new}).decode()


def find_changed_parts(texts: Texts, digests: str) -> tuple[Part, ...]:
    """Name the parts that differ from their digests; what retention removed is not compared."""
    try:
        kept = decode(digests)
    except Invalid:
        kept = None
    known = kept if isinstance(kept, dict) else {}
    return tuple(
        each
        for each in _present(texts)
        # What a row was sealed without was not covered then; the seal covers which digests it has.
        if (each in known or each in _FIRST) and _digest_part(texts, each) != known.get(each)
    )


def _present(texts: Texts) -> Iterable[Part]:
    is_removed = texts.args in (REMOVED_ARGS, ERASED_ARGS)
    if not is_removed:
        yield Part.ARGS
    # Retention removes result and error together with the arguments: one that is there must fit.
    if not is_removed or texts.result is not None:
        yield Part.RESULT
    if not is_removed or texts.error is not None:
        yield Part.ERROR
    if texts.contents is not None:
        yield Part.CONTENTS
    if not is_removed or texts.title != REMOVED:
        yield Part.TITLE
    if not is_removed or texts.proposed is not None:
        yield Part.PROPOSED
    yield from (Part.PROMISE, Part.RESENT, Part.LATE)


def _digest_part(texts: Texts, part: Part) -> str | None:
    if part is Part.CONTENTS:
        return digest([list(each) for each in texts.contents or ()])
    if part in (Part.PROMISE, Part.RESENT):
        # As SQLite has them, also where another program wrote something else than a number.
        return sha256(repr(getattr(texts, part)).encode("utf-8", "surrogatepass")).hexdigest()
    text: str | bytes | None = getattr(texts, part)
    return None if text is None else _digest_text(text)


def _digest_text(text: str | bytes) -> str:
    # Bytes, which another program can write, must not have the digest of a text.
    spelled = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b"\0" + text
    return sha256(spelled).hexdigest()
