"""`duly preview`: what a source will do, in words, for a person who does not read its code (M9).

Law: nothing is stored and nothing is sent. A file is read here, by the user who named it; the hash
names a source that is proposed, and the host knows its text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click

from duly.api.value import Json
from duly.faces.cli.base import Face, echo_json, json_option, pass_face
from duly.faces.cli.layout import text
from duly.faces.cli.progress import working

HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@click.command()
@click.argument("source", metavar="FILE|HASH")
@click.option("--text-only", is_flag=True, help="Say what its text shows; nothing is read outside.")
@click.option("--grant", is_flag=True, help="Allow the reads it uses, for this trial.")
@click.option(
    "--language",
    type=click.Choice(["python", "javascript"]),
    help="What it is written in, where no ending says so (`-`).",
)
@json_option
@pass_face
def preview(face: Face, source: str, text_only: bool, grant: bool, language: str | None) -> None:
    """Say what a source will read and change, when, and what it asks for.

    It is a file, `-` for standard input, or the hash of a proposal. Reads are real, nothing is sent
    and nothing is stored.

    \b
    Examples:
      duly preview workflows/welcome.py --grant
      duly preview workflows/welcome.py --text-only
    """
    given = read_given(face, source, language)
    with working("Trying it with today's data …"):
        told: Any = face.call("preview", source=given, text_only=text_only, grant=grant)
    if face.is_json:
        echo_json(told)
    else:
        text(told["text"])


def read_given(face: Face, source: str, language: str | None) -> Json:
    """Read a file, or ask the host for the text of a proposal."""
    if HASH.fullmatch(source):
        told: Any = face.call("proposal", proposal=source)
        proposed = told["proposal"]
        return {
            "language": proposed["language"],
            "text": told["source"],
            "name": f"{proposed['workflow']} {proposed['hash'][:8]}",
        }
    from duly.api.aside import read_source

    most_bytes = face.project.config.policy.limits.source_bytes
    read = read_source(source, language=language, most_bytes=most_bytes)
    return {"language": str(read.language), "text": read.text, "name": read.name}
