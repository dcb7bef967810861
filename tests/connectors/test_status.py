"""What a status means, for a change and for a read."""

from __future__ import annotations

from typing import Any

import pytest

from duly.connectors.response import HttpResponse
from duly.connectors.status import Meaning, raise_for_change, raise_for_read, retry_after_s
from duly.errors import (
    AuthNeeded,
    ConnectorError,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.failure import answer_of
from duly.rules.word import Answer

DATE = ("date", "Tue, 15 Nov 2022 12:00:00 GMT")
EPOCH_S = 1668513600  # the same moment

# status, headers, what it means to a change that is alone, to one that may not be, and to a read
TABLE: list[tuple[int, tuple[tuple[str, str], ...], Answer, Answer, type[Exception]]] = [
    (400, (), Answer.REFUSED, Answer.REFUSED, Refused),
    (401, (), Answer.AUTH, Answer.AUTH, AuthNeeded),
    (402, (), Answer.PERMISSION, Answer.PERMISSION, PermissionDenied),
    (403, (), Answer.PERMISSION, Answer.PERMISSION, PermissionDenied),
    (403, (("retry-after", "7"),), Answer.RATE_LIMITED, Answer.RATE_LIMITED, Transient),
    (403, (("x-ratelimit-remaining", "0"),), Answer.RATE_LIMITED, Answer.RATE_LIMITED, Transient),
    (
        403,
        (("x-ratelimit-remaining", "5"),),
        Answer.PERMISSION,
        Answer.PERMISSION,
        PermissionDenied,
    ),
    (405, (), Answer.REFUSED, Answer.REFUSED, Refused),
    (407, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (408, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (409, (), Answer.REFUSED, Answer.UNKNOWN, Refused),
    (412, (), Answer.REFUSED, Answer.UNKNOWN, Refused),
    (413, (), Answer.REFUSED, Answer.REFUSED, Refused),
    (422, (), Answer.REFUSED, Answer.UNKNOWN, Refused),
    (425, (), Answer.RATE_LIMITED, Answer.RATE_LIMITED, Transient),
    (429, (), Answer.RATE_LIMITED, Answer.RATE_LIMITED, Transient),
    (429, (("retry-after", "7"),), Answer.RATE_LIMITED, Answer.RATE_LIMITED, Transient),
    (500, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (502, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (503, (("retry-after", "7"),), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (504, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (599, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (301, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (303, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
    (307, (), Answer.REFUSED, Answer.REFUSED, Refused),
    (308, (), Answer.REFUSED, Answer.REFUSED, Refused),
    (600, (), Answer.UNKNOWN, Answer.UNKNOWN, Transient),
]


def change(status: int, headers: Any = (), *, is_alone: bool = True, **more: Any) -> Exception:
    with pytest.raises(ConnectorError) as caught:
        raise_for_change(
            HttpResponse(status, headers, b'{"error": "no"}'),
            "POST x",
            "shop",
            is_alone=is_alone,
            **more,
        )
    return caught.value


@pytest.mark.parametrize(("status", "headers", "first", "later", "to_read"), TABLE)
def test_every_status_has_one_meaning(
    status: int, headers: Any, first: Answer, later: Answer, to_read: type[Exception]
) -> None:
    """L4, K8: a change is definite only where the protocol says so."""
    assert answer_of(change(status, headers)) is first
    assert answer_of(change(status, headers, is_alone=False)) is later
    with pytest.raises(to_read) as caught:
        raise_for_read(HttpResponse(status, headers), "GET x", "shop")
    assert type(caught.value) is to_read
    wants = dict(headers).get("retry-after")
    if wants is not None:
        assert isinstance(caught.value, Transient)
        assert caught.value.retry_after_s == float(wants)


def test_success_and_nothing() -> None:
    """L4: every 2xx is done; 404 and 410 say that there is nothing."""
    for status in (200, 201, 202, 204, 299):
        raise_for_change(HttpResponse(status), "POST x", "shop", is_alone=True)
        assert raise_for_read(HttpResponse(status), "GET x", "shop")
    for status in (404, 410):
        assert not raise_for_read(HttpResponse(status), "GET x", "shop")
        assert isinstance(change(status), Refused)


def test_a_service_may_say_it_differently() -> None:
    """L4: by the settings of an operation."""
    own = {409: Meaning.UNKNOWN, 400: Meaning.BUSY, 423: Meaning.DONE}
    assert isinstance(change(409, own=own), UnknownOutcome)
    assert answer_of(change(400, own=own)) is Answer.RATE_LIMITED
    raise_for_change(HttpResponse(423), "POST x", "shop", is_alone=True, own=own)


def test_a_remembered_refusal_is_marked() -> None:
    """L4: only of an idempotent service that says so."""
    replayed = (("idempotent-replayed", "true"),)
    for headers, is_idempotent, is_kept in (
        *((replayed, True, True), (replayed, False, False), ((), True, False)),
    ):
        error = change(400, headers, is_idempotent=is_idempotent)
        assert isinstance(error, Refused)
        assert error.remembered is is_kept


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ((("retry-after", "120"),), 120),
        ((("retry-after", "0"),), 0),
        ((("retry-after", "-5"),), 0),
        ((("retry-after", "9999999"),), 86_400),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "nan"),), None),
        ((("retry-after", "Tue, 15 Nov 2022 12:01:30 GMT"), DATE), 90),
        ((("retry-after", "Tue, 15 Nov 2022 12:01:30 GMT"),), None),
        ((("retry-after", "Tue, 15 Nov 2022 11:00:00 GMT"), DATE), 0),
        ((("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")), 30),
        ((("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", str(EPOCH_S + 60)), DATE), 60),
        ((("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", str(EPOCH_S + 60))), None),
        (
            (("ratelimit-remaining", "0"), ("ratelimit-reset", str((EPOCH_S + 5) * 1000)), DATE),
            5,
        ),
        ((("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "30")), None),
        ((), None),
    ],
)
def test_the_time_a_server_asks_for(headers: Any, wait_s: float | None) -> None:
    """K8: in seconds or as a moment, by the server's own clock, and at most a day."""
    assert retry_after_s(HttpResponse(429, headers)) == wait_s


def test_the_words_of_the_server_are_shown_in_part() -> None:
    """L4: enough to repair a script; the query of a redirect is not shown."""
    with pytest.raises(Refused, match=r"POST x: the server answered 400: bad x+\.$") as caught:
        raise_for_change(
            HttpResponse(400, (), b"bad  \n" + b"x" * 5000), "POST x", "shop", is_alone=True
        )
    assert len(str(caught.value)) < 400
    moved = (("location", "https://b.example/?token=s3cret"),)
    assert "s3cret" not in str(change(308, moved))
    assert "https://b.example/" in str(change(308, moved))
