"""Takes secrets out of texts and values, in every form in which others write them down (A5, K4).

Law 1  A secret is taken out wherever it stands: inside a longer text, in a key, as a number.
Law 2  A form is undone, not guessed (`rules/decoding.py`): the text is decoded in every way, and
       the secret is sought in what comes out. So a form may begin anywhere, be mixed with others or
       lie inside another, up to `LAYERS_MAX` deep.
Law 3  A text is redacted before it is cut. Of a text that was cut before, the beginning of a secret
       at its end is taken out too: no run of `PART_BYTES` bytes of a secret can be read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from duly.rules.decoding import Decoder, View
from duly.rules.value import Json

REDACTED: Final = "[redacted]"
LAYERS_MAX: Final = 3  # a URL encoded twice, inside JSON
# A shorter text is no secret but in its own form: two bytes stand somewhere in all that is decoded.
CODED_BYTES_MIN: Final = 4
# A shorter word is often another word when it is read backwards.
REVERSED_BYTES_MIN: Final = 8
PART_BYTES: Final = 8
TOKENS_MAX: Final = 500  # of sign-ins, the newest ones
LEARNED_MAX: Final = 1000  # values that were sent, the newest ones
PIECE_CHARS: Final = 64 * 1024  # what was sent and is longer is known in pieces of this length
# The author of a text decides in how many ways it can be read, and each of them takes time: a
# longer text is searched beside the event loop (X2).
AT_ONCE_CHARS: Final = 8 * 1024
NUMBER: Final = re.compile(r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(\S+)")  # a scheme, and credentials


# -- What is known --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Needle:
    """What is sought: the bytes, and how many of them betray it at the end of a cut text."""

    raw: bytes
    part_bytes: int

    @property
    def is_coded(self) -> bool:
        return len(self.raw) >= CODED_BYTES_MIN


@dataclass(frozen=True, slots=True)
class _Known:
    """Everything that is sought, made ready once for each set of secrets."""

    needles: tuple[_Needle, ...]
    coded: tuple[_Needle, ...]
    numbers: tuple[str, ...]
    least_bytes: int  # of the shortest of them: no form of it is shorter
    decoder: Decoder


class Redactor:
    """The secrets of a host, and what was sent because of them; any thread may add to them."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: dict[str, None] = dict.fromkeys(secrets)
        self._learned: dict[str, None] = {}
        self._tokens: dict[str, None] = {}
        self._turn = object()  # another one after every change
        self._ready: tuple[object, _Known] | None = None

    def remember(self, secret: str) -> None:
        """Take a secret out of all that is kept or shown from now on, for good."""
        if secret not in self._secrets:
            self._secrets[secret] = None
            self._turn = object()

    def remember_token(self, token: str) -> None:
        """Take out a token that is replaced from time to time; the newest ones are known (K9)."""
        if token not in self._tokens:
            kept = (*self._tokens, token)[-TOKENS_MAX:]
            self._tokens = dict.fromkeys(kept)
            self._turn = object()

    def learn(self, sent: str) -> None:
        """Take out a value that was made from a secret and sent: a header, a field of a body (K4).

        Of a header such as `Bearer …` the part behind its scheme is known by itself as well. The
        newest values are known, up to a limit; a secret itself is remembered.
        """
        header = HEADER.fullmatch(sent)
        alone = [] if header is None else [header[1]]
        pieces = [sent[at : at + PIECE_CHARS] for at in range(0, len(sent), PIECE_CHARS)]
        for each in (*pieces, *alone):
            if len(each) >= CODED_BYTES_MIN:
                self._learned.pop(each, None)
                self._learned[each] = None
        for each in tuple(self._learned)[: max(0, len(self._learned) - LEARNED_MAX)]:
            self._learned.pop(each, None)
        self._turn = object()

    @property
    def secrets(self) -> frozenset[str]:
        """Every secret that is remembered."""
        return frozenset((*self._secrets, *self._tokens))

    def known(self) -> _Known:
        """Return what is sought, made ready once for each set of secrets."""
        # The turn is read first: what is added while this is made ready makes it stale.
        turn, ready = self._turn, self._ready
        if ready is None or ready[0] is not turn:
            sought = (*tuple(self._secrets), *tuple(self._tokens), *tuple(self._learned))
            ready = self._ready = turn, _compile(sought)
        return ready[1]


def _compile(secrets: Iterable[str]) -> _Known:
    spelled = [each for each in dict.fromkeys(secrets) if each]
    raws: dict[bytes, None] = {}
    for each in spelled:
        raw = _bytes(each)
        raws[raw] = None
        raws[raw.replace(b" ", b"+")] = None  # as a form is sent
        if len(raw) >= REVERSED_BYTES_MIN:
            raws[_bytes(each[::-1])] = None
    needles = tuple(_Needle(each, _part_bytes(len(each))) for each in raws)
    coded = tuple(each for each in needles if each.is_coded)
    return _Known(
        needles,
        coded,
        tuple(each for each in spelled if NUMBER.fullmatch(each)),
        min((len(each) for each in raws), default=0),
        Decoder(
            min((len(each.raw) for each in coded), default=CODED_BYTES_MIN),
            min((each.part_bytes for each in coded), default=CODED_BYTES_MIN),
        ),
    )


def _part_bytes(size: int) -> int:
    """Say how many bytes of a secret betray it: eight; of a short one half, but at least four."""
    return min(size, PART_BYTES, max(CODED_BYTES_MIN, size // 2))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# -- Taking secrets out ---------------------------------------------------------------------------


def redact_text(text: str, secrets: Redactor, *, is_cut: bool = False) -> str:
    """Take every secret out of a text; where two overlap, both go whole.

    `is_cut`: the text may have been cut already, so that it ends within a secret.
    """
    known = secrets.known()
    if not known.needles:
        return text
    raw = _bytes(text)
    if len(raw) < known.least_bytes and not is_cut:
        return text
    spans = _spans(raw, known, is_cut=is_cut)
    return _without(text, spans) if spans else text


def redact(value: Json, secrets: Redactor) -> Json:
    """Take every secret out of a value, so that it can be kept and shown."""
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, list):
        return [redact(each, secrets) for each in value]
    if isinstance(value, dict):
        shown: dict[str, Json] = {}
        for key, each in value.items():
            shown[_free_key(redact_text(key, secrets), shown)] = redact(each, secrets)
        return shown
    if value is None or isinstance(value, bool) or not secrets.known().numbers:
        return value
    # A secret may be all digits, and then it may come as a number.
    text = str(value)
    plain = redact_text(text, secrets)
    return value if plain == text else plain


def _free_key(key: str, taken: Collection[str]) -> str:
    """Keep apart two keys that look the same now: a preview must not lose an argument."""
    free, count = key, 1
    while free in taken:
        count += 1
        free = f"{key} ({count})"
    return free


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    raw = text if text.isascii() else _bytes(text)
    pieces: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start >= end:
            pieces += [_part(raw, end, start), REDACTED]
        end = max(end, stop)
    return "".join([*pieces, _part(raw, end, len(raw))])


def _part(raw: str | bytes, start: int, stop: int) -> str:
    part = raw[start:stop]
    # What was found lies between whole characters, for every form is made of ASCII.
    return part if isinstance(part, str) else part.decode("utf-8", "surrogatepass")


# -- Looking into a text --------------------------------------------------------------------------


def _spans(raw: bytes, known: _Known, *, is_cut: bool) -> list[tuple[int, int]]:
    """Find every place of a text that gives a secret away."""
    spans: list[tuple[int, int]] = []
    views = [View(raw, is_cut)]
    seen = {raw}
    while views:
        view = views.pop()
        needles = known.coded if view.is_coded else known.needles
        spans += [view.place(*each) for each in _find(view.raw, needles)]
        if view.is_cut:
            beginnings = _find_beginnings(view.raw[: view.end], needles)
            spans += [(view.place(at, at + 1)[0], len(raw)) for at in beginnings]
        if view.layer < LAYERS_MAX:
            for each in known.decoder.open(view):
                if each.raw not in seen:
                    # Two ways to the same bytes lead back to the same places.
                    seen.add(each.raw)
                    views.append(each)
    return spans


def _find(raw: bytes, needles: Iterable[_Needle]) -> Iterator[tuple[int, int]]:
    for needle in needles:
        start = raw.find(needle.raw)
        while start >= 0:
            yield start, start + len(needle.raw)
            start = raw.find(needle.raw, start + 1)


def _find_beginnings(raw: bytes, needles: Iterable[_Needle]) -> Iterator[int]:
    """Find the beginning of a secret at the end of a text."""
    for needle in needles:
        head = needle.raw[: needle.part_bytes]
        at = raw.find(head, max(0, len(raw) - len(needle.raw) + 1))
        while at >= 0 and not needle.raw.startswith(raw[at:]):
            at = raw.find(head, at + 1)
        if at >= 0:
            yield at
