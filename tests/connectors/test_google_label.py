"""Labels of a mail after a lost answer: what a person undid since is not done again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.errors import Refused, UnknownOutcome
from duly.testing.doubles.base import Mishap, PlannedMishap
from tests.connectors.google_stand import MAILS, TOKENS, StockedGoogle, make, secrets_of
from tests.connectors.test_google import call_of, run

TOKEN = f"{TOKENS}-label"


@pytest.fixture
def google() -> Iterator[StockedGoogle]:
    with StockedGoogle() as found:
        found.give_tokens(TOKENS)
        yield found


@pytest.mark.parametrize("tool", ["label", "archive"])
def test_what_a_person_undid_since_is_not_done_again(google: StockedGoogle, tool: str) -> None:
    """L5, L14: the answer is lost, and the mail is as it was; yet it is another version of it."""
    mailbox = make("gmail", google, secrets_of(TOKEN))
    args: dict[str, Any] = {"id": MAILS[0]} | ({"label": "Bills"} if tool == "label" else {})
    was_set = {"id": MAILS[0], "label": "Bills" if tool == "label" else "INBOX"}
    look = getattr(mailbox, f"{tool}_happened")
    google.plan(PlannedMishap(Mishap.CUT, "/modify$"), PlannedMishap(Mishap.LOST, "/modify$"))
    for is_done in (False, True):
        call = call_of(f"gmail.{tool}", f"k-{is_done}", **args)
        assert run(look(call)) == NotApplied()
        with pytest.raises(UnknownOutcome):
            run(getattr(mailbox, tool)(call, **args))
        assert isinstance(run(look(call)), Applied if is_done else NotApplied)
    run(mailbox.label(call_of("gmail.label", "person"), **was_set, on=tool == "archive"))
    assert isinstance(run(look(call)), Unsure)


def test_a_mail_that_is_gone_gets_no_label(google: StockedGoogle) -> None:
    mailbox = make("gmail", google, secrets_of(TOKEN))
    with pytest.raises(Refused, match="no such mail"):
        run(mailbox.archive(call_of("gmail.archive"), id="00ff"))
    own = [each.path for each in google.asks if each.token == TOKEN]
    assert own
    assert not [path for path in own if path.endswith("/modify")]
