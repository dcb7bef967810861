"""`duly guide`: how to write a workflow, for people, and on one page for a language model.

Law: the page says what holds in this project, now: its tools are read from the catalogue and what
the interpreters lack from the tables that refuse it. Nothing is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Final

import click

from duly.api.text import visible
from duly.faces.cli.base import Face, pass_face

if TYPE_CHECKING:
    from duly.api.tools import Registry, Tool

LANGUAGES: Final = ("python", "javascript")
PART: Final = re.compile(r"<!-- (python|javascript) -->\n(.*?)<!-- end -->\n", re.DOTALL)
# What each language spells in its own way: {{Python||JavaScript}}.
SPELLED: Final = re.compile(r"\{\{(.*?)\|\|(.*?)\}\}")

FOR_PEOPLE: Final = """\
Duly runs small automations and makes every outside change exactly once.

Begin
  duly init my-project        make a small project that works
  cd my-project
  duly dev                    run it; a file is deployed when you save it
  duly status                 see how everything stands

Write
  duly tools                  what scripts may call
  duly check FILE             all that is wrong with it
  duly try FILE --grant       what it would do now; nothing is sent
  duly simulate FILE          crash it everywhere, and count the changes
  duly guide --for llm        one page to give to a language model

Keep
  duly attention              what waits for you
  duly why NAME               why something stands as it does
  duly doctor                 whether this machine has what a host needs

Every command explains itself: duly COMMAND --help
"""


@click.command()
@click.option(
    "--for",
    "reader",
    type=click.Choice(["people", "llm"]),
    default="people",
    help="Who reads it; llm is one page with the tools of this project.",
)
@click.option(
    "--language", type=click.Choice(LANGUAGES), help="Only what this language needs (llm)."
)
@pass_face
def guide(face: Face, reader: str, language: str | None) -> None:
    """Read how to write a workflow.

    \b
    Example: duly guide --for llm --language python > prompt.md
    """
    if reader == "people":
        click.echo(FOR_PEOPLE, nl=False)
        return
    from duly.api.tools import find_tools

    zone = face.project.config.policy.timezone
    click.echo(write_guide(find_tools(face.project), language, zone=zone), nl=False)


def write_guide(registry: Registry, language: str | None = None, *, zone: str = "UTC") -> str:
    """Write the page for a language model: rules, pattern, tools, and what is lacking."""
    languages = LANGUAGES if language is None else (language,)
    text = files("duly.faces.cli").joinpath("text", "guide.md").read_text(encoding="utf-8")
    text = PART.sub(lambda found: found[2] if found[1] in languages else "", text)
    text = SPELLED.sub(lambda found: _spelled(found, languages), text)
    text = text.replace("<!-- zone -->", f"`{zone}`, the zone of this project")
    text = text.replace("<!-- tools -->", "\n".join(_tools(registry, languages)))
    return text.replace("<!-- lacking -->", "\n\n".join(_LACKS[each]() for each in languages))


def _spelled(found: re.Match[str], languages: tuple[str, ...]) -> str:
    """Write a phrase as the reader's language spells it; for both, one goes in brackets."""
    first, *second = (found[1 + LANGUAGES.index(each)] for each in languages)
    return f"{first} ({second[0]})" if second else first


# -- The tools ------------------------------------------------------------------------------------


def _tools(registry: Registry, languages: tuple[str, ...]) -> Iterator[str]:
    if not registry.catalog.tools:
        yield "This project has none yet: add connectors to its duly.toml."
    for tool in sorted(registry.catalog.tools, key=lambda each: each.name):
        spelled = " or ".join(f"`{_SPELL[each](tool)}`" for each in languages)
        told = " ".join(registry.describe(tool.name).split())
        yield f"- {_KINDS[tool.kind]} {spelled} ({tool.capability}): {visible(told)}".rstrip(": ")


def _in_python(tool: Tool) -> str:
    from duly.faces.cli.tools import in_python

    takes = ", ".join(in_python(each) for each in tool.parameters)
    return f"ctx.{tool.name}({takes})"


def _in_javascript(tool: Tool) -> str:
    from duly.api.tools import camel
    from duly.faces.cli.tools import in_javascript

    takes = "; ".join(in_javascript(each) for each in tool.parameters)
    return f"ctx.{camel(tool.name)}({f'{{ {takes} }}' if takes else ''})"


_SPELL: Final = {"python": _in_python, "javascript": _in_javascript}
_KINDS: Final = {"read": "read", "read_by_id": "read by id", "mutation": "**change**"}


# -- What is lacking ------------------------------------------------------------------------------


def _python_lacks() -> str:
    from duly.api.tools import lacking

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
    from duly.api.tools import LACKING

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
