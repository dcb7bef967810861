"""What a workflow's text says, in one shape for both languages: its handlers and their flow.

Law 1: a reader writes down what it sees and judges nothing; `judgement` and `path` judge and
       never look at a tree.
Law 2: what a reader cannot know is left open (None, `is_open`), and there are no findings about
       open values: authors ignore a check with false alarms.

The flow of a function is a tree of the few things that matter to W5: a use of `ctx`, an invocation
of another function of the same text, other work, and the paths of control between them. A helper
is read once for every way `ctx` is passed to it, so that it counts for each step that reaches it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from duly.rules.access import Step
from duly.rules.catalog import JsonType, camel
from duly.rules.source import Language
from duly.script.finding import Finding

TEXT_CHARS_MAX: Final = 1000  # longer than any name or title
CHOICES_MAX: Final = 16  # of conditions in conditions
KEYS_MAX: Final = 6  # that a value is made of; a person reads no more


class TooTangled(Exception):
    """The text is more tangled than authors write; it is not read to its end."""


EFFORT_MAX: Final = 1_000_000
NAMES_PER_LOOK: Final = 32  # copying so many names costs as much


@dataclass(slots=True)
class Effort:
    """What reading and judging a text may cost in all, in looks at a node of it.

    Both are linear in the length of nearly every text; what is not, ends here (X2).
    """

    left: int = EFFORT_MAX

    def spend(self, looks: int = 1) -> None:
        """Take so many looks off what is left."""
        self.left -= looks
        if self.left < 0:
            raise TooTangled


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands; line and column begin at 1."""

    line: int
    column: int


class Text:
    """The lines of a source; parsers count columns in bytes, people in characters."""

    def __init__(self, text: str) -> None:
        # Split where both parsers do; str.splitlines splits at more characters.
        lines = text.split("\n")
        # In an ASCII line the two counts are the same; most lines are ASCII. Of any other line the
        # bytes that begin no character are kept: a line may be the whole text.
        self.lines = [None if line.isascii() else _bytes_inside(line) for line in lines]

    def place(self, row: int, column_bytes: int) -> Place:
        """Return the place of what a parser found, its row beginning at 0."""
        inside = self.lines[row] if row < len(self.lines) else None
        if inside is None:
            return Place(row + 1, column_bytes + 1)
        return Place(row + 1, column_bytes - bisect_left(inside, column_bytes) + 1)


def _bytes_inside(line: str) -> list[int]:
    """List the places of the bytes that continue a character."""
    return [at for at, byte in enumerate(line.encode()) if byte & 0xC0 == 0x80]


Origin: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True, slots=True)
class WrittenArgument:
    """An argument as it is written: a constant that is certain, its parts, or what it is made of.

    `keys` are the names of the fields that an expression reads; if it reads none, its variables.
    """

    text: str | None = None
    parts: tuple[tuple[str, WrittenArgument], ...] = ()
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """An expression, as far as it is known without running it.

    `chance` is the clock or the dice it asks. `origin` is the path to it from what the host gave:
    ("event", "mail", "payload", "from") is a part of an event of the topic mail, ("events", "mail")
    a list of them, ("prepared", "data") what prepare returned. `made_of` are the values a text is
    built from. `written` is set for the arguments of calls. `either` are the values of a
    condition, `a if x else b`: it is one of them.
    """

    place: Place
    type: JsonType | None = None
    text: str | None = None
    fields: Mapping[str, Value] | None = None
    items: tuple[Value, ...] | None = None
    is_open: bool = False
    chance: str | None = None
    origin: Origin | None = None
    made_of: tuple[Value, ...] = ()
    written: WrittenArgument | None = None
    either: tuple[Value, ...] = ()

    @property
    def choices(self) -> tuple[Value, ...]:
        """The values it may be: those of a condition, or itself."""
        return self.either or (self,)


def one_of(sides: Iterable[Value]) -> tuple[Value, ...]:
    """Return the values that a condition may have; none if there are too many to follow.

    A side may be a condition itself, and a constant that is one may be named again and again.
    """
    found = tuple(one for each in sides for one in each.choices)
    return found if len(found) <= CHOICES_MAX else ()


EVENTS, EVENT, PREPARED = "events", "event", "prepared"


def element_of(origin: Origin | None) -> Origin | None:
    """Return where an element of a list comes from, as far as events go."""
    return (EVENT, *origin[1:]) if origin is not None and origin[0] == EVENTS else None


def part_of(origin: Origin | None, name: str) -> Origin | None:
    """Return where a named part of something comes from."""
    return None if origin is None or origin[0] == EVENTS else (*origin, name)


def joined(texts: Iterable[str | None]) -> str | None:
    """Join known texts; a text that doubles itself line by line is cut."""
    whole = ""
    for text in texts:
        if text is None:
            return None
        whole = (whole + text)[:TEXT_CHARS_MAX]
    return whole


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """A call through `ctx`; `path` is spelled as in the text, None where it is made at run time."""

    place: Place
    path: str | None
    positional: tuple[Value, ...] = ()
    named: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    is_open: bool = False
    is_awaited: bool = True


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call of another function of the same text, by its key in the outline."""

    place: Place
    function: str


@dataclass(frozen=True, slots=True)
class OtherWork:
    """Anything else that does something."""

    place: Place


class Exit(StrEnum):
    """How control leaves a block before its end."""

    RETURN = "return"
    BREAK = "break"
    CONTINUE = "continue"
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class Leave:
    """Control leaves here; a break or a continue may name its loop."""

    way: Exit
    label: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """Exactly one of the paths is taken."""

    ways: tuple[Flow, ...]


@dataclass(frozen=True, slots=True)
class LoopBlock:
    """The body runs any number of times; `otherwise` once it ends without a break.

    `is_entered` says that the first turn is certain, `is_endless` that only a break ends it.
    """

    body: Flow
    otherwise: Flow = ()
    is_entered: bool = False
    is_endless: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A statement that a break can leave by its name."""

    label: str
    body: Flow


@dataclass(frozen=True, slots=True)
class Inline:
    """The body of a function that is called where it stands; a return leaves only it."""

    body: Flow


@dataclass(frozen=True, slots=True)
class Switch:
    """A case is entered from before or out of the case above it; a break leaves them all."""

    cases: tuple[Flow, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Guard:
    """A try: the handlers run instead of the rest of the body, the last part in any case."""

    place: Place
    body: Flow
    handlers: tuple[Flow, ...]
    last: Flow


Node: TypeAlias = (
    "Use | Invoke | OtherWork | Leave | Branch | LoopBlock | Labelled | Inline | Switch | Guard"
)
Flow: TypeAlias = "tuple[Node, ...]"


@dataclass(slots=True)
class Function:
    """One function for one way of passing `ctx` to it; a reader fills it in.

    `looks` are the parts of events and of `prepared` that it reads, `rebinds` those of the names it
    writes that get another value, not a change in place.
    """

    place: Place
    body: Flow = ()
    results: list[Value] = field(default_factory=list)
    reads: dict[str, Place] = field(default_factory=dict)
    writes: dict[str, Place] = field(default_factory=dict)
    rebinds: set[str] = field(default_factory=set)
    looks: list[Value] = field(default_factory=list)
    is_generator: bool = False


@dataclass(frozen=True, slots=True)
class Handler:
    """A producer or a consumer; the steps name functions of the outline.

    `is_daily_at_deploy` says of a producer that it has a cron pattern and does not say whether it
    runs at deploy (W2).
    """

    name: str
    place: Place
    steps: Mapping[Step, str]
    subscribe: tuple[str, ...] | None = None
    publishes: tuple[str, ...] | None = None
    is_daily_at_deploy: bool = False


@dataclass(slots=True)
class Outline:
    """A whole text; `topics` is None where the list is not written out.

    `ingress` are the topics that may be published into from outside, `variables` the names of the
    module that hold something else than a function. `hidden` are the places where `ctx` is used in
    a way that no reader can follow.
    """

    language: Language
    file: str
    has_workflow: bool = False
    topics: tuple[str, ...] | None = None
    ingress: frozenset[str] = frozenset()
    handlers: list[Handler] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    variables: frozenset[str] = frozenset()
    hidden: list[Place] = field(default_factory=list)
    effort: Effort = field(default_factory=Effort)

    def spell(self, name: str) -> str:
        """Write a name we own the way the author's language does."""
        return camel(name) if self.language is Language.JAVASCRIPT else name


def flows_of(node: Node) -> tuple[Flow, ...]:
    """Return the flows inside a node."""
    if isinstance(node, Branch):
        return node.ways
    if isinstance(node, LoopBlock):
        return (node.body, node.otherwise)
    if isinstance(node, Labelled | Inline):
        return (node.body,)
    if isinstance(node, Switch):
        return node.cases
    if isinstance(node, Guard):
        return (node.body, *node.handlers, node.last)
    return ()


def walk(flow: Flow) -> Iterator[Node]:
    """Yield every node of a flow, in the order of the text."""
    for node in flow:
        yield node
        for inner in flows_of(node):
            yield from walk(inner)


def reach(functions: Mapping[str, Function], key: str) -> list[str]:
    """List a function and all it invokes, each once."""
    seen = {key: None}
    waiting = [key]
    for each in waiting:
        for node in walk(functions[each].body):
            if isinstance(node, Invoke) and node.function not in seen:
                seen[node.function] = None
                waiting.append(node.function)
    return waiting


# -- What a reader keeps while it reads ----------------------------------------------------------


PATH_PARTS_MAX: Final = 4
READINGS_MAX: Final = 2000  # functions that pass ctx around in many ways are read no further


@dataclass(frozen=True, slots=True)
class Alias:
    """A name for `ctx` itself (an empty path), for a part of it, or for an unknown part (None)."""

    path: str | None

    def part(self, name: str) -> Alias:
        """Return the alias of a part; a path deeper than any tool is unknown."""
        if self.path is None or self.path.count(".") + 1 >= PATH_PARTS_MAX:
            return SOME_PART
        return Alias(f"{self.path}.{name}".lstrip("."))


CTX: Final = Alias("")
SOME_PART: Final = Alias(None)


@dataclass(slots=True)
class NameScope:
    """The names a function sees; a name that is not here belongs to the module.

    A name stands for an alias of `ctx`, a known value, a function (a tree of the reader's own), or
    something unknown: None, which still hides the module's name.
    """

    function: Function
    key: str
    names: dict[str, object] = field(default_factory=dict)
    owner: str = ""
    globals: set[str] = field(default_factory=set)
    is_inline: bool = False

    def inline(self) -> NameScope:
        """Open a scope for a function that is called where it stands."""
        return NameScope(self.function, self.key, dict(self.names), self.owner, self.globals, True)

    def learn(self, name: str, meaning: object) -> None:
        """Bind a name; a name that is bound twice is unknown."""
        self.names[name] = meaning if self.names.get(name, meaning) is meaning else None
