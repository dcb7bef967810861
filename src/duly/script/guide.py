"""The page that teaches a language model to write a workflow.

Law: the page says what holds in this project, now: its tools are read from the catalogue and what
the interpreters lack from the tables that refuse it. Nothing is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final, TypeAlias

from duly.rules.catalog import JsonType, Parameter, Tool, camel
from duly.rules.permission import tell_asks
from duly.rules.shown import visible
from duly.script import lacking
from duly.script.javascript import LACKING
from duly.script.stubs import JAVASCRIPT_TYPES, PYTHON_TYPES
from duly.words.approval import say_when, write_approvals

# A tool, and what its author wrote about it.
ToldTool: TypeAlias = tuple[Tool, str]

NO_APPROVALS: Final[Mapping[str, str]] = MappingProxyType({})
LANGUAGES: Final = ("python", "javascript")
PART: Final = re.compile(r"<!-- (python|javascript|shell|page) -->\n(.*?)<!-- end -->\n", re.DOTALL)
# What each language spells in its own way: {{Python||JavaScript}}.
SPELLED: Final = re.compile(r"\{\{(.*?)\|\|(.*?)\}\}")


def write_guide(
    tools: Iterable[ToldTool],
    language: str | None = None,
    *,
    zone: str = "UTC",
    reader: str = "shell",
    approvals: Mapping[str, str] = NO_APPROVALS,
) -> str:
    """Write the page for a language model: rules, pattern, tools, and what is lacking.

    `approvals` are the rules of the project by which a person is asked before a change (A3).
    """
    languages = LANGUAGES if language is None else (language,)
    known, kept = [*tools], (*languages, reader)
    text = files("duly.script").joinpath("text", "guide.md").read_text(encoding="utf-8")
    text = PART.sub(lambda found: found[2] if found[1] in kept else "", text)
    text = SPELLED.sub(lambda found: _spelled(found, languages), text)
    text = text.replace("<!-- zone -->", f"`{zone}`, the zone of this project")
    text = text.replace("<!-- connections -->", _connections(known, reader))
    text = text.replace("<!-- tools -->", "\n".join(_tools(known, languages, approvals)))
    text = text.replace("<!-- approvals -->", write_approvals(approvals))
    return text.replace("<!-- lacking -->", "\n\n".join(_LACKS[each]() for each in languages))


def _spelled(found: re.Match[str], languages: tuple[str, ...]) -> str:
    """Write a phrase as the reader's language spells it; for both, one goes in brackets."""
    first, *second = (found[1 + LANGUAGES.index(each)] for each in languages)
    return f"{first} ({second[0]})" if second else first


# -- The tools ------------------------------------------------------------------------------------


def _connections(tools: Iterable[ToldTool], reader: str) -> str:
    """Name the connections that the page knows: one that is added later is not among them."""
    names = sorted({each.name.partition(".")[0] for each, _ in tools})
    known = ", ".join(f"`{each}`" for each in names) or "none"
    told = f"This text knows the connections that the project had when it was made: {known}."
    missing = " What else a wish needs is connected first; then this text is made anew."
    if reader == "page":
        missing = (
            " If the wish needs a service that is not among them, write no script: say which one is"
            " missing. The person adds it on the page under *Tools*, and copies this text again."
        )
    return f"{told}{missing}"


def _tools(
    tools: Iterable[ToldTool], languages: tuple[str, ...], approvals: Mapping[str, str]
) -> Iterator[str]:
    known = sorted(tools, key=lambda each: each[0].name)
    if not known:
        yield "This project has none yet: add connectors to its duly.toml."
    for tool, doc in known:
        spelled = " or ".join(f"`{_SPELL[each](tool)}`" for each in languages)
        told = visible(" ".join(doc.split()))
        asks = tell_asks(tool, approvals)
        if asks is not None:
            told = f"{told} *Risk {asks.risk}; {say_when(asks, 'the person')}.*".lstrip()
        yield f"- {_KINDS[tool.kind]} {spelled} ({tool.capability}): {told}".rstrip(": ")


def _in_python(tool: Tool) -> str:
    takes = ", ".join(in_python(each) for each in tool.parameters)
    return f"ctx.{tool.name}({takes})"


def _in_javascript(tool: Tool) -> str:
    takes = "; ".join(in_javascript(each) for each in tool.parameters)
    return f"ctx.{camel(tool.name)}({f'{{ {takes} }}' if takes else ''})"


def in_python(parameter: Parameter) -> str:
    """Write one parameter as a Python signature does."""
    types = [PYTHON_TYPES[each] for each in JsonType if each in parameter.types]
    default = "" if parameter.required else " = …"
    return f"{parameter.name}: {' | '.join(types) or 'Any'}{default}"


def in_javascript(parameter: Parameter) -> str:
    """Write one parameter as a TypeScript type does."""
    types = dict.fromkeys(JAVASCRIPT_TYPES[each] for each in JsonType if each in parameter.types)
    mark = "" if parameter.required else "?"
    return f"{camel(parameter.name)}{mark}: {' | '.join(types) or 'any'}"


_SPELL: Final = {"python": _in_python, "javascript": _in_javascript}
_KINDS: Final = {"read": "read", "read_by_id": "read by id", "mutation": "**change**"}


# -- What is lacking ------------------------------------------------------------------------------


def _python_lacks() -> str:
    modules = ", ".join(f"`{each}`" for each in sorted(lacking.MODULES - {"__future__", "duly"}))
    syntax = dict(lacking.INSTEAD_OF_SYNTAX.values())
    members = {
        f"{module}.{name}": instead
        for module, names in lacking.INSTEAD_OF_MEMBER.items()
        for name, instead in names.items()
    }
    parts = [
        "Python here is a small Python. Modules there are: " + modules + ". Not there:",
        _rows(
            {
                "class inheritance": "Write plain functions, or a class without a base.",
                "a decorated method": "Write a plain method, or a function of the module.",
                "an exception with several arguments": 'Raise it with one text: f"…".',
                "next(… for …)": "Build the list, take its first.",
                "a function in re.sub": "Use re.findall and build the text in a loop.",
                "default= in json.dumps": "Make it text first: str(…).",
                "an option of asyncio.gather": "Leave it out.",
                "a method taken from a type (key=str.lower)": "Use a lambda.",
                **syntax,
            }
        ),
        _rows({f"the module {name}": each for name, each in lacking.INSTEAD_OF_MODULE.items()}),
        _rows({**members, **lacking.INSTEAD_OF_NAME, **lacking.INSTEAD_OF_USELESS}),
        _rows({f".{name}()": each for name, each in lacking.INSTEAD_OF_METHOD.items()}),
    ]
    return "\n".join(parts)


def _javascript_lacks() -> str:
    head = "JavaScript here is the language alone, without a browser and without Node. Not there:"
    tail = "A step is an ordinary or async function, never a generator."
    return "\n".join([head, _rows(LACKING), tail])


def _rows(table: Mapping[str, str]) -> str:
    """Write what is missing, those together that have the same replacement."""
    together: dict[str, list[str]] = {}
    for what, instead in table.items():
        together.setdefault(instead, []).append(f"`{what}`")
    return "\n".join(f"- {', '.join(names)}: {instead}" for instead, names in together.items())


_LACKS: Final = {"python": _python_lacks, "javascript": _javascript_lacks}
