"""`duly demo`: see Duly survive a crash, on this machine, without being asked anything.

Law: it leaves with 0 only if its own account agrees; what does not agree is named, and it is 1.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import sys
from pathlib import Path

import click

from duly.api.clock import Loop
from duly.api.text import visible
from duly.faces.cli.base import run
from duly.faces.demo.account import Entry
from duly.faces.demo.folder import POST, TABLE, DemoFolder
from duly.faces.demo.mail import write_mails
from duly.faces.demo.post import PostWalk
from duly.faces.demo.post_server import Post
from duly.faces.demo.tell import tell
from duly.faces.demo.walk import Walk


@click.command()
@click.argument("folder", default="duly-demo", type=click.Path(path_type=Path))
@click.option(
    "--mails",
    default=7,
    show_default=True,
    type=click.IntRange(2, 500),
    help="How many mails there are.",
)
@click.option("--seed", default=1, show_default=True, help="Which mails they are.")
@click.option("--table", default=TABLE, hidden=True, help="Another connector in the table's place.")
def demo(folder: Path, mails: int, seed: int, table: str) -> None:
    """Let mails become rows, kill the host at the worst moment, and count.

    It makes a project in FOLDER (duly-demo), in which a workflow in Python and one in JavaScript
    bring mails into tables; it kills their host after a row was written and before that was
    recorded, starts it again, and compares the tables with the ledger. Then it does the same over
    the network, with a mail server, a database and webhooks of its own. The folder stays, to play
    with. An earlier demo in it is replaced.

    \b
    Example: duly demo --mails 20 --seed 3
    """
    made = DemoFolder(folder.absolute())
    run(made.refuse_while_served())
    made.build(table)
    click.echo(f"A demo of Duly with {mails} mails. All of it is in {visible(folder)}.")
    settled = run(_walk(made, write_mails(mails, seed)))
    click.echo("\nThe host is stopped, and the folder is yours. Go on with:")
    bin_folder = Path(sys.executable).parent
    if shutil.which("duly") is None and (bin_folder / "duly").is_file():
        tell(f'export PATH={shlex.quote(str(bin_folder))}:"$PATH"')
    tell(f"cd {shlex.quote(str(folder))}", "duly status", "duly inputs mail-to-table")
    tell(f"duly mutation {settled.id}", "cp mailbox/001.eml mailbox/again.eml && duly drain")


async def _walk(folder: DemoFolder, mails: dict[str, bytes]) -> Entry:
    """Walk through the demo; a signal that ends it ends its host too."""
    task = asyncio.current_task()
    assert task is not None
    for each in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    env = Loop()
    try:
        settled = await Walk(folder, env).run(mails)
        await PostWalk(DemoFolder(folder.path / POST), env, Post()).run()
        return settled
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        env.close()
