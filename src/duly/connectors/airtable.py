"""Airtable: rows of one base, made and changed once.

    [connectors.airtable]
    use = "airtable"            # then: duly secret set airtable token   (pat…)
    base = "appXXXXXXXXXXXXXX"

Law 1: each table has a text field for keys (`Duly key`). A row is made by an upsert on that field,
       so one key is one row, however often it is sent.
Law 2: a change of a row keeps, before it is sent, which call changed the row last. If that is still
       so it did not happen; if a third call did, a person decides (L5, L14).
Law 3: what a script compares with is a value and never a formula (K12).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict
from urllib.parse import quote

from duly.connectors.base import Applied, Call, NotApplied, Page, Unsure, Verdict, mutation, read
from duly.connectors.json_answer import pick
from duly.connectors.need import Need
from duly.connectors.rest import FIND_S, PAGES_MAX, READ_S
from duly.connectors.token_service import TokenService, cut_page, list_at, text_at
from duly.errors import ConfigError, NotSent, Refused, Transient, UnknownOutcome
from duly.rules.value import Json

BASE: Final = re.compile(r"app[A-Za-z0-9]{3,30}")
ROW: Final = re.compile(r"rec[A-Za-z0-9]{3,30}")
TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,12}Z")
NAME_CHARS_MAX: Final = 255
PAGE: Final = 100
BUSY_S: Final = 30  # what Airtable asks for after more than five requests in a second
KEY_FIELD: Final = "Duly key"
NO_VALUES: Final[Mapping[str, Json]] = {}


class AirtableRow(TypedDict):
    """A row: its id, when it was made, and its values by the names of the fields."""

    id: str
    created_at: str
    values: dict[str, Any]


class AirtableMade(TypedDict):
    """The row that a change made or changed."""

    id: str


class Airtable(TokenService):
    """One base; `key_field` is the text field of its tables in which keys stand."""

    name = "airtable"
    home = "https://api.airtable.com/v0"
    busy_s = BUSY_S
    needs = (Need("base", "the id of the base, out of its address", "appXXXXXXXXXXXXXX"),)

    def __init__(
        self,
        url: str = "",
        base: str = "",
        *,
        key_field: str = KEY_FIELD,
        secret: str = "token",
        allow: Sequence[str] = (),
        ca: str | Path | None = None,
        name: str = "",
    ) -> None:
        super().__init__(url, secret=secret, allow=allow, ca=ca, name=name)
        if not BASE.fullmatch(base):
            raise ConfigError(f"base: {base[:50]!r} is no base. Its address has it: app….")
        self._base = base
        self._key_field = key_field

    def _relies_on(self, method: str) -> Json:
        """Return the account, the base and the field of keys (K10)."""
        return [super()._relies_on(method), self._base, self._key_field]

    # -- Reads ------------------------------------------------------------------------------------

    @read
    async def rows(
        self, table: str, where: dict[str, Any] | None = None, after: str | None = None
    ) -> Page[AirtableRow]:
        """List the rows of a table, the oldest first; `where={"Name": "Tea"}` compares values.

        Returns a page of {id, created_at, values}; with `after` those made since, once more the
        last ones. `values` leaves out an empty cell and a checkbox that is not ticked; in `where`
        capitals count.
        """
        parts = [_equals(name, value) for name, value in (where or {}).items()]
        if after is not None:
            if not TIME.fullmatch(after):
                raise Refused(f"after is {after[:50]!r}, which is no cursor of rows.")
            parts.append(f"NOT(IS_BEFORE(CREATED_TIME(),DATETIME_PARSE({_quoted(after)})))")
        found = [_row(each) for each in await self._all(table, _and(parts), READ_S)]
        found.sort(key=lambda each: (each["created_at"], each["id"]))
        page, is_more = cut_page(found, "created_at", after, PAGE)
        last = page[-1]["created_at"] if page else after
        return Page(page, last_cursor=last, has_more=is_more)

    @read(by_id=True)
    async def get(self, table: str, id: str) -> AirtableRow | None:  # noqa: A002
        """Read one row by its id.

        Returns {id, created_at, values}, or nothing.
        """
        if not ROW.fullmatch(id):
            raise Refused(f"id: {id[:50]!r} is no id of a row.")
        answer = await self.fetch_one(f"{self._table(table)}/{id}")
        return None if answer is None else _row(answer)

    # -- Changes ----------------------------------------------------------------------------------

    @mutation(
        noun="row",
        lag_s=60,
        key_in="field",
        asked="exactly",
        deleted="unseen",
        labels={"table": "Table", "values": "Values"},
    )
    async def create(self, call: Call, table: str, values: dict[str, Any]) -> AirtableMade:
        """Add a row.

        Returns {id}.
        """
        return await self._upsert(call, table, self._key_field, values)

    @create.reconcile
    async def create_happened(self, call: Call) -> Verdict:
        """Look for the row with the key."""
        found = await self._all(
            str(call.args["table"]), _equals(self._key_field, call.key), FIND_S, is_proof=True
        )
        own = [each for each in found if pick(each, "fields") and self._key_of(each) == call.key]
        if found and not own:
            return Unsure("a row was found, and it does not show the key")
        return Applied({"id": text_at(own[0], "id")}) if own else NotApplied()

    @create.trial
    def create_tried(self) -> Mapping[str, Json] | None:
        """Adds one row to a table that you name."""
        return None

    @mutation(
        noun="row",
        lag_s=60,
        key_in="field",
        asked="exactly",
        deleted="unseen",
        labels={"table": "Table", "merge_on": "Found by", "values": "Values"},
    )
    async def upsert(
        self, call: Call, table: str, merge_on: str, values: dict[str, Any]
    ) -> AirtableMade:
        """Change the row whose field `merge_on` has this value, capitals and all, or add one.

        Two such rows are refused. Returns {id}.
        """
        if values.get(merge_on) in (None, ""):
            raise Refused(f"values: {merge_on!r} is missing, by which the row is found.")
        try:
            before = await self._find(table, merge_on, values[merge_on], is_proof=False)
        except Transient as error:
            raise NotSent(str(error), retry_after_s=error.retry_after_s) from error
        await call.keep(before)
        return await self._upsert(call, table, merge_on, values)

    @upsert.reconcile
    async def upsert_happened(self, call: Call) -> Verdict:
        """Look which call changed the row last."""
        if not isinstance(call.handle, list):
            return NotApplied()
        merge_on, values = str(call.args["merge_on"]), call.args["values"]
        value = values.get(merge_on) if isinstance(values, dict) else None
        try:
            now = await self._find(str(call.args["table"]), merge_on, value, is_proof=True)
        except Refused as error:
            return Unsure(str(error))
        if now[1] == call.key:
            return Applied({"id": now[0]})
        if now == call.handle:
            return NotApplied()
        return Unsure("another call changed the row since")

    # -- Within -----------------------------------------------------------------------------------

    async def _upsert(
        self, call: Call, table: str, merge_on: str, values: Mapping[str, Json]
    ) -> AirtableMade:
        if self._key_field in values:
            raise Refused(f"values: {self._key_field!r} is the field of keys. Leave it out.")
        fields: dict[str, Json] = {**values, self._key_field: call.key}
        body: Json = {
            "performUpsert": {"fieldsToMergeOn": [merge_on]},
            "records": [{"fields": fields}],
        }
        answer = await self.change(call, "PATCH", self._table(table), body=body)
        made = list_at(answer, "records")
        if len(made) != 1 or self._key_of(made[0]) != call.key:
            raise UnknownOutcome(f"{call.tool}: the answer does not name the row.")
        return {"id": text_at(made[0], "id")}

    async def _find(self, table: str, field: str, value: Json, *, is_proof: bool) -> list[Json]:
        """Return the id and the last key of the row with a value; two such rows are refused."""
        found = await self._all(table, _equals(field, value), FIND_S, is_proof=is_proof)
        if len(found) > 1:
            raise Refused(f"{table}: {len(found)} rows have this value in {field!r}.")
        return [text_at(found[0], "id"), self._key_of(found[0])] if found else ["", ""]

    def _key_of(self, row: Any) -> str:
        fields = pick(row, "fields")
        found = fields.get(self._key_field) if isinstance(fields, dict) else None
        return found if isinstance(found, str) else ""

    async def _all(
        self, table: str, formula: str, limit_s: float, *, is_proof: bool = False
    ) -> list[Any]:
        """Read the rows that fit a formula, to their end."""
        query: dict[str, Json] = {"pageSize": PAGE}
        if formula:
            query["filterByFormula"] = formula
        found: list[Any] = []
        path = self._table(table)
        for _ in range(PAGES_MAX):
            answer = await self.fetch(path, query, timeout_s=limit_s, is_proof=is_proof)
            records = pick(answer, "records")
            if not isinstance(records, list):
                raise Transient(f"GET {path}: the answer has no rows.")
            found += records
            if not (offset := text_at(answer, "offset")):
                return found
            query["offset"] = offset
        most = f"{PAGES_MAX * PAGE:,}"
        raise Refused(f"{table} has more than {most} such rows. Say where, or after.")

    def _table(self, table: str) -> str:
        if not table.strip() or len(table) > NAME_CHARS_MAX or not table.isprintable():
            raise Refused(f"table: {table[:50]!r} cannot be the name of a table.")
        return f"/{self._base}/{quote(table, safe='')}"


def _row(each: Any) -> AirtableRow:
    fields = pick(each, "fields")
    values = fields if isinstance(fields, dict) else {}
    return {"id": text_at(each, "id"), "created_at": text_at(each, "createdTime"), "values": values}


def _equals(name: str, value: Json) -> str:
    """Write a comparison; the value stays a value (law 3)."""
    if "}" in name or "{" in name or "\\" in name or not name.isprintable():
        raise Refused(f"where: {name[:50]!r} cannot be compared with: its name has a brace.")
    if isinstance(value, bool):
        return f"{{{name}}}={'TRUE()' if value else 'FALSE()'}"
    if isinstance(value, int | float):
        return f"{{{name}}}={value!r}"
    if not isinstance(value, str):
        raise Refused(f"where: {name!r} is no text, no number and not true or false.")
    return f"{{{name}}}={_quoted(value)}"


def _quoted(text: str) -> str:
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + inner.replace("\r", "\\r").replace("\t", "\\t") + '"'


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"AND({','.join(parts)})" if parts else ""
