"""What is wrong with a JavaScript text before it is run, and where.

Law: nothing is run here. The interpreter would refuse the same, but without saying where: it
resolves what a module imports before it knows a line (X1, X3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tree_sitter import Language, Node, Parser
from tree_sitter_javascript import language

from duly.errors import ScriptError
from duly.sandbox.study_problem import encode_problem

# Most texts have no such word, and need not be read for it.
MENTIONED: Final = re.compile(r"\bimport\b|\bfrom\s*[\"']")
# The parser asks for the text in pieces of this size, and lets others go on in between (X2).
PIECE_BYTES: Final = 4096
WARM_UP: Final = b"import x from 'y'"
NO_MODULES: Final = (
    "cannot be imported. A workflow is one file, and reaches the outside through ctx alone."
)


def check_apart(body: bytes) -> bytes:
    """Check a text in a worker that reads sources; return what is wrong with it, if anything."""
    try:
        check_text((body or WARM_UP).decode())
    except ScriptError as error:
        return encode_problem(error)
    return encode_problem(None)


def is_suspect(text: str) -> bool:
    """Tell whether a text must be read at all; most need not."""
    return "\0" in text or MENTIONED.search(text) is not None


def check_text(text: str) -> None:
    """Refuse what cuts a text short, and every import of a module."""
    if "\0" in text:
        line, column = _place(text, text.index("\0"))
        raise ScriptError(code="half_character", subject="source", line=line, column=column)
    if not is_suspect(text):
        return
    encoded = text.encode()
    tree = Parser(Language(language())).parse(lambda at, _: encoded[at : at + PIECE_BYTES])
    for node in _imports(tree.root_node):
        name = _module(node)
        line, column = _place(text, len(encoded[: node.start_byte].decode()))
        what = f"The module {name}" if name else "A module"
        raise ScriptError(f"{what} {NO_MODULES}", line=line, column=column)


def _imports(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "import_statement" or (
            node.type == "export_statement" and node.child_by_field_name("source") is not None
        ):
            yield node
        elif node.type == "call_expression":
            called = node.child_by_field_name("function")
            if called is not None and called.type == "import":
                yield node
        waiting.extend(reversed(node.children))


def _module(node: Node) -> str:
    """Return the name of the module, if it is written there."""
    named = node.child_by_field_name("source")
    arguments = node.child_by_field_name("arguments")
    if named is None and arguments is not None and arguments.named_child_count > 0:
        named = arguments.named_children[0]
    if named is None or named.type != "string" or named.text is None:
        return ""
    return named.text.decode().strip("\"'")[:100]


def _place(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a place, both from one."""
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
