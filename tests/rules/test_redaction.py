"""Redaction: no form of a secret is left, wherever it stands and wherever the text is cut (A5)."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Callable
from html import escape
from itertools import takewhile
from math import ceil
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.rules import redaction
from duly.rules.redaction import (
    CODED_BYTES_MIN,
    LEARNED_MAX,
    PIECE_CHARS,
    REDACTED,
    REVERSED_BYTES_MIN,
    Redactor,
    redact,
    redact_text,
)
from duly.rules.value import Json

PROPERTY = settings(derandomize=True, deadline=None, max_examples=200)
SECRET = 'tsiv tsiv+Zx81/ä"quoted\\~?<end>'


def percent(text: str) -> str:
    return "".join(f"%{each:02x}" for each in text.encode())


def mixed_case(text: str) -> str:
    return "".join(c.upper() if place % 2 else c for place, c in enumerate(text))


# What others make of a secret: of the text itself, or of the bytes it stands in.
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "reversed": lambda text: text[::-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64 behind one byte": lambda text: base64.b64encode(b"-" + text.encode()).decode(),
    "base64 behind two bytes": lambda text: base64.b64encode(b"--" + text.encode()).decode(),
    "Basic": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(f"me:{text}".encode()).decode(),
    "base64 in a URL": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 of a mail": lambda text: base64.encodebytes(b"-" * 50 + text.encode()).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base32 behind three bytes": lambda text: base64.b32encode(b"---" + text.encode()).decode(),
    "base32 in small letters": lambda text: base64.b32encode(text.encode()).decode().lower(),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "hexadecimal in any case": lambda text: mixed_case(text.encode().hex()),
    "URL": lambda text: quote(text, safe=""),
    "form": quote_plus,
    "every byte as %xx": percent,
    "every byte as %XX": lambda text: percent(text).upper(),
    "URL twice": lambda text: quote(quote(text, safe=""), safe=""),
    "every byte as %25xx": lambda text: quote(percent(text), safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON as it is": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "HTML": escape,
    "HTML by numbers": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "HTML by hexadecimal numbers": lambda text: "".join(f"&#x{ord(c):X};" for c in text),
    "Python": lambda text: text.encode("unicode_escape").decode(),
    "bytes of Python": lambda text: repr(text.encode())[2:-1],
    "JavaScript": lambda text: "\\u" + text.encode("utf-16-be").hex("-", 2).replace("-", "\\u"),
    "UTF-16": lambda text: text.encode("utf-16-le").decode("latin-1"),
}


def windows(form: str, secret: str) -> list[str]:
    """List every part of a form that takes nine bytes of the secret to write."""
    whole = FORMS[form](secret).rstrip("=\n")
    # What stands in front of it in the same code is no part of it.
    pairs = zip(whole, FORMS[form]("\x01" * len(secret)), strict=False)
    whole = whole[len([*takewhile(lambda pair: pair[0] == pair[1], pairs)]) :]
    # An escape is as long as its character is odd; the letters of a code are all worth the same.
    longest = max(len(FORMS[form](each)) for each in secret)
    is_code = form.startswith(("base", "Basic", "hexa"))
    size = ceil(9 * len(whole) / len(secret.encode())) if is_code else 9 * longest
    return [whole[at : at + size] for at in range(len(whole) - size + 1)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_taken_out_whole(form: str) -> None:
    """A5: of the form nothing is left that was made of the secret alone."""
    whole = FORMS[form](SECRET)
    shown = redact_text(f"key <{whole}> and more", Redactor(["another one", SECRET]))
    assert shown.startswith("key <")
    assert shown.endswith("> and more")
    assert shown.count(REDACTED) == 1
    # What stood in front of it in the same code, and the padding, may stay.
    assert len(shown) - len("key <> and more") <= len(REDACTED) + (70 if "mail" in form else 16)
    assert not any(each in shown for each in windows(form, SECRET))


@pytest.mark.parametrize("form", FORMS)
def test_a_text_that_was_cut_anywhere_gives_nothing_away(form: str) -> None:
    """A5, X3: what a sandbox or the outside cut ends within a secret, or within an escape."""
    secrets = Redactor([SECRET])
    whole = f"key {FORMS[form](SECRET)}"
    parts = windows(form, SECRET)
    for most in range(len(whole) + 1):
        shown = redact_text(whole[:most], secrets, is_cut=True)
        assert not any(each in shown for each in parts), (most, shown)


PLAIN = st.text("abcXYZ019 .:=/+-_ä\n", max_size=30)
SECRETS = st.text("abcdefXYZ0189+/=-_ %&\\\"'<>äß€😀", min_size=12, max_size=40)


@PROPERTY
@given(SECRETS, st.sampled_from(sorted(FORMS)), PLAIN, PLAIN, st.integers(0, 300))
def test_no_form_of_a_secret_is_left_wherever_it_stands_and_is_cut(
    secret: str, form: str, before: str, after: str, most: int
) -> None:
    """A5, K4: no part of a form is left that nine bytes of the secret were needed to write."""
    if form == "UTF-16":
        secret = re.sub(r"[^ -~]", "?", secret)  # of others no byte is zero
    text = f"{before}{FORMS[form](secret)}{after}"
    secrets = Redactor([secret])
    for shown in (
        redact_text(text, secrets),
        redact_text(text[:most], secrets, is_cut=True),
        redact_text(text, secrets)[:most],
    ):
        assert not any(each in shown for each in windows(form, secret))


@PROPERTY
@given(st.lists(st.text("abc019é +/%&\\\n", min_size=1, max_size=30), max_size=3), PLAIN)
def test_what_holds_no_secret_is_untouched(secrets: list[str], text: str) -> None:
    """A5: whole or cut, a text without any part of a secret comes back as it was."""
    known = Redactor(f"~never~{each}" for each in secrets)
    assert redact_text(text, known) == text
    assert redact_text(text, known, is_cut=True) == text


def test_short_secrets_do_not_eat_texts() -> None:
    """A5: a short one is sought as it is; in a code from four bytes on, reversed from eight."""
    chance = random.Random(7)
    blob = base64.b64encode(chance.randbytes(30_000)).decode()
    assert redact_text(blob, Redactor(["ab", "\u00e9", "x1z"])).count(REDACTED) < 60
    short = "s" * (CODED_BYTES_MIN - 1)
    assert redact_text(short.encode().hex(), Redactor([short])) == short.encode().hex()
    just = "tea!"
    assert redact_text(just.encode().hex(), Redactor([just])) == REDACTED
    assert (
        redact_text(base64.b64encode(b"me:tea!").decode(), Redactor([just])) == f"bWU6{REDACTED}=="
    )
    short = "abcdefgh"[: REVERSED_BYTES_MIN - 1]
    assert redact_text(short[::-1], Redactor([short])) == short[::-1]
    assert redact_text("hgfedcba", Redactor(["abcdefgh"])) == REDACTED


def test_a_part_of_a_short_secret_at_the_end_stays_if_it_says_little() -> None:
    """A5: of a cut text the last word is not taken for a secret because it begins like one."""
    secrets = Redactor(["invoice-token-1", "pass"])
    assert redact_text("an invo", secrets, is_cut=True) == "an invo"
    assert redact_text("an invoice", secrets, is_cut=True) == f"an {REDACTED}"
    assert redact_text("the pas", secrets, is_cut=True) == "the pas"
    assert redact_text("an invoice", secrets) == "an invoice"


# -- What was sent --------------------------------------------------------------------------------


def test_what_was_sent_is_taken_out_whole_and_without_its_scheme() -> None:
    """K4: a header made from a secret is known as it went out, and its credentials alone."""
    secrets = Redactor()
    secrets.learn("Signature 0f9e8d7c6b5a")
    assert redact_text("sent Signature 0f9e8d7c6b5a.", secrets) == f"sent {REDACTED}."
    assert redact_text("it said 0f9e8d7c6b5a", secrets) == f"it said {REDACTED}"
    assert redact_text(base64.b64encode(b"0f9e8d7c6b5a").decode(), secrets) == REDACTED
    secrets.learn("key=a, two words")
    assert redact_text("two words", secrets) == "two words"
    secrets.learn("on")
    assert redact_text("on", secrets) == "on"


def test_the_newest_values_that_were_sent_are_known_and_secrets_for_good() -> None:
    """K4: tokens change every hour; what is known has a limit, and no secret falls out."""
    secrets = Redactor(["for-good"])
    for number in range(LEARNED_MAX + 1):
        secrets.learn(f"token-{number:06d}")
    secrets.learn("token-000001")
    text = "for-good token-000000 token-000001 token-001000"
    assert redact_text(text, secrets) == f"{REDACTED} token-000000 {REDACTED} {REDACTED}"


def test_a_long_body_is_known_in_pieces() -> None:
    """K4: what was sent has no limit of its own."""
    body = random.Random(3).randbytes(PIECE_CHARS).hex()
    secrets = Redactor()
    secrets.learn(body)
    assert redact_text(f"<{body}>", secrets) == f"<{REDACTED}{REDACTED}>"
    assert redact_text(body[:PIECE_CHARS], secrets) == REDACTED


def test_secrets_are_made_ready_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A5: a line costs no more because there is a new one."""
    made: list[int] = []
    make = redaction._compile

    def counted(known: tuple[str, ...]) -> object:
        made.append(len(known))
        return make(known)

    monkeypatch.setattr(redaction, "_compile", counted)
    secrets = Redactor(["one-secret"])
    for _ in range(3):
        assert redact({"a": ["one-secret", 1, "b"]}, secrets) == {"a": [REDACTED, 1, "b"]}
    secrets.remember("one-secret")
    secrets.remember("two-secret")
    assert redact_text("two-secret", secrets) == REDACTED
    assert made == [1, 2]


# -- Where it stands ------------------------------------------------------------------------------


def test_a_secret_is_taken_out_wherever_it_stands() -> None:
    """A5: in strings, inside longer strings, in keys, in lists, and as a number."""
    value: Json = {
        "header": "Bearer s3cr3t!",
        "s3cr3t": ["s3cr3t", {"deep": "xs3cr3ts3cr3tx"}],
        "pin": 4711,
        "ratio": 0.4711,
        "flag": True,
        "nothing": None,
        "plain": "text",
        "count": 3,
    }
    assert redact(value, Redactor(["s3cr3t", "4711", ""])) == {
        "header": f"Bearer {REDACTED}!",
        REDACTED: [REDACTED, {"deep": f"x{REDACTED}{REDACTED}x"}],
        "pin": REDACTED,
        "ratio": f"0.{REDACTED}",
        "flag": True,
        "nothing": None,
        "plain": "text",
        "count": 3,
    }


def test_secrets_that_overlap_go_whole() -> None:
    """A5: no end of one secret is left over by another, whatever the order."""
    assert redact_text("xabcdx", Redactor(["abc", "bcd"])) == f"x{REDACTED}x"
    assert redact_text("abcd", Redactor(["abcd", "b"])) == REDACTED
    assert redact_text("aaa", Redactor(["aa"])) == REDACTED


def test_two_keys_that_were_secrets_stay_two() -> None:
    """A5, L11: a preview hides a secret and never an argument."""
    assert redact({"k1": 1, "k2": 2}, Redactor(["k1", "k2"])) == {REDACTED: 1, f"{REDACTED} (2)": 2}


def test_without_secrets_a_value_is_as_it_was() -> None:
    """A5: nothing to hide changes nothing."""
    assert redact({"a": [1.0, "x"]}, Redactor([])) == {"a": [1.0, "x"]}
    assert redact({"a": [1.0, "x"]}, Redactor([""])) == {"a": [1.0, "x"]}
    assert redact([True, False, None], Redactor(["True", "None", "a"])) == [True, False, None]


@PROPERTY
@given(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=3), st.text("ab c", max_size=20))
def test_no_secret_is_left_in_a_redacted_text(secrets: list[str], text: str) -> None:
    """A5: what is left between the marks holds no secret, and the rest is untouched."""
    shown = redact_text(text, Redactor(secrets))
    for piece in shown.split(REDACTED):
        assert not any(secret in piece for secret in secrets)
    if not any(secret in text for secret in secrets):
        assert shown == text
