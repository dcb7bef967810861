"""Webhooks that are open: listed without a key, closed, replaced in words, refusals said (G12)."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from duly.api.clock import Loop
from duly.api.registry import VERBS
from duly.desk.hook import OpenHook
from duly.errors import Invalid, NotFound, RequestRefused, StoreUnavailable
from duly.faces.web.hook import UnreadPosts
from duly.faces.web.rate import Rate
from duly.rules.source import EXAMPLE, Source
from duly.rules.webhook import HookFault, UnreadFault
from duly.words import hook as hooked
from duly.words import page as words
from duly.words.done import say_curl
from tests.web.stand import HOME, Reply, Web, ask, serving
from tests.web.test_hook import BODY, JSON
from tests.web.test_page import Page, post, signed

FLOW, TOPIC = "invoices", "mail.received"
NAME: Final = f"{FLOW}/{TOPIC}"
OPEN: Final = {"workflow": FLOW, "topic": TOPIC, "sender": "standard"}


async def look(web: Web, headers: dict[str, str], path: str) -> str:
    """Read a page, without what HTML escapes."""
    reply = await ask(web.app, path, headers=headers)
    assert reply.status == 200, reply.text
    return unescape(reply.text)


async def until_refused(web: Web, count: int) -> OpenHook:
    """Wait until so many posts are counted; the limit only ends what hangs."""
    async with asyncio.timeout(60):
        while True:
            (one,) = await web.host.hooks(FLOW)
            if one.refused == count:
                return one
            await asyncio.sleep(0.001)


def form_of(text: str, verb: str) -> list[dict[str, str]]:
    """Read the fields of each form of a page that posts a verb."""
    found: list[dict[str, str]] = []
    is_in = False
    for tag, each in Page(text).elements:
        if tag == "form":
            is_in = each.get("action") == f"/act/{verb}"
            found += [{}] if is_in else []
        elif is_in and tag in ("input", "select") and each.get("name"):
            found[-1][str(each["name"])] = str(each.get("value") or "")
    return found


async def test_setup_lists_what_is_open_and_never_a_key(tmp_path: Path) -> None:
    """G12, A5: each with what its owner said; its secret and its key are in no list."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        assert await web.host.hooks(FLOW) == ()
        terms: dict[str, Any] = {
            "id_from": "field",
            "id_name": "order",
            "title": "{order}: {customer}",
        }
        made = await web.host.new_hook(FLOW, TOPIC, **terms)
        (one,) = await web.host.hooks(FLOW)
        assert (one.topic, one.path, one.secret) == (TOPIC, made.path, NAME)
        assert (one.id_from, one.id_name, one.title) == tuple(terms.values())
        assert (one.is_readable, one.refused, one.why) == (True, 0, None)
        text = await look(web, headers, f"/w/{FLOW}/setup")
        for told in (hooked.IDS_FROM["field"], terms["title"], made.path, hooked.OPEN):
            assert told in text
        told = text + repr(one) + repr(await web.host.secrets())
        for hidden in (made.key, made.secret, str(made.secret).removeprefix("whsec_")):
            assert str(hidden) not in told
        with pytest.raises(NotFound):
            await web.host.hooks("nothing")


async def test_an_open_webhook_is_replaced_only_in_words(tmp_path: Path) -> None:
    """G12: no key stops in silence; the page asks with what its owner said before."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        await post(web.app, headers, "/act/new_hook", {**OPEN, "id_from": "post", "title": "{a}"})
        before = await web.host.hooks(FLOW)
        refused = await post(web.app, headers, "/act/new_hook", OPEN)
        assert (refused.status, "hook_open" in refused.text) == (409, True)
        with pytest.raises(RequestRefused) as raised:
            await web.host.new_hook(FLOW, TOPIC)
        assert raised.value.code == "hook_open"
        assert raised.value.facts["workflow"] == FLOW
        assert await web.host.hooks(FLOW) == before
        text = await look(web, headers, f"/w/{FLOW}/setup")
        assert hooked.NEW_KEY in text
        replacing, other = form_of(text, "new_hook")
        assert "replace" not in other
        assert hooked.OTHER in text
        assert (await post(web.app, headers, "/act/new_hook", replacing)).status == 200
        (one,) = await web.host.hooks(FLOW)
        assert (str(one.id_from), one.title) == ("post", "{a}")


async def test_a_webhook_is_closed_on_the_page(tmp_path: Path) -> None:
    """G12: and the form to open one is there again."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        made = await web.host.new_hook(FLOW, TOPIC)
        text = await look(web, headers, f"/w/{FLOW}/setup")
        (closing,) = form_of(text, "drop_secret")
        assert hooked.CLOSES in text
        assert (await post(web.app, headers, "/act/drop_secret", closing)).status == 303
        path = f"{made.path}/{made.key}"
        assert (await ask(web.app, path, "POST", headers=JSON, body=BODY)).status == 401
        (one,) = await web.host.hooks(FLOW)
        assert (one.since, one.why) == (None, HookFault.NOT_OPEN)
        text = await look(web, headers, f"/w/{FLOW}/setup")
        assert hooked.OTHER not in text
        assert form_of(text, "drop_secret") == []
        assert len(form_of(text, "new_hook")) == 1


async def test_refused_posts_are_said_on_the_page_of_the_workflow(tmp_path: Path) -> None:
    """G12: how many, since when, and why the last one; the sender is told no more than before."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        old = await web.host.new_hook(FLOW, TOPIC)
        new = await web.host.new_hook(FLOW, TOPIC, replace=True)

        async def send(key: str | None, body: bytes = BODY) -> Reply:
            return await ask(web.app, f"{old.path}/{key}", "POST", headers=JSON, body=body)

        assert (await send(new.key)).status == 202
        assert "refused" not in await look(web, headers, f"/w/{FLOW}")
        for _ in range(3):
            assert (await send(old.key)).json["code"] == "hook_key_refused"
        (one,) = await web.host.hooks(FLOW)
        assert (one.refused, one.why, one.is_readable) == (3, HookFault.WRONG_KEY, True)
        assert one.refused_from is not None
        text = await look(web, headers, f"/w/{FLOW}")
        assert hooked.say_refused_posts(3, TOPIC) in text
        assert f"{hooked.REFUSED['wrong_key']}." in text
        for body, why in ((b"{", HookFault.NOT_TAKEN), (b"[]", None)):
            await send(new.key, body)
            (one,) = await web.host.hooks(FLOW)
            assert (one.refused, one.why) == (4, why or HookFault.NOT_TAKEN)
        assert set(hooked.REFUSED) == set(map(str, HookFault))


async def test_posts_of_strangers_fill_no_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G12: names never opened are limited; a webhook that is open is counted all the same."""
    monkeypatch.setattr("duly.desk.refused.NAMES_MAX", 2)
    async with serving(tmp_path) as web:
        await web.deploy()
        await web.host.new_hook(FLOW, TOPIC)
        for name in ("a", "b", "c", FLOW):
            path = f"/hooks/{name}/{TOPIC}/x"
            assert (await ask(web.app, path, "POST", headers=JSON, body=BODY)).status == 401
        (one,) = await web.host.hooks(FLOW)
        assert one.refused == 1


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"id_from": "post", "title": "{name}: {wish}"},
        {"id_from": "field", "id_name": "order", "title": "{order}: {customer}"},
        {"id_from": "field", "id_name": "order.id", "title": "{order.name} of {it's}"},
        {"id_from": "field", "id_name": "a.b", "title": "{a} and {a.b.c}"},
        {"id_from": "header", "id_name": "X-Order", "title": "{order}"},
    ],
)
async def test_the_line_to_try_is_taken(terms: dict[str, Any], tmp_path: Path) -> None:
    """G12: it sends the id where the owner said that it stands, and the fields of the title."""
    async with serving(tmp_path) as web:
        await web.deploy()
        sent = {**OPEN, **terms}
        page = Page((await post(web.app, await signed(web), "/act/new_hook", sent)).text)
        (line,) = [str(each["value"]) for _, each in page.elements if each.get("id") == "try"]
        curl, *asked, mark, body, url = shlex.split(line)
        assert (curl, mark) == ("curl", "-d")
        pairs = [each.split(": ", 1) for each in asked if each != "-H"]
        headers = {name.lower(): value for name, value in pairs}
        path = url.removeprefix(f"http://{HOME}")
        reply = await ask(web.app, path, "POST", headers=headers, body=body.encode())
        assert (reply.status, reply.json["event"]) == (202, "new"), reply.text
        (event,) = await web.host.events(FLOW)
        assert "{" not in event.title
        assert (event.message_id == "test-1") == (terms.get("id_from") in ("field", "header"))
        if terms.get("title"):
            assert not event.title.startswith(("title:", "Webhook")), event.title
        assert json.loads(body)


def test_a_line_to_try_is_no_second_command() -> None:
    """G12: what an owner wrote into a pattern stays one word of the shell."""
    made = {"path": "/hooks/a/b", "key": "k", "id_from": "body", "id_name": ""}
    line = say_curl({**made, "title": "{x'; rm -r $(y) `z`}"})
    assert [*json.loads(shlex.split(line)[4])] == ["x'; rm -r $(y) `z`"]


async def test_a_page_without_input_says_that_a_webhook_brings_it(tmp_path: Path) -> None:
    """U1: what is posted comes by a webhook; only a producer looks."""
    text = EXAMPLE["text"]
    async with serving(tmp_path) as web:
        await web.host.deploy(Source("python", text), grant=True)
        headers = await signed(web)
        before = await look(web, headers, f"/w/{FLOW}")
        assert hooked.POSTED_TO in before
        assert f'href="/w/{FLOW}/setup#webhook"' in before
        assert words.NOT_FOUND_YET not in before
        await web.host.new_hook(FLOW, TOPIC)
        after = await look(web, headers, f"/w/{FLOW}")
        assert hooked.POSTS_AWAITED in after
        assert hooked.POSTED_TO not in after


async def test_posts_that_are_refused_unread_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G12: too long, of another type, no text; the sender does not wait for it."""
    monkeypatch.setattr("duly.faces.web.hook.HOOK_BYTES_MAX", 100)
    monkeypatch.setattr("duly.faces.web.hook.PAUSE_S", 0.001)
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        hook = await web.host.new_hook(FLOW, TOPIC)
        path = f"{hook.path}/{hook.key}"
        refused = (
            (JSON, b" " * 101, 413, HookFault.TOO_LONG),
            ({"content-type": "text/plain"}, BODY, 415, HookFault.WRONG_TYPE),
            (JSON, b"\xff", 400, HookFault.UNREADABLE),
        )
        for number, (given, body, status, why) in enumerate(refused, 1):
            for _ in range(2):
                reply = await ask(web.app, path, "POST", headers=given, body=body)
                assert reply.status == status
            one = await until_refused(web, 2 * number)
            assert one.why is why
            text = await look(web, headers, f"/w/{FLOW}")
            assert f"{hooked.REFUSED[str(why)]}." in text
        assert await web.host.events(FLOW) == ()


async def test_posts_that_come_too_fast_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G12, G10: the owner of the webhook sees it; the sender is told when to come again."""
    few = Rate("few", 0.001, 1)
    monkeypatch.setattr("duly.faces.web.hook.SENDER", few)
    monkeypatch.setattr("duly.faces.web.hook.PAUSE_S", 0.001)
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        hook = await web.host.new_hook(FLOW, TOPIC)
        replies = [
            await ask(web.app, f"{hook.path}/{hook.key}", "POST", headers=JSON, body=BODY)
            for _ in range(3)
        ]
        assert [each.status for each in replies] == [202, 429, 429]
        assert (await until_refused(web, 2)).why is HookFault.TOO_FAST
        assert hooked.REFUSED["too_fast"] in await look(web, headers, f"/w/{FLOW}")


async def test_of_posts_that_are_refused_unread_the_host_is_told_in_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G12: however many come, it is told a few times; names of strangers fill no memory."""
    told: list[dict[str, Any]] = []
    pauses: list[int] = []

    class Told:
        async def call(self, verb: str, /, **given: Any) -> None:
            told.append(given)

    async def pause(self: Loop, s: float) -> None:
        pauses.append(len(told))

    monkeypatch.setattr(Loop, "sleep", pause)
    monkeypatch.setattr("duly.faces.web.hook.SUMS_MAX", 30)
    unread = UnreadPosts()
    error = RequestRefused(code="body_too_long")
    session: Any = Told()
    for name in ["known"] * 5000 + [f"stranger {number}" for number in range(2000)]:
        params = {"workflow": name, "topic": TOPIC}
        request: Any = SimpleNamespace(path_params=params, headers={})
        unread.note(request, error, session)
    assert unread.telling is not None
    await unread.telling
    assert (told[0]["workflow"], told[0]["posts"], told[0]["unread"]) == ("known", 5000, "too_long")
    assert (len(told), pauses, unread.sums) == (30, [20, 30], {})


async def test_only_what_a_page_can_see_of_a_post_is_a_reason_not_to_read_it(
    tmp_path: Path,
) -> None:
    """G12: the other reasons are found by the host; each of these has its sentence."""
    (unread,) = (each for each in VERBS["receive"].parameters if each.name == "unread")
    assert unread.words == (*map(str, UnreadFault),)
    assert set(UnreadFault) < set(map(str, HookFault))
    async with serving(tmp_path) as web:
        await web.deploy()
        for given in set(HookFault) - set(map(HookFault, UnreadFault)):
            with pytest.raises(Invalid) as refused:
                await web.host.receive(FLOW, TOPIC, "", unread=str(given))
            assert refused.value.code == "not_one_of"
            assert refused.value.facts["known"] == [*map(str, UnreadFault)]
        for why in UnreadFault:
            assert await web.host.receive(FLOW, TOPIC, "", unread=why) is None


def _unread(told: Any) -> tuple[UnreadPosts, Any]:
    """Make posts to one webhook that are refused unread, each by the key in its address."""
    unread = UnreadPosts()
    session: Any = SimpleNamespace(call=told)

    def come(workflow: str, key: str | None = None) -> None:
        params = {"workflow": workflow, "topic": TOPIC} | ({"key": key} if key else {})
        request: Any = SimpleNamespace(path_params=params, headers={})
        unread.note(request, RequestRefused(code="body_too_long"), session)

    return unread, come


async def test_keys_that_a_sender_made_up_are_one_sum_and_leave_room_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G12: the host asks only whether there is a key, and the key itself is told to no one."""
    monkeypatch.setattr("duly.faces.web.hook.SUMS_MAX", 3)
    told: list[dict[str, Any]] = []

    async def call(verb: str, /, **given: Any) -> None:
        told.append(given)

    unread, come = _unread(call)
    for number in range(50):
        come("one", f"made-up-{number}")
    come("one")
    come("other", "its-key")
    assert unread.telling is not None
    await unread.telling
    found = [(each["workflow"], each["key"] is not None, each["posts"]) for each in told]
    assert found == [("one", True, 50), ("one", False, 1), ("other", True, 1)]
    assert not any("made-up" in str(each) or "its-key" in str(each) for each in told)


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable(code="host_gone", facts={"process": 1}), ConnectionError("gone")],
    ids=["the host is gone", "the line broke"],
)
async def test_a_sum_that_the_host_did_not_hear_is_told_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """G12: what came meanwhile is added to it; only what the host refuses for good is dropped."""
    monkeypatch.setattr("duly.faces.web.hook.PAUSE_S", 0.0)
    monkeypatch.setattr("duly.faces.web.hook.POSTS_MAX", 4)
    told: list[tuple[str, int]] = []

    async def call(verb: str, /, **given: Any) -> None:
        told.append((given["workflow"], given["posts"]))
        if given["workflow"] == "refused":
            raise Invalid(code="out_of_range", path="posts")
        if len(told) == 2:
            come("one")
            raise error

    unread, come = _unread(call)
    for name in ("refused", "one", "one", "one", "one"):
        come(name)
    assert unread.telling is not None
    await unread.telling
    assert told == [("refused", 1), ("one", 4), ("one", 4), ("one", 1)]
    assert unread.sums == {}


async def test_a_form_for_a_new_key_that_is_sent_again_makes_no_other(tmp_path: Path) -> None:
    """G12: the key that was shown goes on, and a webhook that was closed is not opened."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        await web.host.new_hook(FLOW, TOPIC)
        replacing, _ = form_of(await look(web, headers, f"/w/{FLOW}/setup"), "new_hook")
        unsaid = {name: each for name, each in replacing.items() if name != "over"}
        assert (await post(web.app, headers, "/act/new_hook", unsaid)).status == 400
        shown = await post(web.app, headers, "/act/new_hook", replacing)
        (at,) = set(re.findall(r"/hooks/invoices/mail\.received/[\w-]+", shown.text))
        again = await post(web.app, headers, "/act/new_hook", replacing)
        assert (again.status, "hook_changed" in again.text) == (409, True)
        assert (await ask(web.app, at, "POST", headers=JSON, body=BODY)).status == 202
        await web.host.drop_secret("hooks", NAME)
        assert (await post(web.app, headers, "/act/new_hook", replacing)).status == 409
        assert not any(each.since for each in await web.host.hooks(FLOW))


async def test_of_two_that_open_a_webhook_at_once_one_is_shown_its_key(tmp_path: Path) -> None:
    """G12: else the first key that was shown would be dead."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)

        async def press(given: dict[str, str]) -> Reply:
            return await post(web.app, headers, "/act/new_hook", given)

        for given in (OPEN, {}):
            if not given:
                given, _ = form_of(await look(web, headers, f"/w/{FLOW}/setup"), "new_hook")
            replies = await asyncio.gather(*(press(given) for _ in range(3)))
            assert sorted(each.status for each in replies) == [200, 409, 409]
            (shown,) = (each.text for each in replies if each.status == 200)
            (at,) = set(re.findall(r"/hooks/invoices/mail\.received/[\w-]+", shown))
            assert (await ask(web.app, at, "POST", headers=JSON, body=BODY)).status == 202
