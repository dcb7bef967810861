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
from duly.connectors.signature import Address
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
    StillSending,
    StoreInUse,
    Transient,
    UnknownOutcome,
)
from duly.rules.source import Source
from duly.script.names import consumer, producer, workflow

if TYPE_CHECKING:
    from duly.bus.agent import AgentProvider
    from duly.bus.channel import Channel, TerminalChannel, WebhookChannel
    from duly.bus.extension import Extension, ExtensionContext
    from duly.desk.record import Deployed
    from duly.host import Host
    from duly.rules.delivery import Event, Retry
    from duly.rules.repair import RepairCase, Repairer

__version__ = "0.1.0.dev0"

__all__ = [
    "Address",
    "AgentProvider",
    "Applied",
    "AuthNeeded",
    "Backoff",
    "Call",
    "Channel",
    "Connector",
    "Deployed",
    "DulyError",
    "Event",
    "Extension",
    "ExtensionContext",
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
    "RepairCase",
    "Repairer",
    "RequestRefused",
    "Retry",
    "Source",
    "StillSending",
    "StoreInUse",
    "TerminalChannel",
    "Transient",
    "UnknownOutcome",
    "Unsure",
    "WebhookChannel",
    "WorkflowPolicy",
    "consumer",
    "mutation",
    "producer",
    "read",
    "workflow",
]

# Every script's worker and every workflow imports this package, and neither wants a whole host.
_WHERE: Final = {
    "AgentProvider": "duly.bus.agent",
    "Channel": "duly.bus.channel",
    "Deployed": "duly.desk.record",
    "Event": "duly.rules.delivery",
    "Extension": "duly.bus.extension",
    "ExtensionContext": "duly.bus.extension",
    "Host": "duly.host",
    "RepairCase": "duly.rules.repair",
    "Repairer": "duly.rules.repair",
    "Retry": "duly.rules.delivery",
    "TerminalChannel": "duly.bus.channel",
    "WebhookChannel": "duly.bus.channel",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Bring a part of the host when somebody asks for it."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
