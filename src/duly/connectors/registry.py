"""Every connector of a host: their tools as a catalogue, and the one way to call them.

Law 1: what could not be offered to a script, or not be called, is refused when the host is built,
       by class and method, and never in the middle of a run.
Law 2: only plain JSON comes out, a copy that no connector can change any more.
Law 3: a mutation goes out through `change` alone and a read through `read` alone (C2).
Law 4: a call returns or raises within its time, and raises plain errors only. No fault of a
       connector stops the host (L13).
Law 5: every secret is remembered, so that it can be taken out of all that is kept or shown. Secrets
       are taken out of every result too, before scripts and the ledger get it (A5).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from keyword import iskeyword
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

from duly.connectors.base import (
    Applied,
    Call,
    Connector,
    Mutation,
    NotApplied,
    Page,
    Read,
    ToolTerms,
    Unsure,
    Vault,
    Verdict,
)
from duly.connectors.oauth import Keeper
from duly.connectors.raised import kind_of, words_at, words_of
from duly.connectors.signature import parameters_of, result_of
from duly.connectors.watch import LoopPlace, Watch
from duly.env import CALL, machine_ms
from duly.errors import IllegalTransition, Invalid, UnknownOutcome
from duly.rules.asking import AskedHow, Deleted, KeyIn, ProofBy, SecretTimes
from duly.rules.catalog import SNAKE, TAKEN, Catalog, Parameter, Risk, Tool, ToolKind
from duly.rules.oauth import tokens_in
from duly.rules.redaction import AT_ONCE_CHARS, Redactor, redact
from duly.rules.value import Json, canonical, copy, decode, encode, is_light, suggest

Word = TypeVar("Word", bound=StrEnum)

# Attributes that every connector has cannot be names of tools.
OWN_NAMES: Final = frozenset(
    {"name", "local", "needs", "secret", "in_thread", "keep_blob", "open_blob"}
)
# The caller checks the policy's own limit; this one only keeps the walk finite.
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ToolPlace:
    """Where a tool is found: a method of a connector, and the one that asks about it."""

    connector: Connector
    method: str
    asker: str | None
    trier: str | None = None

    def find(self) -> Callable[..., Any]:
        """Return the method, ready to be called."""
        found: Callable[..., Any] = getattr(self.connector, self.method)
        return found


def _no_times(connector: str) -> SecretTimes:
    """Tell that no secret is known."""
    return ()


class Registry:
    """The connectors of one host."""

    def __init__(self, connectors: Iterable[Connector] = ()) -> None:
        self._connectors: dict[str, Connector] = {}
        self._places: dict[str, ToolPlace] = {}
        self._redactor = Redactor()
        # A call is held by its parts while one is at work; a call that was collected has ended.
        self._sends: WeakSet[Watch] = WeakSet()
        self._questions: WeakSet[Watch] = WeakSet()
        self._compute: Callable[[Callable[[], Json]], Awaitable[Json]] | None = None
        self.pace = LoopPlace()
        self._times_of: Callable[[str], SecretTimes] = _no_times
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
        asking = {each.capability for each in tools if self._asks_model(each)}
        self.catalog = Catalog(tuple(tools), frozenset(asking))

    def __iter__(self) -> Iterator[Connector]:
        return iter(self._connectors.values())

    def _asks_model(self, tool: Tool) -> bool:
        """Tell whether what a tool returns is a model's word (M4)."""
        return bool(getattr(self._places[tool.name].connector, "asks_model", False))

    def origins(self) -> dict[str, str]:
        """Return where the service of each connector is, of those whose settings say it (K4)."""
        found = {name: each._origin for name, each in self._connectors.items()}
        return {name: origin for name, origin in found.items() if origin is not None}

    def is_local(self, tool: str) -> bool:
        """Tell whether a tool needs this very machine (H7)."""
        return self._places[tool].connector.local

    @cached_property
    def local_capabilities(self) -> frozenset[str]:
        """What lets a workflow use a connector that needs this very machine (H7)."""
        tools = self.catalog.tools
        return frozenset(each.capability for each in tools if self.is_local(each.name))

    def secrets_of(self, connector: str) -> tuple[str, ...]:
        """Return the names of the secrets that a connector needs."""
        return self._connectors[connector]._secret_names

    def basis_of(self, tool: str) -> Json:
        """Return what the proof of a tool depends on, besides the secrets (K10)."""
        place = self._places[tool]
        return place.connector._relies_on(place.method)

    def basis_with(self, tool: str, times: SecretTimes) -> str:
        """Return the digest of all that a proof depends on, with secrets set at these times."""
        connector = tool.partition(".")[0]
        secrets: list[Json] = [[name, at] for owner, name, at in times if owner == connector]
        return sha256(canonical([tool, self.basis_of(tool), secrets])).hexdigest()

    def basis_now(self, tool: str) -> str | None:
        """Return the same with the secrets that are handed out now; None of an unknown tool."""
        if tool not in self._places:
            return None
        return self.basis_with(tool, self._times_of(tool.partition(".")[0]))

    def trial_of(self, tool: str) -> tuple[dict[str, Json] | None, str]:
        """Return the arguments with which a tool is tried, if it has some, and what that does."""
        place = self._places[tool]
        if place.trier is None:
            return None, ""
        method = getattr(place.connector, place.trier)
        args = method()
        words = (method.__doc__ or "").strip().partition("\n")[0]
        return None if args is None else _own(args), words

    def describe(self, tool: str) -> str:
        """Return what the author of a connector wrote about one of its tools."""
        place = self._places[tool]
        declared = getattr(type(place.connector), place.method)
        function = getattr(declared, "function", declared)
        lines = [line.strip() for line in (function.__doc__ or "").strip().splitlines()]
        return "\n".join(lines)

    async def read(self, tool: Tool, args: Mapping[str, Json]) -> Json:
        """Ask the outside within the tool's time, or raise TimeoutError."""
        method = self._place(tool, is_mutation=False).find()

        async def ask() -> object:
            answer = await method(**_own(args))
            return answer if self._is_heavy(answer) else self._clean(tool, answer)

        answer = await self._ask(tool.name, ask(), tool.timeout_s)
        if self._compute is not None and self._is_heavy(answer):
            return await self._compute(lambda: self._clean(tool, answer))
        plain: Json = answer
        return plain

    def send(self, tool: Tool, call: Call, *, clock: Callable[[], int] = machine_ms) -> Watch:
        """Send a mutation and return its watch at once; L4 decides what an error of it means.

        Nothing of it is begun later than the tool's time after now (L7).
        """
        method = self._place(tool, is_mutation=True).find()
        # The connector gets a copy: what is recorded, and may be sent again, stays as it is (L7).
        own = replace(call, args=_own(call.args))

        async def change() -> Json:
            return self._clean(tool, await method(own, **own.args))

        watch = Watch(
            tool.name,
            clock=clock,
            is_patient=not tool.idempotent,
            timeout_s=tool.timeout_s,
            pace=self.pace,
            basis=call.basis if call.attempt > 1 else None,
        )
        self._sends.add(watch)
        watch.begin(change())
        return watch

    async def reconcile(self, tool: Tool, call: Call, *, limit_s: float | None = None) -> Verdict:
        """Ask what became of a call; anything but a verdict counts as Unsure (L5)."""
        place = self._place(tool, is_mutation=True)
        if place.asker is None:
            raise IllegalTransition(f"{tool.name} has no reconcile method to ask.")
        own = replace(call, args=_own(call.args))
        method, asker = getattr(place.connector, place.asker), place.asker

        async def ask() -> Verdict:
            return self._read_verdict(tool, asker, await method(own))

        verdict: Verdict = await self._ask(f"{tool.name} reconcile", ask(), limit_s)
        return verdict

    async def _ask(
        self, what: str, asking: Coroutine[Any, Any, Any], timeout_s: float | None
    ) -> Any:
        """Run a read or a reconcile; one that does not stop in time is left behind (L13)."""
        watch = Watch(what, clock=machine_ms, is_asking=True, pace=self.pace)
        self._questions.add(watch)
        watch.begin(asking)
        return await watch.result(timeout_s)

    def _read_verdict(self, tool: Tool, asker: str, verdict: object) -> Verdict:
        """Copy a verdict, so that reading it again raises nothing."""
        kind = type(verdict)
        if issubclass(kind, Applied):
            try:
                return Applied(self._clean(tool, getattr(verdict, "result", None)))
            except Exception as error:
                said = f"its result is no JSON: {words_of(error)}"
                return Unsure(f"{asker} found the call, but {said}")
        if issubclass(kind, NotApplied):
            return NotApplied()
        if issubclass(kind, Unsure):
            return Unsure(words_at(verdict, "reason"))
        return Unsure(
            f"{asker} answered a {kind_of(verdict)}. It must answer Applied(result),"
            " NotApplied() or Unsure(reason)."
        )

    # -- What is still at work ------------------------------------------------------------------

    def sends_out(self) -> tuple[Watch, ...]:
        """List the sends that have a part at work and have not returned success (L6)."""
        return tuple(each for each in tuple(self._sends) if each.is_out and not each.is_done)

    async def until_sent(self, timeout_s: float) -> tuple[Watch, ...]:
        """Wait until no send is out, and return those that still are."""
        try:
            async with asyncio.timeout(timeout_s):
                while out := self.sends_out():
                    await out[0].settled(None)
        except TimeoutError:
            pass
        return self.sends_out()

    def is_at_work(self) -> bool:
        """Tell whether a part of any call is still at work, reads included."""
        return any(each.is_out for each in (*self._sends, *self._questions))

    def secrets(self) -> Redactor:
        """Return the redactor that takes every secret out of all that is kept or shown (A5)."""
        return self._redactor

    def remember(self, secret: str) -> None:
        """Take a secret out of all that is kept or shown from now on, handed out or not (A5)."""
        tokens = tokens_in(secret)
        for each in tokens:
            self._redactor.remember_token(each)
        if not tokens:
            self._redactor.remember(secret)

    @property
    def connectors(self) -> tuple[str, ...]:
        """The names of the connectors."""
        return tuple(self._connectors)

    def bind(
        self,
        vault: Vault,
        keeper: Keeper | None = None,
        times_of: Callable[[str], SecretTimes] = _no_times,
    ) -> None:
        """Give the connectors their secrets: `vault(connector, name)`, KeyError if there is none.

        It is called whenever a connector asks, in the connector's thread. `keeper` keeps the tokens
        that a connector refreshes (K9); `times_of` tells when the secrets of one were set. A call
        that is sent again gets none that its first send did not have (L7).
        """
        self._times_of = times_of

        def hand_out(connector: str, name: str) -> str:
            value = vault(connector, name)
            found = CALL.get()
            basis = found.basis if isinstance(found, Watch) else None
            if isinstance(found, Watch) and basis not in (None, self.basis_now(found.tool)):
                said = "the call is not sent again with another secret than before"
                raise UnknownOutcome(f"{found.tool}: {said}.")
            if value:  # A vault that has none may say so with nothing, too.
                self.remember(value)
            return value

        for connector in self._connectors.values():
            # A connector may be frozen; where its secrets come from is no part of it.
            object.__setattr__(connector, "_vault", hand_out)
            object.__setattr__(connector, "_keeper", keeper)

    def compute_with(self, compute: Callable[[Callable[[], Json]], Awaitable[Json]]) -> None:
        """Check large results with `compute`, beside the event loop (X2); else on the loop."""
        self._compute = compute

    def _is_heavy(self, answer: object) -> bool:
        value = answer.items if type(answer) is Page else answer
        return self._compute is not None and not is_light(value, most_chars=AT_ONCE_CHARS)

    def _clean(self, tool: Tool, answer: object) -> Json:
        """Copy a result as plain JSON with no secret in it (A5)."""
        plain = _plain(tool, answer)
        return redact(plain, self._redactor)

    def _place(self, tool: Tool, *, is_mutation: bool) -> ToolPlace:
        own = self.catalog.find(tool.name)
        if (own.kind is ToolKind.MUTATION) is not is_mutation:
            raise IllegalTransition(f"{own.name} is a {own.kind}; it was asked for as another.")
        return self._places[own.name]


def _plain(tool: Tool, answer: object) -> Json:
    """Copy a result as plain JSON, or refuse it and name the path to what is not JSON (T8)."""
    value = answer.to_json() if isinstance(answer, Page) else answer
    return decode(encode(value, f"{tool.name}.result", limit_bytes=ANSWER_BYTES_MAX))


# -- Reading a connector --------------------------------------------------------------------------


def _name_of(connector: Connector) -> str:
    """Check what a connector is and return its name, the instance's own before its class's."""
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
    """What a class and its parents declare about one tool."""

    function: Callable[..., object]
    terms: ToolTerms
    mutation: Mutation[Any, ..., Any] | None


def _declared_by(kind: type) -> dict[str, _Declared]:
    """Read the parents first; an override without a decorator keeps the parent's terms."""
    found: dict[str, _Declared] = {}
    for parent in reversed(kind.__mro__):
        for name, value in vars(parent).items():
            if isinstance(value, Read | Mutation):
                mutation = value if isinstance(value, Mutation) else None
                found[name] = _Declared(value.function, value.terms, mutation)
            elif name in found:
                found[name] = replace(found[name], function=value)
    return found


def _tools_of(connector_name: str, connector: Connector) -> Iterator[tuple[Tool, ToolPlace]]:
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
            _said(Risk, "risk", terms.risk, what),
            _shown(parameters_of(declared.function, what, first=first), terms, what),
            terms.noun,
            terms.lag_s,
            terms.timeout_s,
            terms.idempotent,
            terms.key_lifetime_s,
            reconciles=asker is not None,
            result=result_of(declared.function),
            key_in=_word(KeyIn, "key_in", terms.key_in, what),
            asked=_word(AskedHow, "asked", terms.asked, what),
            proof=_proof(declared, what),
            deleted=_word(Deleted, "deleted", terms.deleted, what),
        )
        trier = getattr(declared.mutation, "trier", None)
        yield tool, ToolPlace(connector, method, asker, getattr(trier, "__name__", None))


def _shown(parameters: tuple[Parameter, ...], terms: ToolTerms, what: str) -> tuple[Parameter, ...]:
    """Mark what a person sees of a call, and what they may change (A3)."""
    names = [each.name for each in parameters]
    for place, given in (("labels", terms.labels), ("editable", terms.editable)):
        for name in given:
            if name not in names:
                raise Invalid(
                    f"{what}: {place} names {name!r}. {suggest(str(name), names)}", path=place
                )
    for each in parameters:
        if each.is_blob and each.name in terms.editable:
            raise Invalid(f"{what}: a person cannot write the blob {each.name}.", path="editable")
    return tuple(
        replace(each, label=terms.labels.get(each.name), editable=each.name in terms.editable)
        for each in parameters
    )


def _asker_of(kind: type, mutation: Mutation[Any, ..., Any], what: str) -> str | None:
    """Find the reconcile method by name, so that a child can override it."""
    if mutation.asker is None:
        return None
    name = getattr(mutation.asker, "__name__", "")
    place = f"{what}.reconcile"
    if vars(mutation.owner).get(name) is not mutation.asker:
        # Two methods of one name: the wrong one would be asked about this mutation (L5).
        raise Invalid(
            f'{what}: its reconcile method "{name}" is not what the class has under that name.'
            " Give every method a name of its own.",
            path=place,
        )
    function, said = inspect.getattr_static(kind, name), f"{kind.__name__}.{name}"
    _check_async(function, said)
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise Invalid(f"{said} must take (self, call): {error}.", path=place) from error
    return name


def _check_async(function: object, what: str) -> None:
    if not inspect.iscoroutinefunction(function):
        told = "Write `async def`, and call what blocks with `await self.in_thread(…)`."
        raise Invalid(f"{what} is not an async method. {told}", path=what)


def _own(args: Mapping[str, Json]) -> dict[str, Json]:
    return cast("dict[str, Json]", copy(dict(args)))  # a connector may change what it is given


def _capability(connector_name: str, kind: type, method: str, terms: ToolTerms) -> str:
    """Name the capability (A1): reads share one, a mutation has its own unless terms name one."""
    if terms.capability is None:
        own = method if terms.kind is ToolKind.MUTATION else "read"
        return f"{connector_name}.{own}"
    # A second connector of the class, under its own name, is not opened by the first one's grant.
    home, _, rest = terms.capability.partition(".")
    return f"{connector_name}.{rest}" if home == getattr(kind, "name", "") else terms.capability


def _said(kind: type[Word], name: str, word: str, what: str) -> Word:
    """Read a word that an author wrote."""
    if word not in list(kind):
        said = f"{what}: {name} is {word!r}. Say {', '.join(kind)}."
        raise Invalid(said, path=f"{what}.{name}")
    return kind(word)


def _proof(declared: _Declared, what: str) -> ProofBy | None:
    """Read what shows that a tool can be asked: a trial, if it has one (K10)."""
    said = _word(ProofBy, "proof", declared.terms.proof, what)
    if declared.mutation is None or declared.mutation.trier is None:
        return said
    if said is ProofBy.ITSELF:
        raise Invalid(f"{what} proves itself, so it needs no trial.", path=f"{what}.proof")
    return ProofBy.TRIAL


def _word(kind: type[Word], name: str, word: str | None, what: str) -> Word | None:
    return None if word is None else _said(kind, name, word, what)
