"""Makes methods of named operations, so that the host sees them like those of any connector.

Law: stubs, `check`, approvals and the exam read the signature, the result and the words of a
method. A named operation has all of them, made from its table in the settings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Protocol, TypedDict

from duly.connectors.base import Page
from duly.connectors.place import Argument

AFTER: Final = "after"  # the argument of a list that goes on


class Named(Protocol):
    """What is known of an operation of any connector."""

    @property
    def name(self) -> str:
        """The name that scripts call."""

    @property
    def kind(self) -> str:
        """What it is: `read`, `read_by_id` or `mutation`."""

    @property
    def does(self) -> str:
        """What it does, in words."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What it takes."""

    @property
    def returns(self) -> Any:
        """The type of its result, or the types of the fields of it."""


def describe(
    function: Callable[..., Any],
    operation: Named,
    owner: str,
    *,
    first: tuple[str, ...],
    is_paged: bool = False,
    takes_after: bool = False,
) -> None:
    """Give a function the name, the parameters and the words of an operation."""
    function.__name__ = operation.name
    function.__qualname__ = f"{owner}.{operation.name}"
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(each, by_place) for each in first]
    for each in operation.arguments:
        default = inspect.Parameter.empty if each.is_required else None
        parameters.append(
            inspect.Parameter(each.name, by_name, default=default, annotation=each.annotation)
        )
    if takes_after:
        parameters.append(inspect.Parameter(AFTER, by_name, default=None, annotation=str | None))
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {"return": _shape_of(operation, is_paged=is_paged)}
    function.__doc__ = operation.does
    if isinstance(operation.returns, dict):
        page = "a page of " if is_paged else ""
        function.__doc__ += f"\n\nReturns {page}{{{', '.join(operation.returns)}}}."


def _shape_of(operation: Named, *, is_paged: bool) -> Any:
    """Return the annotation of the result."""
    shape = operation.returns
    if isinstance(shape, dict):
        title = "".join(part.title() for part in operation.name.split("_"))
        make: Any = TypedDict
        shape = make(title, shape)
    if is_paged:
        pages: Any = Page
        return pages[shape]
    return shape | None if operation.kind == "read_by_id" and shape is not Any else shape
