"""OAuth: signing in, tokens that are refreshed once, and no change that is sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.auth import Auth
from duly.connectors.oauth import Client, Provider
from duly.connectors.rest import KeyPlace, Rest
from duly.connectors.transport import Transport
from duly.errors import (
    AuthNeeded,
    ConfigError,
    NotSent,
    PermissionDenied,
    Refused,
    UnknownOutcome,
)
from duly.host import Host
from duly.rules.oauth import RefreshKind, TokenGrant, claim
from tests.connectors.oauth_server import CLIENT, SCOPES, OAuthServer
from tests.connectors.test_rest import call

pytestmark = pytest.mark.anyio

REDIRECT = "http://127.0.0.1:4711/back"
FOR: dict[str, Any] = {"redirect": REDIRECT, "state": "state-1", "verifier": "v" * 43, "now": 1_000}
OLD = TokenGrant("access-1", "refresh-1", expires_at=1_000, renew_at=500, scopes=("orders.read",))
KEY = KeyPlace("header", "Idempotency-Key")


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as made:
        yield made


def provider(server: OAuthServer, **more: Any) -> Provider:
    made = {
        "authorize_url": f"{server.url}/authorize",
        "token_url": f"{server.url}/token",
        "device_url": f"{server.url}/device",
        "client_id": CLIENT,
        "scopes": tuple(SCOPES.split()),
        "allow": ("127.0.0.1",),
    }
    return Provider(**{**made, **more})


def client(server: OAuthServer, **more: Any) -> Client:
    return Client(provider(server, **more), Transport(allow=["127.0.0.1"]))


def service(server: OAuthServer, **more: Any) -> Rest:
    auth = Auth("oauth", provider=provider(server, **more))
    made = Rest(server.url, auth=auth, allow=["127.0.0.1"])
    made.name = "shop"
    return made


@asynccontextmanager
async def signed_in(
    server: OAuthServer, url: str, grant: TokenGrant = OLD, **more: Any
) -> AsyncIterator[tuple[Host, Rest]]:
    rest = service(server, **more)
    async with Host(url, connectors=[rest]) as host:
        await host.set_secret("shop", "token", grant.text)
        yield host, rest


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duly.db"


async def order(rest: Rest) -> Any:
    return await rest.change(call(), "POST", "/orders", body={"item": "tea"}, key=KEY)


# -- Signing in -----------------------------------------------------------------------------------


def begin(server: OAuthServer) -> str:
    return provider(server).authorize(REDIRECT, state="state-1", verifier="v" * 43)


async def test_a_code_is_exchanged_once_with_its_verifier(server: OAuthServer) -> None:
    """K9: PKCE and the exact redirect; narrower scopes are said."""
    server.scope = "orders.read"
    given = server.agree(begin(server))
    grant, missing = await client(server).finish(given, **FOR)
    assert (grant.access_token, grant.refresh_token) == ("access-2", "refresh-2")
    assert (grant.expires_at, missing) == (1_000 + 3_600_000, ("orders.write",))
    with pytest.raises(Refused, match="no longer accepts"):
        await client(server).finish(given, **FOR)
    other = server.agree(begin(server))
    with pytest.raises(Refused, match="no longer accepts"):
        await client(server).finish(other, **{**FOR, "verifier": "w" * 43})


async def test_a_redirect_of_another_sign_in_is_not_read(server: OAuthServer) -> None:
    """K9: neither its state nor its place may differ; then the provider is not asked."""
    wrong = server.agree(begin(server), state="state-2")
    with pytest.raises(Refused, match="another sign-in"):
        await client(server).finish(wrong, **FOR)
    right = server.agree(begin(server))
    with pytest.raises(Refused, match="not the one"):
        await client(server).finish(right.replace("/back", "/back/"), **FOR)
    said = f"{REDIRECT}?error=access_denied&state=state-1"
    with pytest.raises(Refused, match="denied"):
        await client(server).finish(said, **FOR)
    assert server.asked == []


@pytest.mark.parametrize("manner", ["mac", "html", "500", "redirect"])
async def test_what_is_no_bearer_token_is_no_sign_in(server: OAuthServer, manner: str) -> None:
    """K9, K4: and a redirect of the token endpoint is not followed."""
    server.manners = [manner]
    with pytest.raises(Refused, match="no sign-in"):
        await client(server).finish(server.agree(begin(server)), **FOR)
    assert len(server.asked) == 1


async def test_the_device_flow_asks_as_slowly_as_it_is_told(server: OAuthServer) -> None:
    """K9: `slow_down` adds five seconds, a lost answer doubles, and an end is an end."""
    server.device = ["authorization_pending", "slow_down", "well"]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    asking = client(server)
    device = await asking.begin_device(now=1_000)
    assert (device.user_code, device.ends_at) == ("AB-CD", 61_000)
    grant, missing = await asking.finish_device(device, now=lambda: 2_000, sleep=sleep)
    assert (grant.access_token, missing, slept) == ("access-2", (), [1, 1, 6])
    server.device = ["expired_token"]
    server.manners = ["cut"]
    with pytest.raises(Refused, match="time to sign in is over"):
        await asking.finish_device(device, now=lambda: 2_000, sleep=sleep)
    assert slept[3:] == [1, 2]
    with pytest.raises(Refused, match="time to sign in is over"):
        await asking.finish_device(device, now=lambda: 61_000, sleep=sleep)


def test_a_provider_is_asked_with_tls_and_at_one_origin(server: OAuthServer) -> None:
    """K4: the client's secret goes to one origin; its own fields are ours."""
    with pytest.raises(ConfigError, match="no TLS"):
        provider(server, allow=())
    with pytest.raises(ConfigError, match="another origin"):
        provider(server, device_url="https://elsewhere.example/device")
    with pytest.raises(ConfigError, match="state"):
        provider(server, more={"state": "mine"})
    with pytest.raises(ConfigError, match="needs a provider"):
        Auth("oauth")


# -- Refreshing -----------------------------------------------------------------------------------


async def test_calls_of_one_host_share_a_refresh(server: OAuthServer, url: str) -> None:
    """K9, H12: the new tokens are sealed in the store, and what was proven stays proven."""
    async with signed_in(server, url) as (host, rest):
        times = await host._desk().parts.store.find_proof("none")
        await asyncio.gather(*(rest.fetch("/orders") for _ in range(8)))
        await order(rest)
        assert len(server.asked) == 1
        assert server.calls[0] == "GET access-2"
        assert server.orders == ["k1"]
        assert await host._desk().parts.store.find_proof("none") == times
        assert {"access-2", "refresh-2"} <= host._outside.secrets().secrets
    again = service(server)
    async with Host(url, connectors=[again]):
        await again.fetch("/orders")
    assert len(server.asked) == 1


async def test_a_refused_token_is_renewed_once(server: OAuthServer, url: str) -> None:
    """K9, L4: a 401 says that nothing was done, so the change is sent with another token."""
    async with signed_in(server, url, TokenGrant("access-0", "refresh-1")) as (_, rest):
        await order(rest)
        assert server.calls == ["POST access-0", "POST access-2"]
        assert server.orders == ["k1"]
        server.valid.clear()
        server.manners = ["503"]
        with pytest.raises(NotSent, match="busy"):
            await order(rest)
        assert server.orders == ["k1"]


async def test_an_unknown_change_is_not_sent_again(server: OAuthServer, url: str) -> None:
    """L4: whatever the token looks like."""
    server.valid = {"access-1"}
    async with signed_in(server, url, TokenGrant("access-1", "refresh-1")) as (_, rest):
        server.manners = ["lost order"]
        with pytest.raises(UnknownOutcome):
            await order(rest)
    assert (server.orders, server.asked, len(server.calls)) == (["k1"], [], 1)


async def test_a_revoked_sign_in_is_asked_about_once(server: OAuthServer, url: str) -> None:
    """K9, F4: `invalid_grant` is AuthNeeded for every call; signing in again ends it."""
    server.revoke()
    async with signed_in(server, url) as (host, rest):
        for _ in range(3):
            with pytest.raises(AuthNeeded) as raised:
                await order(rest)
        assert (raised.value.connect, raised.value.secret) == ("shop", "token")
        assert (len(server.asked), server.calls) == (1, [])
        server.valid = {"access-9"}
        await host.set_secret("shop", "token", TokenGrant("access-9").text)
        await order(rest)
    assert server.orders == ["k1"]


@pytest.mark.parametrize("manner", ["lost", "cut", "html", "500"])
@pytest.mark.parametrize("kind", list(RefreshKind))
async def test_after_a_lost_answer_the_old_token_is_used_as_allowed(
    server: OAuthServer, url: str, kind: RefreshKind, manner: str
) -> None:
    """K9, H12: once more where the provider allows it, else a person is asked once."""
    server.has_grace = kind is RefreshKind.ROTATED and manner == "lost"
    server.is_rotating = kind is not RefreshKind.KEPT
    server.manners = [manner]
    async with signed_in(server, url, refresh=kind) as (_, rest):
        with pytest.raises(NotSent):
            await order(rest)
        if kind is RefreshKind.SPENT:
            for _ in range(2):
                with pytest.raises(AuthNeeded, match="was lost"):
                    await order(rest)
            assert (len(server.asked), server.calls) == (1, [])
            return
        await order(rest)
    assert (len(server.asked), server.orders) == (2, ["k1"])


async def test_a_claim_of_a_host_that_died_counts_as_lost(server: OAuthServer, url: str) -> None:
    """K9: its refresh may have been sent; the third time a person is asked."""
    dead = claim(claim(OLD, 1_000), 2_000)
    async with signed_in(server, url, dead) as (_, rest):
        with pytest.raises(AuthNeeded, match="was lost"):
            await order(rest)
    assert server.asked == []


async def test_a_call_that_ends_does_not_end_the_refresh(server: OAuthServer, url: str) -> None:
    """K9: its answer is kept for the next call."""
    server.manners = ["slow"]
    async with signed_in(server, url) as (_, rest):
        asking = asyncio.create_task(order(rest))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        server.go_on.set()
        await order(rest)
    assert (len(server.asked), server.orders) == (1, ["k1"])


async def test_a_sign_in_during_a_refresh_is_kept(server: OAuthServer, url: str) -> None:
    """K9: what a person has just set is newer than any answer."""
    server.manners = ["slow"]
    async with signed_in(server, url) as (host, rest):
        asking = asyncio.create_task(rest.fetch("/orders"))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        await host.set_secret("shop", "token", TokenGrant("access-9").text)
        server.go_on.set()
        with pytest.raises(AuthNeeded):  # the double knows no access-9
            await asking
    assert server.calls == ["GET access-9"]


async def test_a_sign_in_during_a_refresh_that_is_refused_is_used(
    server: OAuthServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: the refused token is that of the sign-in before; no call waits for a second one."""
    server.revoke()
    monkeypatch.setattr(server, "revoke", lambda: None)  # the new sign-in is another account
    server.manners = ["slow"]
    async with signed_in(server, url) as (host, rest):
        asking = asyncio.create_task(order(rest))
        assert await asyncio.to_thread(server.arrived.wait, 30)
        server.valid = {"access-9"}
        await host.set_secret("shop", "token", TokenGrant("access-9").text)
        server.go_on.set()
        await asking
    assert (server.calls, server.orders) == (["POST access-9"], ["k1"])


async def test_a_refresh_that_never_left_costs_no_sign_in(
    server: OAuthServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9, K3: the name of the provider led to a private address for a while, as in a hotel."""
    async with signed_in(server, url, refresh=RefreshKind.SPENT) as (_, rest):
        kept = provider(server, refresh=RefreshKind.SPENT)
        far = Client(kept, Transport())
        near = rest._sign_in._client
        monkeypatch.setattr(rest._sign_in, "_client", lambda: far)
        for _ in range(2):
            with pytest.raises(PermissionDenied):
                await order(rest)
        monkeypatch.setattr(rest._sign_in, "_client", near)
        rest._sign_in._tokens = None  # it holds the client of before
        await order(rest)
    assert (len(server.asked), server.orders) == (1, ["k1"])


async def test_a_secret_is_swapped_only_if_it_is_the_one_that_was_read(
    server: OAuthServer, url: str
) -> None:
    """H12: of two hosts that read the same, one claims the refresh."""
    async with signed_in(server, url) as (host, rest):
        keeper = rest._keeper
        kept = await keeper.read_kept("shop", "token")
        mine, other = claim(OLD, 1_000).text, claim(OLD, 2_000).text
        assert await keeper.swap("shop", "token", kept, mine)
        assert not await keeper.swap("shop", "token", kept, other)
        assert (await keeper.read_kept("shop", "token")).value == mine
        assert rest.secret("token") == mine
        await host.drop_secret("shop", "token")
        assert not await keeper.swap("shop", "token", kept, other)
        with pytest.raises(AuthNeeded, match="no secret"):
            await order(rest)


@pytest.mark.parametrize("value", ["no json", '{"access_token": 1}', '{"access_token":"a","b":1}'])
async def test_a_secret_that_is_no_sign_in_asks_a_person(
    server: OAuthServer, url: str, value: str
) -> None:
    """F4: it names the connection; nothing is sent."""
    async with signed_in(server, url) as (host, rest):
        await host.set_secret("shop", "token", value)
        with pytest.raises(AuthNeeded, match="no sign-in"):
            await order(rest)
    assert (server.asked, server.calls) == ([], [])
