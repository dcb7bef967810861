"""Two hosts on one server that need a token at the same time: it is refreshed once (H12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from duly.connectors.rest import Rest
from duly.errors import AuthNeeded, NotSent
from tests.connectors.oauth_server import OAuthServer
from tests.connectors.test_oauth import OLD, REDIRECT, order, service
from tests.postgres.stand import KEY, database, opened, until
from tests.postgres.world import Place

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


@pytest.mark.parametrize("manner", ["slow", "revoked", "lost"])
async def test_two_hosts_refresh_once(url: str, manner: str) -> None:
    """K9, H12: the other one waits, and is told the same."""
    with OAuthServer() as server:
        first, second = service(server), service(server)
        if manner == "revoked":
            server.revoke()
        server.manners = ["slow" if manner == "revoked" else manner]
        server.has_grace = True
        async with opened(url, first) as one, opened(url, second) as two:
            await one.set_secret("shop", "token", OLD.text)
            vault = two._desk().vault
            assert vault is not None
            await until(lambda: vault.find("shop", "token") == OLD.text, "the secret")
            found = await _at_once(server, first, second)
        kinds = sorted(type(each).__name__ for each in found)
        if manner == "slow":
            assert (kinds, len(server.asked)) == (["dict", "dict"], 1)
        elif manner == "revoked":
            assert (kinds, len(server.asked)) == (["AuthNeeded"] * 2, 1)
        else:  # the first was told that nothing was sent, the second used the old token once more
            assert (kinds, len(server.asked)) == (["NotSent", "dict"], 2)
        assert server.orders == ["k1"] * kinds.count("dict")


async def test_two_hosts_send_one_code_once(url: str) -> None:
    """K9, H12: a provider ends the sign-in of a code that comes twice."""
    with OAuthServer() as server:
        async with opened(url, service(server)) as one, opened(url, service(server)) as two:
            begun = await one.begin_oauth("shop", REDIRECT)
            given = server.agree(begun.address)
            found = await asyncio.gather(
                *(each.finish_oauth("shop", begun.ticket, given) for each in (one, two)),
                return_exceptions=True,
            )
        kinds = sorted(getattr(each, "code", "done") for each in found)
        assert (kinds, len(server.asked)) == (["done", "sign_in_used"], 1)


async def _at_once(server: OAuthServer, first: Rest, second: Rest) -> list[object]:
    """Let both send; the provider answers when both have had time to ask it."""
    calls = [asyncio.create_task(order(each)) for each in (first, second)]
    if server.manners:
        await until(lambda: bool(server.asked), "a refresh")
    await asyncio.sleep(0.3)
    server.go_on.set()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, dict | AuthNeeded | NotSent) for each in found), found
    return found
