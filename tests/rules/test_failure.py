"""What a connector's error means, in a read and in a mutation that began."""

from __future__ import annotations

import pytest

from duly import errors
from duly.rules.catalog import Tool, ToolKind
from duly.rules.failure import ANSWERED, answer_of, failure_of, waits_on
from duly.rules.word import Answer, Failure

READS = [
    (errors.NotSent("no route"), Failure.UNREACHABLE),
    (errors.Refused("no such sheet"), Failure.LOGIC),
    (errors.AuthNeeded("token expired"), Failure.AUTH),
    (errors.PermissionDenied("not shared"), Failure.PERMISSION),
    (errors.Transient("429", retry_after_s=5), Failure.UNREACHABLE),
    (errors.UnknownOutcome("cut off"), Failure.UNREACHABLE),
    (TimeoutError(), Failure.UNREACHABLE),
    (ConnectionResetError(), Failure.UNREACHABLE),
    (KeyError("items"), Failure.INTERNAL),
    (errors.ConnectorError("unclassified"), Failure.INTERNAL),
]

MUTATIONS = [
    (errors.NotSent("no route"), Answer.NOT_SENT),
    (errors.Refused("bad row"), Answer.REFUSED),
    (errors.Refused("bad row", remembered=True), Answer.REMEMBERED),
    (errors.AuthNeeded("token expired"), Answer.AUTH),
    (errors.PermissionDenied("not shared"), Answer.PERMISSION),
    (errors.Transient("429", outcome="refused"), Answer.RATE_LIMITED),
    (errors.Transient("down", outcome="not_sent"), Answer.NOT_SENT),
    (errors.Transient("503"), Answer.UNKNOWN),
    (errors.UnknownOutcome("cut off"), Answer.UNKNOWN),
    (TimeoutError(), Answer.UNKNOWN),
    (ConnectionResetError(), Answer.UNKNOWN),
    (KeyError("items"), Answer.UNKNOWN),
    (errors.ConnectorError("the key was used with other parameters"), Answer.UNKNOWN),
]


@pytest.mark.parametrize(("error", "failure"), READS)
def test_an_error_out_of_a_read_has_one_class(error: Exception, failure: Failure) -> None:
    """F1: what nobody classified is our own bug."""
    assert failure_of(error) is failure


@pytest.mark.parametrize(("error", "answer"), MUTATIONS)
def test_an_error_out_of_a_mutation_is_definite_only_where_it_says_so(
    error: Exception, answer: Answer
) -> None:
    """L4: a timeout, a 503, a lost connection and whatever is unclassified leave it unknown."""
    assert answer_of(error) is answer


@pytest.mark.parametrize("word", ["unknown", "applied", "", "timeout"])
def test_an_outcome_nobody_knows_is_an_unknown_one(word: str) -> None:
    """L4: connectors are written by many; the classifier does not throw while a call is out."""
    error = errors.Transient("503", outcome=word)  # type: ignore[arg-type]  # a connector's mistake
    assert answer_of(error) is Answer.UNKNOWN


def test_a_message_never_decides() -> None:
    """L4: words that sound definite change nothing."""
    assert answer_of(RuntimeError("400 Bad Request: refused, nothing was sent")) is Answer.UNKNOWN
    assert failure_of(RuntimeError("rate limit, try again later")) is Failure.INTERNAL


def test_a_connector_may_refine_an_error_without_changing_its_class() -> None:
    """F1, L4: a subclass means what its base means."""

    class QuotaReached(errors.Refused):
        """The mailbox is full."""

    assert failure_of(QuotaReached()) is Failure.LOGIC
    assert answer_of(QuotaReached()) is Answer.REFUSED


def test_every_definite_answer_has_its_class_and_an_unknown_one_none() -> None:
    """L4, F1: unknown is asked about, never failed."""
    assert set(Answer) - set(ANSWERED) == {Answer.APPLIED, Answer.UNKNOWN}
    assert ANSWERED[Answer.RATE_LIMITED] is ANSWERED[Answer.NOT_SENT] is Failure.UNREACHABLE
    assert ANSWERED[Answer.REFUSED] is ANSWERED[Answer.REMEMBERED] is Failure.LOGIC


def test_what_a_failure_waits_for_is_named() -> None:
    """F4: the connection the connector names, else the tool's own; or the capability."""
    tool = Tool("gmail.send", ToolKind.MUTATION, "mail.send")
    assert waits_on(Failure.AUTH, tool, errors.AuthNeeded(connect="work")) == "work"
    assert waits_on(Failure.AUTH, tool, errors.AuthNeeded()) == "gmail"
    assert waits_on(Failure.PERMISSION, tool, errors.PermissionDenied()) == "mail.send"
    assert waits_on(Failure.UNREACHABLE, tool, errors.NotSent()) is None
