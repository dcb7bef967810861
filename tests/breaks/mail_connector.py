"""Breaks of the mail account: what a mail is found by, when it was sent, whom it is said to."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any

from duly.connectors.base import Call
from duly.connectors.imap import ImapSession, quote
from duly.connectors.letter import keyword_of
from duly.connectors.line_wire import LineWire
from duly.errors import NotSent
from tests.breaks import Break

MAIL = "tests/connectors/test_mail_account.py"
SERVER = "tests/connectors/test_mail_server.py"
REAL = "tests/connectors/test_mail_real.py"
LIAR = "tests/connectors/test_mail_liar.py"
EXAM = "tests/connectors/test_network_exam.py"


async def _go_on(self: LineWire, context: Any) -> None:
    await self._writer.start_tls(context, server_hostname=self._server.host)


async def _trust_all(self: LineWire, context: ssl.SSLContext) -> None:
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    await self._writer.start_tls(anyone, server_hostname=self._server.host)


async def _expunge_all(self: ImapSession, uid: int, folder: str) -> None:
    await self.command("UID COPY", str(uid), quote(folder))
    await self.mark(uid, r"\Deleted")
    await self.command("EXPUNGE")


async def _believe_a_search(session: ImapSession, call: Call, *terms: str) -> bool:
    return bool(await session.search(*terms, f"KEYWORD {keyword_of(call.key)}"))


async def _believe_the_list(
    self: ImapSession, first: int, last: int, age: Sequence[str] = ()
) -> list[int]:
    return await self.search(f"UID {first}:{last}", *age)


async def _deny_a_copy(self: ImapSession, uid: int, folder: str) -> None:
    await self.command("UID COPY", str(uid), quote(folder))
    await self.mark(uid, r"\Deleted")
    await self.command("UID EXPUNGE", str(uid))


BREAKS = (
    Break(
        "K11",
        "duly.connectors.reader",
        "STARVED_MAX",
        1,
        ("tests/connectors/test_reader.py::test_a_busy_machine_makes_no_mail_unreadable",),
        "a busy machine makes a mail unreadable",
    ),
    Break(
        "K11",
        "duly.connectors.imap",
        "ImapSession.list_ids",
        _believe_the_list,
        (f"{LIAR}::test_a_search_that_misses_a_mail_loses_none",),
        "a mail that a search leaves out is passed over",
    ),
    Break(
        "L4",
        "duly.connectors.imap",
        "ImapSession.move",
        _deny_a_copy,
        (f"{LIAR}::test_a_mail_that_was_copied_and_not_removed_is_no_refusal",),
        "a mail that was copied and not removed counts as not moved",
    ),
    Break(
        "K11",
        "duly.connectors.mail_account",
        "last_of",
        lambda after, opened: int(after.partition(".")[2]) if after else 0,
        (f"{LIAR}::test_a_folder_whose_ids_went_back_is_read_from_its_beginning",),
        "mails of a restored folder are passed over",
    ),
    Break(
        "L4",
        "duly.connectors.smtp",
        "CLOSING",
        0,
        (f"{SERVER}::test_an_end_without_a_reply_is_unknown",),
        "an end of the connection is taken for a refusal of the mail",
    ),
    Break(
        "L5",
        "duly.connectors.mail_account",
        "has_mark",
        _believe_a_search,
        ("tests/connectors/test_found_mail.py::test_a_mark_that_every_mail_has_is_no_mark",),
        "a mark that every mail has counts as that of the call",
    ),
    Break(
        "L4",
        "duly.connectors.smtp",
        "_Progress.is_sent",
        property(lambda self: False, lambda self, value: None),
        (f"{SERVER}::test_an_end_without_a_reply_is_unknown",),
        "a mail whose last line left is said not to have been sent",
    ),
    Break(
        "L5",
        "duly.connectors.letter",
        "mark_of",
        lambda key: "0" * 32,
        (f"{MAIL}::test_a_mail_is_moved_and_flagged_and_found_by_its_mark",),
        "every call has the same mark",
    ),
    Break(
        "K3",
        "duly.connectors.line_wire",
        "LineWire.start_tls",
        _go_on,
        (f"{SERVER}::test_what_is_said_before_tls_ends_the_connection",),
        "what was said before TLS counts afterwards",
    ),
    Break(
        "K6",
        "duly.connectors.imap",
        "RESPONSES_MAX",
        10**9,
        (f"{SERVER}::test_a_server_that_makes_no_sense_is_a_temporary_error",),
        "a server may answer without end",
    ),
    Break(
        "K6",
        "duly.connectors.imap",
        "TOKENS_MAX",
        10**9,
        (f"{REAL}::test_no_line_holds_the_host",),
        "one line may have any number of words",
    ),
    Break(
        "L13",
        "duly.connectors.imap",
        "TURN_BYTES",
        10**9,
        (f"{REAL}::test_others_get_their_turn_between_lines",),
        "lines that came together are read in one turn of the loop",
    ),
    Break(
        "L5",
        "duly.connectors.imap",
        "ImapSession.move",
        _expunge_all,
        (f"{REAL}::test_a_server_without_move_copies_and_removes_one_mail",),
        "a move removes what a person had marked",
    ),
    Break(
        "K11",
        "duly.connectors.mail_account",
        "last_of",
        lambda after, opened: 0 if after is None else int(after.partition(".")[2]),
        (f"{MAIL}::test_a_folder_that_was_made_anew_is_read_from_its_beginning",),
        "ids of another validity count",
    ),
    Break(
        "L4",
        "duly.connectors.mail_account",
        "UnknownOutcome",
        NotSent,
        (f"{EXAM}::test_what_files_a_mail_passes",),
        "a change of a folder whose answer is lost is said not to have been made",
    ),
    Break(
        "L4",
        "duly.connectors.imap",
        "Denied.is_certain",
        True,
        (f"{LIAR}::test_a_no_to_a_move_is_a_no_only_where_nothing_was_copied",),
        "a move that may have copied the mail counts as refused",
    ),
    Break(
        "L4",
        "duly.connectors.imap",
        "DOUBTS",
        frozenset(),
        (f"{LIAR}::test_a_server_that_fails_has_not_refused",),
        "a fault of the mail server counts as a refusal",
    ),
    Break(
        "K3",
        "duly.connectors.line_wire",
        "LineWire.start_tls",
        _trust_all,
        (f"{EXAM}::test_a_send_of_a_mail_passes",),
        "a mail server with a certificate of any authority is believed",
    ),
    Break(
        "L4",
        "duly.connectors.sql_postgres",
        "UnknownOutcome",
        NotSent,
        (f"{EXAM}::test_a_change_of_a_database_passes",),
        "a commit without an answer is said not to have been made",
    ),
)
