"""Every exception Duly raises on purpose.

Law 1  An error is classified where it is born: its class, a `code` (one word), the `subject` it
       is about, and `next`, an offer of what to do, where there is one thing to do.
Law 2  Its sentence is made from its code and its facts in `words`. Only a connector, whose words
       are the outside's, gives a message of its own. The docstring is the last resort.

    DulyError
    ├── IllegalTransition       our own code asked for a change the rules do not allow: a bug
    ├── Invalid                 a value breaks a rule; `path` names the place
    ├── RequestRefused          a request to Duly was refused; nothing was changed
    ├── NotDeployed             a source was refused; `findings` says why
    ├── ScriptError             a script could not be loaded or threw; `line`, `column`
    ├── ConfigError             a setting is unknown or has a wrong value
    ├── StillSending            a host cannot be closed yet: a change of its is still on its way
    ├── StoreError
    │   ├── Stale               the row is no longer in the state the decision was made on
    │   ├── Fenced              another host has taken the workflow over
    │   ├── NotFound            there is no such row
    │   ├── StoreUnavailable    the disk or the database said no; the message says what is certain
    │   │   ├── StoreOlder      it does not have what it had confirmed: a standby, or a backup
    │   │   └── StoreLost       it stopped for good and must be opened again
    │   │       └── StoreForked the process that has it open is this one's parent
    │   ├── StoreInUse          another host holds this store
    │   ├── StoreNewer          the store was written by a newer Duly
    │   └── StoreDamaged        the integrity check failed
    └── ConnectorError          the outside world, as a connector reports it (L4)
        ├── NotSent             nothing left this machine
        ├── Refused             the outside said no, on the merits of the call
        ├── AuthNeeded          the outside wants a new sign-in
        ├── PermissionDenied    the outside does not allow this
        ├── Transient           a temporary error; out of a mutation the outcome is unknown
        └── UnknownOutcome      the call may or may not have taken effect
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal

from duly.fact import NO_FACTS, Offer

Outcome = Literal["refused", "not_sent"]
SHORT_CHARS: Final = 100
SUBJECT_CHARS_MAX: Final = 500  # a subject may be what a caller gave, of any length


class DulyError(Exception):
    """Something went wrong in Duly.

    `code` is one word that a program can compare; `subject` names the thing, `facts` hold what the
    sentence needs, `next` is what to do about it.
    """

    default_code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str = "",
        subject: str = "",
        facts: Mapping[str, Any] = NO_FACTS,
        next: Offer | None = None,  # noqa: A002  # the word that faces show
    ) -> None:
        self.code = code or self.default_code
        self.subject = _cut(subject)
        self.facts = facts
        self.next = next
        super().__init__(message or (render(self) if code else _first_line(type(self))))


def _cut(subject: str) -> str:
    return subject if len(subject) <= SUBJECT_CHARS_MAX else f"{subject[:SUBJECT_CHARS_MAX]}…"


def _first_line(kind: type[DulyError]) -> str:
    return (kind.__doc__ or "").split("\n")[0]


def _render_code(error: DulyError) -> str:
    return f"{error.code}: {error.subject}" if error.subject else error.code


def _render_pair(code: str, subject: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    return f"{code}: {subject}", ""


def see(verb: str, *asks: str, **args: Any) -> Offer:
    """Offer a question that shows what a person needs to know next; `asks` is left to them."""
    return Offer(verb, args, "see", asks)


def do(verb: str, *asks: str, **args: Any) -> Offer:
    """Offer an act that helps; what comes of it is said under the name of the act."""
    return Offer(verb, args, verb, asks)


def short(value: object) -> str:
    """Return a value as a short text, to be a fact; also a number too long for Python to write."""
    try:
        return str(value)[:SHORT_CHARS]
    except ValueError:
        return type(value).__name__


def parts_of(error: DulyError) -> dict[str, Any]:
    """Return what an error says, to raise it again as another class."""
    return {
        "message": str(error),
        "code": error.code,
        "subject": error.subject,
        "facts": error.facts,
        "next": error.next,
    }


# How sentences are made from a code; `words` sets both, so that no sentence stands here. The second
# takes a code, its subject and its facts, and returns what is wrong and what to do.
render: Callable[[DulyError], str] = _render_code
render_pair: Callable[[str, str, Mapping[str, Any]], tuple[str, str]] = _render_pair


def speak_in_codes() -> None:
    """Make no sentences in this process: loading them takes half of a worker's start."""
    global render, render_pair
    render, render_pair = _render_code, _render_pair


class IllegalTransition(DulyError):
    """Duly asked itself for a change its rules do not allow; this is a bug in Duly."""

    default_code = "bug"


class Invalid(DulyError):
    """A value breaks a rule."""

    default_code = "invalid"

    def __init__(self, message: str | None = None, *, path: str = "", **more: Any) -> None:
        self.path = _cut(path)
        super().__init__(message, **{"subject": path, **more})


class RequestRefused(DulyError):
    """The request was refused; nothing was changed."""

    default_code = "refused_request"


class NotDeployed(DulyError):
    """The source was refused; nothing was stored."""

    default_code = "not_deployed"

    def __init__(
        self, message: str | None = None, *, findings: tuple[object, ...] = (), **more: Any
    ) -> None:
        self.findings = findings
        super().__init__(message, **more)


class ScriptError(DulyError):
    """The script could not be loaded or threw.

    `is_lost` says that its worker died and no limit was broken: a temporary failure (F1).
    """

    default_code = "script"

    def __init__(
        self,
        message: str | None = None,
        *,
        line: int | None = None,
        column: int | None = None,
        is_lost: bool = False,
        **more: Any,
    ) -> None:
        self.line = line
        self.column = column
        self.is_lost = is_lost
        super().__init__(message, **more)


class ConfigError(DulyError):
    """A setting is unknown or has a wrong value."""

    default_code = "config"


class StillSending(DulyError):
    """A change is still on its way, so the host keeps its store; close it again later.

    `out` names the tools. The lock is kept until a later `close()` finds nothing out any more, or
    until the process ends: another host must not take a request that is still coming for one that
    never came (L6).
    """

    default_code = "still_sending"

    def __init__(
        self, message: str | None = None, *, out: tuple[str, ...] = (), **more: Any
    ) -> None:
        self.out = out
        super().__init__(message, **more)


class StoreError(DulyError):
    """The store could not do what it was asked."""

    default_code = "store"


class Stale(StoreError):
    """The row has changed since the decision was made; nothing was changed now."""

    default_code = "stale"


class Fenced(StoreError):
    """Another host has taken this workflow over; nothing was changed."""

    default_code = "fenced"


class NotFound(StoreError):
    """There is no such thing in the store."""

    default_code = "not_found"


class StoreUnavailable(StoreError):
    """The store cannot be written or read now; see to its disk and try again."""

    default_code = "store_unavailable"


class StoreOlder(StoreUnavailable):
    """The store no longer has writes that it had confirmed."""

    default_code = "store_older"


class StoreLost(StoreUnavailable):
    """The store has stopped for good; open it again."""

    default_code = "store_lost"


class StoreForked(StoreLost):
    """The store belongs to the process that forked this one; only that one can use it."""

    default_code = "store_forked"


class StoreInUse(StoreError):
    """Another host holds this store."""

    default_code = "store_in_use"


class StoreNewer(StoreError):
    """The store was written by a newer Duly; upgrade before opening it."""

    default_code = "store_newer"


class StoreDamaged(StoreError):
    """The store failed its integrity check; restore a backup."""

    default_code = "store_damaged"


class ConnectorError(DulyError):
    """A connector's call failed."""

    default_code = "connector"


class NotSent(ConnectorError):
    """Nothing left this machine; the call can be made again."""

    default_code = "not_sent"

    def __init__(
        self, message: str | None = None, *, retry_after_s: float | None = None, **more: Any
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, **more)


class Refused(ConnectorError):
    """The outside refused this call on its merits; the same call would be refused again.

    `remembered` says that an idempotent outside repeated the answer it kept for this key;
    only then does a refused re-send settle an unknown call (L4).
    """

    default_code = "refused"

    def __init__(
        self, message: str | None = None, *, remembered: bool = False, **more: Any
    ) -> None:
        self.remembered = remembered
        super().__init__(message, **more)


class AuthNeeded(ConnectorError):
    """The outside needs a person to sign in again."""

    default_code = "auth_needed"

    def __init__(
        self,
        message: str | None = None,
        *,
        connect: str | None = None,
        secret: str | None = None,
        **more: Any,
    ) -> None:
        self.connect = connect
        self.secret = secret  # what is missing, where it is a secret of the connection
        super().__init__(message, **more)


class PermissionDenied(ConnectorError):
    """The outside does not permit this call."""

    default_code = "permission_denied"


class Transient(ConnectorError):
    """A temporary error outside; its mutation is unknown unless `outcome` says otherwise."""

    default_code = "transient"

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: float | None = None,
        outcome: Outcome | None = None,
        **more: Any,
    ) -> None:
        self.retry_after_s = retry_after_s
        self.outcome = outcome
        super().__init__(message, **more)


class UnknownOutcome(ConnectorError):
    """The call may or may not have taken effect."""

    default_code = "unknown_outcome"
