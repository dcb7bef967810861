"""GraphQL documents that only read (K5).

Law 1: a document is one query, and fragments for it. A mutation, a subscription or a second
       operation is refused when the settings are read, by its words and not by its name.
Law 2: an answer with errors is no answer, also if it has data: a part would pass for the whole.
Law 3: a service of GraphQL answers 200 also to a change that failed. So an operation whose body is
       a mutation says where its answer tells that it was done, and errors leave it unknown (L4).
"""

from __future__ import annotations

import re
from typing import Any, Final

from duly.errors import Refused, Transient
from duly.rules.value import Json

DOCUMENT_CHARS_MAX: Final = 20_000
# In the order in which they are tried: what stands in a text or a comment is no word.
TOKEN: Final = re.compile(
    r'"""(?:\\"""|.)*?"""|"(?:\\.|[^"\\\r\n])*"|#[^\r\n]*'
    r"|(?P<word>[_A-Za-z][_0-9A-Za-z]*)|(?P<open>[({\[])|(?P<close>[)}\]])|(?P<quote>\")",
    re.DOTALL,
)
# By these words of an error services say that there were too many requests.
BUSY: Final = frozenset({"RATE_LIMITED", "RATELIMITED", "THROTTLED", "TOO_MANY_REQUESTS"})
ERRORS_ALONE: Final = frozenset({"errors", "extensions"})
MESSAGE_CHARS_MAX: Final = 300


def find_fault(document: str) -> str | None:
    """Return why a document is no single query; None if it is one."""
    if len(document) > DOCUMENT_CHARS_MAX:
        return f"it has more than {DOCUMENT_CHARS_MAX:,} characters"
    depth, queries, is_begun = 0, 0, False
    for found in TOKEN.finditer(document):
        if found["quote"]:
            return "a text in it does not end"
        if found["open"]:
            if depth == 0 and not is_begun and found[0] == "{":
                queries, is_begun = queries + 1, True  # the short form of a query
            depth += 1
        elif found["close"]:
            depth -= 1
            if depth < 0:
                return "it has a bracket too many"
            if depth == 0 and found[0] == "}":
                is_begun = False  # a definition ends with its selection
        elif found["word"] and depth == 0 and not is_begun:
            if found["word"] not in ("query", "fragment"):
                return f"{found['word']} is neither query nor fragment"
            queries, is_begun = queries + (found["word"] == "query"), True
    if depth or is_begun:
        return "it does not end"
    return None if queries == 1 else f"it has {queries} queries and must have one"


def read_data(answer: Json, what: str) -> Json:
    """Return the data of an answer, or raise what its errors mean (law 2)."""
    whole: dict[str, Any] = answer if isinstance(answer, dict) else {}
    errors = whole.get("errors")
    if not errors and "data" in whole:
        data: Json = whole["data"]
        return data
    if not isinstance(errors, list) or not errors:
        raise Transient(f"{what}: the answer has neither data nor errors.")
    first = errors[0] if isinstance(errors[0], dict) else {}
    said = f"{what}: {str(first.get('message', 'it has errors'))[:MESSAGE_CHARS_MAX]}"
    if BUSY & set(_codes(errors)):
        raise Transient(said)
    raise Refused(said)


def has_mutation(template: Json) -> bool:
    """Tell whether a body, or a query of a URL, holds a document that changes something (law 3)."""
    if isinstance(template, list):
        return any(map(has_mutation, template))
    document = template.get("query") if isinstance(template, dict) else None
    depth = 0
    for found in TOKEN.finditer(document if isinstance(document, str) else ""):
        if found["word"] == "mutation" and depth == 0:
            return True
        depth += bool(found["open"]) - bool(found["close"])
    return False


def has_errors(answer: Json) -> bool:
    """Tell whether an answer has errors as those of GraphQL do: beside the data, or alone."""
    if isinstance(answer, list):
        return any(map(has_errors, answer))
    if not isinstance(answer, dict) or not answer.get("errors"):
        return False
    return "data" in answer or answer.keys() <= ERRORS_ALONE


def _codes(errors: list[Any]) -> list[str]:
    inner = [each for each in errors if isinstance(each, dict)]
    extensions = [each.get("extensions") for each in inner]
    return [
        str(code)
        for each in (*inner, *(more for more in extensions if isinstance(more, dict)))
        for code in (each.get("type"), each.get("code"))
    ]
