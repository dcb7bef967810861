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
        "Let it end, or end it, then ask again.",
    ),
    "not_an_input": (
        '"{subject}" came of other events: {inputs:list}.',
        "Forget the input that is meant; what came of it goes with it.",
    ),
    "too_much_came_of_it": (
        'More than {limit} events came of "{subject}".',
        "Nothing is erased; retention removes it in turns.",
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
        "{subject}: copies of a PostgreSQL server are its own affair.",
        "Use the server's tools (docs/postgresql.md names them), and leave every out.",
    ),
}
