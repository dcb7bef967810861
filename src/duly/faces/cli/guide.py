"""`duly guide`: how to write a workflow, for people, and on one page for a language model."""

from __future__ import annotations

from typing import Final

import click

from duly.faces.cli.base import Face, echo_json, json_option, pass_face

LANGUAGES: Final = ("python", "javascript")

FOR_PEOPLE: Final = """\
Duly runs small automations and makes every outside change exactly once.

Begin
  duly init my-project        make a small project that works
  cd my-project
  duly dev                    run it; a file is deployed when you save it
  duly status                 see how everything stands

Write
  duly tools                  what scripts may call
  duly check FILE             all that is wrong with it
  duly try FILE --grant       what it would do now; nothing is sent
  duly simulate FILE          crash it everywhere, and count the changes
  duly guide --for llm        one page to give to a language model

Keep
  duly attention              what waits for you
  duly why NAME               why something stands as it does
  duly doctor                 whether this machine has what a host needs

Every command explains itself: duly COMMAND --help
"""


@click.command()
@click.option(
    "--for",
    "reader",
    type=click.Choice(["people", "llm"]),
    default="people",
    help="Who reads it; llm is one page with the tools of this project.",
)
@click.option(
    "--language", type=click.Choice(LANGUAGES), help="Only what this language needs (llm)."
)
@json_option
@pass_face
def guide(face: Face, reader: str, language: str | None) -> None:
    """Read how to write a workflow.

    \b
    Example: duly guide --for llm --language python > prompt.md
    """
    if reader == "people":
        click.echo(FOR_PEOPLE, nl=False)
        return
    from duly.api.tools import write_guide

    page = write_guide(face.project, language)
    if face.is_json:
        echo_json(page)
        return
    click.echo(page, nl=False)
