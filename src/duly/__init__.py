"""Duly: a durable, event-driven host for automations that language models write.

Law: an outside change is never made twice and never lost in silence.

What is exported here is the public interface; every other module may change between releases.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from duly.config import Backoff, Limits, Policy, WorkflowPolicy
from duly.connectors.base import (
    Applied,
    Call,
    Connector,
    NotApplied,
    Page,
    Unsure,
    mutation,
    read,
)
from duly.errors import (
    AuthNeeded,
    DulyError,
    Invalid,
    NotDeployed,
    NotFound,
    NotSent,
    PermissionDenied,
    Refused,
    RequestRefused,
    StoreInUse,
    Transient,
    UnknownOutcome,
)
from duly.rules.source import Source
from duly.script.names import consumer, producer, workflow

if TYPE_CHECKING:
    from duly.desk.record import Deployed
    from duly.host import Host

__version__ = "0.1.0.dev0"

__all__ = [
    "Applied",
    "AuthNeeded",
    "Backoff",
    "Call",
    "Connector",
    "Deployed",
    "DulyError",
    "Host",
    "Invalid",
    "Limits",
    "NotApplied",
    "NotDeployed",
    "NotFound",
    "NotSent",
    "Page",
    "PermissionDenied",
    "Policy",
    "Refused",
    "RequestRefused",
    "Source",
    "StoreInUse",
    "Transient",
    "UnknownOutcome",
    "Unsure",
    "WorkflowPolicy",
    "consumer",
    "mutation",
    "producer",
    "read",
    "workflow",
]

# Every script's worker and every workflow imports this package, and neither wants a whole host.
_WHERE: Final = {"Deployed": "duly.desk.record", "Host": "duly.host"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Bring a part of the host when somebody asks for it."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
