"""What a version would do again because something in it bears another name (W9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.rules.rename import Rename, Renamed
from duly.words.phrase import in_quotes

SENTENCES: Final[Mapping[Renamed, str]] = {
    Renamed.PRODUCER: (
        "Producer {old} has a state and is dropped, and {new} begins without one: it finds"
        " everything again, and what it publishes in a new topic is done again."
    ),
    Renamed.TOPIC: (
        "Topic {old} has events and is dropped, and {new} begins empty: what is published there"
        " again is done again, and what is pending in the old one is left behind."
    ),
    Renamed.WORKFLOW: (
        "This file declared {old}, which is active; {new} is another workflow, without its state"
        " and its events: it does everything again, beside the old one."
    ),
}
POLICY: Final = " The policy of {old} does not hold for it."
KEEP: Final = "Keep the old name"
OR_REMOVE: Final = "Keep the old name, or remove {old} first"
AGAIN: Final = "; if it is to be done again, deploy it with replay."


def say_rename(rename: Rename, *, has_policy: bool) -> tuple[str, str]:
    """Say what is done again under a new name, and how to keep that from happening."""
    is_whole = rename.what is Renamed.WORKFLOW
    sentence = SENTENCES[rename.what] + (POLICY if is_whole and has_policy else "")
    suggestion = (OR_REMOVE if is_whole else KEEP) + AGAIN
    old, new = (", ".join(map(in_quotes, names)) for names in (rename.old, rename.new))
    return sentence.format(old=old, new=new), suggestion.format(old=old)
