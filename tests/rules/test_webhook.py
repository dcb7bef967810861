"""Signatures of webhooks against the examples that their senders document (G12)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from duly.rules.event import parse_title
from duly.rules.webhook import DECOY, TITLE_CHARS_MAX, HookSender, is_signed, sign, title_of

SLACK_BODY: Final = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    "&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    "&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    "%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
# Secret, headers, body and time of the example in the documentation of each sender; Stripe shows
# no secret with its example, so that its row is made by the format it documents.
EXAMPLES: Final = {
    HookSender.STANDARD: (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        '{"test": 2432232314}',
        1614265330,
    ),
    HookSender.GITHUB: (
        "It's a Secret to Everybody",
        {
            "x-hub-signature-256": (
                "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
            )
        },
        "Hello, World!",
        0,
    ),
    HookSender.SLACK: (
        "8f742231b10e8888abcd99yyyzzz85a5",
        {
            "x-slack-request-timestamp": "1531420618",
            "x-slack-signature": (
                "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
            ),
        },
        SLACK_BODY,
        1531420618,
    ),
    HookSender.STRIPE: (
        "whsec_test_secret",
        {
            "stripe-signature": (
                "t=1492774577,"
                "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39,"
                "v1=0feb047bc9c89159f7f69f5ca1f410b2964c3f0eca05345e72e58ccbd4bd329c"
            )
        },
        '{"id": "evt_test", "object": "event"}',
        1492774577,
    ),
}


@pytest.mark.parametrize("sender", HookSender)
def test_the_documented_example_is_signed(sender: HookSender) -> None:
    """G12: and nothing that differs from it in the secret, the body or a signature is."""
    secret, headers, body, at = EXAMPLES[sender]
    assert is_signed(sender, secret, headers, body, at * 1000)
    assert not is_signed(sender, secret + "A", headers, body, at * 1000)
    assert not is_signed(sender, DECOY, headers, body, at * 1000)
    assert not is_signed(sender, secret, headers, body + " ", at * 1000)
    for name, value in headers.items():
        for other in ("", value[:-1], f"{value[:-1]}\u00e9", value.upper()):
            if other != value:
                assert not is_signed(sender, secret, {**headers, name: other}, body, at * 1000)
        without = {each: text for each, text in headers.items() if each != name}
        assert not is_signed(sender, secret, without, body, at * 1000)


@pytest.mark.parametrize("sender", [each for each in HookSender if each != HookSender.GITHUB])
@pytest.mark.parametrize(
    ("away_s", "is_fine"), [(300, True), (301, False), (-300, True), (-301, False)]
)
def test_five_minutes_either_way(sender: HookSender, away_s: int, is_fine: bool) -> None:
    """G12: what was recorded is not played again."""
    secret, headers, body, at = EXAMPLES[sender]
    assert is_signed(sender, secret, headers, body, (at + away_s) * 1000) is is_fine


def test_two_times_in_one_header_are_none() -> None:
    """G12: a signature of an old time does not pass under a new one."""
    secret, headers, body, at = EXAMPLES[HookSender.STRIPE]
    doubled = {"stripe-signature": f"t={at + 1000},{headers['stripe-signature']}"}
    for now in (at, at + 1000):
        assert not is_signed(HookSender.STRIPE, secret, doubled, body, now * 1000)


def test_a_sender_that_changes_its_secret_sends_two_signatures() -> None:
    secret, headers, body, at = EXAMPLES[HookSender.STRIPE]
    other = sign(HookSender.STRIPE, "other", message_id="", signed_at=str(at), body=body)
    both = {"stripe-signature": f"t={at},{other},{headers['stripe-signature'].split(',')[2]}"}
    assert is_signed(HookSender.STRIPE, secret, both, body, at * 1000)


@pytest.mark.parametrize(
    ("payload", "template", "title"),
    [
        ({"name": "Ada", "wish": "a bike"}, "{name}: {wish}", "Ada: a bike"),
        ({"name": "Ada"}, "{name}: {wish}", "Ada:"),
        ({"name": "{wish}", "wish": "x"}, "{name}", "{wish}"),  # a value is no pattern
        ({"a": {"b": 7}}, "No. {a.b}", "No. 7"),
        ({"a.b": "whole", "a": {"b": 7}}, "{a.b}", "whole"),
        ({"x": "y"}, "{name}", "x: y"),  # nothing of the pattern is there
        ([1], "{name}", "Webhook 311bc8a2"),
        ({"subject": "Milk", "type": "mail"}, "", "Milk"),
        ({"name": "Ada\nB", "token": "t", "ok": True, "n": 1, "m": 2}, "", "name: Ada B, n: 1"),
        ({"title": " ", "wish": "a" * 90}, "", f"wish: {'a' * 79}…"),
        ({}, "", "Webhook 311bc8a2"),
        ({"api_key": "abc"}, "", "Webhook 311bc8a2"),
    ],
)
def test_a_title_says_what_came_in_a_few_words(payload: Any, template: str, title: str) -> None:
    """T3, G9: by the pattern of the owner, by a field that says it, or by the first two."""
    assert title_of(payload, "sha256-311bc8a2ff", template) == title


@pytest.mark.parametrize("text", ["\x00", "a\u202eb", "\u200b", "\x1b[2J", "x" * 9000, "\u3164"])
def test_a_title_has_an_end_and_nothing_hidden(text: str) -> None:
    """G9, T3: whatever was sent, it can be a title."""
    titled: Any = {"title": text}
    filled: Any = {"a": text}
    for payload, template in ((titled, ""), (filled, ""), (filled, "{a}{a}{a}")):
        made = title_of(payload, text, template)
        assert parse_title(made, "title") == made
        assert len(made) <= TITLE_CHARS_MAX
