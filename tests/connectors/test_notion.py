"""Notion: a page is made and changed once, values keep their types, and no page is missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.base import Applied, NotApplied, Unsure
from duly.connectors.notion import Notion
from duly.errors import AuthNeeded, PermissionDenied, Refused, Transient
from duly.testing.doubles.base import Mishap, PlannedMishap
from duly.testing.doubles.notion import DATABASE, NotionDouble, put_page
from tests.connectors.service_exam import TOKEN, happened, make_call, reach, send, take_exam

pytestmark = pytest.mark.anyio

VALUES: dict[str, Any] = {
    "Name": "Tea",
    "Note": "x" * 2500,
    "Count": 3,
    "Done": True,
    "Status": "Open",
    "Tags": ["a", "b"],
    "Due": "2026-05-01",
}
PAGE: dict[str, Any] = {"database": DATABASE, "values": VALUES, "text": "One\n\n[x](y) @ada"}
FIRST, SECOND = (f"a0000000-0000-4000-8000-{number:012}" for number in (1, 2))
UPDATE: dict[str, Any] = {"id": FIRST, "values": {"Count": 4}}


class Desk(NotionDouble):
    """A database with two pages."""

    def new_account(self) -> dict[str, Any]:
        made = super().new_account()
        for name in ("One", "Two"):
            put_page(made, name, "2026-01-01T00:00:00.000Z")
        return made


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with Desk() as made:
        yield made


@pytest.fixture
def notion(desk: Desk) -> Any:
    desk.accounts.clear()
    desk.give_token(TOKEN)
    return reach(desk, Notion)


async def update(notion: Any, key: str = "k1", **args: Any) -> Any:
    """Change a page, and return what was kept before."""
    kept: list[Any] = []

    async def keep(handle: Any) -> None:
        kept.append(handle)

    whole = {**UPDATE, **args}
    await notion.update(replace(make_call("notion.update", key, **whole), keeper=keep), **whole)
    return kept[0]


@pytest.mark.parametrize(
    ("tool", "args", "other"), [("create", PAGE, {}), ("update", UPDATE, {"id": SECOND})]
)
def test_a_change_passes_the_exam_for_the_network(
    desk: Desk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    args: dict[str, Any],
    other: dict[str, Any],
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    report = take_exam(desk, Notion, tool, args, tmp_path, monkeypatch, other=other, skips=1)
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


async def test_values_come_back_as_they_were_given(desk: Desk, notion: Any) -> None:
    """K12: a text is texts of 2,000 characters, and nothing else."""
    made = await send(notion, "create", **PAGE)
    assert (await notion.get(made["id"]))["values"] == VALUES
    sent = desk.asked("POST /pages")[-1].body.decode()
    assert '"content":"[x](y) @ada"' in sent
    (found,) = (await notion.query(DATABASE, where={"Status": "Open", "Tags": "a"})).items
    assert found["id"] == made["id"]
    assert await notion.get(FIRST.replace("a0", "b0")) is None


async def test_a_page_that_was_changed_is_still_found_by_its_first_key(notion: Any) -> None:
    """L5: the call that made it, and the call that changed it last."""
    made = await send(notion, "create", **PAGE)
    assert await update(notion, "k2", id=made["id"]) == {"keys": ["k1"]}
    assert await update(notion, "k3", id=made["id"]) == {"keys": ["k1", "k2"]}
    assert await happened(notion, "create", **PAGE) == Applied(made)
    for key in ("k2", "k3", "k4"):
        assert await happened(notion, "create", key, **PAGE) == NotApplied()
    call = make_call("notion.update", "k2", **{**UPDATE, "id": made["id"]})
    assert await notion.update_happened(call) == NotApplied()
    assert isinstance(await notion.update_happened(replace(call, handle={"keys": ["k1"]})), Unsure)
    last = replace(call, key="k3", handle={"keys": ["k1", "k2"]})
    assert await notion.update_happened(last) == Applied(made)
    late = replace(call, key="k4", handle={"keys": ["k1", "k3"]})
    assert await notion.update_happened(late) == NotApplied()


async def test_no_page_is_missed(desk: Desk, notion: Any) -> None:
    """K11: times of Notion are minutes, and one may have more than a page."""
    for number in range(250):
        desk.put(TOKEN, f"n{number}", f"2026-02-01T00:{number // 120:02}:00.000Z")
    seen: set[str] = set()
    after, has_more = None, True
    while has_more:
        page = await notion.query(DATABASE, after=after)
        seen |= {each["values"]["Name"] for each in page.items}
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert seen == {"One", "Two", *(f"n{number}" for number in range(250))}
    with pytest.raises(Refused, match="no cursor"):
        await notion.query(DATABASE, after="x")


@pytest.mark.parametrize(
    "args",
    [
        {"database": "../x"},
        {"database": DATABASE.replace("d0", "d1")},
        {"values": {"Nothing": 1}},
        {"values": {"Count": "3"}},
        {"values": {"Count": True}},
        {"values": {"Done": "yes"}},
        {"values": {"Status": "a,b"}},
        {"values": {"Tags": ["x" * 101]}},
        {"values": {"Name": "x" * 200_001}},
        {"text": "\n" * 101},
    ],
)
async def test_what_notion_would_refuse_is_not_sent(
    desk: Desk, notion: Any, args: dict[str, Any]
) -> None:
    before = len(desk.asked("POST /pages"))
    with pytest.raises(Refused):
        await send(notion, "create", **{**PAGE, **args})
    assert len(desk.asked("POST /pages")) == before


async def test_a_database_without_the_property_of_keys_is_refused(desk: Desk) -> None:
    """K10: with what to do."""
    desk.give_token(TOKEN)
    notion = reach(desk, Notion, key_property="Key")
    with pytest.raises(Refused, match="no text property 'Key'"):
        await send(notion, "create", **PAGE)


async def test_a_refusal_of_notion_is_understood(desk: Desk, notion: Any) -> None:
    """K8, L4."""
    desk.plan(PlannedMishap(Mishap.STATUS, "POST", status=429, headers={"Retry-After": "2"}))
    with pytest.raises(Transient) as caught:
        await send(notion, "create", **PAGE)
    assert (caught.value.retry_after_s, caught.value.outcome) == (2, "refused")
    desk.give_token("reader", ("read",))
    with pytest.raises(PermissionDenied):
        await send(reach(desk, Notion, "reader"), "create", **PAGE)
    with pytest.raises(AuthNeeded):
        await send(reach(desk, Notion, "none"), "create", **PAGE)
