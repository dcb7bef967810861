"""`duly completion`: what a shell needs to complete commands, options, names and ids.

Law 1  Pressing Tab starts no host, takes no lock and says nothing when something is wrong; names
       and ids come from the running host within a third of a second, or are left to the person.
Law 2  What Tab types is one word for the shell, for every name of a workflow: nothing in a name is
       expanded or run. Bash inserts what it is given as it is, so it is given quoted text; zsh and
       fish quote by themselves.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
)

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

DIGITS: Final = re.compile(r"[0-9a-f]+")
PROGRAM: Final = "duly"
VARIABLE: Final = "_DULY_COMPLETE"
NAMES_MAX: Final = 1000
IDS_MAX: Final = 30  # a person looks through no more
PATIENCE_S: Final = 0.3  # a person who pressed Tab waits no longer

BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        %(complete_var)s=bash_complete "$1")
    while IFS= read -r completion; do
        type=${completion%%%%,*} value=${completion#*,}
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
FISH: Final = """\
function %(complete_func)s;
    set -l words (commandline -cp);
    set -l word (commandline -t);
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS="$words" COMP_CWORD="$word" \\
        %(prog_name)s);
    for completion in $response;
        set -l part (string split -m 1 "," -- $completion);
        switch $part[1];
            case dir; __fish_complete_directories $part[2];
            case file; __fish_complete_path $part[2];
            case plain; printf '%%s\\n' $part[2];
        end;
    end;
end;

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)";
"""


class Bash(BashComplete):
    """Completion for bash, which reads what it inserts as if a person had typed it."""

    source_template: ClassVar[str] = BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Quote a value for the word it completes, which may have begun with a quote."""
        words = os.environ.get("COMP_WORDS", "").split("\n")
        place = int(os.environ.get("COMP_CWORD", "0"))
        begun = words[place] if place < len(words) else ""
        value = str(item.value)
        if item.type == "plain":
            value = _quote(value, begun[:1])
        return f"{item.type},{value}"


def _quote(value: str, opened: str) -> str:
    """Write a value as one word of a shell; an open quote is closed by the shell itself."""
    if opened == "'":
        return value.replace("'", "'\\''")
    if opened == '"':
        return re.sub(r'([\\"$`])', r"\\\1", value)
    return shlex.quote(value)


class Fish(FishComplete):
    """Completion for fish, with values that may hold a comma."""

    source_template: ClassVar[str] = FISH


add_completion_class(Bash)
add_completion_class(Fish)

SHELLS: Final[dict[str, type[Bash | Fish | ZshComplete]]] = {
    "bash": Bash,
    "zsh": ZshComplete,
    "fish": Fish,
}
WHERE: Final = {
    "bash": 'eval "$(duly completion bash)"        # in ~/.bashrc',
    "zsh": 'eval "$(duly completion zsh)"         # in ~/.zshrc, after compinit',
    "fish": "duly completion fish | source        # in ~/.config/fish/config.fish",
}


@click.command(
    epilog="\b\nPut one of these where your shell starts:\n  " + "\n  ".join(WHERE.values())
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Example: eval "$(duly completion bash)"
    """
    program = ctx.find_root().command
    click.echo(SHELLS[shell](program, {}, PROGRAM, VARIABLE).source())


def complete_workflow(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names of workflows that begin so, if a host is running."""
    return _items(_ask(ctx, "workflows", "name", limit=NAMES_MAX), incomplete)


def complete_id(kinds: Sequence[str]) -> Completer:
    """Make what completes an id of these kinds, newest first, if a host is running.

    Of one kind the digits are enough; of several the kind is typed too, unless digits were begun.
    """

    def complete(
        ctx: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        of_one: dict[str, Any] = {} if kinds[1:] else {"kind": str(kinds[0])}
        digits = incomplete.rpartition("_")[2]
        begun = {"begins": incomplete} if DIGITS.fullmatch(digits) else {}
        found = _ask(ctx, "ids", "short", limit=IDS_MAX, **of_one, **begun)
        is_named = "_" in incomplete or (bool(kinds[1:]) and not begun)
        wanted = [each for each in found if each.partition("_")[0] in kinds]
        return _items([each if is_named else each.partition("_")[2] for each in wanted], incomplete)

    return complete


def complete_explained(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return what can be explained and begins so: workflows, then runs and mutations."""
    ids = complete_id(("run", "mutation"))(ctx, parameter, incomplete)
    return [*complete_workflow(ctx, parameter, incomplete), *ids]


def complete_nothing(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the person."""
    return []


def _items(found: Sequence[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]


def _ask(ctx: click.Context, verb: str, field: str, /, **args: Any) -> list[str]:
    """Ask the running host for one field of a list; nothing if there is none, or it is slow."""
    import asyncio

    from duly.faces.cli.base import Face

    async def asking(face: Face) -> list[str]:
        async with asyncio.timeout(PATIENCE_S), face.session() as session:
            if session.host is None:
                return []
            found: Any = await session.call(verb, **args)
        return [str(each[field]) for each in found]

    try:
        # Another context is made for completion; what stood before the command is in its parent.
        given = (ctx.find_root().params or {}).get("project")
        face = Face(given=given, is_quiet=True)
        return asyncio.run(asking(face)) if face.project.socket.exists() else []
    except Exception:
        return []  # A person who presses Tab did not ask what is wrong.
