"""What is wrong with an outline, by the rules of W5; the paths of a mutation are in `path`.

Law 1: every call a step reaches, through its own functions too, is judged for that step (C2).
Law 2: only what is written out is judged; an open value, an open list of topics and a name that
       cannot be resolved are left alone, except where the openness itself is the finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from duly.errors import Invalid
from duly.rules.access import OPERATION_OF, MutateReads, Operation, Step, check_access
from duly.rules.catalog import Catalog, JsonType, Tool, ToolKind, camel
from duly.rules.source import Language
from duly.rules.value import suggest
from duly.script.finding import Finding, found, tidy
from duly.script.origin import EVENT_FIELDS, Known, find_missing, payloads
from duly.script.outline import (
    EVENT,
    Function,
    Guard,
    Handler,
    Invoke,
    Node,
    Outline,
    Place,
    Use,
    Value,
    reach,
    walk,
)
from duly.script.path import can_run_out, judge_paths

# The verbs of `ctx` itself: the operation, and the fields it takes besides the topic.
SPOKEN: Final[Mapping[str, tuple[Operation, tuple[str, ...]]]] = {
    "publish": (Operation.PUBLISH, ("message_id", "title", "payload")),
    "peek": (Operation.PEEK, ("limit", "after")),
    "get_by_ids": (Operation.GET_BY_IDS, ("ids",)),
}
# Judging a node costs so much more than reading it, and making a finding costs more again.
LOOKS_PER_JUDGEMENT: Final = 4
LOOKS_PER_FINDING: Final = 100
RESULT_FIELDS: Final = ("reservations", "data", "ui", "wake_at")


StepName: TypeAlias = tuple[str, Step]


@dataclass(frozen=True, slots=True)
class Judged:
    """The findings, and the facts W7 keeps: what each step of each handler calls and names."""

    findings: tuple[Finding, ...] = ()
    tools: Mapping[StepName, tuple[str, ...]] = field(default_factory=dict)
    topics: Mapping[StepName, tuple[str, ...]] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()  # connectors that it calls, and that no host of ours has


def judge(outline: Outline, catalog: Catalog, mutate_reads: MutateReads = "none") -> Judged:
    """Judge every step of every handler, and what the steps do to each other."""
    bench = _Judge(outline, catalog, mutate_reads)
    bench.judge()
    return Judged(
        tidy([*outline.findings, *bench.findings]), bench.tools, bench.topics, tuple(bench.lacking)
    )


@dataclass(slots=True)
class _Judge:
    outline: Outline
    catalog: Catalog
    mutate_reads: MutateReads
    findings: list[Finding] = field(default_factory=list)
    tools: dict[StepName, tuple[str, ...]] = field(default_factory=dict)
    topics: dict[StepName, tuple[str, ...]] = field(default_factory=dict)
    shapes: Mapping[str, Known] = field(default_factory=dict)
    nodes: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    first_uses: dict[str, Use | None] = field(default_factory=dict)
    lacking: dict[str, None] = field(default_factory=dict)

    def judge(self) -> None:
        self.shapes = payloads(self.outline)
        for handler in self.outline.handlers:
            self.judge_subscribe(handler)
            for step, key in handler.steps.items():
                self.judge_step(handler, step, key)
        self.judge_globals()
        for place in self.outline.hidden:
            self.say(
                "hidden-use",
                place,
                "Here ctx, a part of it or a function that gets it is used so that the text does"
                " not show which tool is called.",
                "Write each call as ctx.NAME.TOOL(…), with an if for each case.",
            )

    def say(self, rule: str, place: Place, sentence: str, suggestion: str) -> None:
        file = self.outline.file
        self.outline.effort.spend(LOOKS_PER_FINDING)
        self.findings.append(found(rule, place.line, place.column, sentence, suggestion, file=file))

    # -- steps and their calls ------------------------------------------------------------------

    def judge_step(self, handler: Handler, step: Step, key: str) -> None:
        functions = self.outline.functions
        tools: dict[str, None] = {}
        topics: dict[str, None] = {}
        for each in reach(functions, key):
            self.judge_looks(functions[each])
            for node in self.nodes_of(each):
                if isinstance(node, Guard):
                    self.judge_guard(node)
                elif isinstance(node, Use):
                    self.judge_use(handler, step, node)
                    if (tool := self.tool_of(node)) is not None:
                        tools[tool.name] = None
                    if self.spoken_of(node) and (topic := _topic_of(node)):
                        topics |= {one.text: None for one in topic.choices if one.text}
        self.tools[handler.name, step] = tuple(tools)
        self.topics[handler.name, step] = tuple(topics)
        if functions[key].is_generator:
            self.say(
                "wrong-result",
                functions[key].place,
                f"The step {step} is a generator; the host ignores what it yields.",
                "Remove the star and return the result.",
            )
        if step is Step.MUTATE:
            self.findings += judge_paths(functions, key, self.is_mutation, self.outline.file)
        if step is Step.PREPARE:
            self.judge_results(handler, functions[key])

    def nodes_of(self, key: str) -> tuple[Node, ...]:
        """List the nodes of a function, which is walked once; the effort counts for every step."""
        if key not in self.nodes:
            self.nodes[key] = tuple(walk(self.outline.functions[key].body))
        self.outline.effort.spend(LOOKS_PER_JUDGEMENT * len(self.nodes[key]))
        return self.nodes[key]

    def first_use(self, key: str) -> Use | None:
        """Return the first call through `ctx` that a function reaches."""
        if key not in self.first_uses:
            reached = (
                node for each in reach(self.outline.functions, key) for node in self.nodes_of(each)
            )
            self.first_uses[key] = next((one for one in reached if isinstance(one, Use)), None)
        return self.first_uses[key]

    def spoken_of(self, use: Use) -> str | None:
        """Return which of ctx's own verbs a use is."""
        return next((name for name in SPOKEN if use.path in (name, camel(name))), None)

    def tool_of(self, use: Use) -> Tool | None:
        return None if use.path is None else self.catalog.names.get(use.path)

    def is_mutation(self, use: Use) -> bool:
        tool = self.tool_of(use)
        return tool is not None and tool.kind is ToolKind.MUTATION

    def judge_use(self, handler: Handler, step: Step, use: Use) -> None:
        tool = self.tool_of(use)
        spoken = self.spoken_of(use)
        if use.path is None:
            self.say(
                "dynamic-name",
                use.place,
                "The tool is named at run time, so it cannot be checked before.",
                "Write the name of the tool, with an if for each case.",
            )
        elif spoken is not None:
            self.judge_access(SPOKEN[spoken][0], step, use)
            self.judge_spoken(handler, spoken, use)
        elif tool is None:
            self.judge_unknown(use, use.path)
        else:
            self.judge_access(OPERATION_OF[tool.kind], step, use)
            self.judge_arguments(tool, use)
        if not use.is_awaited:
            called = f"ctx.{use.path or '…'}"
            self.say(
                "not-awaited",
                use.place,
                f"{called} is called but its result is not awaited.",
                f"Write await {called}(…).",
            )

    def judge_unknown(self, use: Use, path: str) -> None:
        spell, tools = self.outline.spell, [tool.name for tool in self.catalog.tools]
        if "." in path:
            sentence, known = f"No connector offers ctx.{path}.", tools
            connector = path.partition(".")[0]
            if not any(each.startswith(f"{connector}.") for each in tools):
                self.lacking[connector] = None
        else:
            sentence, known = f"There is no ctx.{path}.", list(SPOKEN)
        self.say("unknown-tool", use.place, sentence, suggest(path, map(spell, known)))

    def judge_access(self, operation: Operation, step: Step, use: Use) -> None:
        try:
            check_access(operation, step, f"ctx.{use.path}", self.mutate_reads)
        except Invalid as error:
            sentence, _, suggestion = str(error).partition(". ")
            self.say("forbidden-call", use.place, f"{sentence}.", suggestion)

    def judge_guard(self, guard: Guard) -> None:
        nodes = tuple(walk(guard.body))
        self.outline.effort.spend(len(nodes))
        own = next((node for node in nodes if isinstance(node, Use)), None)
        invoked = (self.first_use(node.function) for node in nodes if isinstance(node, Invoke))
        use = own or next((each for each in invoked if each is not None), None)
        if use is not None:
            self.say(
                "catches-tool-errors",
                guard.place,
                f"ctx.{use.path or '…'} is called inside a try; when a call fails the run"
                " ends there, and neither catch nor finally runs.",
                "Remove the try; the host retries and asks for help by itself.",
            )

    # -- arguments ------------------------------------------------------------------------------

    def judge_arguments(self, tool: Tool, use: Use) -> None:
        if self.outline.language is Language.JAVASCRIPT and use.positional:
            names = ", ".join(camel(each.name) for each in tool.parameters)
            self.say(
                "wrong-argument",
                use.place,
                f"ctx.{use.path} takes one object.",
                f"Write ctx.{use.path}({{{names}}}).",
            )
            return
        given = dict(zip((each.name for each in tool.parameters), use.positional, strict=False))
        known = {name: each for each in tool.parameters for name in (each.name, camel(each.name))}
        for name, value in use.named.items():
            if name not in known:
                own = [self.outline.spell(each.name) for each in tool.parameters]
                sentence = f"ctx.{use.path} takes no {name}."
                self.say("wrong-argument", value.place, sentence, suggest(name, own))
            else:
                given[known[name].name] = value
        for parameter in tool.parameters:
            value_given = given.get(parameter.name)
            spelled = self.outline.spell(parameter.name)
            if value_given is None:
                if parameter.required and not use.is_open:
                    sentence = f"ctx.{use.path} needs {spelled}."
                    self.say("wrong-argument", use.place, sentence, "Pass it.")
            elif not _fits(value_given, parameter.types):
                wanted = " or ".join(sorted(parameter.types))
                sentence = f"{spelled} of ctx.{use.path} is {value_given.type}."
                self.say("wrong-argument", value_given.place, sentence, f"Pass {wanted}.")

    def judge_spoken(self, handler: Handler, spoken: str, use: Use) -> None:
        fields = SPOKEN[spoken][1]
        spelled = [self.outline.spell(name) for name in fields]
        for name, value in use.named.items():
            if name not in (*spelled, "topic"):
                sentence = f"ctx.{use.path} takes no {name}."
                self.say("wrong-argument", value.place, sentence, suggest(name, spelled))
        topic = _topic_of(use)
        if topic is not None:
            for one in topic.choices:
                self.judge_topic(handler, spoken, one)
        elif not use.is_open:
            self.say("wrong-argument", use.place, f"ctx.{use.path} needs a topic.", "Name one.")
        if spoken == "publish" and not use.is_open:
            self.judge_publication(handler, use)

    def judge_topic(self, handler: Handler, spoken: str, topic: Value) -> None:
        declared = self.outline.topics
        if topic.text is None:
            self.say(
                "dynamic-name",
                topic.place,
                "The topic is named at run time, so it cannot be checked before.",
                "Write the name of the topic, or keep it in a constant.",
            )
        elif declared is not None and topic.text not in declared:
            self.say(
                "undeclared-topic",
                topic.place,
                f'The topic "{topic.text}" is not declared.',
                f"Add it to topics. {suggest(topic.text, declared)}",
            )
        elif spoken == "publish":
            if handler.publishes is not None and topic.text not in handler.publishes:
                self.say(
                    "undeclared-topic",
                    topic.place,
                    f'The list "publishes" of {handler.name} does not name "{topic.text}".',
                    "Add it there, or publish elsewhere.",
                )
        elif handler.subscribe is not None and topic.text not in handler.subscribe:
            self.say(
                "unsubscribed-topic",
                topic.place,
                f'{handler.name} does not subscribe to "{topic.text}".',
                f"Add it to subscribe. {suggest(topic.text, handler.subscribe)}",
            )

    def judge_publication(self, handler: Handler, use: Use) -> None:
        spelled = self.outline.spell("message_id")
        message_id, title = use.named.get(spelled), use.named.get("title")
        self.judge_words(handler, spelled, message_id)
        self.judge_words(handler, "title", title)
        if title is None:
            sentence = "The event has no title, so it is refused."
            self.say("missing-title", use.place, sentence, _TITLE_ADVICE)
        elif title.text is not None:
            sentence = f'Every event has the same title "{title.text[:60]}".'
            self.say("constant-title", title.place, sentence, _TITLE_ADVICE)
        if message_id is None:
            self.say(
                "missing-message-id",
                use.place,
                f"The event has no {spelled}, so a thing that was changed is a new event.",
                f"Pass {spelled}: an id from the outside.",
            )
        elif message_id.chance is not None:
            self.say(
                "unstable-message-id",
                message_id.place,
                f"{spelled} comes from {message_id.chance}(), so the same thing is a new event"
                " every time.",
                "Use an id from the outside.",
            )

    def judge_looks(self, function: Function) -> None:
        """Find a part that no event has; in Python the type checker does this."""
        fields = [self.outline.spell(name) for name in EVENT_FIELDS]
        for look in function.looks:
            if look.origin is None or look.origin[0] != EVENT or len(look.origin) != 3:
                continue
            if (name := look.origin[2]) not in fields:
                sentence = f"An event has no {name}, so this is undefined."
                self.say("wrong-type", look.place, sentence, suggest(name, fields))

    def judge_words(self, handler: Handler, what: str, value: Value | None) -> None:
        """Find a text made of a missing part: it would show undefined."""
        for each in () if value is None else (value, *value.made_of):
            if each.origin is None:
                continue
            lost = find_missing(self.outline, self.shapes, handler, each.origin)
            if lost is not None:
                self.say(
                    "wrong-type",
                    each.place,
                    f"{lost.holder} has no {lost.name}, so {what} shows undefined.",
                    f"{suggest(lost.name, lost.fields)} Take it from where it is.",
                )

    # -- declarations, results, globals ---------------------------------------------------------

    def judge_subscribe(self, handler: Handler) -> None:
        declared = self.outline.topics
        for topic in (*(handler.subscribe or ()), *(handler.publishes or ())):
            if declared is not None and topic not in declared:
                self.say(
                    "undeclared-topic",
                    handler.place,
                    f'{handler.name} names the topic "{topic}", which is not declared.',
                    f"Add it to topics. {suggest(topic, declared)}",
                )

    def judge_results(self, handler: Handler, prepare: Function) -> None:
        for value in prepare.results:
            self.judge_result(handler, value)
        if can_run_out(self.outline.functions, prepare):
            self.say(
                "wrong-result",
                prepare.place,
                "prepare can end without returning anything, which fails the run.",
                "Return an object with empty reservations and empty data at the end.",
            )

    def judge_result(self, handler: Handler, result: Value) -> None:
        wanted = [self.outline.spell(name) for name in RESULT_FIELDS]
        if result.type is not None and result.type is not JsonType.OBJECT:
            self.say(
                "wrong-result",
                result.place,
                f"prepare returns {result.type} here, which fails the run.",
                "Return an object with empty reservations and empty data.",
            )
        if result.fields is None:
            return
        for name, value in result.fields.items():
            if name not in wanted:
                sentence = f"prepare returns {name}, which the host does not read."
                self.say("wrong-result", value.place, sentence, suggest(name, wanted))
        reservations = result.fields.get("reservations")
        if reservations is None:
            if not result.is_open:
                sentence = "prepare returns no reservations, which fails the run."
                self.say("wrong-result", result.place, sentence, "Return [] to reserve nothing.")
            return
        for topic in _reserved_topics(reservations):
            self.judge_topic(handler, "peek", topic)
        is_empty = reservations.items == () and not reservations.is_open
        if Step.MUTATE in handler.steps and not is_empty and not result.is_open:
            self.judge_shown(handler, result)

    def judge_shown(self, handler: Handler, result: Value) -> None:
        assert result.fields is not None
        shown = result.fields.get("ui")
        self.judge_words(handler, "ui.title", ((shown and shown.fields) or {}).get("title"))
        is_known = shown is None or (shown.fields is not None and not shown.is_open)
        if is_known and (shown is None or "title" not in (shown.fields or {})):
            self.say(
                "mutate-without-title",
                result.place,
                f"{handler.name} has a mutate step, and this result has no ui.title to say what"
                " it is for.",
                'Add ui with a title, as in "Add row for alice@example.com".',
            )

    def judge_globals(self) -> None:
        """Find names that one step writes and another reads; each step has a fresh context."""
        reads: dict[str, dict[StepName, Place]] = {}
        writes: dict[str, dict[StepName, Place]] = {}
        rebound: set[tuple[str, StepName]] = set()
        for handler, step, key in self.steps():
            for each in reach(self.outline.functions, key):
                function = self.outline.functions[each]
                for name, place in function.reads.items():
                    reads.setdefault(name, {}).setdefault((handler, step), place)
                rebound |= {(name, (handler, step)) for name in function.rebinds}
                for name, place in function.writes.items():
                    writes.setdefault(name, {}).setdefault((handler, step), place)
        for name, writers in writes.items():
            for writer, place in writers.items():
                others = [each for each in reads.get(name, {}) if each != writer]
                if others:
                    self.say(
                        "shared-global",
                        place,
                        f"{name} is written in {writer[0]}.{writer[1]} and read in"
                        f" {others[0][0]}.{others[0][1]}, which begins without it.",
                        "Return it as state, put it into data, or publish it.",
                    )
                elif (name, writer) in rebound and reads.get(name, {}).get(writer, place) < place:
                    self.say(
                        "shared-global",
                        place,
                        f"{name} is read in {writer[0]}.{writer[1]} before it is written there,"
                        " and every run begins without what the one before left in it.",
                        "Return it as state.",
                    )

    def steps(self) -> Iterator[tuple[str, Step, str]]:
        for handler in self.outline.handlers:
            for step, key in handler.steps.items():
                yield handler.name, step, key


_TITLE_ADVICE: Final = (
    "Say what it is and which one, with something of the outside in it: the sender, the subject."
)


def _topic_of(use: Use) -> Value | None:
    return use.positional[0] if use.positional else use.named.get("topic")


def _fits(value: Value, types: frozenset[JsonType]) -> bool:
    if not types or value.type is None or value.type in types:
        return True
    return value.type is JsonType.INTEGER and JsonType.NUMBER in types


def _reserved_topics(reservations: Value) -> Iterator[Value]:
    for each in reservations.items or ():
        topic = (each.fields or {}).get("topic")
        if topic is not None and topic.text is not None:
            yield topic
