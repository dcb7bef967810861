"""How many requests a client may send (G10)."""

from __future__ import annotations

import pytest

from duly.errors import RequestRefused
from duly.faces.web import guard
from duly.faces.web import rate as module
from duly.faces.web.rate import Rate, Rates, name_client
from tests.web.stand import ask, bearer, fake

FEW = Rate("few", 2, 3)


class Hand:
    """A clock that is moved by hand."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_a_bucket_fills_by_the_second() -> None:
    """G10: three at once, two a second after that; each client has one of its own."""
    clock = Hand()
    rates = Rates(clock)
    for _ in range(3):
        rates.take(FEW, "a")
    with pytest.raises(RequestRefused) as raised:
        rates.take(FEW, "a")
    assert (raised.value.code, raised.value.facts["seconds"]) == ("too_fast", 1)
    rates.take(FEW, "b")
    clock.now_ms = 1000
    rates.take(FEW, "a")
    rates.take(FEW, "a")
    with pytest.raises(RequestRefused):
        rates.take(FEW, "a")
    clock.now_ms = 3_600_000
    for _ in range(3):
        rates.take(FEW, "a")
    with pytest.raises(RequestRefused):
        rates.take(FEW, "a")


def test_what_is_remembered_of_clients_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: addresses cost an attacker little, and must not cost us memory."""
    monkeypatch.setattr(module, "CLIENTS_MAX", 10)
    clock = Hand()
    rates = Rates(clock)
    for number in range(100):
        rates.take(FEW, f"client {number}")
        rates.remember(f"token {number}")
    assert (len(rates._buckets), len(rates._known)) == (10, 10)
    assert rates.knows("token 99")
    clock.now_ms = module.KNOWN_MS
    assert not rates.knows("token 99")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not: an address", "not: an address"),
    ],
)
def test_a_client_is_counted_by_the_network_it_has_to_itself(address: str, name: str) -> None:
    assert name_client(address) == name


async def test_strangers_are_told_when_to_come_again_and_keep_no_caller_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G10: a caller whose token was good a moment ago is not counted with them."""
    monkeypatch.setattr(guard, "STRANGER", Rate("stranger", 0.001, 3))
    app, door = fake()
    assert (await ask(app, "/api/v1/workflows", headers=bearer())).status == 200
    guessed = {"authorization": "Bearer a guess"}
    told = [await ask(app, "/api/v1/workflows", headers=guessed) for _ in range(4)]
    assert [each.status for each in told] == [401, 401, 429, 429]
    assert (told[-1].json["code"], told[-1]["retry-after"]) == ("too_fast", "1000")
    assert (await ask(app, "/api/v1/workflows", headers=bearer())).status == 200
    assert len(door.asked) == 2


async def test_a_caller_who_signed_in_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """G10: a program in a loop is told so; others go on."""
    monkeypatch.setattr(guard, "CALLER", Rate("caller", 0.001, 2))
    app, _ = fake()
    told = [await ask(app, "/api/v1/workflows", headers=bearer()) for _ in range(3)]
    assert [each.status for each in told] == [200, 200, 429]
    assert (await ask(app, "/api/v1/workflows", headers=bearer("read"))).status == 200


async def test_what_needs_no_sign_in_has_a_limit() -> None:
    """G10: webhooks and the form of a link; each by its own count."""
    app, _ = fake()
    entries = {each.path: each.rate for each in app.entries if None in each.needs.values()}
    assert {entries[path].kind for path in entries if path.startswith("/hooks")} == {"sender"}
    told = [(await ask(app, "/sign-in")).status for _ in range(entries["/sign-in"].at_once + 20)]
    assert told.count(429) > 0
    assert (await ask(app, "/hooks/a/b", "POST", body={})).status == 202
