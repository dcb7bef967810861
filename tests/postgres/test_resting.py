"""A host that does not serve keeps nothing from the hosts that do (H7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.errors import RequestRefused
from tests.postgres.stand import KEY, Outside, database, deploy, opened, until
from tests.postgres.test_gone import Lost, ask
from tests.postgres.world import Place


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


async def test_what_a_host_that_has_drained_held_goes_on_at_one_that_serves(url: str) -> None:
    """H7: the first one is open and takes acts; it runs nothing any more."""
    outside = Outside()
    async with opened(url, outside) as one:
        await deploy(one)
        await one.publish("notes", "note", title="a", message_id="a")
        await one.drain()
        async with opened(url, outside) as two, two.running():
            await one.publish("notes", "note", title="b", message_id="b")
            await until(lambda: outside.posts == ["a", "b"], "the second note, at the other host")


async def test_an_answer_given_at_a_host_that_does_not_serve_is_acted_on_elsewhere(
    url: str,
) -> None:
    """H7, L6: it keeps the claim from which the time counts, and gives it back with the answer."""
    outside = Lost(is_cut=True)
    outside.local = False
    async with opened(url, outside) as gone:
        await deploy(gone)
        await gone.publish("notes", "note", title="a", message_id="a")
        await gone.drain()
    ask(url, "update mutation set status = 'indeterminate', due_at = null")
    outside.is_cut = False
    outside.posts.clear()
    async with opened(url, outside) as one:
        (change,) = await one.mutations("notes")
        with pytest.raises(RequestRefused) as raised:
            await one.settle(change.id, "did_not_happen")
        assert raised.value.code == "too_early"
        async with opened(url, outside) as two, two.running():

            async def is_taken() -> bool:
                try:
                    await one.settle(change.id, "did_not_happen")
                except RequestRefused:
                    return False
                return True

            await until(is_taken, "the answer to be taken, at the same host")
            await until(lambda: outside.posts == ["a"], "the note, sent by the host that serves")
