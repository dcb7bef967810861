"""What a project, its running host, a socket or a query refuses: one pair of sentences for each.

The first says what happened to what, the second what to do. In braces stands a fact of the error; a
part in square brackets is left out where one of its facts is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Pair = tuple[str, str]

QUERIES: Final[Mapping[str, Pair]] = {
    "asks_a_model": (
        "{subject} would show a model what the script read.",
        "Before you agree to the script, a trial asks no model.",
    ),
    "made_up_address": (
        "{subject} would ask an address that is not written in the text of the script.",
        "Before you agree to the script, a trial asks only addresses that are written in it.",
    ),
    "pins_nothing": (
        "{subject} is not an MCP server, so there is nothing to agree to.",
        "Its tools are those of its connector.",
    ),
    "other_tools": (
        "{subject} offers other tools now than those that were shown.",
        "Look at them again, then agree to what you see.",
    ),
    "not_one_statement": ("{subject} must hold one statement.", "Send one SELECT."),
    "not_sql": ("{subject} cannot be run: {cause:bare}.", "Correct it."),
    "value_not_text": ("A value is not valid text.", "Select hex() of that column."),
    "sql_refused": ("Only SELECT over these views is allowed: {known:list}.", ""),
    "value_too_long": ("A value is longer than {limit} {unit}.", "Select less of it."),
    "took_too_much_memory": (
        "The question needs more than {limit} {unit} of memory to sort or group what it reads.",
        "Ask for less.",
    ),
    "took_too_long": ("The question took longer than {seconds} s.", "Ask for less."),
    "one_connection": (
        "This store takes one connection, so no query of your own can run.",
        "Keep the store in a file to query it.",
    ),
}

PROJECTS: Final[Mapping[str, Pair]] = {
    "wrong_use": ("{cause}", "See the help of `{subject}`."),
    "folder_gone": (
        "The folder you are in is gone, so no project can be found from it.",
        "Go to another folder, or name a project.",
    ),
    "path_not_utf8": ("{subject} is not UTF-8; a store takes no other path.", "Rename it."),
    "no_project": ("{option} names {subject}, which is not there.", "Name a folder or a file."),
    "no_settings": ("{option} names {subject}, which has no {file}.", "Name another folder."),
    "not_openapi": (
        "This is not an OpenAPI description of version 3 (found: {found}).",
        "Convert it to OpenAPI 3 first.",
    ),
    "connected_otherwise": (
        '{subject} is there already, with use = "{use}".',
        "Choose another name, or change the settings by hand.",
    ),
    "settings_by_hand": (
        "{subject} cannot be written into the settings without changing something else.",
        "Write it by hand; nothing was changed.",
    ),
    "settings_changed": (
        "{subject} was changed at the same moment; nothing was written.",
        "Try again.",
    ),
    "beyond_page": (
        "{subject} cannot be set on the page[ for {of}].[ {nearest}]",
        "Connect it in a terminal on the host's machine.",
    ),
    "own_network": (
        (
            "{subject} is an address of your own network, which {connector} may not reach unless"
            " its settings name it."
        ),
        "If you want that, add {setting} to them.",
    ),
    "connection_there": ("A connection {subject} is there already.", "Choose another name."),
    "name_used_before": (
        "A connection named {subject} was here before, and left a secret or an open change.",
        "Choose another name.",
    ),
    "not_added": ("{cause:bare}.", "Correct it; nothing was written."),
    "no_project_here": (
        "This host has no project: a program embeds it.",
        "Give that program the connector.",
    ),
    "not_restarted_here": (
        "This host cannot start again by itself.",
        "Stop its program and start it again.",
    ),
    "not_rehearsed": (
        "The settings could not be tried out[ within {seconds} s][: {cause:bare}].",
        "Try again, or correct the settings; until then the host goes on as it is.",
    ),
    "settings_broken": ("{cause:bare}.", "Correct the settings; the host goes on as it is."),
    "store_moved": (
        "The settings name another store than the one of this host: {subject}.",
        "Stop the host and start it again on its machine: it cannot change its store by itself.",
    ),
    "no_use": (
        "{subject} is missing.",
        'Name what to use: {known:or}, or a class of your own as "module:Class".',
    ),
    "name_in_table": ("{subject} is given already: it is the name of the table.", "Leave it out."),
    "not_built_in": (
        '"{subject}" is not built in.',
        '{nearest} Name a class of your own as "module:Class".',
    ),
    "not_class": ("{subject} is not a class.", "Name a class."),
    "not_imported": (
        "The module {subject} cannot be imported ({cause}).",
        (
            "Correct the module or its name; Duly looks among the installed packages, then in "
            "{folder}."
        ),
    ),
    "not_made": ("{subject} could not be made: {cause:bare}.", "Correct its settings."),
    "too_many_sources": (
        "{subject} is among more than {limit} files.",
        "Keep the sources of the project in a folder of their own.",
    ),
    "distrusted": (
        "{subject} {why:distrust}, so its code could run with your rights.",
        "If you know who wrote it, trust the project; else name a project of your own.",
    ),
    "trust_void": (
        "{subject} {why:distrust}, so the list of trusted projects is not used.",
        "Let no other user own it or write to it.",
    ),
    "not_trusted": ("{subject} is not in the list of trusted projects.", ""),
    "not_folder": ("{subject} is not a folder.", "Name the folder of a project."),
}

RUNNING: Final[Mapping[str, Pair]] = {
    "needs_host": (
        "No host runs on {subject}, and only a running one can do this[: {of} belongs to {owner}].",
        "Start one, then try again.",
    ),
    "host_running": (
        "A host is running in {subject} (process {process}), and works by itself.",
        "Let it work, or stop it first.",
    ),
    "host_not_listening": (
        (
            "{subject}: another host holds this store[ (process {process})], and does not listen "
            "at {socket}."
        ),
        (
            "If a program embeds it, ask in that program; if it is a server, it is starting or "
            "stopping, so try again."
        ),
    ),
    "host_silent": (
        "The host[ (process {process})] at {subject} does not answer.",
        "Try again; if that does not help, stop it.[ Its log is {log}.]",
    ),
    "host_gone": (
        "The host (process {process}) stopped listening[ ({cause:bare})]; nothing was changed.",
        "Try again.",
    ),
    "act_unheard": (
        (
            "The host (process {process}) stopped listening[ ({cause:bare})] before it returned a "
            "result; whether {subject} was done is not known."
        ),
        "Look whether it was done before you try again.",
    ),
    "commit_unknown": (
        "{subject}: the answer to a write was lost; whether it was written is not known ({cause}).",
        "Look whether it was written before you try again.",
    ),
    "host_of_another": (
        "{subject} belongs to another user's host.",
        "Run the command as that user, or ask that user.",
    ),
    "not_a_host": (
        "What listens at {subject} is not a host of Duly.",
        "End that program and remove the socket.",
    ),
    "socket_taken": (
        "{subject}: another host of this project listens there.",
        "Stop it, or start this one in a folder of its own.",
    ),
    "no_socket": (
        "{subject}: no control socket can be made there ({cause}).",
        "Check that its folder can be written and is on a local disk.",
    ),
    "in_the_way": ("{subject} is in the way of the control socket.", "Move it elsewhere."),
}

SOCKET: Final[Mapping[str, Pair]] = {
    "too_many_clients": (
        "{count} clients[ of user {user}] are connected to this host already.",
        "Close one of them, then try again.",
    ),
    "unanswered": (
        "{subject}: more than {limit} {unit} wait for their result.",
        "Wait for results, then send more.",
    ),
    "beyond_scope": (
        "{subject} needs the scope {needed}; this session has {scope}.",
        "Ask a person who has it, or use a session that has it.",
    ),
    "line_unfinished": ("{subject} was not finished in {seconds} s.", "Send it whole."),
    "id_in_use": ("{subject} {given:shown} still waits for its result.", "Choose another id."),
    "not_followable": ("{subject} cannot be followed.", "Ask for it once, without follow."),
    "not_followed": ("{subject} {given:shown} is not followed; it has one result.", "Wait for it."),
    "failed_inside": (
        "{subject} failed inside the host ({cause}), which is a bug in Duly.[ {done:done}]",
        "[The log of the host (process {process}) says where.]",
    ),
    "unexplained": (
        "The host returned an error that it did not explain.",
        "Look into the log of the host.",
    ),
}

PAGE: Final[Mapping[str, Pair]] = {
    "not_signed_in": (
        "This request has no sign-in.",
        "Give a token as `Authorization: Bearer …`, or sign in with a link.",
    ),
    "token_over": ("{subject} has expired.", "Sign in again, or use a new token."),
    "link_over": (
        "This link was used already, or is older than a minute.",
        "Ask for a new one.",
    ),
    "token_there": (
        'There is a token "{subject}" already.',
        "Choose another name, or revoke that one first.",
    ),
    "pairing_there": (
        'There is an account "{subject}" on this channel already.',
        "Revoke it first, or use another name.",
    ),
    "no_question": (
        "This link has no open question.",
        "Look at the newest message, or at what waits on the page.",
    ),
    "no_pairing": ('There is no account "{subject}" on this channel.', "{nearest}"),
    "not_paired_here": (
        'No account can be paired with "{subject}": it is not a channel that listens.',
        "Name a channel of the settings that uses telegram.",
    ),
    "no_token": ('There is no token or device "{subject}".', "{nearest}"),
    "too_fast": ("There are too many requests from this {subject}.", "Try again in {seconds} s."),
    "hook_refused": (
        "This webhook is not taken: it is not signed as the host expects.",
        "Compare its secret, its time and its address with those that the host gave.",
    ),
    "hook_key_refused": (
        "This webhook is not taken: no webhook is open at this address with this key at its end.",
        "Copy the whole address again, without a full stop behind it; or open the webhook anew.",
    ),
    "hook_open": (
        'A webhook of "{workflow}" is open for "{subject}" already (sender: {sender}).',
        "Let its sender post there; or say `replace`: its old key and secret then stop at once.",
    ),
    "hook_changed": (
        'The webhook of "{workflow}" for "{subject}" is another one than was shown, or was closed.',
        "Nothing was changed now. Look at what is open, and decide again.",
    ),
    "hook_id_missing": (
        'This webhook is not taken: its id must stand in the {place} "{name}", and is not there.',
        "Send a text or a whole number there, or open the webhook with another place for the id.",
    ),
    "hook_id_signed": (
        "Messages of {sender} have an id of their own, so `id_from` is not used.",
        "Leave out `id_from`.",
    ),
    "hook_id_name": (
        "{given} is not a place where an id can stand.",
        "Name a field of the body, or a header: {begin}…, or one of {headers:list}.",
    ),
    "hook_title": (
        "This is not a pattern for titles.",
        "Write a line such as {{name}}: {{wish}}: {limit} characters, {fields} fields at most.",
    ),
    "wrong_host": (
        'This page does not have the name "{subject}".',
        "Use the address that the host prints, or add the name to `hosts` in [page].",
    ),
    "cross_origin": (
        "This request comes from another site, and is not carried out.",
        "Use the page of the host itself, or a token.",
    ),
    "no_page": ("There is nothing at {subject}.", "Check the address."),
    "wrong_method": ("{subject} cannot be used here; {known:list} can.", ""),
    "wrong_media_type": (
        'The {subject} is of the type "{given}"; it must be {wanted}.',
        "Send it as that type, and name the type in Content-Type.",
    ),
    "head_too_long": ("The {subject} is longer than {limit} {unit}.", "Send fewer headers."),
    "body_too_long": ("The {subject} is longer than {limit} {unit}.", "Send less at once."),
    "body_late": ("The {subject} did not arrive[ in {seconds} s].", "Send it whole."),
    "page_in_the_clear": (
        "The page is not shown at {subject}: what is sent there could be read on the way.",
        (
            "Use 127.0.0.1, or give `certificate` and `certificate_key` in [page], or say "
            '`behind_proxy = "yes"` if a proxy in front of it has a certificate.'
        ),
    ),
    "page_without_hosts": (
        "The page does not know by which names it is called.",
        'List them: `hosts = ["duly.example.org"]` in [page].',
    ),
    "half_certificate": (
        "Only one of `certificate` and `certificate_key` is given.",
        "Give both, or neither.",
    ),
    "page_not_heard": (
        "No page can be opened at {subject} ({cause}).",
        "Choose another port: `{typed}`, or `port = {other}` below [page].",
    ),
    "no_page_here": ("This host shows no page.", "Start the host with its page."),
}

DEMO: Final[Mapping[str, Pair]] = {
    "not_a_demo": (
        "{subject} is there already and is not a demo; nothing was written.",
        "Name another folder.",
    ),
    "not_of_the_demo": (
        "{subject} is not as a demo makes it, and a new demo would remove it.",
        "Move it elsewhere, or name another folder.",
    ),
    "host_ended": (
        (
            "The host in {subject} ended unexpectedly[ with status {status}]"
            "[ by the signal {signal}]."
        ),
        "Its log is {log}.",
    ),
    "stuck": (
        "Nothing has moved for {seconds} s in {subject}.",
        "Look at its status, and at its log, {log}.",
    ),
    "no_dbos": (
        "{subject} is not a Python that can import dbos.",
        "Install DBOS into an environment and name its Python, or leave it out.",
    ),
    "no_systemd": (
        "There is no systemd here that could run a service[ ({cause})].",
        (
            "Print the unit and use it elsewhere, or run the host with the service manager of "
            "this machine."
        ),
    ),
    "systemd_refused": ("systemd refused: {cause:bare}.", "Correct that, then do it again."),
    "no_service": ("There is no service {subject} here.", "Install it first."),
}
