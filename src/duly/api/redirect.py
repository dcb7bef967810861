"""Whether a redirect belongs to a sign-in that was begun; a face that listens asks this (K9)."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl, urlsplit

from duly.rules.oauth import TokenFault, read_redirect

OTHERS: Final = (TokenFault.OTHER_PLACE, TokenFault.OTHER_STATE, TokenFault.OTHER_PROVIDER)


def belongs(given: str, redirect: str, address: str) -> bool:
    """Tell whether what came is the answer to this address of the provider."""
    state = dict(parse_qsl(urlsplit(address).query)).get("state", "")
    found = read_redirect(given, redirect=redirect, state=state, authorize_url=address)
    return bool(state) and found not in OTHERS
