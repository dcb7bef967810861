"""What is refused when the store is looked after: one pair of sentences for each code.

The form is that of `error_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Pair = tuple[str, str]

FORGETTING: Final[Mapping[str, Pair]] = {
    "still_open": (
        'Nothing of "{subject}" is erased: {what} {which} is not over.',
        "Wait until it ends, or end it; then try again.",
    ),
    "forgotten_meanwhile": (
        (
            "While {subject} was written, an input was forgotten whose text may be in it; the file "
            "was removed."
        ),
        "Write it again.",
    ),
    "not_an_input": (
        '"{subject}" was made from other events: {inputs:list}.',
        "Forget the input that you mean; what was made from it goes with it.",
    ),
    "too_much_came_of_it": (
        'More than {limit} {unit} were made from "{subject}".',
        "Nothing was erased. Retention removes old contents step by step.",
    ),
    "no_key_to_seal": (
        'The key of this store is not here, so what is left of "{subject}" could not be sealed.',
        "Bring the key back and restart the host.",
    ),
}

BACKUPS: Final[Mapping[str, Pair]] = {
    "backup_folder_is_link": (
        "{subject} is a link, so no copy is written or removed there.",
        "Name the folder itself in the settings, under backup.",
    ),
    "backup_on_server": (
        "{subject}: Duly does not copy a PostgreSQL server.",
        "Use the server's tools (docs/postgresql.md names them), and leave this setting out.",
    ),
}

# Why a line of an export does not fit what came before it.
MISFITS: Final[Mapping[str, str]] = {
    "order": "it stands in the wrong place",
    "name": "its name is another one than the file says",
    "twice": "it was there before",
    "reference": "it names something that is not in the file before it",
    "number": "its number is too large",
    "content": "its content is not what its digest says, or cannot be shown",
    "status": "its status contradicts the rest of it",
    "too_long": "it is longer than this host allows",
}
_ANEW = "Export it again."
EXPORTS: Final[Mapping[str, Pair]] = {
    "nothing_to_export": ("No workflow is deployed here.", "Deploy one first."),
    "not_a_file": ("{subject} is not a regular file.", "Name the file that was exported."),
    "export_too_large": (
        "The export would be longer than one file may be ({lines} lines).",
        "Export one workflow at a time, or copy the whole store.",
    ),
    "export_unreadable": (
        "{subject}, line {line}: this is not a line of an export ({cause}).",
        "Name a file that was exported, as it was written.",
    ),
    "export_newer": (
        "{subject} was written by a newer Duly (format {found}; this one reads {known}).",
        "Upgrade Duly here.",
    ),
    "export_cut": ("{subject} ends before its last line.", f"Copy the whole file. {_ANEW}"),
    "export_changed": (
        "{subject} is not what was written: its digest differs.",
        f"Copy it once more. {_ANEW}",
    ),
    "export_misfit": ("Line {line} of the file does not fit: {why:misfit}.", _ANEW),
    "export_unfit": ("{subject} has a value that no store can hold; nothing was imported.", _ANEW),
    "export_open": (
        'Line {line}: {what} {which} of "{subject}" is still open, and only one store may end it.',
        "End it in the store that exported it, then export with a hand-over.",
    ),
    "export_other_name": (
        'The text of "{subject}" declares another name: {declared}.',
        _ANEW,
    ),
    "export_ledger": (
        "The change {subject} is not as its store had sealed it; nothing was imported.",
        _ANEW,
    ),
    "export_known_row": (
        "{subject}: something that {where} brings is in this store already.",
        "Nothing was imported. Import it into another store.",
    ),
    "handed_over_before": (
        '"{subject}" was handed over to another store before.',
        (
            "With a second file two stores could run it. If no store imported the first file, "
            "resume it first."
        ),
    ),
    "hand_over_undone": (
        '"{subject}" was resumed while it was handed over; no file was written.',
        "Hand it over again.",
    ),
    "not_handed_over": (
        "{subject} is a copy: its workflows may still run in the other store.",
        "Export with a hand-over. If that store is lost, import the file as a copy.",
    ),
    "server_denied": (
        "{subject}: Duly's user may not do what it needs ({cause}); nothing was changed.",
        "Make it the owner of the database.",
    ),
    "server_pooled": (
        "{subject}: a pooler in between mixes up prepared statements ({cause}).",
        "Set its pool_mode to session, or connect to the server itself.",
    ),
    "workflow_name_taken": (
        'A workflow "{subject}" is deployed here already.',
        "Remove it first, if it is not needed.",
    ),
    "workflow_known": (
        'The workflow "{subject}" ({id}) is or was in this store; it would be there twice.',
        "Import it into another store.",
    ),
    "bus_number_ahead": (
        "{subject}: the file names an event of the bus with a number that is too large.",
        _ANEW,
    ),
    "bus_not_told": (
        (
            '"{subject}" would treat event {event} of the bus ({topic}), which is not delivered '
            "yet, as done already."
        ),
        "Wait until the bus has delivered it, then import again.",
    ),
}
