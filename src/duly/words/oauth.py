"""What is said while a person signs in at the provider of a service (K9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

BACK: Final = "Agree in your browser. Waiting for it (Ctrl-C: bring the address by hand) …"
BY_HAND: Final = (
    "Open the address in any browser and agree. The browser then ends at a page that may not be"
    " shown: copy its whole address, beginning with http://127.0.0.1, and bring it here."
)
FOUR: Final = (
    "Google is four connectors: gmail, sheets, google_calendar and drive. Each signs in for itself."
    " Connect the one you need, gmail for example. For mail alone an app password is enough,"
    " without an application at Google: connect mail."
)
MAY_CLOSE: Final = "Duly has it. You may close this window."
SIGN_IN: Final = "This service wants you to sign in at its provider."
SIGNED_IN: Final = "Signed in. Allowed:"
SIGNED_OUT: Final = "The provider has ended this sign-in. Sign in again; what waits goes on then."
OPEN_ADDRESS: Final = "1. Open the page of the provider, and agree there:"
OPEN_DEVICE: Final = "1. Open this page of the provider on any device:"
TYPE_CODE: Final = "2. Type this code there and agree, then come back:"
NOT_AGREED: Final = "You have not agreed at the provider yet."
BRING_ADDRESS: Final = (
    "2. The browser then ends at a page that cannot be shown. Copy its whole address, beginning"
    " with http://127.0.0.1, into this field:"
)


OTHER_ACCOUNT: Final = "It may be another account than before"


def say_account(account: str) -> str:
    """Say who signed in."""
    return f"Signed in as {account}."


def say_other(account: str, other: str) -> str:
    """Say that the provider gave a token of another account, which is not used."""
    wanted = f", and not of {account}" if account else ""
    return (
        f"The provider answered with a token of {other}{wanted}. It is not used."
        " Sign in again; what waits goes on then."
    )


def say_scopes(scopes: Sequence[str]) -> str:
    """Say what is asked for."""
    return f"You are asked to allow, and nothing else: {', '.join(scopes)}."


def say_device(address: str, code: str) -> str:
    """Say what a person does on another device."""
    return f"Open {address} on any device and type {code}. Waiting until you have agreed."


def say_signed_in(ended: Mapping[str, Any]) -> str:
    """Say what came of a sign-in."""
    if not ended["is_done"]:
        return f"{ended['connector']}: you have not agreed yet."
    missing, whose = ended["missing"], f" as {ended['account']}" if ended["account"] else ""
    if missing:
        return (
            f"{ended['connector']} is signed in{whose}, but you did not allow {', '.join(missing)}:"
            " what needs it waits until you sign in once more."
        )
    return f"{ended['connector']} is signed in{whose}."
