"""What the owner of a webhook has said: which posts are one event, how a title is written (G12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

import duly.web
from duly.desk.hook import Hook
from duly.errors import Invalid
from duly.host import Host
from duly.rules.event import Republish
from duly.rules.redaction import redact_text
from duly.words import hook as hooked
from duly.words.done import RECEIVED
from tests.web.stand import HOME, Reply, Web, ask, serving
from tests.web.test_hook import JSON
from tests.web.test_page import Page, post, signed


@dataclass
class Form:
    """What posts to the address with the key, and signs nothing."""

    web: Web
    hook: Hook

    async def send(self, body: bytes, **headers: str) -> Reply:
        made = {**JSON, **{name.replace("_", "-"): each for name, each in headers.items()}}
        path = f"{self.hook.path}/{self.hook.key}"
        return await ask(self.web.app, path, "POST", headers=made, body=body)


@asynccontextmanager
async def said(folder: Path, **terms: Any) -> AsyncIterator[Form]:
    """Open a webhook about which its owner has said something."""
    async with serving(folder) as web:
        await web.deploy()
        yield Form(web, await web.host.new_hook("invoices", "mail.received", **terms))


WISH: Final = b'{"name": "Ada", "wish": "a bike", "id": 7, "order": {"id": "o-1"}}'
OTHER: Final = b'{"name": "Ada", "wish": "a boat", "id": 7, "order": {"id": "o-2"}}'


@pytest.mark.parametrize(
    ("terms", "posts", "count"),
    [
        ({}, [(WISH, {}), (WISH, {}), (OTHER, {})], 2),
        ({"id_from": "post"}, [(WISH, {}), (WISH, {}), (OTHER, {})], 3),
        ({"id_from": "post"}, [(WISH, {"webhook_id": "a"}), (WISH, {"webhook_id": "a"})], 1),
        ({"id_from": "header", "id_name": "X-Post"}, [(WISH, {"x_post": e}) for e in "aab"], 2),
        ({"id_from": "field", "id_name": "order.id"}, [(WISH, {}), (WISH, {}), (OTHER, {})], 2),
        ({"id_from": "field", "id_name": "id"}, [(WISH, {}), (WISH, {})], 1),
    ],
)
async def test_the_owner_says_which_posts_are_the_same_event(
    terms: dict[str, str], posts: list[tuple[bytes, dict[str, str]]], count: int, tmp_path: Path
) -> None:
    """G12, T5: nothing is lost in silence, nothing is there twice."""
    async with said(tmp_path, **terms) as each:
        for body, headers in posts:
            assert (await each.send(body, **headers)).status == 202
        assert len(await each.web.host.events("invoices")) == count


async def test_a_content_that_is_not_taken_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G12, T5: an id that came before, in another field, is no new event; no sender reads that."""
    async with said(tmp_path, id_from="field", id_name="id") as each:
        assert (await each.send(WISH)).status == 202
        await each.web.host.skip("invoices", "mail.received", "7")
        assert "not taken" not in caplog.text
        assert "dropped" in (await each.send(OTHER)).text
        assert "not taken: another content with the id 7 is done already" in caplog.text


@pytest.mark.parametrize(
    ("terms", "bodies"),
    [
        ({"id_from": "header", "id_name": "x-post"}, [WISH]),
        ({"id_from": "field", "id_name": "number"}, [WISH, b"[]", b'{"number": null}']),
        ({"id_from": "field", "id_name": "number"}, [b'{"number": true}', b'{"number": ""}']),
        ({"id_from": "field", "id_name": "number"}, [b'{"number": 1.5}', b'{"number": [1]}']),
    ],
)
async def test_a_post_without_its_id_is_refused_and_said(
    terms: dict[str, Any], bodies: list[bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G12: as the same or as a new one it would be lost or twice; the log of the host has it."""
    async with said(tmp_path, **terms) as each:
        for body in bodies:
            reply = await each.send(body)
            assert (reply.status, reply.json["code"]) == (400, "hook_id_missing")
            assert terms["id_name"] in reply.json["detail"]
        assert await each.web.host.events("invoices") == ()
        assert "was not taken" in caplog.text


async def test_a_sender_is_told_in_words_what_became_of_its_post(tmp_path: Path) -> None:
    """T5, G12: a second post that is no event of its own says so."""
    async with said(tmp_path) as each:
        assert (await each.send(WISH)).json == {"event": "new", "told": "Taken."}
        told = (await each.send(WISH)).json
        assert (told["event"], "not a new one" in told["told"]) == ("same", True)
        assert set(RECEIVED) == set(map(str, Republish))


@pytest.mark.parametrize(
    ("terms", "path"),
    [
        ({"id_from": "time"}, "id_from"),
        ({"id_from": "header"}, "id_name"),
        ({"id_from": "header", "id_name": "cookie"}, "id_name"),
        ({"id_from": "header", "id_name": "x-a b"}, "id_name"),
        ({"id_from": "field", "id_name": "x" * 81}, "id_name"),
        ({"id_from": "post", "sender": "github"}, "id_from"),
        ({"title": "Always the same"}, "title"),
        ({"title": "{a}" + "x" * 198}, "title"),
        ({"title": "{a}" * 11}, "title"),
        ({"title": "{a}\n"}, "title"),
    ],
)
async def test_terms_that_cannot_be_meant_are_refused(
    terms: dict[str, Any], path: str, tmp_path: Path
) -> None:
    """G12: before a secret is made; each with the field that is wrong."""
    async with serving(tmp_path) as web:
        await web.deploy()
        with pytest.raises(Invalid) as raised:
            await web.host.new_hook("invoices", "mail.received", **terms)
        assert raised.value.path == path
        assert await web.host.secrets() == ()


async def test_what_the_owner_said_outlives_the_host_and_only_the_secret_is_one(
    tmp_path: Path,
) -> None:
    """A5, G12: a title that was chosen is no secret; the secret is taken out of what is shown."""
    terms: dict[str, Any] = {"id_from": "post", "title": "{name} wishes {wish}"}
    async with serving(tmp_path) as web:
        await web.deploy()
        hook = await web.host.new_hook("invoices", "mail.received", **terms)
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        secrets = host.connectors.secrets()
        assert str(hook.secret) not in redact_text(f"It is {hook.secret}.", secrets)
        assert redact_text(terms["title"], secrets) == terms["title"]
        app = duly.web.app(host)
        for _ in range(2):
            path = f"{hook.path}/{hook.key}"
            assert (await ask(app, path, "POST", headers=JSON, body=WISH)).status == 202
        titles = [each.title for each in await host.events("invoices")]
        assert titles == ["Ada wishes a bike"] * 2


async def test_setup_asks_what_posts_there(tmp_path: Path) -> None:
    """G14: by its form; each choice is said in words."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        text = unescape((await ask(web.app, "/w/invoices/setup", headers=headers)).text)
        for told in (*hooked.SENDERS.values(), *hooked.IDS_FROM.values(), hooked.SAME):
            assert told in text
        sent = {"workflow": "invoices", "topic": "mail.received", "sender": "standard"}
        sent |= {"id_from": "field", "id_name": "order.id", "title": "{wish}", "secret": ""}
        made = Page((await post(web.app, headers, "/act/new_hook", sent)).text)
        (where,) = [each["value"] for _, each in made.elements if each.get("id") == "address"]
        path = str(where).removeprefix(f"http://{HOME}")
        for _ in range(2):
            assert (await ask(web.app, path, "POST", headers=JSON, body=WISH)).status == 202
        (event,) = await web.host.events("invoices")
        assert (event.message_id, event.title) == ("o-1", "a bike")
