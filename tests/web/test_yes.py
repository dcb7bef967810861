"""What a page says of a yes: what became of it, that an earlier one failed, and why it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import duly.web
from duly.config import Policy
from duly.connectors.sql import Sql
from duly.testing import Fault, Stage
from duly.words import approval
from duly.words import page as words
from tests.connectors.books import FileBooks
from tests.desk.golden.situation import said_yes_before
from tests.desk.situation import ASKED, LONG_S, UNSURE, ready, run
from tests.desk.test_approval import proposed
from tests.engine.stand import CONSUMER, NAME, PRODUCER, TOOL, consumer, flow, producer
from tests.web.stand import ask, serving
from tests.web.test_page import Page, post, signed


async def test_the_page_says_above_the_next_card_what_became_of_the_last(duly_world: Stage) -> None:
    """U7, G14: a person sees that their click was taken, and does not press the next one for it."""
    play, shown = await proposed(duly_world)
    await play.publish("b", "c")
    app, headers = duly.web.app(play.host), await signed(play)
    for back, path in (("", "/"), (f"w/{NAME}", f"/w/{NAME}")):
        fields = {"mutation": shown.mutation, "seen": shown.hash, "back": back}
        done = await post(app, headers, "/act/approve", fields)
        assert done["location"] == f"{path}?did={shown.mutation}"
        await play.drain()
        text = (await ask(app, done["location"], headers=headers)).text
        said = f'<p class="did" data-key="did {shown.mutation}"><strong>Approved.</strong>'
        before, _, after = text.partition(said)
        told = after.partition("</p>")[0]
        assert "Done on" in told
        assert f'href="/m/{shown.mutation}"' in told
        assert "/act/approve" not in before
        (shown,) = await play.host.approvals()
        assert shown.mutation in after.partition("</p>")[2]


async def test_a_no_is_said_too_and_an_address_that_a_person_wrote_says_nothing(
    duly_world: Stage,
) -> None:
    """G14: what was decided is read from the store, and never from the address."""
    play, shown = await proposed(duly_world)
    app, headers = duly.web.app(play.host), await signed(play)
    fields = {"mutation": shown.mutation, "seen": shown.hash}
    assert (await post(app, headers, "/act/reject", fields)).status == 303
    await play.drain()
    text = (await ask(app, f"/?did={shown.mutation}", headers=headers)).text
    assert f'data-key="did {shown.mutation}">Rejected by' in text
    for did in ("", "mutation_0", "<script>", "x" * 1000):
        told = await ask(app, f"/?did={did}", headers=headers)
        assert (told.status, 'class="did"' in told.text) == (200, False)


async def test_a_card_says_that_an_earlier_yes_failed_and_changed_nothing(
    duly_world: Stage,
) -> None:
    """U7, A3, L12: on the first page, the page of its workflow, and "why?", from the ledger."""
    play, again = await said_yes_before(duly_world)
    failed = next(each for each in await play.host.mutations() if each.id != again)
    app, headers = duly.web.app(play.host), await signed(play)
    for path in ("/", f"/w/{NAME}", f"/m/{again}", f"/why/{NAME}"):
        text = (await ask(app, path, headers=headers)).text
        assert f'href="/m/{failed.id}">{words.THAT_CHANGE}</a>' in text, path
        assert "planned (REFUSE)" in text, path
    why = await play.host.why(again)
    assert why.reason.facts["tried"] == failed.id
    assert (why.reason.facts["tried_by"], failed.approved_by) == ("anna", "anna")


async def test_a_call_without_an_earlier_yes_says_nothing_of_one(duly_world: Stage) -> None:
    """U7: also where the script failed before, and no person had agreed to anything."""
    play = await run(duly_world, None, Fault.REFUSE)
    await play.restart(policy=ASKED)
    (failed,) = await play.host.runs(NAME)
    await play.host.retry(failed.id)
    await play.drain()
    why = await play.host.why(NAME)
    assert why.reason.code == "needs_approval"
    assert "tried" not in why.reason.facts


async def test_only_what_the_ledger_calls_not_done_is_said_to_have_changed_nothing(
    duly_world: Stage,
) -> None:
    """U7, L4: the word "nothing" stands on the status of the row alone."""
    play, again = await said_yes_before(duly_world)
    play.tamper("update mutation set status = 'skipped' where id <> ?", again)
    assert "tried" not in (await play.host.why(again)).reason.facts


async def test_of_what_a_person_settled_no_card_says_that_nothing_was_changed(
    duly_world: Stage,
) -> None:
    """U7, L12: the outside made the change, and a person was wrong about it."""
    play = await ready(duly_world, None, Fault.AMBIGUOUS, reconcile=UNSURE, policy=ASKED)
    await play.drain()
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    async with play.host.running():
        await duly_world.advance(LONG_S)
    await play.host.settle(shown.mutation, "did_not_happen")
    async with play.host.running():
        await duly_world.advance(600)
    (again,) = await play.host.approvals()
    assert again.mutation != shown.mutation
    assert "tried" not in (await play.host.why(NAME)).reason.facts
    app, headers = duly.web.app(play.host), await signed(play)
    assert words.NOTHING_CHANGED not in (await ask(app, "/", headers=headers)).text


@pytest.mark.parametrize("fault", [Fault.OK, Fault.REFUSE])
async def test_an_address_that_names_a_call_nobody_approved_does_not_call_it_approved(
    fault: Fault, duly_world: Stage
) -> None:
    """G14: anybody may write a link; what it says is what the ledger says."""
    play = await run(duly_world, None, fault)
    row = await play.row()
    app, headers = duly.web.app(play.host), await signed(play)
    text = (await ask(app, f"/?did={row.id}", headers=headers)).text
    assert f'data-key="did {row.id}"' in text
    assert "Approved." not in text


async def test_a_yes_whose_call_waits_for_a_connection_is_said_to_be_given(
    duly_world: Stage,
) -> None:
    """U7: the call is proposed again and its yes stands."""
    play = await run(duly_world, None, Fault.AUTH, policy=ASKED)
    (shown,) = await play.host.approvals()
    app, headers = duly.web.app(play.host), await signed(play)
    fields = {"mutation": shown.mutation, "seen": shown.hash}
    await post(app, headers, "/act/approve", fields)
    await play.drain()
    assert (await play.row()).status == "proposed"
    text = (await ask(app, f"/?did={shown.mutation}", headers=headers)).text
    assert "<strong>Approved.</strong>" in text
    assert "Not decided." not in text


async def test_what_was_never_sent_is_nowhere_called_sent(duly_world: Stage) -> None:
    """U7, L4: the words on the page of a change agree with what its connector said."""
    play = await run(duly_world, None, Fault.NOT_SENT)
    (row,) = await play.host.mutations()
    app, headers = duly.web.app(play.host), await signed(play)
    text = Page((await ask(app, f"/m/{row.id}", headers=headers)).text).text
    assert words.NOTHING_LEFT in text
    assert "The call was begun, and nothing was sent" in text
    assert "The call was sent" not in text
    assert words.KNOWN_WORDS["answered"] not in text


async def test_of_two_sends_the_first_may_have_left_and_is_called_sent(duly_world: Stage) -> None:
    """U7, L4: that nothing was sent is said only of a call that was begun once."""
    play = await run(duly_world, None, Fault.AUTH, Fault.NOT_SENT)
    await play.host.reconnect("sheet")
    await play.drain()
    (row,) = await play.host.mutations()
    assert (row.attempt, row.known and row.known.is_unsent) == (2, False)


async def test_what_is_retried_is_not_called_running(duly_world: Stage) -> None:
    """U1: nothing moves until the retry; the facts are as they were."""
    checks = {PRODUCER: producer(every="5m")}
    play = await run(duly_world, flow({CONSUMER: consumer()}, checks), Fault.NOT_SENT)
    app, headers = duly.web.app(play.host), await signed(play)
    assert (await play.host.workflow(NAME)).standing == "running"
    for path in ("/", f"/w/{NAME}"):
        text = (await ask(app, path, headers=headers)).text
        assert (words.AFTER_THIS in text, "next check" in text) == (True, False)
        assert '<span class="word waiting">retrying</span>' in text
        assert '<span class="word running">' not in text


async def test_a_workflow_that_waits_for_a_person_checks_again_after_their_answer(
    duly_world: Stage,
) -> None:
    """U1, F6: no time is said that passes without a check."""
    play = await run(
        duly_world,
        flow({CONSUMER: consumer()}, {PRODUCER: producer(every="5m")}),
        policy=ASKED,
    )
    await play.pass_by(3600)
    app, headers = duly.web.app(play.host), await signed(play)
    for path in ("/", f"/w/{NAME}"):
        text = (await ask(app, path, headers=headers)).text
        assert (words.AFTER_ANSWER in text, "next check" in text) == (True, False)
    (shown,) = await play.host.approvals()
    await play.host.approve(shown.mutation, shown.hash)
    await play.drain()
    text = (await ask(app, "/", headers=headers)).text
    assert (words.AFTER_ANSWER in text, "next check" in text) == (False, True)


async def test_a_card_says_by_which_rule_it_asks_and_how_that_is_changed(
    duly_world: Stage,
) -> None:
    """A3: the rule that fits, and no other one."""
    play, shown = await proposed(duly_world)
    assert shown.rules == (("*", "always"),)
    app, headers = duly.web.app(play.host), await signed(play)
    for path in ("/", f"/w/{NAME}", f"/m/{shown.mutation}"):
        text = Page((await ask(app, path, headers=headers)).text).text
        assert approval.say_rules(shown.rules) in text
        assert approval.LESS_OFTEN in text
        assert 'approvals = { "*" = "first:5" }' in text
    assert approval.say_less_often([("a.*", "after_model"), ("*", "first:3")]) == ""


@pytest.mark.parametrize(
    ("policy", "does", "asks"),
    [
        (None, "grant_makes", 0),
        (ASKED, "grant_asks", 1),
        (Policy(approvals={"*": "first:3"}), "grant_sometimes", 1),
    ],
)
async def test_a_grant_says_whether_the_change_is_still_asked_about(
    duly_world: Stage, policy: Policy | None, does: str, asks: int
) -> None:
    """A1, A3: a person who allows a tool knows whether it writes at once."""
    play = await ready(duly_world, policy=policy)
    await play.host.revoke(NAME, TOOL)
    await play.drain()
    (entry,) = await play.host.attention()
    assert [each.does for each in entry.offers if each.verb == "grant"] == [does]
    await play.host.grant(NAME, TOOL)
    await play.drain()
    assert len(await play.host.approvals()) == asks


# -- The set-up of a connection -------------------------------------------------------------------


async def test_the_page_of_tools_says_what_is_wrong_with_a_database(tmp_path: Path) -> None:
    """K10: before the first call, to a person who may correct it."""
    books = FileBooks(tmp_path)
    sql = books.make()
    async with serving(tmp_path, connectors=[sql]) as web:
        headers = await signed(web)
        text = Page((await ask(web.app, "/tools", headers=headers)).text).text
        assert "its set-up works" in text
        books.run("drop table invoice")
        text = Page((await ask(web.app, "/tools", headers=headers)).text).text
        assert "books.add: books.db: no such table: invoice" in text.replace("SQLError: ", "")
        assert "its set-up works" not in text
        assert isinstance(sql, Sql)
