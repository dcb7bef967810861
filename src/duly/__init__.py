"""Duly: a durable, event-driven host for automations that language models write.

Law: an outside change is never made twice and never lost in silence.

What is exported here is the public interface; every other module may change between releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from duly import errors as _errors

if TYPE_CHECKING:
    from duly.bus.agent import AgentProvider
    from duly.bus.channel import Channel, TerminalChannel, WebhookChannel
    from duly.bus.extension import Extension, ExtensionContext
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
    from duly.desk.record import Deployed
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
    from duly.host import Host
    from duly.rules.blob import Blob
    from duly.rules.delivery import Event, Retry
    from duly.rules.repair import RepairCase, Repairer
    from duly.rules.source import Source
    from duly.script.names import consumer, producer, workflow


def _render(error: _errors.DulyError) -> str:
    import_module("duly.words.error")  # the first error brings the sentences, and takes this place
    return _errors.render(error)


def _render_pair(code: str, subject: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    import_module("duly.words.error")
    return _errors.render_pair(code, subject, facts)


_errors.render = _render
_errors.render_pair = _render_pair

__version__ = "0.1.0.dev0"

__all__ = [
    "Address",
    "AgentProvider",
    "Applied",
    "AuthNeeded",
    "Backoff",
    "Blob",
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

# Every command, every script's worker and every workflow imports this package; none of them waits
# for more of it than it uses.
_WHERE: Final = {
    "Address": "duly.connectors.signature",
    "AgentProvider": "duly.bus.agent",
    "Applied": "duly.connectors.base",
    "AuthNeeded": "duly.errors",
    "Backoff": "duly.config",
    "Blob": "duly.rules.blob",
    "Call": "duly.connectors.base",
    "Channel": "duly.bus.channel",
    "Connector": "duly.connectors.base",
    "Deployed": "duly.desk.record",
    "DulyError": "duly.errors",
    "Event": "duly.rules.delivery",
    "Extension": "duly.bus.extension",
    "ExtensionContext": "duly.bus.extension",
    "Host": "duly.host",
    "Invalid": "duly.errors",
    "Limits": "duly.config",
    "NotApplied": "duly.connectors.base",
    "NotDeployed": "duly.errors",
    "NotFound": "duly.errors",
    "NotSent": "duly.errors",
    "Page": "duly.connectors.base",
    "PermissionDenied": "duly.errors",
    "Policy": "duly.config",
    "Refused": "duly.errors",
    "RepairCase": "duly.rules.repair",
    "Repairer": "duly.rules.repair",
    "RequestRefused": "duly.errors",
    "Retry": "duly.rules.delivery",
    "Source": "duly.rules.source",
    "StillSending": "duly.errors",
    "StoreInUse": "duly.errors",
    "TerminalChannel": "duly.bus.channel",
    "Transient": "duly.errors",
    "UnknownOutcome": "duly.errors",
    "Unsure": "duly.connectors.base",
    "WebhookChannel": "duly.bus.channel",
    "WorkflowPolicy": "duly.config",
    "consumer": "duly.script.names",
    "mutation": "duly.connectors.base",
    "producer": "duly.script.names",
    "read": "duly.connectors.base",
    "workflow": "duly.script.names",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a part of the host at its first use."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
