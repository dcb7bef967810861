"""Trying a version: real reads, mutations shown and not made, nothing stored, nothing sent."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly.config import Limits, Policy
from duly.desk import trial
from duly.desk.record import Preview, Trial, TriedChange
from duly.errors import Invalid, NotDeployed
from duly.rules.source import Language
from duly.rules.word import Failure, Kind
from duly.words import Clock, say, say_preview
from tests.desk.trying import JAVASCRIPT, SOURCES, TEXT, House, Sheets, edited
from tests.sandbox.contract import children

CANARY = "canary-Zx81!"


@pytest.fixture
def house(url: str) -> House:
    return House(url, "m1", "m2")


def said(tried: Trial) -> str:
    """Say what a trial shows."""
    return say(tried.summary, Clock(0))


def row_for(mail: str, *, is_followed: bool = False) -> TriedChange:
    return TriedChange(
        handler="file",
        claimed=f"Add a row for Mail {mail}",
        observed=Preview("sheets.append_row", {"values": [mail]}),
        inputs=(f"Mail {mail}",),
        needs_approval=False,
        is_followed=is_followed,
    )


# -- What it would do ---------------------------------------------------------------------------


@pytest.mark.parametrize("language", list(SOURCES))
async def test_a_trial_shows_every_change_and_makes_none(house: House, language: str) -> None:
    """C8, L11: claimed beside observed, with what it is for; nothing goes out, none is left."""
    before = children()
    async with house.host() as host:
        tried = await host.try_(SOURCES[language], grant=True)
    assert tried.changes == (row_for("m1"), row_for("m2"))
    assert [(each.topic, each.title) for each in tried.published] == [
        ("mail", "Mail m1"),
        ("mail", "Mail m2"),
    ]
    assert (tried.workflow, tried.missing, tried.problems) == ("mail-to-row", (), ())
    assert said(tried) == (
        "Would append 2 rows and publish 2 events. What follows sheets.append_row was not tried: "
        "its result is unknown."
    )
    assert house.sheets.changes == 0
    assert children() == before


@pytest.mark.parametrize("language", list(SOURCES))
async def test_nothing_in_the_store_changes(house: House, language: str) -> None:
    """W5, A6: no event, run, ledger row, state, recording or act; not even of a deployed one."""
    async with house.host() as host:
        await host.deploy(SOURCES[language], grant=True)
        await host.drain()
        before, changes = house.dump(), house.sheets.changes
        house.gmail.mails += ("m3",)
        tried = await host.try_(
            SOURCES[language],
            events=[{"topic": "mail", "title": "Mail m9", "payload": {"id": "m9"}}],
            results={"sheets.append_row": {"row": 7}},
        )
        assert [each.observed.args for each in tried.changes] == [
            {"values": ["m9"]},
            {"values": ["m3"]},
        ]
        assert house.dump() == before
        assert house.sheets.changes == changes == 2


async def test_a_given_result_lets_next_be_tried(house: House) -> None:
    """C10: what follows is tried with exactly that; it may be made of the arguments."""
    results = {"sheets.appendRow": lambda args: {"row": args["values"][0]}}
    async with house.host() as host:
        tried = await host.try_(TEXT, results=results, grant=True)
    assert [each.is_followed for each in tried.changes] == [True, True]
    rows = [each for each in tried.published if each.topic == "row"]
    assert [(each.message_id, each.payload) for each in rows] == [
        ("row:m1", "m1"),
        ("row:m2", "m2"),
    ]
    assert said(tried) == "Would append 2 rows and publish 4 events."


async def test_the_state_of_the_deployed_handler_is_where_a_trial_begins(house: House) -> None:
    """P2, W9: the producer asks for what is new, and a new one starts with nothing."""
    async with house.host() as host:
        await host.deploy(TEXT, grant=True)
        await host.drain()
        await host.try_(TEXT)
        other = edited('"mail-to-row"', '"another"')
        await host.try_(other, grant=True)
    assert house.gmail.asked == [0, 2, 0]


async def test_given_events_go_to_their_topics(house: House) -> None:
    """T3, W4: checked as if they were published, into any topic that is declared."""
    house.gmail.mails = ()
    event = {"topic": "mail", "title": "Mail m9", "message_id": 9, "payload": {"id": "m9"}}
    async with house.host() as host:
        tried = await host.try_(TEXT, events=[event, event], grant=True)
        assert tried.changes == (row_for("m9"),)
        for wrong, said in [
            ({**event, "topic": "mial"}, 'Did you mean "mail"'),
            ({**event, "title": " "}, "title is blank"),
            ({**event, "subject": "x"}, "subject is not known"),
            ({"title": "x"}, r"events\[0\].topic must be a string"),
            ("x", r"events\[0\] must be an object"),
        ]:
            with pytest.raises(Invalid, match=said):
                await host.try_(TEXT, events=[wrong])  # type: ignore[list-item]


async def test_runs_are_told_with_what_they_took_and_logged(house: House) -> None:
    """X4: an author sees what the script said; a consumer is asked until it takes nothing."""
    async with house.host() as host:
        tried = await host.try_(TEXT, grant=True)
    assert [(each.handler, each.kind, each.inputs, each.logs) for each in tried.runs] == [
        ("poll", Kind.PRODUCER, (), ()),
        ("file", Kind.CONSUMER, ("Mail m1",), ("looking at m1",)),
        ("file", Kind.CONSUMER, ("Mail m2",), ("looking at m2",)),
    ]


async def test_a_call_that_would_wait_for_approval_says_so(house: House) -> None:
    """A3: the trial does not wait."""
    async with house.host(policy=Policy(approvals={"*": "always"})) as host:
        tried = await host.try_(TEXT, grant=True)
    assert [each.needs_approval for each in tried.changes] == [True, True]


async def test_a_tool_without_a_noun_is_called_by_its_name(house: House) -> None:
    """U1: no noun is made up."""
    source = edited('append_row(values=[prepared["data"]["id"]])', "wipe()")
    async with house.host() as host:
        tried = await host.try_(source, grant=True)
    assert said(tried).startswith("Would call sheets.wipe twice and publish 2 events.")


async def test_the_same_done_by_two_tools_is_said_once(house: House) -> None:
    """U1: two places for rows, and still two rows."""
    other = Sheets()
    other.name = "big_sheets"
    source = edited(
        'await ctx.sheets.append_row(values=[prepared["data"]["id"]])',
        'if prepared["data"]["id"] == "m1":\n'
        '            await ctx.big_sheets.append_row(values=["m1"])\n'
        "        else:\n"
        '            await ctx.sheets.append_row(values=["m2"])',
    )
    connectors = [house.gmail, house.sheets, other]
    async with duly.Host(house.url, connectors=connectors) as host:
        tried = await host.try_(source, grant=True)
    assert {each.observed.tool for each in tried.changes} == {
        "sheets.append_row",
        "big_sheets.append_row",
    }
    assert said(tried).startswith("Would append 2 rows and publish 2 events.")


async def test_a_source_that_does_nothing_says_so(house: House) -> None:
    """U1: also a consumer that finds nothing."""
    house.gmail.mails = ()
    async with house.host() as host:
        assert said(await host.try_(TEXT, grant=True)) == "Would change nothing."


# -- Grants -------------------------------------------------------------------------------------


async def test_a_read_without_a_grant_is_not_made(house: House) -> None:
    """A1, A2: the trial stops there and says what is missing."""
    async with house.host() as host:
        tried = await host.try_(TEXT, events=[{"topic": "mail", "title": "Mail m9"}])
    assert (house.gmail.asked, len(tried.runs), tried.changes) == ([], 1, ())
    assert tried.missing == ("gmail.read", "sheets.append")
    (problem,) = tried.problems
    assert (problem.handler, problem.failure) == ("poll", Failure.PERMISSION)
    assert "gmail.search needs gmail.read, which is not granted" in problem.sentence
    assert "poll stopped" in said(tried)


async def test_a_change_without_a_grant_is_shown_and_named_as_missing(house: House) -> None:
    """A2: nothing is sent, so it need not stop."""
    async with house.host() as host:
        await host.deploy(TEXT)
        await host.grant("mail-to-row", "gmail.read")
        tried = await host.try_(TEXT)
    assert (len(tried.changes), tried.missing) == (2, ("sheets.append",))


async def test_what_nobody_could_read_off_the_text_is_named_as_missing_too(house: House) -> None:
    """A2: a tool whose name is made up while the script runs."""
    text = JAVASCRIPT.replace("ctx.sheets.appendRow(", 'ctx.sheets[["append", "Row"].join("")](')
    async with house.host() as host:
        tried = await host.try_(
            duly.Source(Language.JAVASCRIPT, text),
            events=[{"topic": "mail", "title": "Mail m9", "payload": {"id": "m9"}}],
            grant=True,
        )
    assert (len(tried.changes), tried.missing) == (3, ("sheets.append",))


async def test_a_capability_that_also_reads_is_not_lent(house: House) -> None:
    """A1: a mutation's leave must not open a read."""
    source = edited(
        'pending = await ctx.peek("mail", limit=1)',
        'await ctx.sheets.find(text="x")\n        pending = await ctx.peek("mail", limit=1)',
    )
    async with house.host() as host:
        await host.deploy(TEXT)
        await host.grant("mail-to-row", "gmail.read")
        tried = await host.try_(source)
    assert "sheets.all" in tried.missing
    assert [each.handler for each in tried.problems] == ["file"]


async def test_the_limits_of_a_grant_hold_in_a_trial(house: House) -> None:
    """A1: a day that is used up stops the run; what would be sent counts."""
    async with house.host() as host:
        await host.deploy(TEXT)
        await host.grant("mail-to-row", "gmail.read")
        await host.grant("mail-to-row", "sheets.append", mutations_per_day=1)
        tried = await host.try_(TEXT)
    assert len(tried.changes) == 1
    assert "all its grant allows" in tried.problems[0].sentence


# -- Failures and limits ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said", "has_line"),
    [
        ('row = result["result"]["row"]', 'row = result["result"]["now"]', "now", True),
        ("await ctx.sheets.append_row", "await ctx.sheets.find", "may not", True),
        ('"data": mail["payload"]', '"date": mail["payload"]', "prepare.date is not known", False),
    ],
)
async def test_a_failure_is_told_as_the_run_would_have_failed(
    house: House, old: str, new: str, said: str, has_line: bool
) -> None:
    """F1, C2: class, sentence and the script's own line; what was before it is shown."""
    source = edited(old, new)
    line = next(place for place, each in enumerate(source.text.split("\n"), 1) if new in each)
    async with house.host() as host:
        tried = await host.try_(source, results={"sheets.append_row": {"row": 1}}, grant=True)
    (problem,) = tried.problems
    assert (problem.handler, problem.failure) == ("file", Failure.LOGIC)
    assert problem.line == (line if has_line else None)
    assert said in problem.sentence
    assert len(tried.published) == 2
    assert house.sheets.changes == 0


async def test_a_limit_is_the_one_of_a_real_run(house: House) -> None:
    """N: one publish past the limit of a run."""
    limits = Limits(publishes_per_run=2)
    async with house.host(policy=Policy(limits=limits)) as host:
        assert (await host.try_(TEXT, grant=True)).problems == ()
        house.gmail.mails += ("m3",)
        tried = await host.try_(TEXT, grant=True)
    assert "at most 2 events" in tried.problems[0].sentence
    assert tried.published == ()


async def test_a_trial_that_does_not_end_is_cut(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: one run past the bound is not made, and that is said."""
    monkeypatch.setattr(trial, "CONSUMER_RUNS_MAX", 2)
    async with house.host() as host:
        assert "cut" not in said(await host.try_(TEXT, grant=True))
        house.gmail.mails += ("m3",)
        tried = await host.try_(TEXT, grant=True)
    assert len(tried.changes) == 2
    assert "It was cut after 2 runs of consumers." in said(tried)


async def test_a_source_that_could_not_be_deployed_is_not_tried(house: House) -> None:
    """W5: refused as deploy refuses it; what deploy would only warn of comes with the trial."""
    async with house.host() as host:
        with pytest.raises(NotDeployed):
            await host.try_(edited('topics=["mail", "row"]', 'topics=["mail"]'), grant=True)
        warned = edited(", title=f\"Mail {mail['id']}\"", ', title="A mail"')
        assert (await host.try_(warned, grant=True)).findings
    assert house.gmail.asked == [0]


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({"gmail.search": []}, "only reads"),
        ({"sheets.append": {}}, "There is no tool"),
        ({"sheets.append_row": {1, 2}}, "results.sheets.append_row is a set"),
    ],
)
async def test_a_result_that_cannot_be_is_refused(house: House, results: Any, said: str) -> None:
    """T8: a result is JSON, of a mutation that is there."""
    async with house.host() as host:
        with pytest.raises(Invalid, match=said):
            await host.try_(TEXT, results=results, grant=True)


async def test_no_secret_is_shown_by_a_trial(house: House) -> None:
    """A5: not in a title, a change, an event, a log or a problem."""
    token = 'token = (await ctx.sheets.find(text="x"))[0] + "' + CANARY + '"'
    source = edited(
        'print("looking at", mail["message_id"])',
        f'{token}\n        print(token)\n        mail = {{**mail, "title": token}}',
    )
    async with house.host() as host:
        await host.set_secret("sheets", "token", CANARY)
        tried = await host.try_(source, grant=True)
        broken = edited('print("looking at"', f'raise ValueError("{CANARY}")\n        print(""')
        failed = await host.try_(broken, grant=True)
    assert len(tried.changes) == 2
    assert CANARY not in repr(tried) + repr(failed)
    assert "[redacted]" in failed.problems[0].sentence


NEXT = {
    "python": ('if result["status"] == "applied":', 'if prepared["data"]["id"]:'),
    "javascript": ('if (result.status === "applied") {', "if (prepared.data.id.length) {"),
}


@pytest.mark.parametrize("language", NEXT)
async def test_the_empty_look_is_tried_too(house: House, language: str) -> None:
    """C7, W5: `next` also runs when nothing waits, and what fails then is told."""
    text = SOURCES[language].text
    careful, careless = NEXT[language]
    assert careful in text
    async with house.host() as host:
        well = await host.try_(duly.Source(Language(language), text), grant=True)
        assert well.problems == ()
        told = await host.try_(
            duly.Source(Language(language), text.replace(careful, careless)),
            grant=True,
            results={"sheets.append_row": {"row": 1}},
        )
    assert [(each.handler, each.failure) for each in told.problems] == [("file", Failure.LOGIC)]
    assert told.problems[0].sentence.startswith("When nothing waits: ")
    # The changes of what does wait are shown all the same, and nothing of the empty look is.
    assert (len(told.changes), len(told.runs)) == (len(well.changes), len(well.runs))


@pytest.mark.parametrize("language", list(SOURCES))
async def test_inputs_that_are_done_already_are_not_counted_again(
    house: House, language: str
) -> None:
    """T5, W5: a new version that reads everything again would take nothing twice."""
    text = SOURCES[language].text
    for cursor in ('(state or {}).get("cursor", 0)', "state ? state.cursor : 0"):
        text = text.replace(cursor, "0")
    again = duly.Source(Language(language), text)
    async with house.host() as host:
        await host.deploy(SOURCES[language], grant=True)
        await host.drain()
        assert house.sheets.changes == 2
        house.gmail.mails = ("m1", "m2", "m3", "m4")
        tried = await host.try_(again)
        shown = await host.preview(again)
    assert tried.changes == (row_for("m3"), row_for("m4"))
    assert [each.message_id for each in tried.published] == ["m3", "m4"]
    assert "2 events are over already and are not taken again" in said(tried)
    assert shown.tried is not None
    assert (shown.tried.count, shown.tried.again, shown.tried.published) == (2, 0, 2)
    assert "2 events are over already and are not taken again" in say_preview(shown, Clock(0))
