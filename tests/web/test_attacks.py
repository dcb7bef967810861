"""Which test tries which attack on the page (G1 to G12), and that none of them was taken away.

| attack | rule | where it is tried |
|---|---|---|
| a name that was pointed at this machine (rebinding) | G2 | `test_guard.py`, `test_server.py` |
| an act that another page sends (CSRF) | G2 | `test_guard.py`, `test_sign_in.py` |
| another origin that reads | G2 | `test_guard.py` |
| a cookie that a subdomain set or stole | G6 | `test_guard.py`, `test_sign_in.py` |
| a body that is too long, slow, deep or doubled | G10 | `test_body.py`, `test_server.py` |
| a client that says or reads nothing | G10 | `test_server.py`, `test_rate.py` |
| a path that two programs read in two ways | G2 | `test_guard.py`, `test_server.py` |
| a line end in what becomes a header | G2 | here, `test_verb.py`, `test_server.py` |
| an address of a request that becomes the next one | G2 | `test_page.py`, `test_sign_in.py` |
| a route, a method or a scope that was forgotten | G3 | `test_route.py` |
| a token that is guessed, revoked or over | G6 | `test_guard.py`, `test_sign_in.py`, ... |
| another one's name | G5 | `test_guard.py`, `test_process.py`, `test_verb.py` |
| a text that wants to be markup | G9 | `test_page.py` |
| a webhook that is forged or repeated | G12 | `test_hook.py` |
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from duly.api.registry import Scope
from tests.web.stand import FORM, OWN, cookie, fake, form
from tests.web.stand import ask as send

HERE: Final = Path(__file__).parent
LEAST: Final = 60

ATTACKS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "rebinding": {
        "guard": (
            "a_name_that_is_not_on_the_list_is_misdirected",
            "two_names_or_none_are_refused",
            "a_name_that_was_declared_is_on_the_list_exactly",
            "what_a_client_says_about_forwarding_counts_for_nothing",
        ),
        "server": ("an_address_of_a_network_needs_the_names_it_is_called_by",),
    },
    "csrf": {
        "guard": (
            "an_act_by_cookie_from_elsewhere_is_refused",
            "no_header_changes_the_method_or_the_name",
        ),
        "sign_in": ("another_page_cannot_sign_a_browser_in",),
        "route": ("no_act_is_done_by_get",),
    },
    "cross origin": {
        "guard": (
            "no_other_origin_is_ever_allowed_to_read",
            "a_cookie_that_came_along_with_another_page_counts_for_nothing",
            "every_response_has_the_headers_that_bind_a_browser",
        ),
    },
    "cookie of a subdomain": {
        "guard": (
            "of_two_cookies_with_one_name_neither_counts",
            "a_cookie_of_another_name_counts_for_nothing",
            "under_tls_only_a_cookie_that_no_subdomain_can_set_counts",
        ),
        "sign_in": ("the_cookie_is_for_this_page_alone",),
    },
    "bodies": {
        "body": (
            "a_body_of_another_type_is_refused_before_it_is_read",
            "a_body_that_says_it_is_too_long_is_not_read",
            "a_body_that_grows_past_its_limit_is_left",
            "a_body_that_does_not_arrive_is_not_waited_for",
            "a_body_that_is_no_plain_object_is_refused",
            "a_query_that_says_too_much_is_refused",
            "a_form_of_another_type_or_size_is_refused",
            "large_bodies_wait_for_each_other",
            "a_webhook_with_a_large_body_waits_its_turn_as_well",
        ),
        "server": ("a_body_in_pieces_is_counted",),
        "meanwhile": (
            "a_key_that_stands_twice_in_a_form_is_refused",
            "a_key_that_stands_twice_in_a_query_is_refused",
            "a_number_that_json_has_no_word_for_is_refused_and_not_left_out",
        ),
    },
    "clients that hold on": {
        "server": (
            "a_client_that_says_nothing_is_hung_up_on",
            "a_connection_that_is_kept_is_not_kept_for_ever",
            "a_head_that_is_too_long_is_refused",
            "clients_that_say_nothing_keep_no_other_out",
            "bodies_that_do_not_arrive_keep_no_other_out",
            "a_client_that_does_not_read_is_hung_up_on",
            "a_client_that_begins_no_tls_is_hung_up_on",
        ),
        "rate": (
            "strangers_are_told_when_to_come_again_and_keep_no_caller_out",
            "a_caller_who_signed_in_has_a_limit_too",
            "what_needs_no_sign_in_has_a_limit",
        ),
        "stream": ("viewers_are_counted", "viewers_who_come_at_one_moment_are_counted_too"),
    },
    "paths": {
        "guard": (
            "a_path_that_could_be_read_in_two_ways_is_refused",
            "a_slash_that_is_hidden_in_a_name_is_refused",
            "a_path_is_compared_letter_by_letter",
        ),
        "server": (
            "a_letter_that_is_escaped_in_a_path_is_refused",
            "an_odd_first_line_reaches_nothing",
            "a_request_that_two_programs_would_read_in_two_ways_is_refused",
            "what_follows_a_request_of_two_lengths_is_not_read",
            "a_chunked_body_in_http_1_0_is_refused",
        ),
    },
    "headers": {
        "attacks": ("a_line_end_becomes_no_header",),
        "verb": ("a_cursor_cannot_break_out_of_its_header",),
    },
    "open redirect": {
        "page": ("a_form_sends_a_browser_to_no_address_of_a_request",),
        "sign_in": ("no_address_of_a_request_becomes_the_next_one",),
    },
    "routes, methods, scopes": {
        "route": (
            "every_route_and_method_is_denied_unless_the_table_says_otherwise",
            "what_is_open_to_anybody_is_listed_here",
            "every_verb_is_reachable_with_the_scope_it_declares",
            "an_unknown_path_is_unknown_to_those_who_signed_in_alone",
            "a_scope_too_small_is_refused_before_the_host_is_asked",
            "a_websocket_is_closed",
            "a_device_does_what_its_scope_covers_and_no_more",
        ),
    },
    "tokens": {
        "guard": (
            "what_is_no_token_lets_nobody_in",
            "two_tokens_let_nobody_in",
            "a_token_in_the_address_lets_nobody_in",
        ),
        "sign_in": (
            "a_link_is_used_once",
            "a_link_is_over_after_its_minute",
            "a_code_that_was_guessed_signs_nobody_in",
            "what_is_revoked_is_refused_at_once",
            "a_token_with_one_character_changed_lets_nobody_in",
            "the_store_keeps_nothing_that_lets_anybody_in",
        ),
        "stream": ("a_stream_ends_when_its_token_is_revoked",),
        "meanwhile": ("a_token_that_is_revoked_while_its_body_arrives_does_nothing_more",),
    },
    "another one's name": {
        "guard": ("who_acts_is_who_signed_in",),
        "process": ("on_the_channel_alone_a_request_says_who_acts",),
        "verb": ("who_emits_over_http_is_who_signed_in",),
    },
    "markup": {
        "page": (
            "text_from_outside_is_text_on_every_page",
            "a_page_asks_for_nothing_elsewhere",
        ),
    },
}


def test_every_attack_has_its_tests() -> None:
    """G3: what the table names is there, and it names enough."""
    count = 0
    for files in ATTACKS.values():
        for file, names in files.items():
            tree = ast.parse((HERE / f"test_{file}.py").read_text(encoding="utf-8"))
            there = {getattr(each, "name", "") for each in tree.body}
            assert {f"test_{name}" for name in names} <= there, file
            count += len(names)
    assert count >= LEAST


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\u2028", "\u560d\u560a"])
async def test_a_line_end_becomes_no_header(end: str) -> None:
    """G2: where a browser is sent, and the file that it is given, have no line of a stranger."""
    app, _ = fake()
    back = f"w/x{end}Set-Cookie: duly=1"
    body = form(workflow="invoices", back=back)
    headers = {**cookie(f"token of {Scope.ADMIN}"), **OWN, **FORM}
    done = await send(app, "/act/pause", "POST", headers=headers, body=body)
    assert (done.status, done.has("set-cookie")) == (303, False)
    assert done["location"].isascii()
    assert done["location"].isprintable()
    odd = await send(app, f"/sign-in?code=x{end}Set-Cookie:%20a=b", headers={"accept": "text/html"})
    assert not odd.has("set-cookie")
