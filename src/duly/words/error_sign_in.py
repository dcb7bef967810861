"""What goes wrong while a person signs in at a provider: one pair of sentences for each code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SIGN_INS: Final[Mapping[str, tuple[str, str]]] = {
    "no_sign_in": (
        "{subject} is not signed in: {why}.",
        "Begin the sign-in again, and give back the whole address.",
    ),
    "sign_in_late": (
        "The time for this sign-in of {subject} is over.",
        "Begin it again.",
    ),
    "sign_in_used": (
        "This sign-in of {subject} was used already.",
        "Look at the connection; if it is not signed in, begin again.",
    ),
    "other_account": (
        "You signed in to {subject} as {now}, and not as {before}. Nothing was changed.",
        "Sign in again as {before}, or say that it may be another account.",
    ),
    "signs_in_nowhere": (
        "{subject} does not sign in at a provider.",
        "Set the secrets that its connection names.",
    ),
}
