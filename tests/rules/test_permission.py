"""Permission: the order of checks, the envelope, approvals, and secrets that stay secret."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import settings

from duly.errors import Invalid
from duly.rules.access import Step
from duly.rules.catalog import Parameter, Risk, Tool, ToolKind
from duly.rules.permission import (
    Allowed,
    Envelope,
    Forbidden,
    Grant,
    Lack,
    Missing,
    NeedsApproval,
    Request,
    approval_for,
    check_grant,
    is_approval_needed,
    missing_capabilities,
    parse_approval,
    permit,
    proposal_hash,
    tell_asks,
)
from duly.rules.value import Json

PROPERTY = settings(derandomize=True, deadline=None, max_examples=200)

SEND = Tool(
    "mail.send",
    ToolKind.MUTATION,
    "mail.write",
    Risk.MEDIUM,
    parameters=(Parameter("to"), Parameter("text", required=False)),
)
SEARCH = Tool("mail.search", ToolKind.READ, "mail.read", Risk.HIGH)
ARGS: dict[str, Json] = {"to": "bob@acme.com"}
GRANTED = Envelope((Grant("mail.write"), Grant("mail.read")))
ASK = ({"*": "always"},)


def lack(grant: Grant | None, *, today: int = 0, tool: Tool = SEND, **args: Json) -> Lack | None:
    envelope = Envelope(() if grant is None else (grant,))
    answer = check_grant(tool, {**ARGS, **args}, envelope, today)
    if isinstance(answer, Missing):
        assert answer.capability == tool.capability
        assert tool.capability in str(answer.error)
        return answer.lack
    return None


def test_a_choice_is_for_the_tool_of_exactly_that_name() -> None:
    """A3: no glob, and no capability of that name; of several for one tool the strictest holds."""
    one = Tool("orders.insert", ToolKind.MUTATION, "orders.write", Risk.LOW)
    many = Tool("orders.insert_many", ToolKind.MUTATION, "orders.insert", Risk.LOW)
    chosen = {"orders.insert": "always", "*": "always"}
    grants = (
        Grant("orders.write", asks=chosen),
        Grant("orders.insert", asks={"orders.insert": "first:5"}),
    )
    envelope = Envelope(grants)
    assert envelope.asks == chosen
    for tool, is_asked in ((one, True), (many, False)):
        told = tell_asks(tool, chosen=envelope.asks)
        assert told is not None
        assert told.each_time is is_asked
        asked = permit(Request(tool, Step.MUTATE, {}, envelope=envelope))
        assert isinstance(asked, NeedsApproval) is is_asked


# -- The order of checks (A1) -------------------------------------------------------------------


def test_the_first_check_that_stops_a_call_decides() -> None:
    """A1: access, arguments, grant, approval; each is asked only when those before it passed."""
    wrong = Request(SEND, Step.PREPARE, {"cc": "x"}, approvals=ASK)
    first = permit(wrong)
    assert isinstance(first, Forbidden)
    assert "may not change anything outside" in str(first.error)
    second = permit(replace(wrong, step=Step.MUTATE))
    assert isinstance(second, Forbidden)
    assert second.error.path == "mail.send.cc"
    third = permit(replace(wrong, step=Step.MUTATE, named=ARGS))
    assert isinstance(third, Missing)
    fourth = replace(wrong, step=Step.MUTATE, named=ARGS, envelope=GRANTED)
    assert permit(fourth) == NeedsApproval(ARGS)
    assert permit(replace(fourth, approvals=())) == Allowed(ARGS)


def test_reads_need_a_grant_too_and_no_approval() -> None:
    """A1: grants also for reads; nobody is asked about a call that changes nothing."""
    read = Request(SEARCH, Step.PREPARE, {}, approvals=ASK)
    assert isinstance(permit(read), Missing)
    assert permit(replace(read, envelope=GRANTED)) == Allowed({})


def test_the_arguments_that_are_checked_are_those_that_are_sent() -> None:
    """A1: a positional argument cannot slip past the limits of a grant."""
    narrow = Envelope((Grant("mail.write", where={"to": "*@acme.com"}),))
    request = Request(SEND, Step.MUTATE, {}, ("eve@evil.com",), narrow)
    assert isinstance(permit(request), Missing)
    assert permit(replace(request, positional=("bob@acme.com",))) == Allowed(ARGS)


# -- The envelope (A1, A2) ----------------------------------------------------------------------


def test_what_is_not_granted_is_missing() -> None:
    """A1: outside the envelope the run waits and is told for what; a capability is no glob."""
    assert lack(None) is Lack.CAPABILITY
    assert lack(Grant("mail.read")) is Lack.CAPABILITY
    assert lack(Grant("mail.*")) is Lack.CAPABILITY
    assert lack(Grant("mail.write")) is None


def test_a_daily_limit_is_used_up_by_the_last_mutation_it_allows() -> None:
    """A1: at the limit minus one a mutation is allowed, at the limit not; reads do not count."""
    assert lack(Grant("mail.write", mutations_per_day=3), today=2) is None
    assert lack(Grant("mail.write", mutations_per_day=3), today=3) is Lack.MUTATIONS_PER_DAY
    assert lack(Grant("mail.write", mutations_per_day=0)) is Lack.MUTATIONS_PER_DAY
    assert lack(Grant("mail.read", mutations_per_day=0), tool=SEARCH) is None


@pytest.mark.parametrize(
    ("to", "fits"),
    [
        ("bob@acme.com", True),
        ("Bob <bob@acme.com>", False),  # only a tool that declares an address takes it apart
        ("bob@acme.com.evil.com", False),
        ("eve@evil.com, bob@acme.com", False),
        ("eve@evil.com bob@acme.com", False),
        ("eve@evil.com;bob@acme.com", False),
        ("<eve@evil.com>bob@acme.com", False),
        ("eve@evil.com@acme.com", False),
        ("eve＠evil.com@acme.com", False),
        ("eve@evil.com，bob@acme.com", False),
        ("eve@evil.com\u2028bob@acme.com", False),
        ('"eve@evil.com"@acme.com', False),
        ("bob@ACME.com", True),
        (["a@acme.com", "b@acme.com"], True),
        (["a@acme.com", "b@evil.com"], False),
        (["a@acme.com", ["b@acme.com"]], False),
        ([], False),
        (None, False),
        (5, False),
        ({"address": "bob@acme.com"}, False),
    ],
)
def test_an_argument_must_match_the_glob_of_its_grant(to: Json, fits: bool) -> None:
    """A1: globs over string arguments; what is no string cannot be shown to be inside."""
    expected = None if fits else Lack.WHERE
    assert lack(Grant("mail.write", where={"to": "*@acme.com"}), to=to) is expected


def test_an_argument_that_is_absent_does_not_match_its_glob() -> None:
    """A1: leaving an argument out is no way around a grant, and every glob must match."""
    assert lack(Grant("mail.write", where={"cc": "*"})) is Lack.WHERE
    both = {"to": "*@acme.com", "text": "Dear *"}
    assert lack(Grant("mail.write", where=both), text="Hello") is Lack.WHERE
    assert lack(Grant("mail.write", where=both), text="Dear Bob") is None


@pytest.mark.parametrize(
    ("to", "answer"),
    [
        ("bob@acme.com", Allowed),
        ("Bob the Builder <bob@acme.com>", Allowed),
        (["bob@acme.com", '"Bob, B." <bob@acme.com>'], Forbidden),
        (["bob@acme.com", '"Bob B." <bob@acme.com>'], Allowed),
        ("bob@evil.com", Missing),
        ("bob@acme.com <eve@evil.com>", Forbidden),
        ("bob@acme.com,eve@evil.com", Forbidden),
        ("bob＠evil.com@acme.com", Forbidden),
        ("bob＠acme.com", Forbidden),
        ("x" * 65 + "@acme.com", Forbidden),
        ("x" * 64 + "@acme.com", Allowed),
        ("bob@" + "a." * 130 + "acme.com", Forbidden),
        ("bob", Forbidden),
        ("bob@", Forbidden),
        ("bob..b@acme.com", Forbidden),
        ("bob@[10.0.0.1]", Forbidden),
        ("bob@acme.com\n", Forbidden),
        ([7], Forbidden),
        ("", Forbidden),
        (None, Missing),
    ],
)
@pytest.mark.parametrize("glob", ["*@acme.com", "*acme.com"])
def test_a_declared_address_is_one_and_is_matched_as_it_was_parsed(
    to: Json, answer: type, glob: str
) -> None:
    """A1, K12: one in a field, of characters that are what they look like."""
    tool = replace(SEND, parameters=(Parameter("to", is_address=True),))
    envelope = Envelope((Grant("mail.write", where={"to": glob}),))
    told = permit(Request(tool, Step.MUTATE, {"to": to}, envelope=envelope))
    assert type(told) is answer, told


WITHIN = {"method": "POST", "url": "https://*.example.com/orders/*"}


@pytest.mark.parametrize(
    ("method", "url", "answer"),
    [
        ("POST", "https://eu.example.com/orders/7", Allowed),
        ("POST", "https://EU.Example.com:443/orders/7?a=b", Allowed),
        ("PUT", "https://eu.example.com/orders/7", Missing),
        ("POST", "http://eu.example.com/orders/7", Missing),
        ("POST", "https://eu.example.com:8443/orders/7", Missing),
        ("POST", "https://example.com/orders/7", Missing),
        ("POST", "https://evil.example/x.example.com/orders/7", Missing),
        ("POST", "https://evil.example/?.example.com/orders/7", Missing),
        ("POST", "https://a.example.com@evil.example/orders/7", Missing),
        ("POST", "https://eu.example.com.evil.example/orders/7", Missing),
        ("POST", "https://eu.example.com/orders/../admin", Missing),
        ("POST", "https://eu.example.com/orders/%2e%2E/admin", Missing),
        ("POST", "https://eu.example.com/admin?/orders/7", Missing),
        ("POST", "https://eu.example.com", Missing),
        ("POST", "orders", Missing),
        ("POST", 7, Missing),
    ],
)
def test_a_grant_names_method_host_and_path(method: str, url: Json, answer: type) -> None:
    """A1, K4: each part of a URL is matched by itself, as it was read."""
    tool = replace(SEND, parameters=(Parameter("method"), Parameter("url")))
    envelope = Envelope((Grant(tool.capability, where=WITHIN),))
    asked = Request(tool, Step.MUTATE, {"method": method, "url": url}, envelope=envelope)
    told = permit(asked)
    assert type(told) is answer, told


def test_a_glob_with_another_scheme_is_compared_as_text() -> None:
    """A1: only web addresses have parts that Duly knows."""
    tool = replace(SEND, parameters=(Parameter("place"),))
    envelope = Envelope((Grant(tool.capability, where={"place": "s3://bills/*"}),))
    for place, answer in (("s3://bills/7.pdf", Allowed), ("s3://letters/7.pdf", Missing)):
        told = permit(Request(tool, Step.MUTATE, {"place": place}, envelope=envelope))
        assert type(told) is answer, told


def test_of_several_grants_one_that_covers_the_call_is_enough() -> None:
    """A1: a limit belongs to its own grant."""
    narrow = Grant("mail.write", 1, {"to": "*@acme.com"})
    wide = Grant("mail.write", 5)
    assert check_grant(SEND, ARGS, Envelope((narrow, wide)), 1) == Allowed(ARGS)
    answer = check_grant(SEND, ARGS, Envelope((narrow, wide)), 5)
    assert isinstance(answer, Missing)
    assert answer.lack is Lack.MUTATIONS_PER_DAY


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
def test_a_daily_limit_that_is_no_count_is_refused(limit: Any) -> None:
    """A1: a limit is a whole number."""
    with pytest.raises(Invalid, match="whole number"):
        Grant("mail.write", limit)


def test_what_a_source_uses_and_nobody_granted_is_missing() -> None:
    """A2: each once, in order; deploy lists it, and a repair that needs any of it is refused."""
    granted = GRANTED.capabilities
    assert granted == {"mail.read", "mail.write"}
    assert missing_capabilities(granted, ["mail.read"]) == ()
    assert missing_capabilities(granted, granted) == ()
    assert missing_capabilities(granted, ["z.a", "mail.read", "a.z", "z.a"]) == ("a.z", "z.a")


# -- Approval (A3, A4) --------------------------------------------------------------------------

ASKED = {
    "never": "",
    "above:medium": "high",
    "above:low": "medium high",
    "always": "low medium high",
}


@pytest.mark.parametrize(("word", "risk"), list(product(ASKED, Risk)))
def test_a_person_is_asked_above_the_risk_the_policy_names(word: str, risk: Risk) -> None:
    """A3: every policy against every risk."""
    tool = replace(SEND, risk=risk)
    assert is_approval_needed(tool, {"*": word}) is (risk in ASKED[word].split())


@pytest.mark.parametrize(("host", "own"), list(product(ASKED, ASKED)))
def test_the_stricter_of_host_and_workflow_holds(host: str, own: str) -> None:
    """A3: neither can loosen the other, whatever the order."""
    order = list(ASKED)
    stricter = max(host, own, key=order.index)
    assert approval_for(SEND, {"*": host}, {"*": own}) == stricter
    assert approval_for(SEND, {"*": host, "mail.*": own}) == stricter


def test_a_policy_is_found_by_tool_or_by_capability() -> None:
    """A3: globs over tool or capability; never is the default."""
    assert approval_for(SEND) == "never"
    assert approval_for(SEND, {"sheets.*": "always"}) == "never"
    assert approval_for(SEND, {"mail.send": "always"}) == "always"
    assert approval_for(SEND, {"mail.write": "above:low"}) == "above:low"
    assert approval_for(SEND, {"*.write": "above:medium"}) == "above:medium"


@pytest.mark.parametrize("word", ["alway", "", None, 5, "above:high", []])
def test_an_unknown_policy_is_refused_and_never_taken_for_never(word: Any) -> None:
    """A3: a misspelt policy must not let a mutation through."""
    with pytest.raises(Invalid, match=r"approvals\.\* is "):
        parse_approval(word, "approvals.*")
    with pytest.raises(Invalid):
        is_approval_needed(SEND, {"*": word})


def test_the_hash_changes_with_the_call_and_with_the_inputs() -> None:
    """A4: an approval is for exactly what was shown; the order of keys means nothing."""
    shown = proposal_hash("mail.send", {"to": "a", "text": "b"}, [["mail", "m1"]])
    assert proposal_hash("mail.send", {"text": "b", "to": "a"}, [["mail", "m1"]]) == shown
    others = {
        proposal_hash("mail.draft", {"to": "a", "text": "b"}, [["mail", "m1"]]),
        proposal_hash("mail.send", {"to": "a", "text": "c"}, [["mail", "m1"]]),
        proposal_hash("mail.send", {"to": "a", "text": "b"}, [["mail", "m2"]]),
        proposal_hash("mail.send", {"to": "a", "text": "b"}, []),
        proposal_hash("mail.send", {"to": "a"}, [["mail", "m1"]]),
    }
    assert len(others | {shown}) == 6
    assert len(shown) == 64


# -- What a person is told (A3) -------------------------------------------------------------------


@pytest.mark.parametrize("risk", list(Risk))
@pytest.mark.parametrize("word", [*ASKED, "first:3", "after_model"])
@pytest.mark.parametrize("own", [None, *ASKED, "first:5", "after_model"])
def test_what_is_told_is_what_the_engine_does(risk: Risk, word: str, own: str | None) -> None:
    """A3, M4: for each call, by its number and by whether a model answered."""
    tool = replace(SEND, risk=risk)
    policies = ({"*": word}, {} if own is None else {"mail.*": own})
    asks = tell_asks(tool, *policies)
    assert asks is not None
    for before, has_asked in product((0, 2, 3, 4, 5, 9999), (False, True)):
        told = asks.each_time or before < asks.first or (has_asked and asks.after_model)
        done = is_approval_needed(tool, *policies, calls_before=before, has_asked_model=has_asked)
        assert told is done, (before, has_asked)
    assert asks.rules == (("*", word), *(() if own is None else (("mail.*", own),)))


def test_of_a_read_nothing_is_told() -> None:
    """A3: reads never need approval."""
    assert tell_asks(SEARCH, *ASK) is None
