"""Forms that come again: from another tab, device or person, after a restart, with other words.

Law: what a person did not see in its present state is not decided by a form of the past.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import duly.web
from duly.api.registry import Scope
from duly.host import Host
from duly.rules.source import Language, Source
from duly.testing import Fault, Stage
from tests.desk.situation import ASKED, LONG_S, UNSURE, indeterminate, ready
from tests.engine.stand import TOOL, Play
from tests.web.stand import Reply, serving
from tests.web.test_act import filled, publish, titles
from tests.web.test_offered import KEEPS
from tests.web.test_page import post, signed

NUMBERS = ("", "null", "-1", "1.0", "9" * 40, "x", "true", "1e3", "[1]")


async def settle(play: Play, who: dict[str, str], **fields: str) -> Reply:
    return await post(duly.web.app(play.host), who, "/act/settle", fields)


async def test_two_devices_settle_a_change_once(duly_world: Stage) -> None:
    """L10, G11: the second answer is refused, whatever it is, and also after a restart."""
    play = await indeterminate(duly_world)
    row = await play.row()
    shown = {"mutation": row.id, "seen": str(row.attempt)}
    one = await signed(play)
    made = await play.host.new_token("a phone", scope=Scope.DECIDE, by="bob")
    other = {**one, "cookie": f"duly-7337={made.token}"}
    assert (await settle(play, one, answer="happened", **shown)).status == 303
    for _ in range(2):
        for who in (one, other):
            for answer in ("did_not_happen", "try_again", "skip", "happened"):
                assert (await settle(play, who, answer=answer, **shown)).status == 409
        await play.restart()
    after = await play.row()
    assert (after.status, after.attempt) == ("applied", row.attempt)
    told = [each for each in await play.host.actions() if each.verb == "settle"]
    assert [each.by for each in told] == ["token:admin page"]


async def test_an_old_answer_is_not_about_a_later_send(duly_world: Stage) -> None:
    """L10, L6: a page of the past neither settles nor approves what was sent again since."""
    play = await ready(
        duly_world, None, Fault.AMBIGUOUS_BEFORE, Fault.AMBIGUOUS_BEFORE, reconcile=UNSURE,
        policy=ASKED,
    )  # fmt: skip
    await play.drain()
    (asked,) = await play.host.approvals()
    who = await signed(play)
    yes = {"mutation": asked.mutation, "seen": asked.hash}
    assert (await post(duly.web.app(play.host), who, "/act/approve", yes)).status == 303
    async with play.host.running():
        await duly_world.advance(LONG_S)
    row = await play.row()
    old = {"mutation": row.id, "seen": str(row.attempt), "answer": "did_not_happen"}
    assert (row.status, row.attempt) == ("indeterminate", 1)
    assert (await post(duly.web.app(play.host), who, "/act/approve", yes)).status == 409
    await play.restart()
    await duly_world.advance(LONG_S)
    assert (await settle(play, who, **old)).status == 303
    async with play.host.running():
        await duly_world.advance(LONG_S)
    row = await play.row()
    sends = duly_world.count(TOOL)
    for _ in range(2):
        assert (await settle(play, who, **old)).status == 409
        assert (await settle(play, who, **{**old, "answer": "happened"})).status == 409
    async with play.host.running():
        await duly_world.advance(LONG_S)
    assert (await play.row(), duly_world.count(TOOL)) == (row, sends)


@pytest.mark.parametrize("seen", NUMBERS)
async def test_a_number_of_sends_that_is_none_settles_nothing(duly_world: Stage, seen: str) -> None:
    """G10, G11: it is refused before anything is asked."""
    play = await indeterminate(duly_world)
    before, who = await play.row(), await signed(play)
    fields = {"mutation": before.id, "answer": "did_not_happen", "seen": seen}
    assert (await settle(play, who, **fields)).status in (400, 409)
    assert await play.row() == before


async def test_a_form_that_publishes_is_one_event_for_every_sender(tmp_path: Path) -> None:
    """T5: replayed by another person, after a restart, or when its input is over: one event."""
    async with serving(tmp_path) as web:
        await web.deploy()
        one = await signed(web)
        fields = await filled(web, one, "Letter A")
        assert (await publish(web, one, fields)).status == 303
        made = await web.host.new_token("a phone", scope=Scope.DECIDE, by="bob")
        other = {**one, "cookie": f"duly-7337={made.token}"}
        assert (await publish(web, other, fields)).status == 200
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        web = replace(web, host=host, app=duly.web.app(host))
        assert (await publish(web, one, fields)).status == 200
        (event,) = await web.host.events("invoices")
        await web.host.skip("invoices", event.topic, event.message_id)
        assert (await publish(web, one, fields)).status == 200
        assert [str(each.status) for each in await web.host.events("invoices")] == ["skipped"]
        assert await titles(web) == ["Letter A"]


async def test_an_id_of_a_form_takes_the_place_of_no_other_content(tmp_path: Path) -> None:
    """T3, T5: neither with another field, nor where two fields hold what one held."""
    async with serving(tmp_path) as web:
        await web.deploy()
        who = await signed(web)
        fields = await filled(web, who, "a", message_id="")
        contents = [
            fields,
            {**fields, "title": "a b"},
            {**fields, "payload": '{"a": 1}'},
            {**fields, "payload": '{"a":1}'},
            {**fields, "once": f"{fields['once']}x"},
        ]
        for each in contents:
            assert (await publish(web, who, each)).status == 303
        await web.host.deploy(Source(Language.PYTHON, KEEPS))
        moved = {**fields, "workflow": "keeps", "topic": "in"}
        assert (await publish(web, who, moved)).status == 303
        assert len(await web.host.events("keeps")) == 1
        found = await web.host.events("invoices")
        assert len({each.message_id for each in found}) == len(contents)
        assert all(re.fullmatch("page:[0-9a-f]{32}", each.message_id) for each in found)
