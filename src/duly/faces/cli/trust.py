"""`duly trust`: use a project whose files another user could have written (K14)."""

from __future__ import annotations

import os
from pathlib import Path

import click

from duly.api.text import visible


@click.command()
@click.argument("folder", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the folders you trust.")
@click.option("--forget", "is_forgotten", is_flag=True, help="Trust FOLDER no longer.")
def trust(folder: str | None, is_list: bool, is_forgotten: bool) -> None:
    """Use the project in FOLDER although another user could have written its files.

    The settings of a project name code, and that code runs with your rights.

    \b
    Example: duly trust /srv/shared-project
    """
    from duly.api import trust as trusting

    if is_list:
        for each in sorted(trusting.trusted(os.environ)):
            click.echo(visible(str(each)))
        return
    if folder is None:
        raise click.UsageError("Name the folder of the project to trust.")
    if is_forgotten:
        click.echo(visible(f"{trusting.forget(Path(folder), os.environ)} is trusted no longer."))
    else:
        click.echo(visible(f"{trusting.trust(Path(folder), os.environ)} is trusted from now on."))
