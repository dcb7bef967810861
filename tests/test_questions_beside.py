"""Every question of a host beside acts, upkeep and the end of the host, in real threads (H1, U6).

Law: a question ends in an answer or in an error with a code, and an act never waits for one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any, Final

import pytest

import duly
from duly.config import Policy
from duly.errors import DulyError
from duly.rules.source import Language
from duly.store.base import Transaction

SOURCE: Final = """
export default Keep.workflow({
  name: "flow",
  topics: { in: { ingress: true }, out: {} },
  consumers: {
    file: Keep.consumer({ subscribe: ["in"], async prepare() { return { reservations: [] }; } }),
  },
});
"""
CLOSED: Final = {"closed", "store_closed"}
SOON_S: Final = 20  # only ends what hangs
QUESTIONS: Final[dict[str, Any]] = {
    "actions": lambda host: host.actions(),
    "attention": lambda host: host.attention(),
    "certificate": lambda host: host.certificate("a", workflow="flow"),
    "events": lambda host: host.events("flow"),
    "find": lambda host: host.find("mail"),
    "inputs": lambda host: host.inputs("flow"),
    "journal": lambda host: host.bus.journal(),
    "outputs": lambda host: host.outputs("flow"),
    "runs": lambda host: host.runs(),
    "sql": lambda host: host.sql("select count(*) from events"),
    "verify": lambda host: host.verify(),
    "why": lambda host: host.why("flow"),
    "workflows": lambda host: host.workflows(),
}


def run(story: Any) -> None:
    """Run a story in an event loop of its own."""
    asyncio.run(asyncio.wait_for(story(), 3 * SOON_S))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'duly.db'}"


async def deployed(url: str) -> duly.Host:
    host = duly.Host(url, policy=Policy(retention_days=30))
    await host.__aenter__()
    await host.deploy(duly.Source(Language.JAVASCRIPT, SOURCE), by="test")
    return host


class Held:
    """A question that holds the reading connection until it may end."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, tx: Transaction) -> None:
        tx.all("list_workflows", after="", limit=1)
        self.has_begun.set()
        assert self.may_end.wait(SOON_S)


def test_no_act_waits_for_a_question(url: str) -> None:
    """U6, H1: while one is being read, a person can publish, pause, grant, deploy and tidy."""

    async def story() -> None:
        host = await deployed(url)
        held = Held()
        asked = asyncio.ensure_future(host._desk().ask(held))
        assert await asyncio.to_thread(held.has_begun.wait, SOON_S)
        acts: dict[str, Any] = {
            "publish": lambda: host.publish("flow", "in", message_id="a", title="A mail"),
            "skip": lambda: host.skip("flow", "in", "a"),
            "pause": lambda: host.pause("flow"),
            "resume": lambda: host.resume("flow"),
            "deploy": lambda: host.deploy(duly.Source(Language.JAVASCRIPT, SOURCE), by="test"),
            "emit": lambda: host.bus.emit("news", {}, source="test"),
            "tidy": lambda: host.tidy(),
            "backup": lambda: host.backup(Path(url.removeprefix("sqlite:///")).with_name("copy")),
            "remove": lambda: host.remove("flow"),
        }
        for name, act in acts.items():
            await asyncio.wait_for(act(), SOON_S)
            assert not asked.done(), name
        held.may_end.set()
        await asked
        assert len(await host.actions()) >= 5
        await host.__aexit__(None, None, None)

    run(story)


def test_every_question_beside_acts_upkeep_and_the_end_of_the_host(url: str) -> None:
    """H1, U6: each ends in an answer, or says with a code why there is none."""
    answered: dict[str, int] = dict.fromkeys(QUESTIONS, 0)
    refused: set[str] = set()

    async def ask(host: duly.Host, name: str) -> None:
        while True:
            try:
                await QUESTIONS[name](host)
                answered[name] += 1
            except DulyError as error:
                refused.add(error.code)
                if error.code in CLOSED:
                    return

    async def story() -> None:
        host = await deployed(url)
        await host.publish("flow", "in", message_id="a", title="A mail")
        asking = [asyncio.ensure_future(ask(host, name)) for name in QUESTIONS]
        made, ends_s = 0, time.monotonic() + 3
        while time.monotonic() < ends_s or not all(answered.values()):
            made += 1
            await host.publish("flow", "in", message_id=f"{made}", title="A mail")
            await host.pause("flow")
            await host.resume("flow")
            if made % 10 == 0:
                await host.tidy()
        await asyncio.wait_for(host.__aexit__(None, None, None), SOON_S)
        await asyncio.wait_for(asyncio.gather(*asking), SOON_S)
        assert made > 10
        async with duly.Host(url) as again:
            count = (await again.sql("select count(*) from events")).rows[0][0]
            assert (count, (await again.verify()).ok) == (made + 1, True)

    run(story)
    assert refused <= CLOSED
    assert all(answered.values())


def test_a_host_that_is_closed_in_a_long_question_ends_it(url: str) -> None:
    """H1: the answer may still come; if not, the error has a code. Closing does not hang."""

    async def story() -> None:
        host = await deployed(url)
        endless = (
            "with recursive n (x) as (select 1 union all select x + 1 from n) select max(x) from n"
        )
        asked = asyncio.ensure_future(host.sql(endless))
        await asyncio.sleep(0.3)
        await asyncio.wait_for(host.__aexit__(None, None, None), SOON_S)
        with pytest.raises(DulyError) as ended:
            await asyncio.wait_for(asked, SOON_S)
        assert ended.value.code in ("closed", "store_closed", "took_too_long")
        with pytest.raises(DulyError) as closed:
            await host.workflows()
        assert closed.value.code == "closed"

    run(story)
