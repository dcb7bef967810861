"""What OAuth answers mean, and which step comes next for a token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.rules.oauth import (
    CLAIM_MS,
    EXPIRES_S_MAX,
    MARGIN_MS,
    RefreshKind,
    TokenAnswer,
    TokenFault,
    TokenGrant,
    TokenStep,
    challenge_of,
    claim,
    decide,
    judge_answer,
    judge_device,
    make_word,
    read_grant,
    read_redirect,
    settle,
    tokens_in,
)
from duly.testing.doubles.id_token import write_id_token

BACK = "http://127.0.0.1:4711/back"
AUTHORIZE = "https://login.example/tenant/authorize"
NOW = 1_000_000
GOOD = {"access_token": "a-token", "token_type": "bearer", "expires_in": 3600}
ENDED = TokenGrant("a-token", "r-token", expires_at=NOW, renew_at=NOW - MARGIN_MS)


def judge(status: int = 200, before: TokenGrant | None = None, **more: Any) -> TokenAnswer:
    body = json.dumps({**GOOD, **more}).encode()
    return judge_answer(
        status, body, asked_at=NOW, asked=("x", "y"), client_id="client", before=before
    )


def test_the_challenge_is_that_of_the_standard() -> None:
    """K9: the example of RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge_of(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    assert len(make_word(bytes(32))) == 43


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (f"{BACK}?code=c&state=s", "c"),
        (f"{BACK}?state=s&code=c&iss=https://Login.example/tenant/v2", "c"),
        (f"{BACK}?state=s&code=c&iss=x", TokenFault.OTHER_PROVIDER),
        (f"{BACK}?state=s&code=c&iss=", TokenFault.OTHER_PROVIDER),
        (f"{BACK}?state=s&code=c&iss=http://login.example/tenant", TokenFault.OTHER_PROVIDER),
        (f"{BACK}?state=s&code=c&iss=https://[", TokenFault.OTHER_PROVIDER),
        (f"{BACK}?state=t&code=c&iss=x", TokenFault.OTHER_STATE),
        (f"{BACK}?code=c", TokenFault.OTHER_STATE),
        (f"{BACK}?code=c&state=S", TokenFault.OTHER_STATE),
        (f"{BACK}?code=c&state=s&state=t", TokenFault.OTHER_STATE),
        (f"{BACK}?code=c&code=d&state=s", TokenFault.OTHER_STATE),
        (f"{BACK}/?code=c&state=s", TokenFault.OTHER_PLACE),
        (f"{BACK}?code=c&state=s#x", TokenFault.OTHER_PLACE),
        ("http://localhost:4711/back?code=c&state=s", TokenFault.OTHER_PLACE),
        (f"{BACK}?code={'c' * 8000}&state=s", TokenFault.OTHER_PLACE),
        (f"{BACK}?error=access_denied", TokenFault.OTHER_STATE),
        (f"{BACK}?error=access_denied&state=s", TokenFault.DENIED),
        (f"{BACK}?error=strange&state=s&code=c", TokenFault.REFUSED),
        (f"{BACK}?code=a%0Ab&state=s", TokenFault.LOST),
        (f"{BACK}?state=s", TokenFault.LOST),
    ],
)
def test_a_redirect_is_read_at_its_place_and_with_its_state(
    given: str, found: str | TokenFault
) -> None:
    """K9: or not at all."""
    assert read_redirect(given, redirect=BACK, state="s", authorize_url=AUTHORIZE) == found


@pytest.mark.parametrize(
    "more",
    [
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": True},
        {"expires_in": 1.5},
        {"expires_in": "soon"},
        {"expires_in": EXPIRES_S_MAX + 1},
        {"access_token": ""},
        {"access_token": "two words"},
        {"access_token": None},
        {"access_token": "a" * 7901},
        {"refresh_token": "line\nbreak"},
        {"refresh_token": 7},
        {"scope": ["x"]},
        {"scope": 'x"y'},
    ],
)
def test_an_answer_with_a_wrong_part_is_no_answer(more: dict[str, Any]) -> None:
    """K9: the provider may have replaced the token all the same."""
    assert judge(**more) == TokenAnswer(fault=TokenFault.LOST)


def test_an_answer_says_what_is_granted() -> None:
    """K9: what it leaves out is as it was asked for, or as it was before."""
    assert judge().grant == TokenGrant("a-token", "", NOW + 3_600_000, NOW + 3_540_000, ("x", "y"))
    before = TokenGrant("old", "r-token", scopes=("x",))
    found = judge(before=before, expires_in="100", token_type="BEARER").grant
    assert found == TokenGrant("a-token", "r-token", NOW + 100_000, NOW + 50_000, ("x",))
    found = judge(before=before, refresh_token="r2", scope="x,z", expires_in=None).grant
    assert found == TokenGrant("a-token", "r2", None, None, ("x", "z"))
    assert judge(expires_in=EXPIRES_S_MAX).grant is not None
    assert judge(token_type="mac").fault is TokenFault.WRONG_TYPE
    assert judge(token_type=None).fault is TokenFault.WRONG_TYPE


def test_an_answer_says_whose_token_it_is() -> None:
    """K9: a refresh that names no account is of the one before; another account is never it."""
    ada, bob = (write_id_token("https://login.example", "client", each) for each in ("ada", "bob"))
    first = judge(id_token=ada).grant
    assert first is not None
    assert len(first.account) == 64
    assert read_grant(first.text) == first
    again = judge(before=first).grant
    assert again is not None
    assert again.signed == first.signed
    found = judge(before=first, id_token=bob)
    assert (found.fault, found.grant) == (TokenFault.OTHER_ACCOUNT, None)
    over = settle(claim(first, NOW), found)
    assert (over.is_over, over.other, over.account) == (True, "another account", first.account)
    assert judge(before=TokenGrant("old", "r"), id_token=bob).grant is not None
    named = judge(id_token=write_id_token("i", "client", "s", email="a@x", name="Ada"))
    assert named.grant is not None
    assert named.grant.account_name == "a@x"


@pytest.mark.parametrize(
    "text",
    [
        7,
        "no token",
        "a.b.c",
        "e30.e30.e30",
        write_id_token("https://login.example", "another client", "ada"),
        write_id_token("", "client", "ada"),
        write_id_token("https://login.example", "client", "x" * 16_000),
    ],
)
def test_what_names_nobody_for_this_client_is_no_answer(text: object) -> None:
    """K9: an id token is for one client."""
    assert judge(id_token=text) == TokenAnswer(fault=TokenFault.LOST)


@pytest.mark.parametrize(
    ("status", "error", "fault"),
    [
        (400, "invalid_grant", TokenFault.REVOKED),
        (200, "invalid_grant", TokenFault.REVOKED),
        (401, "invalid_client", TokenFault.REFUSED),
        (400, "slow_down", TokenFault.SLOW_DOWN),
        (429, "slow_down", TokenFault.SLOW_DOWN),
        (429, "x", TokenFault.BUSY),
        (503, "invalid_grant", TokenFault.BUSY),
        (500, "invalid_grant", TokenFault.LOST),
        (302, None, TokenFault.LOST),
        (201, None, TokenFault.LOST),
        (400, None, TokenFault.LOST),
        (200, 7, TokenFault.LOST),
    ],
)
def test_an_error_says_whether_the_token_is_over(
    status: int, error: object, fault: TokenFault
) -> None:
    """K9: only a clear `invalid_grant` ends a sign-in."""
    assert judge(status, error=error).fault is fault


def test_a_device_answer_is_whole_or_none() -> None:
    """K9: its end and its interval have limits."""
    whole: dict[str, Any] = {"device_code": "d", "user_code": "u", "expires_in": 9e9}
    whole |= {"verification_uri": "https://a.example/on", "expires_in": 86_400, "interval": 9999}
    found = judge_device(200, json.dumps(whole).encode(), asked_at=0)
    assert not isinstance(found, TokenFault)
    assert (found.ends_at, found.interval_s) == (3_600_000, 300)
    for name, value in (
        ("verification_uri", "javascript:x"),
        ("device_code", ""),
        ("user_code", 1),
    ):
        body = json.dumps({**whole, name: value}).encode()
        assert judge_device(200, body, asked_at=0) is TokenFault.LOST


@pytest.mark.parametrize(
    ("grant", "kind", "step"),
    [
        (TokenGrant("t"), "kept", TokenStep.USE),
        (TokenGrant("t", renew_at=NOW + 1), "kept", TokenStep.USE),
        (TokenGrant("t", "r", NOW + 5, NOW), "kept", TokenStep.SEND),
        (TokenGrant("t", "", NOW + 5, NOW), "kept", TokenStep.USE),
        (TokenGrant("t", "", NOW, NOW), "kept", TokenStep.PERSON),
        (TokenGrant("t", "r", NOW + 5, NOW, claimed_until=NOW + 1), "kept", TokenStep.USE),
        (TokenGrant("t", "r", NOW, NOW, claimed_until=NOW + 1), "kept", TokenStep.WAIT),
        (TokenGrant("t", "r", NOW, NOW, claimed_until=NOW + CLAIM_MS), "kept", TokenStep.WAIT),
        (TokenGrant("t", "r", NOW, NOW, claimed_until=NOW + CLAIM_MS + 1), "kept", TokenStep.SEND),
        (TokenGrant("t", "r", NOW, NOW, claimed_until=NOW, unanswered=99), "kept", TokenStep.SEND),
        (TokenGrant("t", "r", NOW, NOW, unanswered=1), "rotated", TokenStep.SEND),
        (TokenGrant("t", "r", NOW, NOW, unanswered=2), "rotated", TokenStep.PERSON),
        (TokenGrant("t", "r", NOW, NOW, unanswered=1), "spent", TokenStep.PERSON),
        (TokenGrant("t", "r", is_over=True), "kept", TokenStep.PERSON),
        (TokenGrant("refused", "r"), "kept", TokenStep.SEND),
        (TokenGrant("refused"), "kept", TokenStep.PERSON),
        (TokenGrant("refused", "r", claimed_until=NOW + 1), "kept", TokenStep.WAIT),
    ],
)
def test_the_next_step_of_a_token(grant: TokenGrant, kind: str, step: TokenStep) -> None:
    """K9, H12: one host sends, the others wait, and what is over stays over."""
    assert decide(grant, NOW, RefreshKind(kind), rejected="refused") is step


def test_what_comes_of_a_refresh() -> None:
    """K9: only what was not answered counts."""
    claimed = claim(ENDED, NOW)
    assert (claimed.claimed_until, claimed.unanswered) == (NOW + CLAIM_MS, 1)
    assert settle(claimed, TokenAnswer(fault=TokenFault.BUSY)) == ENDED
    assert settle(claimed, TokenAnswer(fault=TokenFault.REFUSED)) == ENDED
    assert settle(claimed, TokenAnswer(fault=TokenFault.LOST)).unanswered == 1
    assert settle(claimed, TokenAnswer(fault=TokenFault.REVOKED)).is_over
    assert settle(claimed, TokenAnswer(TokenGrant("new"))) == TokenGrant("new")


def test_a_grant_is_one_secret_and_shows_no_token() -> None:
    """A5: each token in it is secret by itself."""
    assert read_grant(ENDED.text) == ENDED
    assert tokens_in(ENDED.text) == ("a-token", "r-token")
    assert tokens_in("a-token") == tokens_in('{"access_token":1}') == ()
    assert "token" not in repr(ENDED).replace("a_token", "")
