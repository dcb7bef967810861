"""The mails that a host writes: no text of a script becomes a header, and ids stay whole."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest

from duly.connectors.letter import write_letter
from duly.errors import Refused
from tests.connectors.filing import TO_BOB
from tests.connectors.test_mail_account import call

# "a", a line end and "Bcc: e@x.org", in the two spellings of RFC 2047.
HIDDEN = ("=?utf-8?q?a=0D=0ABcc=3A_e=40x.org?=", "=?utf-8?b?YQ0KQmNjOiBlQHgub3Jn?=")


def letter(sender: str = "ada@example.com", **more: Any) -> tuple[bytes, EmailMessage]:
    """Write a mail, and read it as a mail program does."""
    data = write_letter(call("send"), sender, **{**TO_BOB, **more}).data
    return data, message_from_bytes(data, policy=policy.default)


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("place", ["subject", "to", "cc", "sender"])
def test_a_line_end_that_is_spelled_out_begins_no_header(hidden: str, place: str) -> None:
    """K12: the library decoded such a text, and wrote another receiver into the mail."""
    named = f"{hidden} <bob@example.org>"
    given: dict[str, Any] = {"subject": hidden, "to": [named], "cc": [named], "sender": named}
    data, read = letter(**{place: given[place]})
    head = data.partition(b"\r\n\r\n")[0]
    known = (b"From:", b"To:", b"Cc:", b"Subject:", b"Date:", b"Message-ID:", b"X-", b"Content-")
    for line in head.split(b"\r\n"):
        assert line.startswith((*known, b"MIME-Version:", b" ")), line
    assert "Bcc" not in read
    if place == "subject":
        assert read["Subject"] == hidden  # the very characters that the script passed


@pytest.mark.parametrize("between", ["\r\n", "\r\n\r\n ", "\n", "\t", "\u2028"])
@pytest.mark.parametrize("name", ["Bob", '"Bob"', ""])
@pytest.mark.parametrize("place", ["to", "cc", "sender"])
def test_no_line_end_fits_between_a_name_and_its_address(
    place: str, name: str, between: str
) -> None:
    """K12, L5: two line ends there ended the headers, and the mark of the call with them."""
    named = f"{name}{between}<bob@example.org>"
    given: dict[str, Any] = {place: named if place == "sender" else [named]}
    with pytest.raises(Refused):
        letter(**given)


@pytest.mark.parametrize("reply_to", [*HIDDEN, "<a@x>\t", "x" * 901, "é"])
def test_an_id_to_reply_to_is_one_word(reply_to: str) -> None:
    """K12: what is no id is refused before anything is sent."""
    with pytest.raises(Refused, match="no id"):
        letter(reply_to=reply_to)


def test_a_long_id_stays_whole() -> None:
    """An encoded id is no id: mail programs would not find the conversation."""
    long = f"<{'a' * 120}@example.com>"
    data, read = letter(reply_to=long)
    assert f"In-Reply-To: {long}\r\nReferences: {long}\r\n".encode() in data
    assert read["In-Reply-To"] == long


@pytest.mark.parametrize(
    ("subject", "name"), [("Hello", "Bob Jr."), ("Grüße" * 60, "Zoë Ü"), ("送信" * 100, "送信" * 5)]
)
def test_any_alphabet_is_read_as_it_was_written(subject: str, name: str) -> None:
    """RFC 2047 and 5322: no line of a mail is longer than 998 bytes, and no character is cut."""
    to = [f"{name} <b{number}@x.org>" for number in range(50)]
    data, read = letter(to=to, subject=subject)
    assert max(map(len, data.split(b"\r\n"))) <= 998
    assert read["Subject"] == subject
    shown = [(each.display_name, each.addr_spec) for each in read["To"].addresses]
    assert shown == [(name, f"b{number}@x.org") for number in range(50)]
