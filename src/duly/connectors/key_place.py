"""Where the key of a call travels, how it is spelled there, and how the call is found again.

Law 1: a service that wants a UUID, a short text or a mark inside of a text gets the key in that
       form. The form is made from the key alone, so every send of a call spells it alike.
Law 2: what was found is the call if the key stands at its place, in its form, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal

from duly.connectors.base import AskedWord, Call
from duly.connectors.json_answer import pick
from duly.connectors.template import KEY, KEY_SHORT, KEY_UUID, SENT_AFTER
from duly.errors import Refused
from duly.rules.value import Json

PLAIN: Final = "{key}"
SHORT_CHARS: Final = 24  # 96 bits; some services take no more than 25 characters
# So far the clocks of this machine and of a service may differ.
CLOCKS_APART: Final = timedelta(days=1)
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def key_values(key: str) -> dict[str, Json]:
    """Return the key in each of its forms, by the names that templates have for them."""
    digest = sha256(f"duly:{key}".encode()).digest()
    return {
        KEY: key,
        KEY_UUID: _uuid(digest.hex()),
        KEY_SHORT: digest.hex()[:SHORT_CHARS],
    }


def _uuid(digits: str) -> str:
    """Write hexadecimal digits as a UUID; some services take version 4 alone."""
    parts = (digits[:8], digits[8:12], f"4{digits[13:16]}", f"8{digits[17:20]}", digits[20:32])
    return "-".join(parts)


def asking_values(call: Call) -> dict[str, Json]:
    """Return what a question about a call may name: its arguments, its key, and since when."""
    moment = f"{sent_after(call):%Y-%m-%dT%H:%M:%SZ}"
    return {**call.args, **key_values(call.key), SENT_AFTER: moment}


def sent_after(call: Call) -> datetime:
    """Return the moment before which a call cannot have been made, by any clock."""
    return call.first_sent_at.astimezone(UTC) - CLOCKS_APART


def spell(form: str, key: str) -> str:
    """Write a key in a form: a text with `{key}`, `{key_uuid}` or `{key_short}` in it."""
    for name, value in key_values(key).items():
        form = form.replace(f"{{{name}}}", str(value))
    return form


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where the key of a call travels: a header, a field of the body (`a.b`) or of the query.

    With `path` it is the id of what is made, and the caller puts it into the path. With `marker` it
    is written behind the text of a field. `form` is how it is spelled.
    """

    kind: Literal["header", "field", "query", "path", "marker"]
    name: str = ""
    form: str = PLAIN

    def spell(self, key: str) -> str:
        """Write a key as it travels."""
        return spell(self.form, key)


@dataclass(frozen=True, slots=True)
class Paging:
    """How a list goes on: where its items are, and one of three ways to the next page.

    `cursor` is the place of the next cursor in the answer, sent as the field `parameter`. `link`
    follows the header `Link` with rel="next". `page` names the field with the number of the page;
    the first empty page is the last. `is_elsewhere`: the service names the next page by another
    path of its own; only the fields of its query are taken. `delta`: the service keeps a token for
    what comes later (OData). `is_growing`: what is new comes at the end, and nothing is removed;
    otherwise the last page has no cursor, and the next look begins anew (K11).
    """

    items: str = ""
    cursor: str | None = None
    parameter: str | None = None
    link: bool = False
    page: str | None = None
    is_elsewhere: bool = False
    delta: bool = False
    is_growing: bool = False


@dataclass(frozen=True, slots=True)
class Verify:
    """How a call is found again: what to ask, and where the key stands in what is found.

    `path` and the values of `query` may contain `{key}` and the arguments of the call. Without
    `items` the answer is the one thing itself. `result` is the place, in what was found, of what
    the mutation would have returned. `form` is how the key is spelled at `match`; with `is_inside`
    it stands in a longer text, or in a list of texts. `graphql` is a query that is sent instead. A
    list with fewer than `whole` items is known to be all of it. With `keeps_deleted` what a person
    deleted is still found.
    """

    path: str
    match: str
    query: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    items: str | None = None
    result: str = ""
    paging: Paging | None = None
    form: str = PLAIN
    is_inside: bool = False
    graphql: str | None = None
    whole: int = 0
    keeps_deleted: bool = False

    @property
    def is_exact(self) -> bool:
        """Tell whether it asks for the one thing of the call, and not for a list."""
        return self.items is None

    def is_call(self, found: Json, key: str) -> bool:
        """Tell whether what was found carries this key (law 2)."""
        value, wanted = pick(found, self.match), spell(self.form, key)
        if self.is_inside and isinstance(value, str | list):
            return wanted in value
        return bool(value == wanted)


@dataclass(frozen=True, slots=True)
class SaidDone:
    """Where an answer says that a change was made; the status alone does not say it.

    `place` may contain the key. Without `word` something must stand there that is not empty.
    """

    place: str
    word: Json = None

    def is_said(self, answer: Json, key: str) -> bool:
        """Tell whether the answer says so."""
        found = pick(answer, spell(self.place, key))
        if self.word is not None:
            return bool(found == self.word)
        return isinstance(found, str | int | float | list | dict) and bool(found)


def mark(body: Json, path: str, text: str) -> Json:
    """Return a body with a mark behind the text at a path."""
    first, _, rest = path.partition(".")
    if body is not None and not isinstance(body, dict):
        raise Refused(f"The body is no object, so it has no field {path!r} for the mark.")
    whole: dict[str, Json] = dict(body or {})
    if rest:
        whole[first] = mark(whole.get(first), rest, text)
        return whole
    before = whole.get(first)
    if before is not None and not isinstance(before, str):
        raise Refused(f"The field {path!r} is no text, so it cannot have a mark.")
    whole[first] = f"{before}\n\n{text}" if before else text
    return whole


def deleted_by(verify: Verify | None) -> Literal["seen", "unseen"] | None:
    """Say whether a question sees what a person deleted; unless it says so it does not (L6)."""
    if verify is None:
        return None
    return "seen" if verify.keeps_deleted else "unseen"


def asked_by(verify: Verify | None, lifetime_s: float | None) -> AskedWord:
    """Say how a change can be asked: one thing by its key exactly, a list by search (K1)."""
    if verify is None:
        return "not_at_all" if lifetime_s is None else "exactly"
    return "exactly" if verify.is_exact else "by_search"
