"""Two hosts on one server have one account of a model: it is exact, also over kill -9 (M2)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.env import Loop
from duly.errors import PermissionDenied
from duly.host import Host
from duly.model_settings import ModelSettings
from duly.rules.model import ModelAnswer, ModelQuestion, Purpose, ask_about, reserve_tokens
from duly.rules.schedule import DAY_MS
from tests.house import ROOT
from tests.models.server import MODEL, Heard, ModelServer, Say
from tests.postgres.stand import KEY, database, opened
from tests.postgres.world import Place

pytestmark = pytest.mark.anyio

CALLS = 6


@pytest.fixture
def url(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("DULY_KEY", KEY)
    with database(place) as made:
        yield made


def question(number: int) -> ModelQuestion:
    return ModelQuestion(Purpose.LLM, "Say.", ask_about(str(number)), workflow_id="w1")


async def ask(host: Host, count: int) -> list[object]:
    """Ask so many questions at once, for one account."""
    models = host._desk().parts.models
    assert models is not None
    asked = (models.ask(question(each)) for each in range(count))
    return await asyncio.gather(*asked, return_exceptions=True)


async def ask_both(one: Host, two: Host, count: int) -> list[object]:
    first, second = await asyncio.gather(ask(one, count), ask(two, count))
    return [*first, *second]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, cwd=ROOT, env=dict(os.environ))


async def live(url: str, model: str) -> None:
    """Ask one question after the other; the child of the test below."""
    models = {"default": ModelSettings(url=model, model=MODEL, calls_per_day=CALLS)}
    async with opened(url, models=models) as host:
        while True:
            await ask(host, 1)


CHILD = (
    "import asyncio, sys; from tests.postgres.test_model_account import live;"
    " asyncio.run(live(*sys.argv[1:]))"
)


async def test_two_hosts_and_one_that_was_killed_share_an_account(url: str, tmp_path: Path) -> None:
    """M2, H7: every question that left is counted, and not one more leaves than the limit."""
    children: list[subprocess.Popen[bytes]] = []

    def die(heard: Heard) -> str:
        children[-1].kill()
        children[-1].wait()
        return ""

    with ModelServer(tmp_path) as server:
        settings = server.settings(calls_per_day=CALLS)
        server.script("first", die, *["later"] * (CALLS - 2))
        async with opened(url, models={"default": settings}) as one:
            words = [sys.executable, "-c", CHILD, url, f"{server.url}/v1"]
            children.append(start(words))
            assert await asyncio.to_thread(children[-1].wait, 60) == -signal.SIGKILL
            async with opened(url, models={"default": settings}) as two:
                found = await ask_both(one, two, 5)
                (used,) = await two.models()
        assert (len(server.heard_all), server.surplus) == (CALLS, 0)
    answered = [each for each in found if isinstance(each, ModelAnswer)]
    refused = [each for each in found if isinstance(each, PermissionDenied)]
    assert (len(answered), len(refused)) == (CALLS - 2, 10 - (CALLS - 2)), found
    assert (used.calls, used.reserved > 0) == (CALLS, True)  # the killed one keeps its tokens


class Tomorrow(Loop):
    """The clock of a machine that is a day ahead."""

    def now_ms(self) -> int:
        """Return the time of tomorrow."""
        return super().now_ms() + DAY_MS


async def test_hosts_whose_clocks_are_a_day_apart_have_one_account(
    url: str, tmp_path: Path
) -> None:
    """M2, H7: the day is the one of the server's clock, or each clock would begin a budget."""
    with ModelServer(tmp_path) as server:
        models = {"default": server.settings(calls_per_day=CALLS)}
        server.script(*["answer"] * 2 * CALLS)
        env = Tomorrow()
        async with opened(url, models=models) as one, opened(url, models=models, env=env) as two:
            found = await ask_both(one, two, CALLS)
        env.close()
    assert len([each for each in found if isinstance(each, ModelAnswer)]) == CALLS
    assert len([each for each in found if isinstance(each, PermissionDenied)]) == CALLS


async def test_tokens_are_reserved_for_both_hosts_together(url: str, tmp_path: Path) -> None:
    """M2: so many questions leave as the tokens of the day are enough for, whatever they take."""
    with ModelServer(tmp_path) as server:
        each_takes = reserve_tokens(question(0), server.settings())
        settings = server.settings(tokens_per_day=4 * each_takes - 1)
        server.script(*[Say("x", tokens=None)] * 3)  # it does not say what it took
        models = {"default": settings}
        async with opened(url, models=models) as one, opened(url, models=models) as two:
            found = await ask_both(one, two, 4)
        assert (len(server.heard_all), server.surplus) == (3, 0)
    refused = [each for each in found if isinstance(each, PermissionDenied)]
    assert {each.code for each in refused} == {"model_tokens_used"}
    assert len(refused) == 5
