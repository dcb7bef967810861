"""Breaks of signing in: whose redirect, which answer, who refreshes, and what is sent again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from duly.connectors.auth import SignIn
from duly.connectors.transport import HttpRequest
from duly.rules import oauth
from duly.rules.oauth import RefreshKind, TokenAnswer, TokenGrant, TokenStep
from duly.store.base import barrier
from tests.breaks import Break

RULES = "tests/rules/test_oauth.py"
OAUTH = "tests/connectors/test_oauth.py"
TWO = "tests/postgres/test_oauth.py"

_decide = oauth.decide


def _read_any_redirect(given: str, **how: str) -> str:
    return dict(parse_qsl(urlsplit(given).query)).get("code", "")


def _decide_alone(
    grant: TokenGrant, now: int, kind: RefreshKind, *, rejected: str = ""
) -> TokenStep:
    return _decide(replace(grant, claimed_until=None), now, kind, rejected=rejected)


def _settle_free(claimed: TokenGrant, answer: TokenAnswer) -> TokenGrant:
    return answer.grant or replace(claimed, claimed_until=None, unanswered=0)


def _swap_blindly(tx: Any, connector: str, name: str, before: str, sealed: str) -> bool:
    tx.run("put_secret", connector=connector, name=name, sealed=sealed, now=1)
    return True


def _miss_offline(grant: TokenGrant, wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in wanted if each not in grant.scopes)


async def _never_anew(self: SignIn, request: HttpRequest) -> bool:
    return False


def _act_of_this_host(ticket: oauth.OAuthTicket) -> str:
    return f"action_{next(NUMBERS)}"


NUMBERS = count(1)
SIGN_IN = "tests/connectors/test_sign_in.py"
TERMINAL = "tests/faces/test_connect_oauth.py"
OUTLOOK = "tests/connectors/test_outlook.py"

BREAKS = (
    Break(
        "K9",
        "duly.desk.oauth",
        "_act_of",
        _act_of_this_host,
        (f"{SIGN_IN}::test_an_exchange_without_an_answer_is_not_repeated",),
        "another host sends a code again",
    ),
    Break(
        "K9",
        "duly.desk.oauth",
        "_check_account",
        lambda connector, before, now: None,
        (f"{SIGN_IN}::test_another_account_comes_only_with_a_yes",),
        "another account takes the place of the one before without a word",
    ),
    Break(
        "K9",
        "duly.desk.oauth",
        "NONE",
        None,
        (f"{SIGN_IN}::test_of_two_first_sign_ins_at_once_the_second_is_asked",),
        "of two first sign-ins at once the last one wins unasked",
    ),
    Break(
        "K9",
        "duly.rules.id_token",
        "SignedAccount.is_other",
        lambda self, before: False,
        (f"{SIGN_IN}::test_a_refresh_for_another_account_sends_nothing",),
        "a refreshed token of another account is used",
    ),
    Break(
        "K9",
        "duly.rules.oauth",
        "_origin",
        lambda url: ("", ""),
        (f"{SIGN_IN}::test_an_answer_of_one_provider_is_not_sent_to_another",),
        "a provider's code is sent to another provider",
    ),
    Break(
        "K9",
        "duly.api.redirect",
        "read_redirect",
        _read_any_redirect,
        (f"{TERMINAL}::test_the_browser_comes_back_to_a_port_of_its_own",),
        "a request of another sign-in ends the one that the terminal waits for",
    ),
    Break(
        "K9",
        "duly.desk.oauth",
        "missing_scopes",
        _miss_offline,
        (f"{OUTLOOK}::test_a_person_signs_in_and_a_draft_is_written",),
        "a scope that no answer names counts as not allowed",
    ),
    Break(
        "K11",
        "duly.connectors.delta",
        "_token_of",
        lambda after: [],
        (f"{OUTLOOK}::test_a_cursor_that_microsoft_forgot_begins_anew",),
        "a cursor that Duly did not give is taken for the beginning",
    ),
    Break(
        "K9",
        "duly.connectors.oauth",
        "read_redirect",
        _read_any_redirect,
        (f"{OAUTH}::test_a_redirect_of_another_sign_in_is_not_read",),
        "a redirect is believed wherever it comes from",
    ),
    Break(
        "H12",
        "duly.connectors.oauth",
        "decide",
        _decide_alone,
        (f"{TWO}::test_two_hosts_refresh_once",),
        "a host refreshes a token that another host refreshes",
    ),
    Break(
        "K9",
        "duly.connectors.oauth",
        "settle",
        _settle_free,
        (f"{OAUTH}::test_a_revoked_sign_in_is_asked_about_once",),
        "a sign-in that was revoked is refreshed again by every call",
    ),
    Break(
        "H12",
        "duly.store",
        "Store.swap_secret",
        barrier(_swap_blindly),
        (f"{OAUTH}::test_a_secret_is_swapped_only_if_it_is_the_one_that_was_read",),
        "two hosts claim one refresh",
    ),
    Break(
        "L4",
        "duly.connectors.auth",
        "SignIn.anew",
        _never_anew,
        (f"{OAUTH}::test_a_refused_token_is_renewed_once",),
        "a refused token is not renewed",
    ),
)
