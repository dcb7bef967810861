"""What happens along the paths of a mutate step: one mutation, and nothing after it (C8).

Law: a step may make its one call on any path, in any branch. A second call that can follow a
first, also around a loop, is `several-mutations`; work that can follow one is
`code-after-mutation`, reported once for each call.

The walk keeps, for each point of the text, which calls may have been made before it. Two branches
are joined. A loop is walked a second time with the state after its first turn. A function is walked
once for each state it is entered in, so the cost stays close to the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from duly.script.finding import Finding, found
from duly.script.outline import (
    Branch,
    Exit,
    Flow,
    Function,
    Guard,
    Inline,
    Invoke,
    Labelled,
    Leave,
    LoopBlock,
    Node,
    OtherWork,
    Place,
    Switch,
    Use,
)


@dataclass(frozen=True, slots=True)
class State:
    """What may have happened before a point: the first mutation on any path to it, or none."""

    spent: Use | None = None


Exits = dict[Leave, State | None]
RETURN = Leave(Exit.RETURN)


def join(one: State | None, other: State | None) -> State | None:
    """Join the states of two paths; None is a path that is never taken."""
    if one is None or other is None:
        return one or other
    calls = [state.spent for state in (one, other) if state.spent is not None]
    first = min(calls, key=lambda call: call.place, default=None)
    return State(first)


def judge_paths(
    functions: Mapping[str, Function], key: str, is_mutation: Callable[[Use], bool], file: str
) -> list[Finding]:
    """Find what breaks C8 in the function of a mutate step."""
    walk = _Walk(functions, is_mutation, file)
    walk.function(key, State())
    return walk.findings


def can_run_out(functions: Mapping[str, Function], function: Function) -> bool:
    """Tell whether a function can reach its end without a return."""
    walk = _Walk(functions, lambda _: False, "")
    return walk.flow(function.body, State(), {}) is not None


@dataclass(slots=True)
class _Walk:
    functions: Mapping[str, Function]
    is_mutation: Callable[[Use], bool]
    file: str
    findings: list[Finding] = field(default_factory=list)
    known: dict[tuple[str, State, bool], State | None] = field(default_factory=dict)
    followed: set[Place] = field(default_factory=set)
    is_second_turn: bool = False

    def function(self, key: str, state: State) -> State | None:
        entry = (key, state, self.is_second_turn)
        if entry not in self.known:
            self.known[entry] = state  # The inner call of a recursive function adds nothing.
            self.known[entry] = self.inline(self.functions[key].body, state)
        return self.known[entry]

    def inline(self, body: Flow, state: State) -> State | None:
        exits: Exits = {}
        through = self.flow(body, state, exits)
        return join(through, exits.get(RETURN))

    def flow(self, flow: Flow, state: State | None, exits: Exits) -> State | None:
        for node in flow:
            if state is None:
                return None
            state = self.node(node, state, exits)
        return state

    def node(self, node: Node, state: State, exits: Exits) -> State | None:
        match node:
            case Use():
                return self.use(node, state)
            case Invoke():
                return self.function(node.function, state)
            case OtherWork():
                self.work(node, state)
                return state
            case Leave():
                exits[node] = join(exits.get(node), state)
                return None
            case Branch():
                after: State | None = None
                for way in node.ways:
                    after = join(after, self.flow(way, state, exits))
                return after
            case LoopBlock():
                return self.loop(node, state, exits)
            case Labelled():
                through = self.flow(node.body, state, exits)
                return join(through, exits.pop(Leave(Exit.BREAK, node.label), None))
            case Inline():
                return self.inline(node.body, state)
            case Switch():
                return self.switch(node, state, exits)
            case Guard():
                return self.guard(node, state, exits)

    def use(self, use: Use, state: State) -> State:
        if not self.is_mutation(use):
            return state  # Whether a step may make this call at all is judged elsewhere.
        if state.spent is not None:
            again = state.spent.place == use.place
            before = "a turn of the loop before" if again else f"line {state.spent.place.line}"
            self.findings.append(
                found(
                    "several-mutations",
                    use.place.line,
                    use.place.column,
                    f"A run makes one mutation, and {before} may already have made it;"
                    f" ctx.{use.path} would never be sent.",
                    "Reserve one event at a time in prepare, or publish the rest to a topic with"
                    " a consumer of its own.",
                    file=self.file,
                )
            )
        return State(state.spent or use)

    def work(self, work: OtherWork, state: State) -> None:
        call = state.spent
        if call is None or self.is_second_turn or call.place in self.followed:
            return
        self.followed.add(call.place)
        self.findings.append(
            found(
                "code-after-mutation",
                work.place.line,
                work.place.column,
                f"ctx.{call.path} on line {call.place.line} ends the step, so this never counts.",
                "Move it into next, which gets the result of the mutation.",
                file=self.file,
            )
        )

    def loop(self, loop: LoopBlock, state: State, exits: Exits) -> State | None:
        """Walk the body, and a second time if its first turn made a call that would be repeated."""
        inner: Exits = {}
        again = self.flow(loop.body, state, inner)
        for label in {"", loop.label}:
            again = join(again, inner.pop(Leave(Exit.CONTINUE, label), None))
        if again is not None and again.spent is not None and state.spent is None:
            was_second_turn, self.is_second_turn = self.is_second_turn, True
            self.flow(loop.body, again, {})
            self.is_second_turn = was_second_turn
        broken = inner.pop(Leave(Exit.BREAK), None)
        for way, left in inner.items():
            exits[way] = join(exits.get(way), left)
        done = None if loop.is_endless else join(again, None if loop.is_entered else state)
        return join(self.flow(loop.otherwise, done, exits), broken)

    def switch(self, switch: Switch, state: State, exits: Exits) -> State | None:
        inner: Exits = {}
        running: State | None = None
        for case in switch.cases:
            running = self.flow(case, join(state, running), inner)
        after = join(running, inner.pop(Leave(Exit.BREAK), None))
        for way, left in inner.items():
            exits[way] = join(exits.get(way), left)
        return after if switch.is_whole else join(after, state)

    def guard(self, guard: Guard, state: State, exits: Exits) -> State | None:
        """Walk a try; a handler cannot follow a call, since no script sees a call fail (C3)."""
        inner: Exits = {}
        after = self.flow(guard.body, state, inner)
        for handler in guard.handlers:
            after = join(after, self.flow(handler, state, inner))
        before_last = after
        for way, left in inner.items():
            before_last = join(before_last, left)
            exits[way] = join(exits.get(way), left)
        if not guard.last:
            return after
        done = self.flow(guard.last, before_last, exits)
        return None if after is None else done
