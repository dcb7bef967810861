"""Attacks on the page and the HTTP interface: who is let in, for how long, and what it costs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

import duly.web
from duly.api.door import Inherited
from duly.api.registry import Scope
from duly.faces.web.app import make_app
from duly.faces.web.guard import Place
from duly.testing import Stage
from tests.desk.stores import folder_of
from tests.desk.test_allowance import posting
from tests.desk.test_upkeep import restored
from tests.engine.stand import NAME, TOOL, flow, opened
from tests.web.stand import FORM, OWN, ask, bearer, cookie, fake, form, serving
from tests.web.test_process import channel

JSON: Final = {"content-type": "application/json"}
ESTABLISHED: Final = 1  # the first byte of TCP_INFO


# -- Who is let in, and until when ------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/v1/pause", "/act/pause"])
async def test_a_token_that_is_revoked_while_its_body_arrives_does_nothing_more(
    path: str, tmp_path: Path
) -> None:
    """G6: revocable at once. Who sends is found out before the body, which may take 20 seconds."""
    async with serving(tmp_path) as web:
        await web.deploy()

        async def revoke() -> None:
            await web.host.revoke_token("decide token")

        is_form = path.startswith("/act")
        pieces: list[bytes | Callable[[], Awaitable[None]]] = (
            [b"workflow=", revoke, b"invoices"]
            if is_form
            else [b'{"workflow": ', revoke, b'"invoices"}']
        )
        kind = FORM if is_form else JSON
        reply = await web.ask(path, "POST", scope=Scope.DECIDE, headers=kind, body=pieces)
        done = [each.verb for each in await web.host.actions()]
        assert "pause" not in done, reply.status
        assert reply.status == 401


async def test_an_agent_does_not_resume_a_workflow_that_was_restored(duly_world: Stage) -> None:
    """G4, H5: what was done since the backup would be done again; a person decides that."""
    play = await opened(duly_world)
    await play.deploy(flow())
    await play.publish("a")
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    await play.drain()
    assert duly_world.count(TOOL) == 1
    await restored(play, copy)
    made = await play.host.new_token("helper", scope=Scope.AGENT)
    headers = {"authorization": f"Bearer {made.token}"}
    app = duly.web.app(play.host)
    reply = await ask(app, "/api/v1/resume", "POST", headers=headers, body={"workflow": NAME})
    await play.drain()
    assert duly_world.count(TOOL) == 1  # the change itself
    assert (reply.status, reply.json["code"]) == (403, "beyond_scope")


async def test_an_allowance_that_was_revoked_stays_so_when_a_backup_is_restored(
    duly_world: Stage,
) -> None:
    """A3, H5: the next call would go out without a yes, under one that was taken back."""
    play, post, call = await posting(duly_world)
    until = "2026-01-20T00:00:00Z"
    where = {"body": "*", "to": "*", "note": "*"}
    await play.host.allow(call.mutation, call.hash, 20, until, where=where)
    await play.drain()
    copy = folder_of(duly_world) / "copy.db"
    await play.host.backup(copy)
    (allowance,) = await play.host.allowances()
    await play.host.revoke_allowance(allowance.id)
    await restored(play, copy)
    await play.host.resume(NAME)
    await play.publish("b")
    await play.drain()
    assert [each["body"] for each in post.sent] == ["a"]


# -- What a request says ----------------------------------------------------------------------


async def test_a_number_that_json_has_no_word_for_is_refused_and_not_left_out(
    tmp_path: Path,
) -> None:
    """G10, body.py law 2: nothing is guessed. `days=NaN` must not make a token without an end."""
    async with channel(tmp_path) as (host, remote, _):
        app = make_app(Inherited(remote), Place())
        made = await host.new_token("root", scope=Scope.ADMIN)
        headers = {"cookie": f"duly-7337={made.token}", **OWN, **FORM}
        body = form(name="short", scope="read", days="NaN")
        reply = await ask(app, "/act/new_token", "POST", headers=headers, body=body)
        ends = {each.name: each.expires_at for each in await host.tokens()}
        assert reply.status == 400, ends
        assert "short" not in ends


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("amend", {"mutation": "m", "seen": "h", "args": '{"to": "ada", "to": "eve"}'}),
        ("approve_all", {"calls": '{"m": "shown", "m": "other"}'}),
    ],
)
async def test_a_key_that_stands_twice_in_a_form_is_refused(
    verb: str, fields: dict[str, str]
) -> None:
    """G10: judged before anything else, by whichever way JSON comes in."""
    app, door = fake()
    headers = {**cookie(), **OWN, **FORM}
    reply = await ask(app, f"/act/{verb}", "POST", headers=headers, body=form(**fields))
    assert door.asked == []
    assert reply.status == 400


async def test_a_key_that_stands_twice_in_a_query_is_refused() -> None:
    """G10: the same for questions."""
    app, door = fake()
    query = "source=%7B%22text%22%3A%22a%22%2C%22text%22%3A%22b%22%7D"
    reply = await ask(app, f"/api/v1/check?{query}", headers=bearer())
    assert door.asked == []
    assert reply.status == 400


async def test_a_half_character_in_a_name_is_refused_with_a_problem(tmp_path: Path) -> None:
    """G15, guard.py law 4: every response is a problem with our headers, also this one."""
    async with serving(tmp_path) as web:
        body = b'{"\\ud800": 1}'
        reply = await web.ask("/api/v1/pause", "POST", headers=JSON, body=body)
        assert (reply.status, reply["x-content-type-options"]) == (400, "nosniff")
