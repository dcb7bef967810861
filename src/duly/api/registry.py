"""Every verb of a host and of its bus, read off the methods that declare one (U6, G4).

Law 1  A verb is a method that `duly.rules.verb` declares. What stands at the method is all there
       is: its declaration, its signature and its docstring. Every face is made from this table.
Law 2  A public coroutine without a declaration is no verb; only a host's own life has none.
Law 3  Nothing of a host is imported before a verb is looked up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from duly.api import shape
from duly.errors import NotFound, short
from duly.rules.identity import IdKind
from duly.rules.value import Json, nearest
from duly.rules.verb import DECLARED, Declared
from duly.rules.verb import Scope as Scope
from duly.rules.verb import WholePath as WholePath

if TYPE_CHECKING:
    from duly.host import Host

BUS: Final = "bus."
BY: Final = "by"  # who acts: an embedding program says so, a request cannot (G5)
RIGHT: Final = "right"  # what that caller may do, for an act that needs more in some states (G4)

# A host's own life: the program that opened it ends it, and no face does.
LIFE: Final = frozenset({"open", "close", "drain", "serve", "keep_backups"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a verb; without `is_required` it has a default, and may be left out.

    `kind` is the type that crosses, without null; `words` are those a status can be. `names` are
    the kinds of things it is the id of.
    """

    name: str
    kind: Any
    is_required: bool
    is_keyword: bool
    default: Json
    is_nullable: bool = False
    words: tuple[str, ...] = ()
    names: tuple[IdKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing a host can be asked or told to do; the bus's begin with `bus.`.

    `takes` is the struct its arguments are read as, `returns` the type of its answer in Python.
    """

    name: str
    declared: Declared
    parameters: tuple[Parameter, ...]
    has_actor: bool
    has_right: bool
    takes: type[msgspec.Struct]
    returns: Any
    doc: str

    @property
    def is_question(self) -> bool:
        """Tell whether it changes nothing, neither here nor outside."""
        return self.declared.is_question

    @property
    def is_followable(self) -> bool:
        """Tell whether its answer can be had again each time it changes."""
        return self.declared.is_followed

    @property
    def scope(self) -> Scope:
        """What a caller must be allowed (G4)."""
        return self.declared.scope

    @property
    def is_persons(self) -> bool:
        """Tell whether only a person does it, and no agent of any scope (M5)."""
        return self.declared.is_persons

    @property
    def recorded_in(self) -> str:
        """The question that shows whether this act was done."""
        return self.declared.recorded_in

    @property
    def example(self) -> Mapping[str, Any]:
        """Arguments that work."""
        return self.declared.example


class Registry(Mapping[str, Verb]):
    """The verbs of a class of hosts by name; of the host that ships unless another is given."""

    def __init__(self, host: type[Host] | None = None) -> None:
        self._host = host

    def _owners(self) -> Mapping[str, type]:
        from duly.bus.bus import Bus
        from duly.host import Host

        return {"": self._host or Host, BUS: Bus}

    def __getitem__(self, name: str) -> Verb:
        prefix = BUS if name.startswith(BUS) else ""
        method = getattr(self._owners()[prefix], name.removeprefix(BUS), None)
        if not hasattr(method, DECLARED):
            raise KeyError(name)
        return _read(name, method)

    def __iter__(self) -> Iterator[str]:
        for prefix, owner in self._owners().items():
            for name, _ in inspect.getmembers(owner, lambda each: hasattr(each, DECLARED)):
                yield prefix + name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> Verb:
        """Return the verb of this name, or name the one that was probably meant."""
        if name not in self:
            raise NotFound(code="no_verb", subject=short(name), facts=nearest(name, self))
        return self[name]


VERBS: Final = Registry()


@cache
def _read(name: str, method: Callable[..., Any]) -> Verb:
    """Read a verb off the method that declares it."""
    _, *given = inspect.signature(method).parameters.values()  # without self
    hints = shape.read_hints(method)
    parameters = tuple(
        _read_parameter(name, each, hints[each.name])
        for each in given
        if each.name not in (BY, RIGHT)
    )
    return Verb(
        name=name,
        declared=getattr(method, DECLARED),
        parameters=parameters,
        has_actor=any(each.name == BY for each in given),
        has_right=any(each.name == RIGHT for each in given),
        takes=msgspec.defstruct(
            f"{name} arguments",
            [*map(_field, parameters)],
            kw_only=True,
            forbid_unknown_fields=True,
        ),
        returns=hints["return"],
        doc=inspect.getdoc(method) or "",
    )


def _read_parameter(verb: str, given: inspect.Parameter, hint: Any) -> Parameter:
    assert given.kind in (given.POSITIONAL_OR_KEYWORD, given.KEYWORD_ONLY), f"{verb}: {given}"
    kind, is_nullable, words = shape.split(hint)
    is_required = given.default is given.empty
    return Parameter(
        name=given.name,
        kind=kind,
        is_required=is_required,
        is_keyword=given.kind is given.KEYWORD_ONLY,
        default=None if is_required else msgspec.to_builtins(given.default),
        is_nullable=is_nullable,
        words=words,
        names=shape.kinds_of(hint),
    )


def _field(parameter: Parameter) -> Any:
    kind = shape.argument(parameter.kind, is_nullable=parameter.is_nullable, words=parameter.words)
    if parameter.is_required:
        return parameter.name, kind
    return parameter.name, kind | msgspec.UnsetType, msgspec.UNSET
