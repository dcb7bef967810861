"""Duly: a durable, event-driven host for automations that language models write.

Law: an outside change is never made twice and never lost in silence.

What is exported here is the public interface; every other module may change between releases.
"""

from __future__ import annotations

from duly.config import Backoff, Limits, Policy, WorkflowPolicy
from duly.errors import (
    AuthNeeded,
    DulyError,
    NotDeployed,
    NotSent,
    PermissionDenied,
    Refused,
    Transient,
    UnknownOutcome,
)
from duly.rules.source import Source
from duly.script.names import consumer, producer, workflow

__version__ = "0.1.0.dev0"

__all__ = [
    "AuthNeeded",
    "Backoff",
    "DulyError",
    "Limits",
    "NotDeployed",
    "NotSent",
    "PermissionDenied",
    "Policy",
    "Refused",
    "Source",
    "Transient",
    "UnknownOutcome",
    "WorkflowPolicy",
    "consumer",
    "producer",
    "workflow",
]
