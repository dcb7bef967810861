"""How a demo tells what happens: headings, and lines below them."""

from __future__ import annotations

import os
from typing import Final

import click

from duly.api.text import visible
from duly.errors import DulyError

STUCK_S: Final = 60  # how long nothing may move


class Mismatch(DulyError):
    """The outside and the ledger do not agree."""


def heading(text: str) -> None:
    """Begin a chapter; click drops the colour where the output is no terminal."""
    colour = False if "NO_COLOR" in os.environ else None
    click.echo(f"\n{click.style(text, bold=True)}", color=colour)


def tell(*lines: str) -> None:
    """Write lines below a heading."""
    for text in lines:
        click.echo(f"   {visible(text)}")
