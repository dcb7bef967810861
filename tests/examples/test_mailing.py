"""A hundred mails become exactly a hundred rows, in every workflow that promises it."""

from __future__ import annotations

from typing import Any

import pytest

from duly.rules.source import Language, Source
from duly.testing import Fault, Stage
from duly.testing.world import Mailbox
from tests.examples.stand import LANGUAGES, ROW, Played, play_source
from tests.sandbox import seeds
from tests.sandbox.seeds import Mailing

MAILS = 100
FEW = 12
# The page's own slip: its payload has no messageId, so every row it tells of bears this one name.
SLIP = "002"
UNNAMED = "row:undefined"

PAGES = [each for each in seeds.mailings() if each.name != "ours"]
(OURS,) = (each for each in seeds.mailings() if each.name == "ours")


def every_mailing() -> list[tuple[Mailing, Source]]:
    """List the modules of the pages, and our own in both languages."""
    pages = [(each, Source(Language.JAVASCRIPT, each.text, each.name)) for each in PAGES]
    return pages + [(OURS, seeds.example("mail_to_table", suffix)) for suffix in LANGUAGES]


mailings = pytest.mark.parametrize(
    ("mailing", "source"), every_mailing(), ids=lambda each: getattr(each, "name", "")
)


async def run_all(stage: Stage, source: Source, mails: int) -> Played:
    """Let a workflow find so many mails and do what is due."""
    stage.mailbox(mails)
    played = await play_source(stage, source)
    await played.host.drain()
    return played


def expected_rows(mails: int) -> list[list[str]]:
    return [[f"sender{n}@example.com", f"Subject {n}"] for n in range(1, mails + 1)]


@mailings
async def test_a_hundred_mails_become_a_hundred_rows(
    duly_world: Stage, mailing: Mailing, source: Source
) -> None:
    """C8, C11, W1: each mail is one row, in the order of arrival, consumed and told of."""
    played = await run_all(duly_world, source, MAILS)
    assert played.rows == expected_rows(MAILS)
    received = await played.events(mailing.received)
    assert list(received.items()) == [(f"m{n}", "consumed") for n in range(1, MAILS + 1)]
    created = list(await played.events(mailing.created))
    warnings = await played.warnings()
    if mailing.name == SLIP:
        assert created == [UNNAMED]
        assert len(warnings) == MAILS
        assert all(UNNAMED in each and "a value was missing" in each for each in warnings)
    else:
        assert created == [f"row:m{n}" for n in range(1, MAILS + 1)]
        assert warnings == []


@pytest.mark.parametrize("suffix", LANGUAGES)
async def test_an_age_is_asked_for_only_before_there_is_a_cursor(
    duly_world: Stage, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: a host that was off over the weekend finds Friday's mail, whatever the service does."""
    asked: list[tuple[str, str | None]] = []
    search = Mailbox.search

    def watch(box: Mailbox, query: str = "", after: str | None = None) -> Any:
        asked.append((query, after))
        return search(box, query, after)

    monkeypatch.setattr(Mailbox, "search", watch)
    played = await run_all(duly_world, seeds.example("mail_to_table", suffix), FEW)
    async with played.host.running():
        await duly_world.advance("10m")
    assert asked[:2] == [("newer_than:1d", None), ("", f"m{FEW}")]
    assert {query for query, _ in asked[1:]} == {""}


@pytest.mark.parametrize("suffix", LANGUAGES)
async def test_a_workflow_that_names_every_row_alike_tells_one_and_is_warned(
    duly_world: Stage, suffix: str
) -> None:
    """T5: the rows are all added; that their names are one is said, once for each."""
    source = seeds.example("mail_to_table", suffix)
    slips = {
        ".js": ("${prepared.data.id}", "${prepared.data.messageId}", UNNAMED),
        ".py": ("prepared['data']['id']", "prepared['data'].get('messageId')", "row:None"),
    }
    right, wrong, name = slips[suffix]
    assert right in source.text
    slipped = Source(source.language, source.text.replace(right, wrong), source.name)
    played = await run_all(duly_world, slipped, FEW)
    assert played.rows == expected_rows(FEW)
    assert list(await played.events(OURS.created)) == [name]
    warnings = await played.warnings()
    assert len(warnings) == FEW
    assert all(name in each for each in warnings)


@mailings
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER], ids=lambda f: f.name)
async def test_a_crash_at_the_fifth_row_adds_none_twice_and_loses_none(
    duly_world: Stage, mailing: Mailing, source: Source, fault: Fault
) -> None:
    """L3, R7: the next host asks what became of the row, and goes on from there."""
    duly_world.mailbox(FEW)
    played = await play_source(duly_world, source)
    duly_world.plan(ROW, *[Fault.OK] * 4, fault)
    await duly_world.crash(played.host, played.host.drain())
    await played.restart()
    async with played.host.running():
        await duly_world.advance("1h")
    assert played.rows == expected_rows(FEW)
    assert set((await played.events(mailing.received)).values()) == {"consumed"}
