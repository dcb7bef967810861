"""Which step may do what (C2, P1), and which topics a handler may name (T7, W3, W4).

Law: what the table does not list is forbidden. The host asks before anything else happens, so a
forbidden call sends nothing and leaves no ledger row (A1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

from duly.errors import Invalid
from duly.rules.catalog import ToolKind
from duly.rules.value import nearest


class Step(StrEnum):
    """The functions a script is made of: a producer has one, a consumer up to three."""

    PRODUCE = "produce"
    PREPARE = "prepare"
    MUTATE = "mutate"
    NEXT = "next"


class Operation(StrEnum):
    """What a script can ask its host for."""

    READ = "read"
    READ_BY_ID = "read_by_id"
    MUTATION = "mutation"
    PEEK = "peek"
    GET_BY_IDS = "get_by_ids"
    PUBLISH = "publish"


MutateReads = Literal["none", "by_id"]

# The table of C2, read as "this operation is for these steps".
TABLE: Final[Mapping[Operation, frozenset[Step]]] = MappingProxyType(
    {
        Operation.READ: frozenset({Step.PRODUCE, Step.PREPARE}),
        Operation.READ_BY_ID: frozenset({Step.PRODUCE, Step.PREPARE}),
        Operation.MUTATION: frozenset({Step.MUTATE}),
        Operation.PEEK: frozenset({Step.PREPARE}),
        Operation.GET_BY_IDS: frozenset({Step.PREPARE}),
        Operation.PUBLISH: frozenset({Step.PRODUCE, Step.NEXT}),
    }
)

# What a workflow's policy adds to the table: the variant of chapter 06.
ADDED: Final[Mapping[MutateReads, Mapping[Operation, frozenset[Step]]]] = MappingProxyType(
    {"none": {}, "by_id": {Operation.READ_BY_ID: frozenset({Step.MUTATE})}}
)

OPERATION_OF: Final[Mapping[ToolKind, Operation]] = MappingProxyType(
    {
        ToolKind.READ: Operation.READ,
        ToolKind.READ_BY_ID: Operation.READ_BY_ID,
        ToolKind.MUTATION: Operation.MUTATION,
    }
)


def steps_for(operation: Operation, mutate_reads: MutateReads = "none") -> frozenset[Step]:
    """Return the steps that may do this (C2)."""
    return TABLE[operation] | ADDED[mutate_reads].get(operation, frozenset())


def is_allowed(operation: Operation, step: Step, mutate_reads: MutateReads = "none") -> bool:
    """Tell whether a step may do this (C2, P1)."""
    return step in steps_for(operation, mutate_reads)


def check_access(
    operation: Operation, step: Step, called: str, mutate_reads: MutateReads = "none"
) -> None:
    """Refuse a call its step forbids; `called` is the name the script used."""
    if not is_allowed(operation, step, mutate_reads):
        fitting = [each for each in Step if is_allowed(operation, each, mutate_reads)]
        raise Invalid(
            code="not_in_step",
            path=called,
            facts={"step": step, "operation": operation, "steps": fitting},
        )


def check_subscribed(called: str, topic: str, subscribed: Collection[str]) -> None:
    """Refuse to read or reserve events of a topic this consumer does not subscribe to (T7)."""
    if topic not in subscribed:
        raise Invalid(
            code="not_subscribed", path=called, facts={"topic": topic, **nearest(topic, subscribed)}
        )


def check_publishes(
    topic: str, declared: Collection[str], publishes: Collection[str] | None
) -> None:
    """Refuse to publish into a topic that is not declared (W4) or the handler did not name (W3)."""
    if topic not in declared:
        raise Invalid(
            code="undeclared_topic",
            path="publish",
            facts={"topic": topic, **nearest(topic, declared)},
        )
    if publishes is not None and topic not in publishes:
        raise Invalid(code="not_in_publishes", path="publish", facts={"topic": topic})
