"""A service that moved: what was sent to one place is settled there, secrets stay there (K4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import duly
from duly.connectors.http import Http
from duly.desk.origin import check_moves
from duly.errors import ConfigError
from duly.rules.word import MutationStatus
from tests.connectors import shop as double
from tests.connectors.shop import Shop, status
from tests.connectors.test_http_host import PYTHON, make_host
from tests.connectors.test_rest_proof import ORDER
from tests.web.stand import Shifted


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop").mkdir()
    with Shop(tmp_path / "shop") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "other").mkdir()
    with Shop(tmp_path / "other") as made:
        yield made


def host_of(shop: Shop, folder: Path, clock: Shifted) -> duly.Host:
    web = Http(f"{shop.url}/a", operations=ORDER, allow=["127.0.0.1"], name="shop")
    return duly.Host(f"sqlite:///{folder / 'duly.db'}", connectors=(web,), env=clock)


async def test_an_unknown_call_is_neither_asked_about_nor_sent_at_another_place(
    shop: Shop, other: Shop, tmp_path: Path
) -> None:
    """L5, K4: the host says so and does not open; with the old url the call can be settled."""
    clock = Shifted()
    async with host_of(shop, tmp_path, clock) as host:
        await host.prove("shop.create_order", args={"item": "trial", "count": 1})
        proven = len(shop.orders())
        shop.next(double.well, double.lost, *[status(500)] * 3)  # done; no question is answered yet
        await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        await host.drain()
        with pytest.raises(ConfigError, match="1 of its changes at"):  # before a host stops for it
            await check_moves(host._desk().parts.store, {"shop": other.url})
        await check_moves(host._desk().parts.store, host.connectors.origins())
    assert len(shop.orders()) == proven + 1
    with pytest.raises(ConfigError, match="1 of its changes at") as refused:
        await host_of(other, tmp_path, clock).open()
    assert (refused.value.code, refused.value.subject) == ("service_moved", "shop")
    assert other.asks == []
    async with host_of(shop, tmp_path, clock) as host:  # the old url
        for _ in range(12):  # asking has its own times
            await host.drain()
            clock.shift_ms += 600_000
        assert [each.status for each in await host.mutations()] == [MutationStatus.APPLIED]
    async with host_of(other, tmp_path, clock) as host:  # now it may move
        await host.drain()
    clock.close()
    assert [each.method for each in other.asks if each.method == "POST"] == []


async def test_a_secret_is_not_sent_to_a_place_it_was_not_given_for(
    shop: Shop, other: Shop, tmp_path: Path
) -> None:
    """K4, A5: another `url` needs the secret to be given anew, and the drop is written down."""
    (tmp_path / "project").mkdir()
    async with make_host(shop, tmp_path / "project") as host:
        await host.set_secret("shop", "token", "s3cret-of-the-shop")
    async with make_host(shop, tmp_path / "project") as host:
        assert [each.name for each in await host.secrets()] == ["token"]  # the same place
    async with make_host(other, tmp_path / "project") as host:
        await host.deploy(duly.Source("python", PYTHON), by="me", grant=True)
        await host.drain()
        assert await host.secrets() == ()
        assert "drop_secret" in [each.verb for each in await host.actions()]
    sent = [each.headers.get("authorization") for each in other.asks]
    assert "Bearer s3cret-of-the-shop" not in sent
