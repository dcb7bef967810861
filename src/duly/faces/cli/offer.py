"""What a person can do, as a command to paste: `host.skip("a", "b", "c")` is `duly skip a b c`.

Law 1  A library speaks to programs, a command line to people: no sentence it shows names a call
       in Python where there is a command for it.
Law 2  A command can be pasted as it stands: whatever an id contains is quoted, and what a terminal
       would obey is spelled out. What a person has to choose is left open, in capitals.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from duly.faces.cli.table import command_of

# A text in quotation marks, or what is left open outside of one.
OPEN: Final = re.compile(r'("(?:[^"\\]|\\.)*")|…')
# A call as a sentence of the library writes it; a text in it may contain a bracket.
CALL: Final = re.compile(r'`?\bhost\.[a-z_.]+\((?:[^()"]|"(?:[^"\\]|\\.)*")*\)`?')
# What a command finds out by itself: the hash of what it shows, and what is typed unseen.
LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {"approve": frozenset({"seen"})}
ARGUMENTS_MAX: Final[Mapping[str, int]] = {"set_secret": 2}
# What stands for a choice, by the name of the option.
CHOICES: Final[Mapping[str, str]] = {
    "mutations_per_day": "N",
    "where": '{"ARGUMENT": "GLOB"}',
}


def command(said: str) -> str:
    """Write a call of a host as a command line."""
    return " ".join(map(quote, words(said)))


def words(said: str) -> list[str]:
    """Read a call of a host as the words of a command line."""
    call = ast.parse(OPEN.sub(lambda found: found[1] or "...", said), mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError(f"{said!r} is no call")
    verb = ast.unparse(call.func).removeprefix("host.")
    options: list[str] = []
    for each in call.keywords:
        if each.arg is not None and each.arg not in LEFT_OUT.get(verb, ()):
            options += [f"--{each.arg.replace('_', '-')}", _text(each.value, each.arg)]
    arguments = [_text(each, "source") for each in call.args[: ARGUMENTS_MAX.get(verb)]]
    # Behind two dashes nothing is taken for an option, whatever an id begins with.
    is_odd = any(each.startswith("-") for each in arguments)
    name = command_of(verb)
    given = [*options, "--", *arguments] if is_odd else [*arguments, *options]
    return ["duly", *name.split(), *given]


def in_commands(text: str) -> str:
    """Write a sentence of the library for people: each call of a host becomes its command."""
    return CALL.sub(_replace, text)


def _replace(found: re.Match[str]) -> str:
    try:
        return f"`{command(found[0].strip('`'))}`"
    except (SyntaxError, ValueError):
        return found[0]


def _text(node: ast.expr, name: str) -> str:
    """Write an argument as a word; a name or a gap is left for the person to fill."""
    if isinstance(node, ast.Name):
        return "FILE"
    try:
        value: Any = ast.literal_eval(node)
    except ValueError:
        return CHOICES[name]
    if value is ... or value == {...}:
        return CHOICES[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quote(word: str) -> str:
    """Quote a word for a shell; what cannot be printed is spelled out."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_spell, word))}'"


def _spell(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
