"""Airtable: one key is one row, a value is never a formula, and no row is missed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.airtable import Airtable
from duly.connectors.base import Applied, NotApplied, Unsure
from duly.errors import AuthNeeded, ConfigError, PermissionDenied, Refused, Transient
from duly.testing.doubles.airtable import BASE, TABLE, AirtableDouble
from duly.testing.doubles.base import Mishap, PlannedMishap
from tests.connectors.service_exam import TOKEN, happened, make_call, reach, send, take_exam

pytestmark = pytest.mark.anyio

ROW: dict[str, Any] = {"table": TABLE, "values": {"Name": "Tea", "Count": 3}}
MERGE: dict[str, Any] = {**ROW, "merge_on": "Name"}


@pytest.fixture(scope="module")
def desk() -> Iterator[AirtableDouble]:
    with AirtableDouble() as made:
        yield made


@pytest.fixture
def airtable(desk: AirtableDouble) -> Any:
    desk.accounts.clear()
    desk.give_token(TOKEN)
    return reach(desk, Airtable, base=BASE)


async def upsert(airtable: Any, key: str = "k1", **args: Any) -> tuple[Any, Any]:
    """Make a change, and return what it kept."""
    kept: list[Any] = []

    async def keep(handle: Any) -> None:
        kept.append(handle)

    whole = {**MERGE, **args}
    call = replace(make_call("airtable.upsert", key, **whole), keeper=keep)
    return await airtable.upsert(call, **whole), kept[0]


@pytest.mark.parametrize(
    ("tool", "args", "other", "skips"),
    [("create", ROW, {}, 0), ("upsert", MERGE, {"values": {"Name": "Milk"}}, 1)],
)
def test_a_change_passes_the_exam_for_the_network(
    desk: AirtableDouble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    args: dict[str, Any],
    other: dict[str, Any],
    skips: int,
) -> None:
    """L4, L5, K2: cut, lost, silent, senseless, and every status."""
    report = take_exam(
        *(desk, Airtable, tool, args, tmp_path, monkeypatch), other=other, skips=skips, base=BASE
    )
    assert "it said unknown, it was done, reconcile said Applied" in str(report)


async def test_one_key_is_one_row(desk: AirtableDouble, airtable: Any) -> None:
    """L5: sent twice, and beside its twin."""
    made = await send(airtable, "create", **ROW)
    assert await send(airtable, "create", **ROW) == made
    await send(airtable, "create", "k2", **ROW)
    assert len(desk.account(TOKEN)["rows"]) == 2
    assert await happened(airtable, "create", **ROW) == Applied(made)
    assert await happened(airtable, "create", "k3", **ROW) == NotApplied()


async def test_a_row_that_a_third_call_changed_is_left_to_a_person(airtable: Any) -> None:
    """L5, L14: not written over once more."""
    _, first = await upsert(airtable)
    assert first == ["", ""]
    _, kept = await upsert(airtable, "k2", values={"Name": "Tea", "Count": 4})
    call = replace(make_call("airtable.upsert", "k3", **MERGE), handle=kept)
    assert isinstance(await airtable.upsert_happened(call), Unsure)
    still = replace(call, handle=[kept[0], "k2"])
    assert await airtable.upsert_happened(still) == NotApplied()
    assert await airtable.upsert_happened(replace(call, handle=None)) == NotApplied()


async def test_two_rows_of_one_value_are_left_alone(desk: AirtableDouble, airtable: Any) -> None:
    for _ in range(2):
        desk.put(TOKEN, Name="Tea")
    with pytest.raises(Refused, match="2 rows have this value"):
        await upsert(airtable)
    call = replace(make_call("airtable.upsert", **MERGE), handle=["", ""])
    assert isinstance(await airtable.upsert_happened(call), Unsure)


async def test_a_value_is_never_a_formula(desk: AirtableDouble, airtable: Any) -> None:
    """K12: quotes, backslashes and line ends stay what they are."""
    odd = 'x",TRUE(),"\\\n{Name}'
    await send(airtable, "create", table=TABLE, values={"Name": odd})
    desk.put(TOKEN, Name="Tea", Done=True, Count=2)
    (found,) = (await airtable.rows(TABLE, where={"Name": odd})).items
    assert found["values"]["Name"] == odd
    (found,) = (await airtable.rows(TABLE, where={"Done": True, "Count": 2})).items
    assert found["values"]["Name"] == "Tea"
    assert (await airtable.get(TABLE, found["id"]))["values"] == found["values"]
    assert await airtable.get(TABLE, "rec9999") is None
    for where in ({"a}=1,{b": 1}, {"Name": ["x"]}, {"Name": None}):
        with pytest.raises(Refused, match="where"):
            await airtable.rows(TABLE, where=where)


async def test_no_row_is_missed(
    desk: AirtableDouble, airtable: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K11: equal times, in the order in which they were made, whatever the view."""
    for number in range(250):
        desk.put(TOKEN, f"2026-01-{1 + number // 110:02}T00:00:00.000Z", Count=number)
    desk.account(TOKEN)["rows"].reverse()
    seen: set[int] = set()
    after, has_more = None, True
    while has_more:
        page = await airtable.rows(TABLE, after=after)
        seen |= {each["values"]["Count"] for each in page.items}
        after, has_more = page.names["last_cursor"], page.names["has_more"]
    assert seen == set(range(250))
    monkeypatch.setattr("duly.connectors.airtable.PAGES_MAX", 2)
    with pytest.raises(Refused, match="more than 200 such rows"):
        await airtable.rows(TABLE)
    with pytest.raises(Refused, match="no cursor"):
        await airtable.rows(TABLE, after="x")


async def test_what_airtable_would_refuse_is_refused(desk: AirtableDouble, airtable: Any) -> None:
    """K8: five requests a second; a limit lasts 30 s."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        *((TABLE, each) for each in ({"Nothing": 1}, {"Name": 1}, {"Duly key": "x"})),
        ("None", {}),
        ("", {}),
    ]
    for table, values in wrong:
        with pytest.raises(Refused):
            await send(airtable, "create", table=table, values=values)
    with pytest.raises(Refused, match="is missing"):
        await upsert(airtable, values={})
    desk.give_token("reader", ("data.records:read",))
    with pytest.raises(PermissionDenied):
        await send(reach(desk, Airtable, "reader", base=BASE), "create", **ROW)
    with pytest.raises(AuthNeeded):
        await send(reach(desk, Airtable, "none", base=BASE), "create", **ROW)
    desk.plan(PlannedMishap(Mishap.STATUS, status=429))
    with pytest.raises(Transient) as caught:
        await send(airtable, "create", **ROW)
    assert (caught.value.retry_after_s, caught.value.outcome) == (30, "refused")
    with pytest.raises(ConfigError, match="base"):
        Airtable(base="x")
