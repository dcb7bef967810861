"""The sentence of an error, made from its code, its subject and its facts (U6).

Law 1  Every code has one pair of sentences: what happened, and what to do. They are the same for
       every face; the command to type is made from the error's offer, never written here.
Law 2  A fact that is missing never breaks a sentence: an error must be shown even without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from duly import errors
from duly.errors import DulyError
from duly.words import (
    error_model,
    error_project,
    error_sign_in,
    error_state,
    error_store,
    error_upkeep,
    error_value,
)
from duly.words.asking import CLASHES
from duly.words.noun import say_number, say_times
from duly.words.seal import FLAWS
from duly.words.template import fill

SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Values": error_value.VALUES,
    "Schedules": error_value.SCHEDULES,
    "Workflows and their scripts": error_value.SCRIPTS,
    "Workers that run scripts": error_value.WORKERS,
    "Connectors, channels and handlers": error_value.AUTHORS,
    "Extensions": error_value.EXTENSIONS,
    "Names that are not known": error_state.UNKNOWN_NAMES,
    "Requests that are refused": error_state.REQUESTS,
    "Grants": error_state.GRANTS,
    "Forgetting": error_upkeep.FORGETTING,
    "Scheduled backups": error_upkeep.BACKUPS,
    "Exports and imports": error_upkeep.EXPORTS,
    "Language models": error_model.MODELS,
    "Signing in": error_sign_in.SIGN_INS,
    "The bus": error_state.BUS,
    "Hosts": error_state.HOSTS,
    "Secrets": error_state.SECRETS,
    "Stores and files": error_store.STORES,
    "Queries": error_project.QUERIES,
    "Projects and their settings": error_project.PROJECTS,
    "Running hosts": error_project.RUNNING,
    "The control socket": error_project.SOCKET,
    "The page": error_project.PAGE,
    "The demo": error_project.DEMO,
}
PAIRS: Final[Mapping[str, tuple[str, str]]] = {
    code: pair for section in SECTIONS.values() for code, pair in section.items()
}

# What a value must be, by the fact `wanted`; in braces stand other facts.
WANTED: Final[Mapping[str, str]] = {
    "actor": "who acts, which a page alone says",
    "address_and_port": "an address and a port, as in 127.0.0.1:7338",
    "address": "one address, as in ada@acme.com",
    "addresses": "an address, or a list of them",
    "agent_text": "a text, which is what an agent answers with",
    "aware_time": "a time with its zone, such as 2026-05-01T18:00:00Z",
    "blob": "a blob as a tool gave it, with blob, name, type and size",
    "backup_interval": "a whole number and one of s, m, h or d, of at least a minute, such as 1d",
    "bus_id": "an id that the bus gave, a whole number",
    "connection_name": "at most {most} small letters, digits and _, a letter first",
    "count_or_none": "a whole number, or none",
    "cron": "five fields: minute, hour, day of month, month, day of week",
    "duration": "a number of seconds or a timedelta",
    "entry_name": "the id or name of an entry",
    "entry_number": "the number of an entry",
    "entrypoint": "a module of this folder and its class, as in main:Reminders",
    "explained": "the id of a run or a mutation, the name of a workflow, or bus:<event id>",
    "false_alone": "false, or left out",
    "file_to_write": "the name of the file to write",
    "printable_path": "a path without control characters",
    "empty_of_read": "empty for GET, which changes nothing",
    "folder_below": "a folder below that of the project, such as inbox; no part begins with a dot",
    "folder_of_data": "a folder that holds nothing of the project itself",
    "function": "a function",
    "rule_by_tool": 'a rule for each tool, as in {{"table.insert": "always"}}',
    "seen_word": "the word that stood with it, `seen`",
    "word_by_capability": "for each capability the word that stood with it, `seen` of a preview",
    "glob_by_argument": 'a glob for each argument, as in {{"to": "*@acme.com"}}',
    "host_name": "the name of a host, such as imap.example.com",
    "hash": "the hash that was shown with the call",
    "time_of_day": "a time of the day such as 08:30",
    "hash_by_mutation": "1 to {most} mutations, each with the hash that was shown",
    "ids": "a list of at most {most} ids",
    "tokens": "a list of at most {most} tokens",
    "interval": "a whole number of at least 1 and one of s, m, h or d, such as 5m",
    "interval_or_cron": "either an interval or a cron pattern",
    "json": "an object, list, string, number, boolean or null",
    "json_schema": "an object that describes a value, as JSON Schema does",
    "last_deferred": "the last deferred event of the page before",
    "last_delivery": "event id and subscriber id of the last delivery of the page before",
    "list": "a list",
    "module_and_name": "a module and a name in it, as in shop:Till",
    "list_of_names": "a list of {what} names",
    "message_id": "a text or a whole number that stays the same",
    "message_ids": "a list of at most {most} message ids",
    "no_address": "a text and no address",
    "number": "a number",
    "operation_arguments": (
        "names with commas between them, each with its type, as in: title string, due string?"
    ),
    "operation_name": "a name that scripts can call, such as add_task",
    "operation_path": "a path below the address of the service, such as /tasks/{{id}}?all=true",
    "other_name": "another name: two operations have this one",
    "place_of_key": "header, field or query: else no call can be told from another",
    "way_of_sign_in": "bearer, header or basic: it says how the token is sent",
    "one_line": "one line without control characters",
    "real_folder": "a folder, and no link or file",
    "secure_address": "an address that begins with https:// and the name of a host",
    "names_as_keys": "an object with the name of each {what} as a key",
    "object": "an object[ with {fields:list}]",
    "output_key": "the key of an output",
    "page_end": "where the page before ended",
    "plain_path": (
        "a path without empty parts, dots, backslashes, hidden characters or escaped letters"
    ),
    "http_1_1": "used in HTTP/1.1 alone",
    "quoted_text": "a text in quotes",
    "quoted_texts": "a list of texts in quotes",
    "request": 'an object, as in {{"id": 1, "verb": "workflows"}}',
    "request_id": "a whole number, or a text of at most {most} characters",
    "retry": "a duly.Retry",
    "sample": "an object with events, a list, and answers, an object by tool",
    "schedule": 'an interval or a cron pattern, as in {{interval: "5m"}} or {{cron: "0 9 * * *"}}',
    "seconds_tuple": "a tuple of seconds",
    "day": "a day such as 2026-05-31",
    "later_day": "a day that is not before the first one",
    "loopback": "an address on 127.0.0.1 with its port, such as http://127.0.0.1:8918/",
    "ticket": "the ticket of a sign-in that was begun for this connection",
    "secret_name": "1 to {most} letters, digits, “_”, “-” or “.”",
    "source": "the path of a source, or a duly.Source",
    "table": "a table",
    "time_to_come": "a time to come, at most {days} days from now",
    "timezone": "a timezone such as Europe/Berlin",
    "true_alone": 'true, beside an id alone, as in {{"id": 1, "stop": true}}',
    "true_or_false": "true or false",
    "verb": 'the name of a verb, as in {{"id": 1, "verb": "workflows"}}',
    "values_by_argument": "the arguments to change, each with its new value",
    "web_address": "an address that begins with https:// or http://",
    "whole_number": "a whole number",
    "word": "one of {known:list}",
}
# What a value is, by the name of its type.
KINDS: Final[Mapping[str, str]] = {
    "NoneType": "nothing",
    "bool": "true or false",
    "dict": "an object",
    "float": "a number",
    "int": "a number",
    "list": "a list",
    "str": "a text",
    "text": "a text",
}
OPERATIONS: Final[Mapping[str, str]] = {
    "read": "search or list",
    "read_by_id": "read by id",
    "mutation": "change anything outside",
    "peek": "peek at topics",
    "get_by_ids": "get events by id",
    "publish": "publish",
}
FORMS: Final[Mapping[str, str]] = {
    "dotted": "two names with a dot between them, as in sheets.append_row",
    "snake": "lower-case letters, digits and single underscores",
}
# Why a file of a project is not used, by the word of the rule (K14).
DISTRUSTS: Final[Mapping[str, str]] = {
    "stranger": "belongs to another user",
    "world": "can be written by every user",
    "group": "can be written by a group of users",
}
# How far an act got that a bug ended.
DONES: Final[Mapping[str, str]] = {
    "no": "It was not done.",
    "unknown": "Whether it was done is not known: look before you try again.",
    "yes": "It was done all the same.",
}
# What the processes do that must be locked.
TASKS: Final[Mapping[str, str]] = {"run": "run scripts", "read": "read what others wrote"}
# What stands where a fact is missing.
NOTHING: Final[Mapping[str, str]] = {"file": "the file"}
PLACES: Final[Mapping[str, str]] = {"environment": "the environment"}


def say(error: DulyError) -> str:
    """Write what happened, to what, and what to do."""
    text = " ".join(filter(None, _say_pair(error.code, error.subject, error.facts)))
    place = str(error.facts.get("place", ""))
    return f"{PLACES.get(place, place)}: {text}" if place else text


def say_problem(code: str, subject: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Write what is wrong with a source, and what its author can do (W5)."""
    what, hint = _say_pair(code, subject, facts)
    return what, hint or "Correct it."


def _say_pair(code: str, subject: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    if code not in PAIRS:
        return _say_unknown(code, subject, facts), ""
    what, hint = PAIRS[code]
    known = {**facts, "subject": subject or None}
    return _fill(what, known).strip(), _fill(hint, known).strip()


def _say_unknown(code: str, subject: str, facts: Mapping[str, Any]) -> str:
    """Write an error of a newer Duly: its code, what it is about, and what is known."""
    told = ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, ""))
    about = f"{code}: {subject}" if subject else code
    return f"{about} ({told})." if told else f"{about}."


def _fill(template: str, facts: Mapping[str, Any]) -> str:
    return fill(template, lambda part: _write(part, facts))


def _write(part: str, facts: Mapping[str, Any]) -> str:
    """Write one fact, in the way that is named behind it."""
    name, _, how = part.partition(":")
    if name == "nearest":
        return say_nearest(facts)
    if name == "all":
        return ", ".join(f"{key} {value}" for key, value in facts.items() if value)
    value = facts.get(name)
    if value is None or (value == [] and not how):
        return NOTHING.get(how, "")
    return WAYS[how](value, facts) if how else str(value)


def say_nearest(facts: Mapping[str, Any]) -> str:
    """Say which name was probably meant, or which there are."""
    if near := facts.get("near"):
        return f'Did you mean "{near}"?'
    if "known" not in facts:
        return ""
    known = [str(each) for each in facts["known"]]
    more = ", …" if facts.get("count", 0) > len(known) else ""
    return f"Known: {', '.join(known)}{more}." if known else "There are none."


Way = Callable[[Any, Mapping[str, Any]], str]
# How a fact is written, by the word behind its name in a template.
WAYS: Final[Mapping[str, Way]] = {
    "arrows": lambda value, _: " → ".join(map(str, value)),
    "clash": lambda value, _: CLASHES.get(value, str(value)),
    "bare": lambda value, _: str(value).rstrip("."),
    "distrust": lambda value, _: DISTRUSTS.get(value, str(value)),
    "done": lambda value, _: DONES.get(value, str(value)),
    "each": lambda value, _: " ".join(map(str, value)),
    "misfit": lambda value, _: error_upkeep.MISFITS.get(value, str(value)),
    "flaw": lambda value, _: FLAWS.get(value, str(value)),
    "file": lambda value, _: str(value),
    "form": lambda value, _: FORMS.get(value, str(value)),
    "kind": lambda value, _: KINDS.get(value, f"a {value}"),
    "list": lambda value, _: ", ".join(map(str, value)),
    "operation": lambda value, _: OPERATIONS.get(value, str(value)),
    "or": lambda value, _: " or ".join(map(str, value)),
    "problem": lambda value, _: say_number(value, "problem"),
    "exported": lambda value, _: say_number(value, "workflow") if value else "no workflow",
    "shown": lambda value, _: repr(value),
    "quoted": lambda value, _: f'"{value}"',
    "task": lambda value, _: TASKS.get(value, str(value)),
    "times": lambda value, _: say_times(value),
    "wanted": lambda value, facts: _fill(WANTED[value], facts) if value in WANTED else str(value),
}

errors.render = say
errors.render_pair = say_problem
