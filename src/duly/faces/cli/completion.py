"""`duly completion`: what a shell needs to complete commands, options and names of workflows.

Law: pressing Tab starts no host, takes no lock and says nothing when something is wrong; names come
from the running host, or are left to the person.
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

PROGRAM: Final = "duly"
VARIABLE: Final = "_DULY_COMPLETE"
NAMES_MAX: Final = 1000
PATIENCE_S: Final = 0.5  # nobody waits longer for a name

SHELLS: Final = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
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
    """Answer the names of workflows that begin so, if a host is running."""
    import asyncio

    from duly.faces.cli.base import Face

    try:
        # Another context is made for completion; what stood before the command is in its parent.
        given = (ctx.find_root().params or {}).get("project")
        face = Face(given=given, is_quiet=True)
        if not face.project.socket.exists():
            return []
        names = asyncio.run(_ask(face))
    except Exception:
        return []  # Whoever presses Tab did not ask what is wrong.
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


async def _ask(face: object) -> list[str]:
    import asyncio

    from duly.faces.cli.base import Face

    assert isinstance(face, Face)
    async with asyncio.timeout(PATIENCE_S), face.session() as session:
        if session.host is None:
            return []
        found = await session.call("workflows", limit=NAMES_MAX)
    assert isinstance(found, list)
    return [str(each["name"]) for each in found if isinstance(each, dict)]
