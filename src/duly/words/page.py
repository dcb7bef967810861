"""What a page says where no answer says it."""

from __future__ import annotations

from typing import Final

HOW_TO_SIGN_IN: Final = "Type this in the folder of the project, and open the link that it prints:"
SIGNED_IN_ALREADY: Final = "I am signed in already"
EMPTY: Final = "–"
