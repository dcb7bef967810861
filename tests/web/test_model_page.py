"""The page of language models: accounts with their cost, questions with their answers (M2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import duly.web
from duly.desk.model import HOST
from duly.rules.verb import Scope
from duly.words import page as words
from tests.models.server import ModelServer
from tests.models.test_llm import Desk, come_in, sorting
from tests.web.stand import ask, serving
from tests.web.test_page import Page, signed


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    with ModelServer(tmp_path) as made:
        yield made


async def test_the_page_shows_accounts_and_questions(tmp_path: Path, server: ModelServer) -> None:
    """M2: to every reader, with the budget and the cost; what a stranger wrote stays text."""
    assert words.THE_HOST == HOST
    server.script('{"class": "bill"}')
    budget = {"calls_per_day": 5, "price_in": 2, "price_out": 10}
    async with sorting(tmp_path, server, Desk(), budget=budget) as host:
        app, reads = duly.web.app(host), await signed(SimpleNamespace(host=host), Scope.READ)
        empty = Page((await ask(app, "/models", headers=reads)).text)
        assert words.NO_MODEL_ASKED in empty.text
        assert words.NO_QUESTION in empty.text
        await come_in(host, "<b>Please</b> pay")
        page = Page((await ask(app, "/models", headers=reads)).text)
        assert "1 of 5" in page.text
        assert "0.0001" in page.text
        assert words.NO_QUESTION in page.text  # the host itself asked nothing
        reply = await ask(app, "/models?workflow=sorting", headers=reads)
        page = Page(reply.text)
        assert "<b>Please" not in reply.text
        assert "<b>Please</b> pay" in page.text
        assert "bill" in page.text
        wrong = await ask(app, "/models?workflow=nothing", headers=reads)
        assert wrong.status == 404


async def test_a_wish_is_taken_only_where_a_model_can_write(
    tmp_path: Path, server: ModelServer
) -> None:
    """M9: without one the page says how a chat writes it, and leads to the guide."""
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    async with sorting(tmp_path / "with", server, Desk()) as host:
        headers = await signed(SimpleNamespace(host=host))
        page = Page((await ask(duly.web.app(host), "/", headers=headers)).text)
        assert ("/act/write", {}) in page.forms()
        assert words.NO_MODEL not in page.text
    async with serving(tmp_path / "without") as web:
        page = Page((await ask(web.app, "/", headers=await signed(web))).text)
        assert "/act/write" not in [action for action, _ in page.forms()]
        assert words.NO_MODEL in page.text
