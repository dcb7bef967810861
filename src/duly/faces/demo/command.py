"""`duly demo`: see Duly survive a crash, on this machine, without being asked anything.

Law: it leaves with 0 only if its own account agrees; what does not agree is named, and it is 1.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from duly.api.clock import Loop
from duly.api.text import visible
from duly.faces.cli.base import run
from duly.faces.demo.account import Entry
from duly.faces.demo.folder import POST, TABLE, DemoFolder
from duly.faces.demo.live import show_live
from duly.faces.demo.mail import write_mails
from duly.faces.demo.post import PostWalk
from duly.faces.demo.post_server import Post
from duly.faces.demo.program import find_dbos
from duly.faces.demo.tell import tell
from duly.faces.demo.walk import Walk


@dataclass(frozen=True, slots=True)
class PageOptions:
    """What is shown on the page: how many invoices, and which interpreter has DBOS."""

    invoices: int
    dbos: Path | None


@click.command()
@click.argument("folder", default="duly-demo", type=click.Path(path_type=Path))
@click.option(
    "--mails",
    default=7,
    show_default=True,
    type=click.IntRange(2, 500),
    help="How many mails arrive.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    help="Which mails; the same number makes the same mails.",
)
@click.option(
    "--no-page", is_flag=True, help="End after the two parts in the terminal; serve no page."
)
@click.option("--only-page", is_flag=True, help="Begin with the page.")
@click.option(
    "--invoices",
    default=100,
    show_default=True,
    type=click.IntRange(1, 500),
    help="How many invoices arrive while the page is served.",
)
@click.option(
    "--dbos",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A Python with DBOS, which is then shown as well; by default this Python.",
)
@click.option("--table", default=TABLE, hidden=True, help="Another connector in the table's place.")
def demo(
    folder: Path,
    mails: int,
    seed: int,
    no_page: bool,
    only_page: bool,
    invoices: int,
    dbos: Path | None,
    table: str,
) -> None:
    """Let mails become rows, kill the host at the worst moment, and count.

    It makes a project in FOLDER (duly-demo), in which a workflow in Python and one in JavaScript
    bring mails into tables; it kills their host after a row was written and before that was
    recorded, starts it again, and compares the tables with the ledger. Then it does the same over
    the network, with a mail server, a database and webhooks of its own.

    At last it serves a page on this machine: invoices arrive by mail, each is to be one row and one
    reply, and you kill the program and cut its network. A plain script does the same beside it. A
    terminal keeps the page until Ctrl-C; without one it ends when all is done. The folder stays, to
    play with. An earlier demo in it is replaced. The exit code is 1 if Duly lost anything
    or did anything twice.

    \b
    Example: duly demo --mails 20 --seed 3
             duly demo --only-page --invoices 30
    """
    made = DemoFolder(folder.absolute())
    run(made.refuse_while_served())
    made.build(table)
    what = "The page of a demo of Duly" if only_page else f"A demo of Duly with {mails} mails"
    click.echo(f"{what}. All of it is in {visible(folder)}.")
    page = None if no_page else PageOptions(invoices, find_dbos(dbos))
    settled = run(_walk(made, None if only_page else write_mails(mails, seed), page))
    if settled is None:
        return
    click.echo("\nThe host is stopped, and the folder is yours. Go on with:")
    bin_folder = Path(sys.executable).parent
    if shutil.which("duly") is None and (bin_folder / "duly").is_file():
        tell(f'export PATH={shlex.quote(str(bin_folder))}:"$PATH"')
    tell(f"cd {shlex.quote(str(folder))}", "duly status", "duly inputs mail-to-table")
    tell(f"duly mutation {settled.id}", "cp mailbox/001.eml mailbox/again.eml && duly drain")


async def _walk(
    folder: DemoFolder, mails: dict[str, bytes] | None, page: PageOptions | None
) -> Entry | None:
    """Walk through the demo; a signal that ends it ends its host too."""
    task = asyncio.current_task()
    assert task is not None
    for each in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    env = Loop()
    try:
        settled = None
        if mails is not None:
            settled = await Walk(folder, env).run(mails)
            await PostWalk(DemoFolder(folder.path / POST), env, Post()).run()
        if page is not None:
            is_watched = sys.stdin.isatty() and sys.stdout.isatty()
            await show_live(
                folder, env, invoices=page.invoices, dbos=page.dbos, is_watched=is_watched
            )
        return settled
    except asyncio.CancelledError:
        raise click.Abort from None
    finally:
        env.close()
