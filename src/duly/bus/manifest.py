"""Reading `manifest.yaml`: from untrusted bytes to a manifest (B9).

Law 1: nothing is parsed that is too long, and nothing is larger than it looks: an alias, which is
       how a small file becomes a large one, is refused.
Law 2: what YAML would decide in silence is refused where it stands: which of two equal keys wins,
       that `on` is a key that means true, that a date is a date.
"""

from __future__ import annotations

import re
from typing import Final, Never

import yaml

from duly.config import KIB, Limits
from duly.errors import Invalid
from duly.rules.manifest import ROOT, Manifest, check
from duly.rules.value import DEFAULT_LIMITS, PATH_KEY_CHARS, Json

MANIFEST_BYTES: Final = 64 * KIB
DEPTH_MAX: Final = 20
TEXT: Final = "tag:yaml.org,2002:str"
# The kinds a manifest is made of; every other tag asks for something to be built.
PLAIN: Final = {
    "tag:yaml.org,2002:map": "mapping",
    "tag:yaml.org,2002:seq": "list",
    TEXT: "text",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:bool": "truth value",
    "tag:yaml.org,2002:null": "nothing",
}

# How each kind is written so that every reader sees the same. YAML has more spellings, and few
# people know them all: NO is a truth value, 12:30 a number, and so is .nan.
WRITTEN: Final = {
    "truth value": re.compile("(?i:true|false)"),
    "number": re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"),
}


def read_manifest(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Manifest:
    """Read the bytes of a manifest, or refuse them with place and advice."""
    if len(data) > MANIFEST_BYTES:
        raise Invalid(code="too_long", path=ROOT, facts={"limit": MANIFEST_BYTES, "unit": "bytes"})
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(code="not_utf8", path=ROOT, facts={"byte": error.start}) from None
    return check(read_yaml(text), limits)


def read_yaml(text: str) -> Json:
    """Read one YAML document that holds nothing but mappings, lists, texts, numbers and truths."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise Invalid(code="not_yaml", path=ROOT, facts={"cause": _sentence(error)}) from None
    except (ValueError, OverflowError):  # "\\U00110000", or a %YAML line of many digits
        raise Invalid(code="wrong_number_in_yaml", path=ROOT) from None
    except RecursionError:
        raise Invalid(code="too_deep", path=ROOT, facts={"limit": DEPTH_MAX}) from None
    if node is None:
        raise Invalid(code="empty", path=ROOT)
    return _Walk().visit(node, ROOT, 0)


def _sentence(error: yaml.YAMLError) -> str:
    """Say what the parser did not understand, and where, without the text around it."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it has a character YAML does not allow"
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{problem}{where}."


class _Walk:
    """One pass over what was composed; an alias is a node that is met twice."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._plain = yaml.constructor.SafeConstructor()

    def visit(self, node: yaml.Node, path: str, depth: int) -> Json:
        """Return what a node holds."""
        if id(node) in self._met:
            _refuse(path, node, "yaml_alias")
        self._met.add(id(node))
        if node.tag not in PLAIN:
            _refuse(path, node, "not_quoted", kind=node.tag.rpartition(":")[2])
        if depth > DEPTH_MAX:
            _refuse(path, node, "too_deep", limit=DEPTH_MAX)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [
                self.visit(each, f"{path}[{index}]", depth + 1)
                for index, each in enumerate(node.value)
            ]
        kind = PLAIN[node.tag]
        try:
            value: Json = self._plain.construct_object(node)
            shown = repr(value)  # within: a number may have more digits than Python writes
        except (ValueError, LookupError, yaml.YAMLError):
            _refuse(path, node, "not_quoted", claimed=kind)
        if kind in WRITTEN and WRITTEN[kind].fullmatch(node.value) is None:
            _refuse(path, node, "not_quoted", read=shown)
        return value

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != TEXT:
                _refuse(path, key, "wrong_key")
            place = f"{path}.{key.value[:PATH_KEY_CHARS]}"
            if key.value in found:
                _refuse(place, key, "given_twice")
            found[key.value] = self.visit(value, place, depth + 1)
        return found


def _refuse(path: str, node: yaml.Node, code: str, **facts: object) -> Never:
    mark = node.start_mark
    if mark:
        facts.update(line=mark.line + 1, column=mark.column + 1)
    raise Invalid(code=code, path=path, facts=facts)
