"""What scripts may touch: the outside, one connector per service.

The ready-made ones are here by name: `from duly.connectors import Files, Http, Mailbox, Table`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duly.connectors.clock import Clock
    from duly.connectors.files import Files
    from duly.connectors.http import Http
    from duly.connectors.mailbox import Mailbox
    from duly.connectors.rest import Auth, KeyPlace, Paging, Rest, Verify
    from duly.connectors.table import Table

__all__ = [
    "Auth",
    "Clock",
    "Files",
    "Http",
    "KeyPlace",
    "Mailbox",
    "Paging",
    "Rest",
    "Table",
    "Verify",
]

# Every import of `duly` comes through here, and most programs need none of these.
_WHERE: Final = {
    **dict.fromkeys(("Auth", "KeyPlace", "Paging", "Rest", "Verify"), "duly.connectors.rest"),
    "Clock": "duly.connectors.clock",
    "Files": "duly.connectors.files",
    "Http": "duly.connectors.http",
    "Mailbox": "duly.connectors.mailbox",
    "Table": "duly.connectors.table",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a connector when its name is used."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
