"""Every connector of a host: their tools as a catalogue, and the one way to call them.

Law 1: what could not be offered to a script, or not be called, is refused when the host is built,
       by class and method, and never in the middle of a run.
Law 2: only plain JSON comes out, a copy that no connector can change any more.
Law 3: a mutation goes out through `change` alone and a read through `read` alone (C2).
Law 4: every secret is remembered, so that it can be taken out of whatever is kept or shown; what a
       connector answers has none in it, for scripts and the ledger would have it then (A5).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Any, Final

from duly.connectors.base import (
    ONLY_ASKS,
    Applied,
    Call,
    Connector,
    Mutation,
    NotApplied,
    Page,
    Read,
    Terms,
    Unsure,
    Vault,
    Verdict,
)
from duly.connectors.signature import parameters_of
from duly.errors import IllegalTransition, Invalid
from duly.rules.catalog import SNAKE, TAKEN, Catalog, Risk, Tool, ToolKind
from duly.rules.permission import redact
from duly.rules.value import Json, decode, encode

# What a connector is born with cannot be the name of a tool.
OWN_NAMES: Final = frozenset({"name", "secret", "in_thread"})
# The policy's own limit is looked after by whoever asked; this one only keeps the walk finite.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tool is found: a method of a connector, and the one that asks about it."""

    connector: Connector
    method: str
    asker: str | None

    def find(self) -> Callable[..., Any]:
        """Answer the method, ready to be called."""
        found: Callable[..., Any] = getattr(self.connector, self.method)
        return found


class Registry:
    """The connectors of one host."""

    def __init__(self, connectors: Iterable[Connector] = ()) -> None:
        self._connectors: dict[str, Connector] = {}
        self._places: dict[str, Place] = {}
        self._secrets: set[str] = set()
        tools: list[Tool] = []
        for connector in connectors:
            name = _name_of(connector)
            if name in self._connectors:
                raise Invalid(
                    f'Two connectors are called "{name}". Set `name` on one of them.', path=name
                )
            self._connectors[name] = connector
            for tool, place in _tools_of(name, connector):
                tools.append(tool)
                self._places[tool.name] = place
        self.catalog = Catalog(tuple(tools))

    async def read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Ask the outside within the tool's time, or raise TimeoutError."""
        method = self._place(tool, is_mutation=False).find()
        try:
            async with asyncio.timeout(tool.timeout_s) as limit:
                with only_asking():
                    answer = await method(**deepcopy(dict(args)))
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"{tool.name} gave no answer in {tool.timeout_s:g} s.") from error
        except asyncio.CancelledError as error:
            if _is_told_to_stop():
                raise
            raise RuntimeError(f"{tool.name} gave up half-way.") from error
        return self._clean(tool, answer)

    async def change(self, tool: Tool, call: Call) -> Json:
        """Send a mutation; the deadline is the ledger's, and so is what an error means (L4)."""
        method = self._place(tool, is_mutation=True).find()
        # The connector gets a copy: what is recorded, and may be sent again, stays as it is (L7).
        own = replace(call, args=deepcopy(dict(call.args)))
        return self._clean(tool, await method(own, **own.args))

    async def reconcile(self, tool: Tool, call: Call) -> Verdict:
        """Ask what became of a call; what is no verdict is no certainty (L5)."""
        place = self._place(tool, is_mutation=True)
        if place.asker is None:
            raise IllegalTransition(f"{tool.name} has no reconcile method to ask.")
        own = replace(call, args=deepcopy(dict(call.args)))
        try:
            with only_asking():
                verdict = await getattr(place.connector, place.asker)(own)
        except asyncio.CancelledError as error:
            if _is_told_to_stop():
                raise
            raise RuntimeError(f"{place.asker} gave up half-way.") from error
        if isinstance(verdict, Applied):
            try:
                return Applied(self._clean(tool, verdict.result))
            except Invalid as error:
                return Unsure(f"{place.asker} found the call, but its result is no JSON: {error}")
        if isinstance(verdict, NotApplied | Unsure):
            return verdict
        return Unsure(
            f"{place.asker} answered a {type(verdict).__name__}. It must answer Applied(result),"
            " NotApplied() or Unsure(reason)."
        )

    def secrets(self) -> frozenset[str]:
        """List every secret known so far, for whoever redacts (A5)."""
        return frozenset(self._secrets)

    def remember(self, secret: str) -> None:
        """Take a secret out of whatever is kept or shown from now on, handed out or not (A5)."""
        self._secrets.add(secret)

    @property
    def connectors(self) -> tuple[str, ...]:
        """The names of the connectors."""
        return tuple(self._connectors)

    def bind(self, vault: Vault) -> None:
        """Give the connectors their secrets: `vault(connector, name)`, KeyError if there is none.

        It is called whenever a connector asks, from whatever thread asks.
        """

        def hand_out(connector: str, name: str) -> str:
            value = vault(connector, name)
            if value:  # A vault that has none may say so with nothing, too.
                self._secrets.add(value)
            return value

        for connector in self._connectors.values():
            # A connector may be frozen; where its secrets come from is no part of it.
            object.__setattr__(connector, "_vault", hand_out)

    def _clean(self, tool: Tool, answer: object) -> Json:
        """Copy an answer as plain JSON with no secret in it (A5)."""
        plain = _plain(tool, answer)
        return redact(plain, self._secrets) if self._secrets else plain

    def _place(self, tool: Tool, *, is_mutation: bool) -> Place:
        own = self.catalog.find(tool.name)
        if (own.kind is ToolKind.MUTATION) is not is_mutation:
            raise IllegalTransition(f"{own.name} is a {own.kind}; it was asked for as another.")
        return self._places[own.name]


@contextmanager
def only_asking() -> Iterator[None]:
    """Stand around a question: whoever gives it up need not wait for the thread it is in."""
    before = ONLY_ASKS.set(True)
    try:
        yield
    finally:
        ONLY_ASKS.reset(before)


def _is_told_to_stop() -> bool:
    """Tell our own wish to stop from a connector that was cancelled inside: that one failed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _plain(tool: Tool, answer: object) -> Json:
    """Copy an answer as plain JSON, or refuse it by the path to what is none (T8)."""
    value = answer.to_json() if isinstance(answer, Page) else answer
    return decode(encode(value, f"{tool.name}.result", limit_bytes=ANSWER_BYTES_MAX))


# -- Reading a connector --------------------------------------------------------------------------


def _name_of(connector: Connector) -> str:
    """Check what a connector is and answer its name, the instance's own before its class's."""
    given: object = connector
    if isinstance(given, type):
        raise Invalid(f"{given.__name__} is a class. Pass a connector: {given.__name__}().")
    kind = type(given).__name__
    if not isinstance(given, Connector):
        raise Invalid(f"A {kind} is no connector. Derive its class from duly.Connector.")
    name: object = getattr(given, "name", None)
    if name is None:
        raise Invalid(f'{kind} has no name. Write `name = "sheets"` in its class.', path="name")
    if not isinstance(name, str) or not SNAKE.fullmatch(name) or iskeyword(name) or name in TAKEN:
        raise Invalid(
            f"{kind} has the name {name!r}. Use lower-case letters, digits and single underscores,"
            " and no word that Python or ctx already uses.",
            path="name",
        )
    return name


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a class says of one tool, all its parents heard."""

    function: Callable[..., object]
    terms: Terms
    mutation: Mutation[Any, ..., Any] | None


def _declared_by(kind: type) -> dict[str, _Declared]:
    """Hear the parents first; an override without a decorator keeps the one it finds."""
    found: dict[str, _Declared] = {}
    for parent in reversed(kind.__mro__):
        for name, value in vars(parent).items():
            if isinstance(value, Read | Mutation):
                mutation = value if isinstance(value, Mutation) else None
                found[name] = _Declared(value.function, value.terms, mutation)
            elif name in found:
                found[name] = replace(found[name], function=value)
    return found


def _tools_of(connector_name: str, connector: Connector) -> Iterator[tuple[Tool, Place]]:
    kind = type(connector)
    for method, declared in _declared_by(kind).items():
        what = f"{kind.__name__}.{method}"
        if method in OWN_NAMES:
            raise Invalid(f"{what}: every connector has its own {method}. Rename it.", path=what)
        _check_async(declared.function, what)
        is_mutation = declared.mutation is not None
        first = ("self", "call") if is_mutation else ("self",)
        asker = _asker_of(kind, declared.mutation, what) if declared.mutation else None
        terms = declared.terms
        tool = Tool(
            f"{connector_name}.{method}",
            terms.kind,
            _capability(connector_name, kind, method, terms),
            _risk(terms.risk, what),
            parameters_of(declared.function, what, first=first),
            terms.noun,
            terms.lag_s,
            terms.timeout_s,
            terms.idempotent,
            terms.key_lifetime_s,
            reconciles=asker is not None,
        )
        yield tool, Place(connector, method, asker)


def _asker_of(kind: type, mutation: Mutation[Any, ..., Any], what: str) -> str | None:
    """Find the reconcile method by name, so that a child can override it."""
    if mutation.asker is None:
        return None
    name = getattr(mutation.asker, "__name__", "")
    place = f"{what}.reconcile"
    if vars(mutation.owner).get(name) is not mutation.asker:
        # Two methods of one name: the wrong one would answer for this mutation (L5).
        raise Invalid(
            f'{what}: its reconcile method "{name}" is not what the class has under that name.'
            " Give every method a name of its own.",
            path=place,
        )
    function = inspect.getattr_static(kind, name)
    _check_async(function, f"{kind.__name__}.{name}")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        message = f"{kind.__name__}.{name} must take (self, call): {error}."
        raise Invalid(message, path=place) from error
    return name


def _check_async(function: object, what: str) -> None:
    if not inspect.iscoroutinefunction(function):
        raise Invalid(
            f"{what} is not an async method. Write `async def`, and call what blocks with"
            " `await self.in_thread(…)`.",
            path=what,
        )


def _capability(connector_name: str, kind: type, method: str, terms: Terms) -> str:
    """Name what a grant must hold (A1): a read shares one, a mutation has its own unless told."""
    if terms.capability is None:
        own = method if terms.kind is ToolKind.MUTATION else "read"
        return f"{connector_name}.{own}"
    # A second connector of the class, under its own name, is not opened by the first one's grant.
    home, _, rest = terms.capability.partition(".")
    return f"{connector_name}.{rest}" if home == getattr(kind, "name", "") else terms.capability


def _risk(word: str, what: str) -> Risk:
    if word not in list(Risk):
        raise Invalid(f"{what}: risk is {word!r}. Say {', '.join(Risk)}.", path=f"{what}.risk")
    return Risk(word)
