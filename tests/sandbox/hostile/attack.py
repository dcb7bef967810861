"""What an attack is: a row of data, in every language in which it can be tried.

A `Program` is the body of a step, and the module around it, that tries something. It says how it
ends: `says` is what the error must match, which for a limit is the limit's own name; without it
the step must return `returns`. `@FILE@`, `@PORT@` and so on stand for the canaries it aims at.

An interpreter has no ambient authority, so an attack in a script that aims outside reaches nothing
even where no lock is on; what a script could do that broke out of its interpreter is `native`: the
name of a payload that runs as the worker process itself.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from enum import StrEnum

from duly.rules.source import Language, Source
from duly.rules.value import Json


class Aim(StrEnum):
    """What an attack would reach if it worked."""

    FILE = "file"
    TCP = "tcp"
    UDP = "udp"
    UNIX = "unix"
    CHILD = "child"
    PROCESS = "process"  # another one: a signal, its limits, its turn on the processor
    DESCRIPTOR = "descriptor"
    ENVIRONMENT = "environment"
    MEMORY = "memory"
    HOST = "host"  # its belief: forged calls, answers, lines, state of another
    NOTHING = "nothing"  # it only exhausts


@dataclass(frozen=True, slots=True)
class Program:
    """One attack in one language, and how it ends."""

    body: str = ""
    module: str = ""
    says: str = ""
    returns: Json = None


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of attack: why it could work, what it aims at, and its programs."""

    name: str
    why: str
    aims: Aim
    javascript: Program | None = None
    python: Program | None = None

    def programs(self) -> dict[str, Program]:
        """Answer the programs by language."""
        found = {"javascript": self.javascript, "python": self.python}
        return {language: program for language, program in found.items() if program is not None}


JAVASCRIPT = """\
{module}
async function attack(ctx, state) {{
{body}
}}
export default Keep.workflow({{ name: "{name}", topics: ["t"], producers: {{ poll: attack }} }});
"""
PYTHON = """\
from duly import producer, workflow
{module}
async def attack(ctx, state=None):
{body}

workflow("{name}", topics=["t"], producers={{"poll": producer(attack)}})
"""


def write(language: str, program: Program, places: dict[str, str], name: str = "hostile") -> Source:
    """Write the workflow whose producer `poll` is this attack."""
    body, module = program.body, textwrap.dedent(program.module).strip("\n")
    nothing = {"javascript": ";", "python": "pass"}[language]
    body = textwrap.indent(textwrap.dedent(body).strip("\n") or nothing, "    ")
    form = {"javascript": JAVASCRIPT, "python": PYTHON}[language]
    text = form.format(body=body, module=module, name=name)
    for mark, place in places.items():
        text = text.replace(f"@{mark}@", place)
    return Source(Language(language), text)
