"""Every exception Duly raises on purpose.

Law: an error is classified where it is born, says what happened to which thing, and its
docstring is its default message.

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
        ├── Transient           a passing trouble; out of a mutation the outcome is unknown
        └── UnknownOutcome      the call may or may not have taken effect
"""

from __future__ import annotations

from typing import Literal

Outcome = Literal["refused", "not_sent"]


class DulyError(Exception):
    """Something went wrong in Duly."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n")[0])


class IllegalTransition(DulyError):
    """Duly asked itself for a change its rules do not allow; this is a bug in Duly."""


class Invalid(DulyError):
    """A value breaks a rule."""

    def __init__(self, message: str | None = None, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class RequestRefused(DulyError):
    """The request was refused; nothing was changed."""


class NotDeployed(DulyError):
    """The source was refused; nothing was stored."""

    def __init__(self, message: str | None = None, *, findings: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings


class ScriptError(DulyError):
    """The script could not be loaded or threw.

    `is_lost` says that its worker died without a limit: nobody's fault, and transient (F1).
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        line: int | None = None,
        column: int | None = None,
        is_lost: bool = False,
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.is_lost = is_lost


class ConfigError(DulyError):
    """A setting is unknown or has a wrong value."""


class StillSending(DulyError):
    """A change is still on its way, so the host keeps its store; close it again later.

    `out` names the tools. The lock is kept until a later `close()` finds nothing out any more, or
    until the process ends: another host must not take a request that is still coming for one that
    never came (L6).
    """

    def __init__(self, message: str | None = None, *, out: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.out = out


class StoreError(DulyError):
    """The store could not do what it was asked."""


class Stale(StoreError):
    """The row is no longer in the state the decision was made on; nothing was changed."""


class Fenced(StoreError):
    """Another host has taken this workflow over; nothing was changed."""


class NotFound(StoreError):
    """There is no such thing in the store."""


class StoreUnavailable(StoreError):
    """The store cannot be written or read now; see to its disk and try again."""


class StoreLost(StoreUnavailable):
    """The store has stopped for good; open it again."""


class StoreForked(StoreLost):
    """The store belongs to the process that forked this one; only that one can use it."""


class StoreInUse(StoreError):
    """Another host holds this store."""


class StoreNewer(StoreError):
    """The store was written by a newer Duly; upgrade before opening it."""


class StoreDamaged(StoreError):
    """The store failed its integrity check; restore a backup."""


class ConnectorError(DulyError):
    """A connector's call failed."""


class NotSent(ConnectorError):
    """Nothing left this machine; the call can be made again."""

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Refused(ConnectorError):
    """The outside refused this call on its merits; the same call would be refused again.

    `remembered` says that an idempotent outside repeated the answer it kept for this key;
    only then does a refused re-send settle an unknown call (L4).
    """

    def __init__(self, message: str | None = None, *, remembered: bool = False) -> None:
        super().__init__(message)
        self.remembered = remembered


class AuthNeeded(ConnectorError):
    """The outside needs a person to sign in again."""

    def __init__(
        self, message: str | None = None, *, connect: str | None = None, secret: str | None = None
    ) -> None:
        super().__init__(message)
        self.connect = connect
        self.secret = secret  # what is missing, where it is a secret of the connection


class PermissionDenied(ConnectorError):
    """The outside does not permit this call."""


class Transient(ConnectorError):
    """A passing trouble outside; a mutation it struck is unknown unless `outcome` says."""

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after_s: float | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.outcome = outcome


class UnknownOutcome(ConnectorError):
    """The call may or may not have taken effect."""
