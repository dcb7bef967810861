"""Breaks of S3, calendars, mails and documents: what is there stays, limits hold."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from duly.connectors import document_text as text
from duly.connectors.base import Applied, Call
from duly.connectors.calendar import Calendar
from duly.connectors.conflict import Look
from duly.connectors.s3 import S3
from duly.errors import Refused
from tests.breaks import Break

S3_TESTS = "tests/connectors/test_s3.py"
CALENDAR_TESTS = "tests/connectors/test_calendar.py"
LABEL_TESTS = "tests/connectors/test_google_label.py"
DOCUMENTS = "tests/connectors/test_documents.py"
LOST = "tests/connectors/test_no_arrival_is_lost.py"
WALK = f"{LOST}::test_what_is_added_or_removed_between_two_looks_is_not_lost"
SIGNED, PUT = S3._signed, Calendar._put


def _without_condition(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "If-None-Match"}


def _sign_unconditional(
    self: S3, method: str, url: Any, headers: Mapping[str, str], body: bytes
) -> Any:
    return SIGNED(self, method, url, _without_condition(headers), body)


async def _put_unconditional(
    self: Calendar, call: Any, own: str, body: str, headers: Mapping[str, str]
) -> bool:
    return await PUT(self, call, own, body, _without_condition(headers))


def _unpack_all(asked: bytes) -> text.ZipBytes:
    """Unpack an entry, whatever comes of it."""
    said, _, data = asked.partition(text.SEPARATOR)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return text.ZipBytes(archive.read(msgspec.json.decode(said, type=str)))


def _list_all(data: bytes) -> Iterator[zipfile.ZipInfo]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return iter(archive.infolist())


async def _prove_nothing(self: S3, headers: Mapping[str, str], data: bytes) -> None:
    return None


async def _is_there(self: Any) -> bool:
    return False


async def _refuse_what_is_there(call: Call, look: Look, said: str) -> Applied:
    raise Refused(said)


BREAKS = (
    Break(
        "L5",
        "duly.connectors.gmail",
        "_version",
        lambda call: None,
        (f"{LABEL_TESTS}::test_what_a_person_undid_since_is_not_done_again",),
        "a label that a person took away is set again",
    ),
    Break(
        "L4",
        "duly.connectors.s3",
        "find_own",
        _refuse_what_is_there,
        (f"{S3_TESTS}::test_a_request_that_a_proxy_repeats_is_done_once_and_not_refused",),
        "a put that was made counts as refused",
    ),
    Break(
        "L5",
        "duly.connectors.s3",
        "S3._signed",
        _sign_unconditional,
        (f"{S3_TESTS}::test_what_is_there_is_not_replaced",),
        "an object of a person is written over",
    ),
    Break(
        "K10",
        "duly.connectors.s3",
        "S3._prove_precondition",
        _prove_nothing,
        (f"{S3_TESTS}::test_a_server_that_puts_one_object_over_another_is_not_proven",),
        "a server that puts one object over another is proven",
    ),
    Break(
        "L5",
        "duly.connectors.s3",
        "S3._is_bucket_gone",
        _is_there,
        (f"{S3_TESTS}::test_a_bucket_that_is_gone_says_nothing_of_its_objects",),
        "an object counts as deleted because its bucket is gone",
    ),
    Break(
        "L5",
        "duly.connectors.calendar",
        "Calendar._is_gone",
        _is_there,
        (f"{CALENDAR_TESTS}::test_a_calendar_that_is_gone_says_nothing_of_its_events",),
        "an event counts as deleted because its calendar is gone",
    ),
    Break(
        "L7",
        "duly.connectors.s3",
        "S3._signed",
        _sign_unconditional,
        (f"{S3_TESTS}::test_a_second_send_changes_nothing_and_is_found",),
        "an object is put a second time",
    ),
    Break(
        "L7",
        "duly.connectors.calendar",
        "Calendar._put",
        _put_unconditional,
        (f"{CALENDAR_TESTS}::test_a_second_send_makes_no_second_event",),
        "an event is written over by a second send",
    ),
    Break(
        "K7",
        "duly.connectors.document_text",
        "read_zip_entry",
        _unpack_all,
        (DOCUMENTS,),
        "an entry of an archive unpacks without a limit",
    ),
    Break(
        "K7",
        "duly.connectors.document_text",
        "_entries",
        _list_all,
        (DOCUMENTS,),
        "an archive lists as many entries as it likes",
    ),
    Break(
        "K7",
        "duly.connectors.document_text",
        "_cut",
        lambda length: None,
        (DOCUMENTS,),
        "a text that was cut does not say so",
    ),
    Break(
        "K11",
        "duly.connectors.rest",
        "cursor_at_end",
        lambda paging, after, *, has_items: after,
        (f"{WALK}[github.releases]", f"{WALK}[drive.list]"),
        "a list that changes anywhere goes on where it ended",
    ),
    Break(
        "K11",
        "duly.connectors.sheets",
        "seal_of",
        lambda rows: "0123456789abcdef",
        (f"{WALK}[sheets.read]",),
        "a cursor of a sheet holds although rows above it were deleted",
    ),
)
