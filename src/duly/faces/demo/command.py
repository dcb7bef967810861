"""`duly demo`: see Duly survive a crash, on this machine, without being asked anything.

Law: it leaves with 0 only if its own account agrees; what does not agree is named, and it is 1.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from duly.errors import RequestRefused
from duly.faces.cli.base import run
from duly.rules.shown import visible

if TYPE_CHECKING:
    from duly.faces.demo.account import Entry
    from duly.faces.demo.letter import Letter
    from duly.faces.demo.scene import Scene
    from duly.faces.demo.story import Page

FOLDER: Final = "duly-demo"
MAILS: Final = 7
MAILS_MAX: Final = 500
INDENT: Final = "   "
SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@click.command()
@click.argument("folder", default=FOLDER, type=click.Path(path_type=Path))
@click.option(
    "--mails",
    default=MAILS,
    show_default=True,
    type=click.IntRange(2, MAILS_MAX),
    help="How many mails there are.",
)
@click.option("--seed", default=1, show_default=True, help="Which mails they are.")
@click.option("--table", default="", hidden=True, help="Another connector in the table's place.")
def demo(folder: Path, mails: int, seed: int, table: str) -> None:
    """Let mails become rows, kill the host at the worst moment, and count.

    It makes a project in FOLDER (duly-demo), in which a workflow in Python and one in JavaScript
    bring mails into tables; it kills their host after a row was written and before that was
    recorded, starts it again, and compares the tables with the ledger. The folder stays, to play
    with. An earlier demo in it is replaced.

    \b
    Example: duly demo --mails 20 --seed 3
    """
    from duly.faces.demo.letter import write_letters
    from duly.faces.demo.scene import TABLE, Scene

    scene = Scene(folder.absolute())
    run(_refuse_while_served(scene))
    scene.build(table or TABLE)
    click.echo(f"A demo of Duly with {mails} mails. All of it is in {visible(folder)}.")
    settled = run(_tell(scene, write_letters(mails, seed)))
    _say_what_next(folder, settled)


async def _tell(scene: Scene, letters: Sequence[Letter]) -> Entry:
    """Tell the story; whoever ends it ends its host too."""
    from duly.env import Loop
    from duly.faces.demo.story import Story

    task = asyncio.current_task()
    assert task is not None
    for each in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    env = Loop()
    try:
        return await Story(scene, env, _page(), letters).tell()
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        env.close()


async def _refuse_while_served(scene: Scene) -> None:
    """Leave a folder alone whose host is at work."""
    from duly.api.session import connect
    from duly.faces.demo.scene import MARK, SETTINGS

    if not (scene.folder / MARK).is_dir() or not (scene.folder / SETTINGS).is_file():
        return
    async with connect(scene.project()) as session:
        if session.host is not None:
            facts = {"process": session.host.pid}
            raise RequestRefused(code="host_running", subject=str(scene.folder), facts=facts)


def _page() -> Page:
    from duly.faces.demo.story import Page

    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def heading(text: str) -> None:
        click.echo()
        click.echo(click.style(text, bold=True) if is_coloured else text)

    return Page(heading, lambda text: click.echo(INDENT + visible(text)))


def _say_what_next(folder: Path, settled: Entry) -> None:
    click.echo("\nThe host is stopped, and the folder is yours. Go on with:")
    lines = [
        f"cd {shlex.quote(str(folder))}",
        "duly status",
        "duly inputs mail-to-table",
        f"duly mutation {settled.id}",
        "cp mailbox/001.eml mailbox/again.eml && duly drain",
    ]
    bin_folder = Path(sys.executable).parent
    if shutil.which("duly") is None and (bin_folder / "duly").is_file():
        lines.insert(0, f'export PATH={shlex.quote(str(bin_folder))}:"$PATH"')
    for each in lines:
        click.echo(INDENT + visible(each))
