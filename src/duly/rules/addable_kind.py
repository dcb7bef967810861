"""A kind of connection that a page may add: its keys, what each may be, and how a form shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Takes(StrEnum):
    """What a key may be."""

    TEXT = "text"
    ADDRESS = "address"
    HOST = "host"
    HOSTS = "hosts"
    FOLDER = "folder"
    CHOICE = "choice"
    DOCUMENT = "document"


class Group(StrEnum):
    """Where in its form a field stands."""

    MAIN = "main"
    SIGN_IN = "sign_in"
    OPERATION = "operation"
    OPERATION_2 = "operation_2"
    OPERATION_3 = "operation_3"
    OPENAPI = "openapi"
    MORE = "more"


@dataclass(frozen=True, slots=True)
class AddableKey:
    """One key that a page may set; one with choices is one of them."""

    name: str
    takes: Takes = Takes.TEXT
    is_required: bool = True
    group: Group = Group.MAIN
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Addable:
    """One kind: its keys, and its secrets that a person types; some may be left empty.

    `signs_in` says that its account is chosen at the provider, when the connection is there.
    """

    keys: tuple[AddableKey, ...] = ()
    secrets: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    signs_in: bool = False


@dataclass(frozen=True, slots=True)
class AddableField:
    """One field of the form that adds a connection; `label` says what it is for."""

    name: str
    label: str
    example: str
    takes: Takes
    is_required: bool
    group: Group = Group.MAIN
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddableSecret:
    """A secret of a kind, to be typed in its form."""

    name: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class AddableKind:
    """A kind of connection that can be added on a page, and what it must be told."""

    use: str
    fields: tuple[AddableField, ...]
    secrets: tuple[AddableSecret, ...]
    signs_in: bool
