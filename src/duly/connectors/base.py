"""The names with which a connector is written: Connector, read, mutation, Call, Page, verdicts.

Law 1: a decorator only notes what the author said; `registry.py` reads the notes, once, and
       refuses what cannot be offered to a script.
Law 2: a decorated method is still the method, so its author can call it in a test.
Law 3: a reconcile method belongs to the one mutation it was written for. A subclass that overrides
       the mutation without a decorator keeps it. A subclass that decorates the mutation again loses
       it, because a reconcile method must know how its change is made (L5).
Law 4: a change begun in a thread has ended when the thread returned. The method waits for that even
       when it is cancelled (L6). A read or a reconcile does not wait when it is cancelled: its
       thread is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial, update_wrapper
from keyword import iskeyword
from types import MappingProxyType, MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    Literal,
    Never,
    ParamSpec,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from duly import fork
from duly.connectors.attach import ThreadJob
from duly.connectors.blob import box
from duly.connectors.need import Need
from duly.connectors.watch import Watch
from duly.env import CALL
from duly.errors import AuthNeeded, Invalid, NotFound
from duly.rules.blob import Blob
from duly.rules.catalog import SNAKE, TAKEN, ToolKind, camel
from duly.rules.foreign import ForeignCode
from duly.rules.value import Json

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
if TYPE_CHECKING:
    # To a type checker a plain `Page` holds anything. Python has that default from 3.13 on.
    import typing_extensions

    Item = typing_extensions.TypeVar("Item", default=Any)
else:
    Item = TypeVar("Item")

Vault: TypeAlias = Callable[[str, str], str]
Keeper: TypeAlias = Callable[[Json], Awaitable[None]]

# The words of `rules.asking`, as an author writes them (K1, K10).
KeyWord: TypeAlias = Literal["header", "id", "field", "marker", "metadata", "handle", "none"]
AskedWord: TypeAlias = Literal["exactly", "by_search", "not_at_all"]
ProofWord: TypeAlias = Literal["itself", "trial"]
DeletedWord: TypeAlias = Literal["seen", "unseen"]

THREADS_MAX: Final = 8  # for changes, and as many for questions
SEND_S: Final = 30.0  # how long a call may take unless its terms say otherwise
TRIAL_WORKFLOW: Final = "duly.connect"  # what a trial is made for, where a call names its workflow
NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
UNSAID: Final = datetime.min.replace(tzinfo=UTC)

# How a page crosses the border; the sandboxes know it by the same mark.
PAGE_MARK: Final = "$page"
# In JavaScript a page is an array and its names are properties of it. They must not hide a method
# of an array, and an object with a `then` would be awaited.
ARRAY_WORDS: Final = """
    at concat constructor copy_within entries every fill filter find find_index find_last
    find_last_index flat flat_map for_each includes index_of items join keys last_index_of length
    map pop push reduce reduce_right reverse shift slice some sort splice to_locale_string
    to_reversed to_sorted to_spliced to_string unshift value_of values
"""
PAGE_NAMES_TAKEN: Final = TAKEN.union(ARRAY_WORDS.split())


@dataclass(frozen=True, slots=True)
class Call:
    """One mutation on its way out, as the ledger holds it; `key` is the same on every re-send.

    `first_sent_at` is when the first call with this key was sent, `sent_at` when this one was.
    Nothing of it may leave this machine after `send_by` (L7). `handle` is what `keep` wrote down,
    in this send or an earlier one (L14). `basis` is a digest of the account that it was sent with.
    """

    tool: str
    args: Mapping[str, Json]
    key: str
    workflow: str
    attempt: int
    sent_at: datetime
    first_sent_at: datetime = UNSAID
    send_by: datetime = UNSAID
    handle: Json = None
    keeper: Keeper | None = field(default=None, repr=False, compare=False)
    basis: str | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.first_sent_at == UNSAID:
            object.__setattr__(self, "first_sent_at", self.sent_at)
        if self.send_by == UNSAID:
            object.__setattr__(self, "send_by", self.sent_at + timedelta(seconds=SEND_S))
        for name in ("sent_at", "first_sent_at", "send_by"):
            at: datetime = getattr(self, name)
            if at.utcoffset() != timedelta(0):
                raise Invalid(f"{name} is {at}. Give an aware time in UTC.", path=name)

    async def keep(self, handle: Json) -> None:
        """Write down what the first of two steps made, before the second is sent (L14).

        It returns when the handle is on the disk: the id of a draft, of an upload. If it raises,
        the second step must not be sent. Reconcile gets the handle as `Call.handle`.
        """
        if self.keeper is None:
            raise Invalid("A handle is kept while its call is sent, and not by a reconcile.")
        await self.keeper(handle)
        object.__setattr__(self, "handle", handle)


@dataclass(frozen=True, slots=True, init=False)
class Page(Generic[Item]):
    """Items, and what to know about them: `Page(mails, last_cursor="17")`.

    `Page[Mail]` as the annotation of a read says what the items are.
    """

    items: list[Item]
    names: dict[str, Any]

    def __init__(self, items: list[Item], **names: Any) -> None:
        for name in names:
            if not SNAKE.fullmatch(name) or iskeyword(name) or name in PAGE_NAMES_TAKEN:
                raise Invalid(
                    f'A page cannot have the name "{name}". Use lower-case letters, digits and'
                    " single underscores, and no word that a JavaScript array already uses.",
                    path=name,
                )
        if len({camel(name) for name in names}) < len(names):
            raise Invalid(
                f"Two names of a page are one in JavaScript: {', '.join(names)}. Rename one."
            )
        object.__setattr__(self, "items", items)
        object.__setattr__(self, "names", names)

    def to_json(self) -> dict[str, Any]:
        """Write the page in the form that crosses the border."""
        return {PAGE_MARK: True, "items": self.items, **self.names}


@dataclass(frozen=True, slots=True)
class Applied:
    """The call has taken effect; `result` is what the mutation would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The call has not taken effect and never will, believed only once its lag is over (L6)."""


@dataclass(frozen=True, slots=True)
class Unsure:
    """The outside cannot tell yet; `reason` says why."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unasked(Unsure):
    """Reconcile could not be asked, raised, or did not return in time; not an Unsure (L5)."""


Verdict: TypeAlias = Applied | NotApplied | Unsure


@dataclass(frozen=True, slots=True)
class ToolTerms:
    """The arguments of a decorator, not yet checked."""

    kind: ToolKind
    capability: str | None = None
    risk: str = "medium"
    noun: str | None = None
    lag_s: float = 60
    timeout_s: float = 30
    idempotent: bool = False
    key_lifetime_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    editable: Sequence[str] = ()
    key_in: str | None = None
    asked: str | None = None
    proof: str | None = None
    deleted: str | None = None


class Read(Generic[C, P, R]):
    """A method that reads; on an instance it is the method itself."""

    def __init__(
        self, function: Callable[Concatenate[C, P], Coroutine[Any, Any, R]], terms: ToolTerms
    ) -> None:
        self.function = function
        self.terms = terms
        update_wrapper(cast(Callable[..., Any], self), function)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: C, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: C | None, owner: type) -> Any:
        return self if instance is None else MethodType(self.function, instance)

    def reconcile(self, function: object) -> Never:
        """Refuse: a read changes nothing, so there is nothing to reconcile."""
        raise Invalid(
            f"{_name_of(self.function)} only reads, so it takes no reconcile. Take it away, or"
            " make the tool a mutation.",
            path="reconcile",
        )


class Mutation(Generic[C, P, R]):
    """A method that changes the outside; on an instance it is the method itself."""

    def __init__(
        self, function: Callable[Concatenate[C, Call, P], Coroutine[Any, Any, R]], terms: ToolTerms
    ) -> None:
        self.function = function
        self.terms = terms
        self.owner: type | None = None
        self.asker: Callable[[C, Call], Coroutine[Any, Any, Verdict]] | None = None
        self.trier: Callable[[C], Mapping[str, Json] | None] | None = None
        update_wrapper(cast(Callable[..., Any], self), function)

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = self.owner or owner  # An alias elsewhere does not move it.

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self, instance: C, owner: type
    ) -> Callable[Concatenate[Call, P], Coroutine[Any, Any, R]]: ...
    def __get__(self, instance: C | None, owner: type) -> Any:
        return self if instance is None else MethodType(self.function, instance)

    def reconcile(
        self, function: Callable[[C, Call], Coroutine[Any, Any, Verdict]]
    ) -> Callable[[C, Call], Coroutine[Any, Any, Verdict]]:
        """Note the method that finds out whether a call of this mutation took effect (L5)."""
        name = _name_of(self.function)
        if self.owner is not None:
            # It would change the tool of the parent class, and of all its other children.
            raise Invalid(
                f"{name} belongs to {self.owner.__name__} already. Override its reconcile method"
                " by name, or declare the mutation anew in your class.",
                path="reconcile",
            )
        if self.asker is not None:
            raise Invalid(f"{name} has two reconcile methods. Keep one.", path="reconcile")
        if _name_of(function) == name:
            # The class would keep the last of the two, and the mutation would be gone.
            raise Invalid(
                f'The reconcile method of {name} has its name. Call it "{name}_happened".',
                path="reconcile",
            )
        self.asker = function
        return function

    def trial(
        self, function: Callable[[C], Mapping[str, Json] | None]
    ) -> Callable[[C], Mapping[str, Json] | None]:
        """Note the method that says with which arguments the tool is tried once (K10).

        The call is really made, with the user's own account, after the user has agreed to it; its
        reconcile method must find it. None: the user has to say the arguments.
        """
        if self.owner is not None or self.trier is not None:
            name = _name_of(self.function)
            raise Invalid(f"{name} has a trial already, or belongs to another class.", path="trial")
        self.trier = function
        return function


Reader: TypeAlias = Callable[Concatenate[C, P], Coroutine[Any, Any, R]]
Changer: TypeAlias = Callable[Concatenate[C, Call, P], Coroutine[Any, Any, R]]


@overload
def read(function: Reader[C, P, R], /) -> Read[C, P, R]: ...
@overload
def read(
    *,
    by_id: bool = False,
    capability: str | None = None,
    noun: str | None = None,
    timeout_s: float = 30,
) -> Callable[[Reader[C, P, R]], Read[C, P, R]]: ...
def read(
    function: Reader[C, P, R] | None = None,
    /,
    *,
    by_id: bool = False,
    capability: str | None = None,
    noun: str | None = None,
    timeout_s: float = 30,
) -> Read[C, P, R] | Callable[[Reader[C, P, R]], Read[C, P, R]]:
    """Offer a method to scripts as a read; its capability is `<connector>.read` unless given."""
    kind = ToolKind.READ_BY_ID if by_id else ToolKind.READ
    # A read changes nothing, so its risk is the lowest there is (A1).
    terms = ToolTerms(kind, capability, "low", noun, timeout_s=timeout_s)
    return partial(Read, terms=terms) if function is None else Read(function, terms)


@overload
def mutation(function: Changer[C, P, R], /) -> Mutation[C, P, R]: ...
@overload
def mutation(
    *,
    capability: str | None = None,
    risk: Literal["low", "medium", "high"] = "medium",
    noun: str | None = None,
    lag_s: float = 60,
    timeout_s: float = 30,
    idempotent: bool = False,
    key_lifetime_s: float | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    editable: Sequence[str] = (),
    key_in: KeyWord | None = None,
    asked: AskedWord | None = None,
    proof: ProofWord | None = None,
    deleted: DeletedWord | None = None,
) -> Callable[[Changer[C, P, R]], Mutation[C, P, R]]: ...
def mutation(
    function: Changer[C, P, R] | None = None,
    /,
    *,
    capability: str | None = None,
    risk: Literal["low", "medium", "high"] = "medium",
    noun: str | None = None,
    lag_s: float = 60,
    timeout_s: float = 30,
    idempotent: bool = False,
    key_lifetime_s: float | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    editable: Sequence[str] = (),
    key_in: KeyWord | None = None,
    asked: AskedWord | None = None,
    proof: ProofWord | None = None,
    deleted: DeletedWord | None = None,
) -> Mutation[C, P, R] | Callable[[Changer[C, P, R]], Mutation[C, P, R]]:
    """Offer a method to scripts as a mutation; its capability is the tool's name unless given.

    `labels` names the parameters that a person must see before they agree, in the order of the
    signature: `{"to": "To", "text": "Body"}`. `editable` lists those they may change first (A3).
    `key_in` says where the key of a call travels, `asked` how the outside can be asked about one,
    `proof` what shows that it can (K1, K10). `deleted` says whether that question still sees what a
    person deleted before it; where it does not, its no counts for an hour (L6).
    """
    how = (lag_s, timeout_s, idempotent, key_lifetime_s, labels, editable)
    asking = (key_in, asked, proof, deleted)
    terms = ToolTerms(ToolKind.MUTATION, capability, risk, noun, *how, *asking)
    return partial(Mutation, terms=terms) if function is None else Mutation(function, terms)


class Connector:
    """What a script may touch of one outside service; a subclass needs no `super().__init__()`."""

    name: str
    # It needs its own machine: files, folders. In a fleet a workflow that uses it stays there (H7).
    local: bool = False
    # What a person is asked for when they connect it; what its class takes is asked for besides.
    needs: ClassVar[tuple[Need, ...]] = ()

    # These are attributes of the class, since a subclass need not call our constructor.
    _origin: str | None = None  # where its service is, if that is named in the settings (K4)
    _foreign: ForeignCode | None = None  # of a connector that another package brings (K14)
    _secret_names: tuple[str, ...] = ()  # which secrets it asks for
    _vault: Vault | None = None
    _keeper: Any = None  # refreshes tokens (K9): a `Keeper` of `oauth.py`
    _threads: ThreadPoolExecutor | None = None
    _askers: ThreadPoolExecutor | None = None
    _fork_depth: int = 0

    def _relies_on(self, method: str) -> Json:
        """Return what the proof of a tool depends on; another value voids the proof (K10)."""
        return self._origin

    def secret(self, name: str) -> str:
        """Fetch a secret of this connector; without one a person is asked to connect (A5)."""
        value = None
        if self._vault is not None:
            try:
                value = self._vault(self.name, name)
            except (LookupError, NotFound):
                value = None
        if not value:
            raise AuthNeeded(
                f"{self.name} has no secret “{name}”. Set it: duly secret set {self.name} {name}",
                connect=self.name,
                secret=name,
            )
        return value

    async def in_thread(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run code that blocks in a thread; a change is waited for even when cancelled (L6)."""
        found = CALL.get()
        watch = found if isinstance(found, Watch) else None
        is_asking = watch is not None and watch.is_asking
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        call = partial(copy_context().run, partial(function, *args, **kwargs))
        threads = self._threads_for(is_asking=is_asking)
        work = call if watch is None else ThreadJob(watch, call)
        submit: Callable[[], Future[R]] = partial(threads.submit, work)
        job = work.hand(submit) if isinstance(work, ThreadJob) else submit()

        def tell(_: object) -> None:
            if isinstance(work, ThreadJob):
                work.drop()
            with suppress(RuntimeError):  # The loop is closed: no task waits for it any more.
                loop.call_soon_threadsafe(ended.set)

        job.add_done_callback(tell)
        cancelled: asyncio.CancelledError | None = None
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                job.cancel()  # A call that still waits for a thread is never made.
                if is_asking:
                    break
        if cancelled is not None:
            if job.cancelled() or watch is None or is_asking:
                raise cancelled
            if not (watch.is_told_to_stop and watch.is_patient):
                raise cancelled
            # The host stopped waiting, but a late result still counts: the method may return it.
            # It is cancelled again if it awaits anything else (L1).
            task = asyncio.current_task()
            assert task is not None, self
            loop.call_soon(task.cancel)
        return job.result()

    async def keep_blob(self, data: bytes, *, name: str, type: str = "") -> Blob:  # noqa: A002
        """Keep bytes for the workflow whose call this is, and return their handle (K15)."""
        return await box().keep(data, name, type)

    async def open_blob(self, blob: Blob) -> bytes:
        """Return the bytes of a handle that the workflow was given (K15)."""
        return await box().open(blob)

    def _threads_for(self, *, is_asking: bool) -> ThreadPoolExecutor:
        """Return the threads for reads or for changes; one kind never waits for the other."""
        if self._fork_depth != fork.depth():
            # A forked child has none of its parent's threads, and would wait for them (H1).
            for name, value in (
                ("_askers", None),
                ("_threads", None),
                ("_fork_depth", fork.depth()),
            ):
                object.__setattr__(self, name, value)
        place, kind = ("_askers", "asks") if is_asking else ("_threads", self.name)
        threads: ThreadPoolExecutor | None = getattr(self, place)
        if threads is None:
            prefix = f"duly-{self.name}-{kind}" if is_asking else f"duly-{self.name}"
            threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix=prefix)
            object.__setattr__(self, place, threads)  # a frozen connector has threads too
        return threads


def _name_of(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
