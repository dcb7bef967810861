"""The key that all hosts of a server seal with: given to each, and replaced while none works."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

import pytest

from duly.config import Policy
from duly.desk import seal
from duly.errors import ConfigError
from duly.fleet import Fleet
from duly.host import Host
from duly.store import Store
from tests.postgres.stand import KEY, OTHER_KEY, Outside, database, deploy, opened
from tests.postgres.world import Place

THIRD_KEY: Final = base64.b64encode(bytes(range(64, 96))).decode()


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


async def test_a_host_needs_its_key_from_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: no file lies beside a server, and every host must have the same one."""
    monkeypatch.delenv("DULY_KEY")
    with pytest.raises(ConfigError, match="DULY_KEY"):
        await Host(url).open()


async def test_a_host_with_another_key_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: it would take every row of the others for a forged one; a rotation brings both keys.

    While a host is at work no key is replaced: it would go on sealing with the old one.
    """
    async with opened(url):
        monkeypatch.setenv("DULY_KEY", OTHER_KEY)
        for _ in range(2):
            with pytest.raises(ConfigError, match="seal with another key"):
                await Host(url).open()
            monkeypatch.setenv("DULY_KEY_OLD", KEY)
    async with opened(url), opened(url):
        pass
    monkeypatch.delenv("DULY_KEY_OLD")
    async with opened(url):
        pass


@pytest.mark.parametrize("verb", ["reseal_ended", "reseal"])
async def test_beside_a_change_of_the_key_that_goes_on_a_host_needs_both_keys(
    url: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12, L11: with the new key alone it would call off what a person had agreed to.

    A host with both keys seals what is left; the first one finds it done, and goes on.
    """
    outside, asked = Outside(), Policy(approvals={"*": "always"})
    async with opened(url, outside, policy=asked) as host:
        await deploy(host)
        for each in ("one", "two"):
            await host.publish("notes", "note", message_id=each, title=each)
            await host.drain()  # "one" is sent, "two" is only agreed to
            (shown,) = await host.approvals()
            await host.approve(shown.mutation, shown.hash)
    monkeypatch.setenv("DULY_KEY", OTHER_KEY)
    monkeypatch.setenv("DULY_KEY_OLD", KEY)
    plain = getattr(Store, verb)

    async def late(store: Store, *args: Any, **named: Any) -> None:
        monkeypatch.setattr(Store, verb, plain)
        monkeypatch.delenv("DULY_KEY_OLD")
        with pytest.raises(ConfigError, match="sealed with the key in DULY_KEY yet"):
            async with opened(url):
                pass
        monkeypatch.setenv("DULY_KEY_OLD", KEY)
        async with opened(url):
            pass
        await plain.__get__(store, Store)(*args, **named)

    monkeypatch.setattr(Store, verb, late)
    async with opened(url):
        pass
    monkeypatch.delenv("DULY_KEY_OLD")
    async with opened(url, outside, policy=asked) as host:
        await host.drain()
        assert (outside.posts, (await host.verify()).ok) == (["one", "two"], True)


async def test_a_key_is_replaced_again_only_when_everything_is_sealed_anew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12, L11: a host has two keys; with three in use no host could begin again."""
    outside, asked = Outside(), Policy(approvals={"*": "always"})
    async with opened(url, outside, policy=asked) as host:
        await deploy(host)
        await host.publish("notes", "note", message_id="one", title="one")
        await host.drain()
        (shown,) = await host.approvals()
        await host.approve(shown.mutation, shown.hash)
    monkeypatch.setenv("DULY_KEY", OTHER_KEY)
    monkeypatch.setenv("DULY_KEY_OLD", KEY)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "reseal", _die)
        with pytest.raises(OSError, match="killed"):
            await Host(url).open()
    monkeypatch.setenv("DULY_KEY", THIRD_KEY)
    monkeypatch.setenv("DULY_KEY_OLD", OTHER_KEY)
    with pytest.raises(ConfigError, match="sealed with the key in DULY_KEY yet"):
        await Host(url).open()
    with monkeypatch.context() as patch:  # it looked before the change had begun
        patch.setattr(seal, "_check_keys", _pass)
        with pytest.raises(ConfigError, match="seal with another key"):
            await Host(url).open()
    monkeypatch.setenv("DULY_KEY", OTHER_KEY)
    monkeypatch.setenv("DULY_KEY_OLD", KEY)
    async with opened(url, outside, policy=asked) as host:
        await host.drain()
        assert (outside.posts, (await host.verify()).ok) == (["one"], True)


async def _die(*_: Any, **__: Any) -> None:
    raise OSError("killed")


async def _pass(*_: Any) -> None:
    """Refuse nothing."""


async def test_a_host_whose_key_was_replaced_while_it_came_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H12: it agreed to the old key, and was not yet seen by the host that replaced it."""
    plain = Fleet.join

    async def late(self: Fleet, *given: Any) -> None:
        monkeypatch.setattr(Fleet, "join", plain)
        monkeypatch.setenv("DULY_KEY", OTHER_KEY)
        monkeypatch.setenv("DULY_KEY_OLD", KEY)
        async with opened(url):
            pass
        await plain(self, *given)

    monkeypatch.setattr(Fleet, "join", late)
    with pytest.raises(ConfigError, match="seal with another key"):
        await Host(url).open()
    async with opened(url):
        pass
