"""How a method becomes a verb: a question or an act, declared where the method is (U6, G4).

Law 1  A declaration decides nothing and changes nothing about the method; `api` collects the
       declarations, and every face is made from that registry.
Law 2  A verb without a declaration does not exist for any face.
Law 3  A scope covers itself and every smaller one. A caller can give up scope, never gain it.
Law 4  What a verb takes and returns is said by its annotations, and only there. Where a program
       may give what JSON cannot carry, the annotation names what crosses instead (`Crosses`).
Law 5  Every face shows the docstring as it stands. It has no id of a rule and spells no call; the
       ids stand in a comment below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from duly.errors import RequestRefused

F = TypeVar("F", bound=Callable[..., Any])

DECLARED: Final = "__duly_verb__"


# A file that the host will write; a path is never relative to the host's own folder.
WholePath: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^/", description="an absolute path")]


@dataclass(frozen=True, slots=True)
class Crosses:
    """Marks an argument that comes from outside as another type than a program may give."""

    kind: Any


class Scope(StrEnum):
    """What a caller must be allowed, from the least to the most (G4)."""

    READ = "read"
    AGENT = "agent"
    DECIDE = "decide"
    ADMIN = "admin"

    def covers(self, other: Scope) -> bool:
        """Tell whether a caller with this scope may do what needs the other one."""
        return _SIZES[self] >= _SIZES[other]

    def lowered_to(self, other: Scope) -> Scope:
        """Return the smaller of two scopes (G5)."""
        return other if self.covers(other) else self


def check_right(verb: str, right: Scope, needed: Scope) -> None:
    """Refuse an act of a caller whose scope is too small for it (G4)."""
    if not right.covers(needed):
        facts = {"scope": str(right), "needed": str(needed)}
        raise RequestRefused(code="beyond_scope", subject=verb, facts=facts)


def right_to_resume(*, is_restored: bool) -> Scope:
    """Return what it takes to let a workflow go on (G4).

    What was done since a backup was made would be done again, so that a person decides (H5).
    """
    return Scope.DECIDE if is_restored else Scope.AGENT


_SIZES: Final[Mapping[Scope, int]] = {scope: size for size, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a method says of itself as a verb.

    `is_followed` tells whether its answer can be had again each time it changes. `example` holds
    arguments that work; each face spells them its own way. `recorded_in` names the question that
    shows whether an act was done. `needs_extensions`: only a host whose extensions are loaded can
    answer. `extension_argument` names the argument whose first part may be an extension: what
    belongs to an extension is changed by a running host alone (B13). `cursor` names the fields of
    the last entry of a page that the next page goes on from. `for_agents`: an agent with the scope
    `decide` may do it. `restored_argument` names the argument with the workflow: after a restore of
    that one the act is a person's. `needs_store`: the answer of a question is sealed with the key
    of the store, so one that is not there is made.
    """

    is_question: bool
    scope: Scope
    example: Mapping[str, Any]
    is_followed: bool = False
    recorded_in: str = ""
    needs_extensions: bool = False
    extension_argument: str = ""
    cursor: tuple[str, ...] = ()
    for_agents: bool = False
    restored_argument: str = ""
    needs_store: bool = False

    @property
    def is_persons(self) -> bool:
        """Tell whether only a person does it, and no agent of any scope (M5, H5)."""
        decides = self.scope is Scope.DECIDE and not self.is_question
        return self.scope is Scope.ADMIN or (decides and not self.for_agents)


def question(
    *,
    scope: Scope = Scope.READ,
    follow: bool = True,
    needs_extensions: bool = False,
    cursor: tuple[str, ...] = (),
    needs_store: bool = False,
    example: Mapping[str, Any],
) -> Callable[[F], F]:
    """Declare a method that changes nothing, neither here nor outside."""
    return _declare(
        Declared(
            True,
            scope,
            example,
            is_followed=follow,
            needs_extensions=needs_extensions,
            cursor=cursor,
            needs_store=needs_store,
        )
    )


def act(
    *,
    scope: Scope,
    recorded_in: str = "actions",
    extension_argument: str = "",
    needs_extensions: bool = False,
    for_agents: bool = False,
    restored_argument: str = "",
    example: Mapping[str, Any],
) -> Callable[[F], F]:
    """Declare a method that changes something; who did it is recorded (A6).

    What needs the scope `decide` is a person's, unless `for_agents` says that it sends nothing
    that a person has not let through (M5).
    """
    return _declare(
        Declared(
            False,
            scope,
            example,
            recorded_in=recorded_in,
            extension_argument=extension_argument,
            needs_extensions=needs_extensions,
            for_agents=for_agents,
            restored_argument=restored_argument,
        )
    )


def _declare(declared: Declared) -> Callable[[F], F]:
    def mark(function: F) -> F:
        setattr(function, DECLARED, declared)
        return function

    return mark
