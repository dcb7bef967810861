"""Airtable's Web API on loopback, as https://airtable.com/developers/web/api describes it.

Served are list records (with `filterByFormula`, 100 to a page), get record, and update multiple
records with `performUpsert`. A field that the table does not have, a value of another type, and
more than ten records are rejected with 422; more than one record to merge with, and a text longer
than support.airtable.com says (supported field types), too. The formulas that it reads are the ones
that connectors write: equal, a creation time, and AND of these.
"""

from __future__ import annotations

import re
from typing import Any, Final

from duly.testing.doubles.base import Rejected, ServiceAsk, ServiceDouble, ServiceReply, route
from duly.testing.doubles.moment import write_moment
from duly.testing.doubles.shape import ANYTHING, needed

BASE: Final = "appTea123"
TABLE: Final = "Orders"
FIELDS: Final = {"Name": str, "Count": int, "Done": bool, "Duly key": str}
TEXT_CHARS_MAX: Final = 100_000
UPSERT: Final = {
    "performUpsert": needed({"fieldsToMergeOn": needed([str])}),
    "records": needed([{"fields": needed(ANYTHING), "id": str}]),
    "typecast": bool,
}
TEXT: Final = r'"((?:[^"\\]|\\.)*)"'
EQUAL: Final = re.compile(rf"\{{([^{{}}]+)\}}=(?:{TEXT}|(TRUE\(\))|(FALSE\(\))|(-?[0-9.]+))")
MADE: Final = re.compile(rf"NOT\(IS_BEFORE\(CREATED_TIME\(\),DATETIME_PARSE\({TEXT}\)\)\)")
SAID: Final = {
    "unauthorized": (401, "AUTHENTICATION_REQUIRED"),
    "insufficient_scope": (403, "INVALID_PERMISSIONS_OR_MODEL_NOT_FOUND"),
    "unsupported_media_type": (422, "INVALID_REQUEST_BODY"),
    "invalid_json": (422, "INVALID_REQUEST_BODY"),
    "invalid_request": (422, "INVALID_REQUEST_UNKNOWN"),
    "not_found": (404, "NOT_FOUND"),
    "method_not_allowed": (404, "NOT_FOUND"),
}


class AirtableDouble(ServiceDouble):
    """One base with one table for each token."""

    page_max = 100

    def new_account(self) -> dict[str, Any]:
        """Return a base with an empty table."""
        return {"rows": [], "changes": 0}

    def effects(self, account: dict[str, Any]) -> int:
        """Count the rows that were made, and the changes of the others."""
        return int(account["changes"])

    def rejection(self, rejected: Rejected) -> ServiceReply:
        """Spell a refusal as Airtable does."""
        status, kind = SAID.get(rejected.reason, (422, rejected.reason))
        return ServiceReply({"error": {"type": kind, "message": rejected.message}}, status)

    def put(self, account: str, at: str = "", **fields: Any) -> str:
        """Let a person add a row; return its id."""
        return str(self._put(self.account(account), fields, at)["id"])

    @route("PATCH", "/{base}/{table}", scopes=("data.records:write",), query=())
    def upsert(self, ask: ServiceAsk, base: str, table: str) -> ServiceReply:
        """Change the records that are found by their fields, and make the others."""
        _check_place(base, table)
        body = self.json_of(ask, UPSERT)
        merge_on, records = body["performUpsert"]["fieldsToMergeOn"], body["records"]
        if not 1 <= len(merge_on) <= 3 or not 1 <= len(records) <= 10:
            raise Rejected(422, "INVALID_REQUEST_UNKNOWN")
        for each in (*merge_on, *(name for record in records for name in record["fields"])):
            if each not in FIELDS:
                raise Rejected(422, "UNKNOWN_FIELD_NAME", f'Unknown field name: "{each}"')
        texts = (one for each in records for one in each["fields"].values() if isinstance(one, str))
        if any(len(each) > TEXT_CHARS_MAX for each in texts):
            raise Rejected(422, "INVALID_VALUE_FOR_COLUMN")
        done = [self._merge(ask, record["fields"], merge_on) for record in records]
        made = [row["id"] for row, is_new in done if is_new]
        changed = [row["id"] for row, is_new in done if not is_new]
        rows = [row for row, _ in done]
        return ServiceReply({"records": rows, "createdRecords": made, "updatedRecords": changed})

    @route(
        "GET",
        "/{base}/{table}",
        scopes=("data.records:read",),
        query=("pageSize", "offset", "filterByFormula"),
    )
    def rows(self, ask: ServiceAsk, base: str, table: str) -> ServiceReply:
        """List records."""
        _check_place(base, table)
        formula = ask.query.get("filterByFormula", "")
        found = [each for each in ask.account["rows"] if _fits(each, formula)]
        at = int(ask.query.get("offset", "0").removeprefix("itr/"))
        size = min(int(ask.query.get("pageSize", 100)), self.page_max)
        answer: dict[str, Any] = {"records": found[at : at + size]}
        if at + size < len(found):
            answer["offset"] = f"itr/{at + size}"
        return ServiceReply(answer)

    @route("GET", "/{base}/{table}/{row}", scopes=("data.records:read",))
    def row(self, ask: ServiceAsk, base: str, table: str, row: str) -> ServiceReply:
        """Show one record."""
        _check_place(base, table)
        found = [each for each in ask.account["rows"] if each["id"] == row]
        if not found:
            raise Rejected(404, "not_found")
        return ServiceReply(found[0])

    def _merge(
        self, ask: ServiceAsk, fields: dict[str, Any], merge_on: list[str]
    ) -> tuple[dict[str, Any], bool]:
        for name, value in fields.items():
            if not isinstance(value, FIELDS[name]):
                raise Rejected(422, "INVALID_VALUE_FOR_COLUMN", f'Field "{name}" cannot accept it')
        wanted = [fields.get(name) for name in merge_on]
        found: list[dict[str, Any]] = [
            each
            for each in ask.account["rows"]
            if [each["fields"].get(name) for name in merge_on] == wanted
        ]
        if len(found) > 1:
            raise Rejected(422, "INVALID_REQUEST_UNKNOWN", "Several records match")
        ask.account["changes"] += 1
        if not found:
            return self._put(ask.account, fields), True
        is_same = found[0]["fields"] == {**found[0]["fields"], **fields}
        ask.account["changes"] -= is_same  # the same once more changes nothing
        found[0]["fields"] |= fields
        return found[0], False

    def _put(self, account: dict[str, Any], fields: Any, at: str = "") -> dict[str, Any]:
        made_at = at or write_moment("%Y-%m-%dT%H:%M:%S.000Z")
        row = {"id": f"rec{len(account['rows']) + 1:04}", "createdTime": made_at}
        account["rows"].append({**row, "fields": dict(fields)})
        made: dict[str, Any] = account["rows"][-1]
        return made


def _check_place(base: str, table: str) -> None:
    if (base, table) != (BASE, TABLE):
        raise Rejected(404, "not_found")


def _fits(row: dict[str, Any], formula: str) -> bool:
    inner = formula[4:-1] if formula.startswith("AND(") else formula
    rest = inner
    while rest:
        found = EQUAL.match(rest) or MADE.match(rest)
        if found is None:
            raise Rejected(422, "INVALID_FILTER_BY_FORMULA", f"The formula cannot be read: {rest}")
        is_fit = row["createdTime"] >= found[1] if found.re is MADE else _compare(row, found)
        if not is_fit:
            return False
        rest = rest[found.end() :].removeprefix(",")
    return True


def _compare(row: dict[str, Any], found: re.Match[str]) -> bool:
    name, text, is_true, is_false, number = found.groups()
    if name not in FIELDS:
        raise Rejected(422, "INVALID_FILTER_BY_FORMULA", f"Unknown field names: {name}")
    value = row["fields"].get(name)
    if is_true or is_false:
        return bool(value) is bool(is_true)
    if number is not None:
        return bool(value == float(number))
    plain = re.sub(r"\\(.)", lambda each: {"n": "\n", "t": "\t"}.get(each[1], each[1]), text)
    return bool((value or "") == plain)
