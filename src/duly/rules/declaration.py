"""What a workflow declares, read once at deploy and stored as it was read (W1–W5, W7).

Law 1: a declaration is refused whole or not at all, and the first twenty problems are named, not
       only the first (W5).
Law 2: what is stored is what the scheduler uses: `parse(to_json(d)) == d` (W7).

The sandbox hands over what it found in the source, with the word `function` in the place of every
function and snake_case for the names we own; what the script left undefined is left out:

    {"name": "email-to-sheets",
     "topics": ["row.created"] or {"email.received": {"ingress": true or {"bus": "user.message"}}},
     "producers": {"by_hand": "function",
                   "poll": {"schedule": {"interval": "5m"}, "handler": "function",
                            "publishes": ["email.received"]}},
     "consumers": {"process": {"subscribe": ["email.received"], "prepare": "function",
                               "mutate": "function", "next": "function", "publishes": []}}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from duly import errors
from duly.config import Limits
from duly.errors import Invalid, NotDeployed
from duly.fact import NO_FACTS
from duly.rules.access import Step
from duly.rules.schedule import MANUAL, Schedule
from duly.rules.schedule import declare as declare_schedule
from duly.rules.schedule import parse as parse_schedule
from duly.rules.value import DEFAULT_LIMITS, PATH_KEY_CHARS, Json, nearest

FUNCTION: Final = "function"
# No address has a place for a name like these: a browser and a proxy would read them as a path.
DOTS: Final = frozenset({".", ".."})
SLASHES: Final = frozenset({"/", "\\"})
NAME: Final = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]+")
PROBLEMS_MAX: Final = 20  # an author corrects these first; looking for near names costs time (W6)
NAMES_MAX: Final = 1000  # a script can build its declaration in a loop; the host reads it in one go


@dataclass(frozen=True, slots=True)
class TopicDeclaration:
    """A declared topic: `ingress` lets requests in, `bus` a topic of the bus (T10)."""

    name: str
    ingress: bool = False
    bus: str | None = None


@dataclass(frozen=True, slots=True)
class ProducerDeclaration:
    """A producer; `publishes` is None where the handler names no topics of its own (W2, W3)."""

    name: str
    schedule: Schedule = MANUAL
    publishes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ConsumerDeclaration:
    """A consumer and the steps it is written in (W3)."""

    name: str
    subscribe: tuple[str, ...]
    steps: tuple[Step, ...] = (Step.PREPARE,)
    publishes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """A workflow as its source declares it; handlers keep the order of the source (S5)."""

    name: str
    topics: tuple[TopicDeclaration, ...] = ()
    producers: tuple[ProducerDeclaration, ...] = ()
    consumers: tuple[ConsumerDeclaration, ...] = ()

    def consumer_of(self, topic: str) -> str | None:
        """Return the one consumer of a topic; a terminal topic has none (W4)."""
        return next((each.name for each in self.consumers if topic in each.subscribe), None)


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a source is refused: the code of an error, its place and its facts (W5).

    A line of 0 says that no line is known.
    """

    rule: str
    path: str
    code: str
    facts: Mapping[str, Any] = field(default_factory=lambda: NO_FACTS)
    line: int = 0
    column: int = 0

    @property
    def sentence(self) -> str:
        """What is wrong, for people."""
        return errors.render_pair(self.code, self.path, self.facts)[0]

    @property
    def suggestion(self) -> str:
        """What the author can do, for people."""
        return errors.render_pair(self.code, self.path, self.facts)[1]

    def __str__(self) -> str:
        return f"{self.sentence} {self.suggestion}"


def parse(raw: object, limits: Limits = DEFAULT_LIMITS) -> Declaration:
    """Read what the sandbox extracted, or raise NotDeployed with every problem as a finding."""
    reader = _Reader(limits)
    declaration = reader.read(raw)
    if reader.problems:
        count = len(reader.problems)
        problems = [str(problem) for problem in reader.problems]
        raise NotDeployed(
            code="source_problems",
            facts={"count": count, "problems": problems},
            findings=tuple(reader.problems),
        )
    return declaration


def to_json(declaration: Declaration) -> dict[str, Json]:
    """Write a declaration in the form `parse` reads (W7)."""
    producers: dict[str, Json] = {}
    for producer in declaration.producers:
        schedule = declare_schedule(producer.schedule)
        producers[producer.name] = {
            "handler": FUNCTION,
            **({} if schedule is None else {"schedule": {**schedule}}),
            **_publishes_json(producer.publishes),
        }
    consumers: dict[str, Json] = {
        consumer.name: {
            "subscribe": list(consumer.subscribe),
            **{str(step): FUNCTION for step in consumer.steps},
            **_publishes_json(consumer.publishes),
        }
        for consumer in declaration.consumers
    }
    return {
        "name": declaration.name,
        "topics": {topic.name: _topic_json(topic) for topic in declaration.topics},
        "producers": producers,
        "consumers": consumers,
    }


def _topic_json(topic: TopicDeclaration) -> Json:
    if topic.bus is not None:
        return {"ingress": {"bus": topic.bus}}
    return {"ingress": True} if topic.ingress else {}


def _publishes_json(publishes: tuple[str, ...] | None) -> dict[str, Json]:
    return {} if publishes is None else {"publishes": list(publishes)}


@dataclass(slots=True)
class _Reader:
    """One reading; it goes on after a problem, so that an author sees all of them at once."""

    limits: Limits
    problems: list[Problem] = field(default_factory=list)
    names_left: int = NAMES_MAX

    def read(self, raw: object) -> Declaration:
        fields = self.mapping(raw, "workflow", ("name",), ("topics", "producers", "consumers"))
        name = self.workflow_name(fields["name"]) if "name" in fields else ""
        topics = self.topics(fields.get("topics", []))
        declared = [topic.name for topic in topics]
        producers = tuple(
            self.producer(name, each, declared)
            for name, each in self.entries(fields.get("producers", {}), "producers", "handler")
        )
        consumers = tuple(
            self.consumer(name, each, declared)
            for name, each in self.entries(fields.get("consumers", {}), "consumers", "handler")
        )
        self.check_handlers(producers, consumers)
        self.check_consumers(consumers)
        return Declaration(name, topics, producers, consumers)

    # -- the parts ------------------------------------------------------------------------------

    def workflow_name(self, raw: object) -> str:
        name = raw if isinstance(raw, str) else ""
        is_short = len(name) <= self.limits.name_chars
        is_plain = name not in DOTS and not set(name) & SLASHES
        if not (name.strip() and is_short and name.isprintable() and is_plain):
            most = self.limits.name_chars
            self.refuse("W1", "name", "not_workflow_name", most=most)
        return name

    def topics(self, raw: object) -> tuple[TopicDeclaration, ...]:
        if isinstance(raw, list):
            names = self.names(raw, "topics", "topic")
            return tuple(TopicDeclaration(name) for name in names)
        return tuple(
            self.topic(name, options) for name, options in self.entries(raw, "topics", "topic")
        )

    def topic(self, name: str, raw: object) -> TopicDeclaration:
        path = f"topics.{name}"
        ingress = self.mapping(raw, path, (), ("ingress",)).get("ingress", False)
        if isinstance(ingress, bool):
            return TopicDeclaration(name, ingress=ingress)
        bus = self.mapping(ingress, f"{path}.ingress", ("bus",), ()).get("bus", "")
        return TopicDeclaration(name, bus=self.name(bus, f"{path}.ingress.bus", "topic"))

    def producer(self, name: str, raw: object, declared: list[str]) -> ProducerDeclaration:
        path = f"producers.{name}"
        if raw == FUNCTION:
            return ProducerDeclaration(name)
        fields = self.mapping(raw, path, ("handler",), ("schedule", "publishes"))
        self.function(fields, path, "handler")
        publishes = self.publishes(fields, path, declared)
        return ProducerDeclaration(name, self.schedule(fields, path), publishes)

    def schedule(self, fields: Mapping[str, object], path: str) -> Schedule:
        if "schedule" not in fields:
            return MANUAL
        try:
            return parse_schedule(fields["schedule"], path=f"{path}.schedule")
        except Invalid as error:
            self.refuse("W5", error.path, error.code, **error.facts)
            return MANUAL

    def consumer(self, name: str, raw: object, declared: list[str]) -> ConsumerDeclaration:
        path = f"consumers.{name}"
        optional = ("mutate", "next", "publishes")
        fields = self.mapping(raw, path, ("subscribe", "prepare"), optional)
        steps = tuple(
            step
            for step in (Step.PREPARE, Step.MUTATE, Step.NEXT)
            if self.function(fields, path, step)
        )
        subscribe: tuple[str, ...] = ()
        if "subscribe" in fields:
            subscribe = self.known_topics(fields["subscribe"], f"{path}.subscribe", declared)
            if fields["subscribe"] == []:
                self.refuse("W3", f"{path}.subscribe", "empty")
        return ConsumerDeclaration(name, subscribe, steps, self.publishes(fields, path, declared))

    def publishes(
        self, fields: Mapping[str, object], path: str, declared: list[str]
    ) -> tuple[str, ...] | None:
        if "publishes" not in fields:
            return None
        return self.known_topics(fields["publishes"], f"{path}.publishes", declared)

    def known_topics(self, raw: object, path: str, declared: list[str]) -> tuple[str, ...]:
        names = self.names(raw, path, "topic")
        for name in names:
            if self.is_full:
                return names
            if NAME.fullmatch(name) and name not in declared:
                facts = nearest(name, declared)
                self.refuse("W4", path, "undeclared_topic", topic=name, **facts)
        return names

    # -- what holds between the parts -----------------------------------------------------------

    def check_handlers(
        self,
        producers: tuple[ProducerDeclaration, ...],
        consumers: tuple[ConsumerDeclaration, ...],
    ) -> None:
        if not producers and not consumers:
            self.refuse("W1", "workflow", "no_handlers")
        for name in sorted({one.name for one in producers} & {one.name for one in consumers}):
            # State belongs to the handler's name (C1), so two handlers cannot have the same.
            self.refuse("C1", f"consumers.{name}", "name_twice", name=name)

    def check_consumers(self, consumers: tuple[ConsumerDeclaration, ...]) -> None:
        taken: dict[str, str] = {}
        for consumer in consumers:
            for topic in consumer.subscribe:
                if topic in taken:
                    path = f"consumers.{consumer.name}.subscribe"
                    self.refuse("W4", path, "consumed_twice", topic=topic, consumer=taken[topic])
                taken.setdefault(topic, consumer.name)

    # -- the grammar ----------------------------------------------------------------------------

    def mapping(
        self, raw: object, path: str, required: tuple[str, ...], optional: tuple[str, ...]
    ) -> dict[str, object]:
        known = (*required, *optional)
        if not isinstance(raw, dict):
            self.refuse("W5", path, "wrong_value", wanted="object", fields=[*known])
            return {}
        for name in required:
            if name not in raw:
                self.refuse("W5", f"{path}.{name}", "missing")
        for name in raw:
            if self.is_full:
                return raw
            if name not in known:
                place = f"{path}.{str(name)[:PATH_KEY_CHARS]}"
                self.refuse("W5", place, "unknown_field", **nearest(str(name), known))
        return raw

    def entries(self, raw: object, path: str, what: str) -> list[tuple[str, object]]:
        if not isinstance(raw, dict):
            self.refuse("W5", path, "wrong_value", wanted="names_as_keys", what=what)
            return []
        if not self.has_room(len(raw), path):
            return []
        return [(self.name(name, path, what), value) for name, value in raw.items()]

    def names(self, raw: object, path: str, what: str) -> tuple[str, ...]:
        if not isinstance(raw, list):
            self.refuse("W5", path, "wrong_value", wanted="list_of_names", what=what)
            return ()
        if not self.has_room(len(raw), path):
            return ()
        names = [self.name(each, path, what) for each in raw]
        for name, count in Counter(names).items():
            if count > 1:
                self.refuse("W5", path, "name_twice", name=name)
        return tuple(names)

    def has_room(self, count: int, path: str) -> bool:
        if count <= self.names_left:
            self.names_left -= count
            return True
        self.refuse("W5", path, "too_many", limit=NAMES_MAX, unit="names")
        return False

    def name(self, raw: object, path: str, what: str) -> str:
        most = self.limits.name_chars
        name = raw if isinstance(raw, str) else ""
        if not NAME.fullmatch(name) or len(name) > most:
            given = name[:PATH_KEY_CHARS] if isinstance(raw, str) else type(raw).__name__
            self.refuse("W5", path, "not_name", given=given, most=most, what=what)
        return name

    def function(self, fields: Mapping[str, object], path: str, name: str) -> bool:
        if name in fields and fields[name] != FUNCTION:
            self.refuse("W5", f"{path}.{name}", "wrong_value", wanted="function")
        return name in fields

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= PROBLEMS_MAX

    def refuse(self, rule: str, path: str, code: str, **facts: Any) -> None:
        if not self.is_full:
            self.problems.append(Problem(rule, path, code, facts))
