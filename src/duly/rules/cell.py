"""A text in a cell of a table: a spreadsheet program must not compute it (K12, G16).

Law: a text that begins like a formula is written with an apostrophe before it, as people do, and
read without it. So what is read is what was written.
"""

from __future__ import annotations

import re
from typing import Final

# A spreadsheet program computes a cell that begins so; +49 30 123 and -5 are only numbers to it.
FORMULA: Final = re.compile("[=@\\t\\r\uff1d\uff20]|[+\\-\uff0b\uff0d](?![0-9., ]*\\Z)")


# Many spreadsheet programs part the cells of a line by semicolons, also in a file with commas.
PARTED: Final = re.compile("(;[ \"']*)(?=[=@+\\-\uff1d\uff20\uff0b\uff0d])")


def guard_cell(text: str) -> str:
    """Write a text so that it stays one."""
    return f"'{text}" if FORMULA.match(text) else text


def guard_parts(text: str) -> str:
    """Write a text so that it stays one, and each part of it where a program parts it once more."""
    return PARTED.sub(r"\1'", guard_cell(text))


def unguard_cell(cell: str) -> str:
    """Read a text that was written so."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell, 1) else cell
