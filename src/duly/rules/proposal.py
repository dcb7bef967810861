"""A source that is proposed: what names it, and who may adopt it (M6, G4).

Law 1  The hash covers all that a person agrees to: the name, the version it replaces, the language
       and the text. A proposal over a version that is active no more cannot be adopted.
Law 2  An agent, a token or a device never adopts what it proposed itself.
"""

from __future__ import annotations

import re
from typing import Final

from duly.errors import Invalid, RequestRefused
from duly.rules.source import Source
from duly.rules.value import digest

PROPOSALS_MAX: Final = 100  # that wait at one moment
NOTE_CHARS_MAX: Final = 2000
HASH: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
MODEL: Final = "model:"
HELD: Final = ":"  # stands in the name of everything that is no user of the machine: `token:ci`


def hash_proposal(workflow: str, replaces: str | None, source: Source) -> str:
    """Name a proposal by all that a person agrees to (law 1)."""
    return digest([workflow, replaces, source.hash])


def is_hash(text: str) -> bool:
    """Tell whether a text is the hash of a proposal, and no number of a version."""
    return HASH.fullmatch(text) is not None


def check_note(note: object) -> str:
    """Return why a source is proposed, or refuse it."""
    if not isinstance(note, str) or len(note) > NOTE_CHARS_MAX:
        facts = {"least": 0, "most": NOTE_CHARS_MAX}
        raise Invalid(code="wrong_length", path="note", facts=facts)
    return note


def name_model(model: str) -> str:
    """Name the author of what a model wrote; no person and no token bears such a name."""
    return f"{MODEL}{model}"


def is_by_model(author: str) -> bool:
    """Tell whether a model wrote a source, for a person who asked for it (M9)."""
    return author.startswith(MODEL)


def check_adopter(author: str, by: str, subject: str) -> None:
    """Refuse a token that would adopt its own proposal; its owner at the terminal may (G4)."""
    if author == by and HELD in by:
        raise RequestRefused(code="own_proposal", subject=subject, facts={"by": by})
