"""A right that a person took back comes back by no form that was shown before, at whatever time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import duly
import duly.web
from duly.api.registry import Scope
from duly.connectors.table import Table
from duly.desk import deploy as deploying
from duly.host import Host
from duly.rules.source import Language
from tests.web.stand import Shifted, Web, ask, serving
from tests.web.test_page import Page, post, signed
from tests.web.test_when_asked import ROWS, form_of, shown_to, table

SOURCE = duly.Source(Language.PYTHON, ROWS)
DAY_MS = 24 * 60 * 60 * 1000
TITLED = ROWS.replace('title="Letter A"', 'title=f"Letter {state}"').replace(
    '"data": pending[0]["payload"]}', '"data": {}, "ui": {"title": f"Row {ids[0]}"}}'
)

READS = ROWS.replace(
    '    await ctx.publish("letter"',
    '    await ctx.rows.find(table="letters", key="a")\n    await ctx.publish("letter"',
)


def allow_of(text: str) -> dict[str, str]:
    """Read the form that allows one capability."""
    ((_, fields),) = [each for each in Page(text).forms() if each[0] == "/act/grant"]
    return fields


async def held(web: Web) -> list[tuple[str, int | None]]:
    """List what the workflow may do, with its limits."""
    return [(each.capability, each.mutations_per_day) for each in await web.host.grants("rows")]


async def test_a_form_that_allows_gives_back_nothing_that_was_revoked_since(tmp_path: Path) -> None:
    """A1, A6: it is refused and shows what stands; pressed there, it is a new decision."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        sent = allow_of((await ask(web.app, "/w/rows", headers=headers)).text)
        unseen = {name: each for name, each in sent.items() if name != "seen"}
        assert (await post(web.app, headers, "/act/grant", unseen)).status == 400
        assert (await post(web.app, headers, "/act/grant", sent)).status == 303
        assert (await post(web.app, headers, "/act/grant", sent)).status == 303  # a second click
        await web.host.revoke("rows", "rows.insert", by="ada")
        reply = await post(web.app, headers, "/act/grant", sent)
        assert (reply.status, await held(web)) == (409, [])
        assert "taken back by ada" in Page(reply.text).text
        assert (await post(web.app, headers, "/act/grant", allow_of(reply.text))).status == 303
        assert await held(web) == [("rows.insert", None)]


async def test_a_form_that_allows_gives_nothing_to_another_workflow_of_its_name(
    tmp_path: Path,
) -> None:
    """A1, W10: a removal took the right as well."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        sent = allow_of((await ask(web.app, "/w/rows", headers=headers)).text)
        await web.host.remove("rows", by="ada")
        await web.host.deploy(SOURCE)
        assert (await post(web.app, headers, "/act/grant", sent)).status == 409
        assert await held(web) == []


async def test_limits_that_another_person_gave_are_not_replaced_unseen(tmp_path: Path) -> None:
    """A1: the page says what stands, by whom, and what was typed is not in it."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        place = "/right?workflow=rows&capability=rows.insert"
        sent = allow_of((await ask(web.app, place, headers=headers)).text)
        sent["mutations_per_day"] = "50"
        where = {"table": "letters"}
        await web.host.grant("rows", "rows.insert", mutations_per_day=2, where=where, by="eve")
        reply = await post(web.app, headers, "/act/grant", sent)
        assert (reply.status, await held(web)) == (409, [("rows.insert", 2)])
        text = Page(reply.text).text
        assert "table = letters" in text
        assert "eve" in text
        anew = allow_of(reply.text)
        assert anew["mutations_per_day"] == "2"
        anew["mutations_per_day"] = "5"
        assert (await post(web.app, headers, "/act/grant", anew)).status == 303
        (told,) = await web.host.grants("rows")
        assert (told.mutations_per_day, told.where) == (5, where)


async def test_two_browsers_that_allow_at_once_keep_what_was_seen(tmp_path: Path) -> None:
    """A1: one of two limits holds, and the other form is told so."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        place = "/right?workflow=rows&capability=rows.insert"
        shown = allow_of((await ask(web.app, place, headers=headers)).text)
        statuses: list[int] = []

        async def press(limit: int) -> None:
            sent = {**shown, "mutations_per_day": str(limit)}
            statuses.append((await post(web.app, headers, "/act/grant", sent)).status)

        async with anyio.create_task_group() as tasks:
            for limit in (3, 7):
                tasks.start_soon(press, limit)
        assert sorted(statuses) == [303, 409]


async def test_what_is_asked_for_a_call_that_waits_is_granted_as_it_was_shown(
    tmp_path: Path,
) -> None:
    """F4, A6: the card carries what stood; a copy of its form gives nothing back."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        await web.host.drain()
        shown = Page((await ask(web.app, "/", headers=headers)).text)
        ((_, sent),) = [each for each in shown.forms() if each[0] == "/act/grant"]
        assert (await post(web.app, headers, "/act/grant", sent)).status == 303
        await web.host.revoke("rows", "rows.insert")
        assert (await post(web.app, headers, "/act/grant", sent)).status == 409
        assert await held(web) == []


@asynccontextmanager
async def earlier(folder: Path) -> AsyncIterator[Web]:
    """Open the same store with a clock that is a day behind."""
    clock = Shifted()
    clock.shift_ms = -DAY_MS
    rows = Table(str(folder / "letters"), name="rows")
    async with Host(f"sqlite:///{folder / 'duly.db'}", env=clock, connectors=[rows]) as host:
        token = (await host.new_token("later", scope=Scope.ADMIN)).token
        yield Web(host, duly.web.app(host), clock, {Scope.ADMIN: token})
    clock.close()


async def test_a_clock_that_was_set_back_hides_no_revocation(tmp_path: Path) -> None:
    """A6: the newest by the clock is an older one; what counts is how often it was taken."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        await web.host.deploy(SOURCE, grant=True)
        await web.host.revoke("rows", "rows.insert", by="ada")
    async with earlier(tmp_path) as web:
        headers = await signed(web)
        sent = {**await shown_to(web, headers), "grant": "true"}
        allow = allow_of((await ask(web.app, "/w/rows", headers=headers)).text)
        await web.host.grant("rows", "rows.insert")
        await web.host.revoke("rows", "rows.insert", by="eve")
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 409
        assert (await post(web.app, headers, "/act/grant", allow)).status == 409
        assert await held(web) == []


async def test_a_right_that_is_taken_back_while_a_deploy_is_examined_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1: it was allowed already when the form was shown, so the form does not speak of it."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE, grant=True)
        sent = {**await shown_to(web, headers, READS), "grant": "true"}
        activate = deploying.activate

        async def late(*args: Any, **more: Any) -> Any:
            await web.host.revoke("rows", "rows.insert", by="eve")
            return await activate(*args, **more)

        monkeypatch.setattr(deploying, "activate", late)
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 303
        assert [each for each, _ in await held(web)] == ["rows.read"]


async def test_a_deploy_allows_nothing_that_was_taken_back_while_it_was_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1: the store compares in the transaction of the deploy, and nothing is deployed."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(duly.Source(Language.PYTHON, TITLED))
        sent = {**await shown_to(web, headers, ROWS), "grant": "true"}
        activate = deploying.activate

        async def late(*args: Any, **more: Any) -> Any:
            await web.host.grant("rows", "rows.insert")
            await web.host.revoke("rows", "rows.insert", by="eve")
            return await activate(*args, **more)

        monkeypatch.setattr(deploying, "activate", late)
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 409
        assert await held(web) == []
        assert (await web.host.workflow("rows")).version == "1.0"


async def test_limits_that_are_given_between_a_deploy_and_its_grant_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1, A3: the form chose when it is asked, and saw no limits."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        sent = {**await shown_to(web, headers), "allow.rows.insert": "true"}
        sent["asks.rows.insert"] = "first:5"
        leave = deploying._leave

        async def late(*args: Any, **more: Any) -> Any:
            left = await leave(*args, **more)
            await web.host.grant("rows", "rows.insert", mutations_per_day=2, by="eve")
            return left

        monkeypatch.setattr(deploying, "_leave", late)
        assert (await post(web.app, headers, "/deploy-script", sent)).status == 409
        assert await held(web) == [("rows.insert", 2)]


async def test_a_form_that_adopts_gives_back_nothing_that_was_revoked_since(tmp_path: Path) -> None:
    """M6, A1: it names what it allows, and what was shown of it."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        headers = await signed(web)
        await web.host.deploy(SOURCE)
        made = await web.host.propose(duly.Source(Language.PYTHON, TITLED), by="token:agent")
        place = f"/proposals/{made.hash}"
        sent = form_of((await ask(web.app, place, headers=headers)).text, "/act/adopt")
        assert "rows.insert" in sent["rights"]
        await web.host.grant("rows", "rows.insert")
        await web.host.revoke("rows", "rows.insert", by="ada")
        for each in (sent, {**sent, "rights": "", "grant": "true"}):
            assert (await post(web.app, headers, "/act/adopt", each)).status in (400, 409)
            assert await held(web) == []
        shown = (await ask(web.app, place, headers=headers)).text
        assert "taken back by ada" in Page(shown).text
        anew = form_of(shown, "/act/adopt")
        assert (await post(web.app, headers, "/act/adopt", anew)).status == 303
        assert await held(web) == [("rows.insert", None)]


async def test_what_is_no_word_for_a_right_is_refused(tmp_path: Path) -> None:
    """A1: by name, before anything is done."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        await web.host.deploy(SOURCE)
        odd: Any
        for odd in (5, ["rows.insert"], {"rows.insert": 5}, {"rows.read": "unused"}):
            with pytest.raises(duly.Invalid):
                await web.host.deploy(SOURCE, rights=odd)
            with pytest.raises(duly.Invalid):
                await web.host.grant("rows", "rows.insert", seen=odd)
        with pytest.raises(duly.RequestRefused):
            await web.host.grant("rows", "rows.insert", seen="x" * 64)
        with pytest.raises(duly.NotFound):
            await web.host.right("none", "rows.insert")
        for odd in ("rows.insrt", "\ud800", None):
            with pytest.raises(duly.NotFound) as refused:
                await web.host.right("rows", odd)
            assert refused.value.code == "no_capability"


async def test_a_text_in_use_is_allowed_all_that_it_lacks_at_once(tmp_path: Path) -> None:
    """A2: a second deploy of the same text gives each capability, and writes each down."""
    async with serving(tmp_path, connectors=[table(tmp_path)]) as web:
        source = duly.Source(Language.PYTHON, READS)
        await web.host.deploy(source)
        made = await web.host.deploy(source, grant=True, again=False)
        assert (made.new, made.missing) == (False, ())
        assert len(await held(web)) == 2
        acts = [each.target for each in await web.host.actions() if each.verb == "grant"]
        assert sorted(map(str, acts)) == ["rows.insert", "rows.read"]
