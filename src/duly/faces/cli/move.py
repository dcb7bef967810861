"""`duly move`: the store goes from its file to a PostgreSQL server, once (H1)."""

from __future__ import annotations

import click

from duly.api.text import visible
from duly.faces.cli.base import Face, echo_json, json_option, pass_face, run
from duly.faces.cli.progress import working


@click.command()
@click.option("--to", "url", required=True, metavar="URL", help="postgresql://user@host/database")
@json_option
@pass_face
def move(face: Face, url: str) -> None:
    """Copy a stopped host's store to an empty database, and compare every row.

    The file stays where it is, marked as a copy. A host that is started on it pauses everything.

    \b
    Example: duly move --to postgresql://duly@db.example/duly
    """
    from duly.api.move import move_project

    project = face.project
    with working("moving the store"):
        moved = run(move_project(project, url))
    if face.is_json:
        echo_json({"rows": dict(moved.rows)})
        return
    click.echo(f"{moved.count} rows are on the server, each compared with the file.")
    click.echo(visible(f"Now write the URL into {project.file or 'duly.toml'} (url = …)."))
    click.echo(visible(f"Give every host DULY_KEY: what {project.database}.key says."))
