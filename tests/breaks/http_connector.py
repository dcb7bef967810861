"""Breaks of what speaks to web services: where a request goes, what an error says, whose order."""

from __future__ import annotations

import asyncio
import ssl
from fnmatch import fnmatchcase
from typing import Any

from duly.connectors import status
from duly.connectors.base import NotApplied, Unsure
from duly.connectors.transport import HttpRequest, Transport
from duly.rules import url
from duly.rules.url import AddressKind
from tests.breaks import Break

URL = "tests/rules/test_url.py"
TRANSPORT = "tests/connectors/test_transport.py"
CONFLICT = "tests/connectors/test_conflict.py"
STATUS = "tests/connectors/test_status.py"
GRAPHQL = "tests/connectors/test_graphql.py"
REST = "tests/connectors/test_rest.py"

_exchange = Transport._exchange


async def _send_twice(self: Transport, request: HttpRequest, progress: Any, until: Any) -> Any:
    try:
        return await _exchange(self, request, progress, until)
    except OSError:
        return await _exchange(self, request, progress, until)


async def _connect_by_name(self: Transport, at: Any, addresses: Any) -> Any:
    return await asyncio.open_connection(at.host, at.port)


def _trust_all(ca: object, *, protocols: object = ()) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _dress_for_all(request: HttpRequest) -> Any:
    own = request.credentials
    headers = {} if own is None else dict(own.headers)
    pairs = {"Host": request.url.authority, "Connection": "close", **request.headers, **headers}
    return list(pairs.items()), request.url.target


def _collect_all(self: Any, piece: bytes) -> None:
    self._coded_bytes += len(piece)
    self.plain += piece if self._decoder is None else self._decoder.decompress(piece)


BREAKS = (
    Break(
        "L4",
        "duly.connectors.taken",
        "_is_same",
        lambda found, wanted: True,
        (
            "tests/connectors/test_declared.py::test_a_contact_whose_address_is_known_is_refused_at_once",
        ),
        "an answer that shows no contact refuses one",
    ),
    Break(
        "L4",
        "duly.connectors.status",
        "MULTI",
        -1,
        ("tests/connectors/test_http.py::test_a_list_of_what_was_done_is_no_yes",),
        "a list of what was done and what was not counts as a yes",
    ),
    Break(
        "K2",
        "duly.connectors.transport",
        "Transport._exchange",
        _send_twice,
        (f"{TRANSPORT}::test_a_change_without_a_whole_answer_is_unknown",),
        "a request that broke is sent again",
    ),
    Break(
        "K2",
        "duly.connectors.transport",
        "_Progress.is_sent",
        property(lambda self: False, lambda self, value: None),
        (f"{TRANSPORT}::test_a_change_without_a_whole_answer_is_unknown",),
        "a request that left is said not to have been sent",
    ),
    Break(
        "K2",
        "duly.connectors.transport",
        "left_s",
        lambda: float("inf"),
        (f"{TRANSPORT}::test_nothing_leaves_after_the_time_of_the_call",),
        "a request leaves after the time of its call",
    ),
    Break(
        "K3",
        "duly.rules.url",
        "OPENABLE",
        frozenset(AddressKind),
        (URL,),
        "a host that is named opens the addresses of metadata services",
    ),
    Break(
        "K3",
        "duly.rules.url",
        "NETWORKS",
        tuple(each for each in url.NETWORKS if each[0] is not AddressKind.MAPPED),
        (URL,),
        "a mapped address is taken for another kind",
    ),
    Break(
        "K3",
        "duly.connectors.transport",
        "Transport._connect",
        _connect_by_name,
        (f"{TRANSPORT}::test_a_name_that_changes_between_check_and_connect_changes_nothing",),
        "the connection goes to a name that is resolved again",
    ),
    Break(
        "K3",
        "duly.connectors.transport",
        "make_context",
        _trust_all,
        (f"{TRANSPORT}::test_a_server_is_verified_by_the_ca_of_the_settings",),
        "every certificate is accepted",
    ),
    Break(
        "K4",
        "duly.connectors.transport",
        "_dress",
        _dress_for_all,
        (f"{TRANSPORT}::test_credentials_go_to_their_origin_alone",),
        "a secret follows a redirect to another origin",
    ),
    Break(
        "K4",
        "duly.connectors.auth",
        "Auth.secrets",
        property(lambda self: (self.secret,)),
        (f"{REST}::test_several_secret_headers_go_to_their_origin_alone",),
        "a further secret header is not asked for",
    ),
    Break(
        "K4",
        "duly.rules.permission",
        "match_url",
        lambda pattern, text: fnmatchcase(text, pattern),
        ("tests/rules/test_permission.py::test_a_grant_names_method_host_and_path",),
        "the URL of a grant is compared as a text",
    ),
    Break(
        "K5",
        "duly.connectors.transport",
        "OVERRIDES",
        frozenset(),
        (TRANSPORT,),
        "a read is a change by a field of its query",
    ),
    Break(
        "K6",
        "duly.connectors.response",
        "_Body.add",
        _collect_all,
        (f"{TRANSPORT}::test_what_is_packed_is_unpacked",),
        "a response is unpacked without a limit",
    ),
    Break(
        "L4",
        "duly.connectors.status",
        "STATUSES",
        {**status.STATUSES, 422: status.Meaning.REFUSED},
        (f"{REST}::test_the_second_send_of_a_key_is_judged_with_care",),
        "a key that was used before counts as a refusal",
    ),
    Break(
        "L4",
        "duly.connectors.conflict",
        "SENT_ONCE",
        frozenset({"POST", "PATCH", "PUT", "DELETE"}),
        (f"{CONFLICT}::test_a_conflict_is_a_no_only_where_nothing_of_the_call_is_in_the_way",),
        "a conflict with what a copy of a request made counts as a refusal",
    ),
    Break(
        "L4",
        "duly.connectors.key_place",
        "Verify.is_exact",
        True,
        (f"{CONFLICT}::test_an_operation_asks_its_service_after_a_conflict",),
        "what a search does not find after a conflict counts as refused",
    ),
    Break(
        "L4",
        "duly.connectors.conflict",
        "UNPROCESSABLE",
        409,
        (f"{CONFLICT}::test_a_conflict_is_a_no_only_where_nothing_of_the_call_is_in_the_way",),
        "that nothing is there yet, after a conflict, counts as a no",
    ),
    Break(
        "L4",
        "duly.connectors.conflict",
        "_says_exists",
        lambda response: False,
        (f"{CONFLICT}::test_a_422_that_says_that_it_exists_is_a_conflict_like_any",),
        "what a copy of the request made is taken for a wrong request",
    ),
    Break(
        "L4",
        "duly.connectors.conflict",
        "Theirs",
        Unsure,
        (
            f"{CONFLICT}::test_a_conflict_is_a_no_only_where_nothing_of_the_call_is_in_the_way",
            f"{CONFLICT}::test_what_is_in_the_way_of_a_precondition_is_ours_anothers_or_unknown",
        ),
        "a question after a conflict that cannot tell counts as a no",
    ),
    Break(
        "L4",
        "duly.connectors.rest",
        "DELETED",
        {},
        (f"{CONFLICT}::test_what_is_gone_after_a_delete_may_be_gone_by_it",),
        "what a delete removed counts as a refusal of it",
    ),
    Break(
        "L4",
        "duly.connectors.status",
        "CLASSES",
        {**status.CLASSES, 5: status.Meaning.REFUSED},
        (STATUS,),
        "a server's own error counts as a refusal",
    ),
    Break(
        "L4",
        "duly.connectors.graphql",
        "has_errors",
        lambda answer: False,
        (f"{GRAPHQL}::test_a_change_answered_with_errors_is_unknown",),
        "a mutation of GraphQL that was answered with errors counts as done",
    ),
    Break(
        "L4",
        "duly.connectors.graphql",
        "has_mutation",
        lambda template: False,
        (f"{GRAPHQL}::test_a_mutation_says_where_its_answer_tells_that_it_was_done",),
        "a mutation of GraphQL need not say where its answer tells that it was done",
    ),
    Break(
        "K8",
        "duly.connectors.status",
        "retry_after_s",
        lambda response: None,
        (STATUS,),
        "the time a server asks for is not kept",
    ),
    Break(
        "L5",
        "duly.connectors.rest",
        "_applied",
        lambda found, verify: NotApplied(),
        (f"{REST}::test_a_call_is_found_by_its_key",),
        "a change that was found counts as not made",
    ),
    Break(
        "L5",
        "duly.connectors.rest",
        "PAGES_MAX",
        1,
        (f"{REST}::test_a_call_on_page_three_is_found",),
        "only the first page is searched",
    ),
    Break(
        "L4",
        "duly.connectors.json_answer",
        "read_answer",
        lambda response, what, *, is_change: None,
        (REST,),
        "an answer that is no JSON counts as one",
    ),
)
