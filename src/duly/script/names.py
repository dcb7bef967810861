"""The names an author uses: workflow, producer, consumer. One text for CPython and for Monty.

Law 1: declaring runs no handler and calls no tool; it fills in one value that deploy reads (W7).
Law 2: a mistake is refused where it is made, with a message that says what to write.
Law 3: what a decorator declares and what the object form declares are the same value.

    flow = workflow("email-to-sheets", topics=["email.received"])

    @flow.producer(every="5m")
    async def poll(ctx, state): ...

    @flow.consumer("email.received")
    class process:
        async def prepare(self, ctx, state): ...

    workflow("email-to-sheets", topics=["email.received"],
             producers={"poll": producer(poll, every="5m")},
             consumers={"process": consumer(subscribe=["email.received"], prepare=prepare)})

In Monty this text shares its namespace with the script. That is why its own names begin with
`_duly`, why it uses none of its public names itself, why it holds the builtins it needs under names
of its own before a script can take theirs, and why it keeps to the Python that Monty knows: no
inheritance, no `callable`, no `__name__` of a function.
"""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035  # Monty has no collections.abc

_duly_type = type
_duly_getattr = getattr
_duly_str = str
_duly_repr = repr
_duly_TypeError = TypeError  # noqa: N816  # see above
_duly_STEPS = ("prepare", "mutate", "next")  # noqa: N816  # see above


class DulyWorkflow:
    """A workflow under declaration; its methods are the decorators."""

    def __init__(
        self,
        name: str,
        topics: list[str] | dict[str, Any],
        producers: dict[str, Any],
        consumers: dict[str, Any],
    ) -> None:
        self.declared = {
            "name": name,
            "topics": topics,
            "producers": producers,
            "consumers": consumers,
        }
        self.is_closed = False

    def producer(
        self,
        name: str | None = None,
        *,
        every: str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        on_deploy: bool | None = None,
        publishes: list[str] | None = None,
    ) -> Callable[[Any], Any]:
        """Declare the function below as a producer; without a schedule it runs by hand (W2)."""
        if name is not None and _duly_is_function(name):
            raise _duly_TypeError("write @flow.producer() with parentheses")

        def declare(handler: Any) -> Any:
            fields = _duly_producer(handler, every, cron, timezone, on_deploy, publishes)
            _duly_add(self, "producers", name or _duly_name_of(handler), fields)
            return handler

        return declare

    def consumer(
        self, *subscribe: str, name: str | None = None, publishes: list[str] | None = None
    ) -> Callable[[Any], Any]:
        """Declare the class below as a consumer; its methods are the steps (W3)."""

        def declare(written: Any) -> Any:
            if _duly_is_function(written):
                raise _duly_TypeError("@flow.consumer stands on a class with a method prepare")
            made = written()
            fields = {"subscribe": [*subscribe], "publishes": publishes}
            for step in _duly_STEPS:
                fields[step] = _duly_getattr(made, step, None)
            _duly_add(self, "consumers", name or written.__name__, fields)
            return written

        return declare


_duly_Workflow = DulyWorkflow  # noqa: N816  # see above
_duly_declared: list[DulyWorkflow] = []


def workflow(
    name: str,
    *,
    topics: list[str] | dict[str, Any],
    producers: dict[str, Any] | None = None,
    consumers: dict[str, Any] | None = None,
) -> DulyWorkflow:
    """Declare a workflow, its topics and, in the object form, its handlers (W1)."""
    flow = _duly_Workflow(name, topics, {**(producers or {})}, {**(consumers or {})})
    _duly_declared.append(flow)
    return flow


def producer(
    handler: Callable[..., Any],
    *,
    every: str | None = None,
    cron: str | None = None,
    timezone: str | None = None,
    on_deploy: bool | None = None,
    publishes: list[str] | None = None,
) -> dict[str, Any]:
    """Describe a producer for the object form."""
    return _duly_producer(handler, every, cron, timezone, on_deploy, publishes)


def consumer(
    *,
    subscribe: list[str],
    prepare: Callable[..., Any],
    mutate: Callable[..., Any] | None = None,
    next: Callable[..., Any] | None = None,  # noqa: A002  # it is what the step is called
    publishes: list[str] | None = None,
) -> dict[str, Any]:
    """Describe a consumer for the object form."""
    return {
        "subscribe": subscribe,
        "prepare": prepare,
        "mutate": mutate,
        "next": next,
        "publishes": publishes,
    }


def _duly_producer(
    handler: Any,
    every: str | None,
    cron: str | None,
    timezone: str | None,
    on_deploy: bool | None,
    publishes: list[str] | None,
) -> dict[str, Any]:
    schedule: dict[str, Any] = {"interval": every, "cron": cron, "timezone": timezone}
    schedule["on_deploy"] = on_deploy
    schedule = {key: value for key, value in schedule.items() if value is not None}
    return {"handler": handler, "schedule": schedule or None, "publishes": publishes}


def _duly_add(flow: DulyWorkflow, kind: str, name: str, fields: dict[str, Any]) -> None:
    if flow.is_closed:
        raise _duly_TypeError(
            f"{name} is declared while a step runs; declare handlers in the module"
        )
    handlers: Any = flow.declared[kind]
    if name in handlers:
        raise _duly_TypeError(f"{kind}: {name} is declared twice; rename one of them")
    handlers[name] = fields


def _duly_name_of(handler: Any) -> str:
    # CPython knows the name; Monty only shows it: <function 'poll' at 0xc>.
    return _duly_str(_duly_getattr(handler, "__name__", None) or _duly_repr(handler).split("'")[1])


def _duly_is_function(value: Any) -> bool:
    return _duly_type(value).__name__ in ("function", "method")


def _duly_raw(flow: DulyWorkflow) -> dict[str, Any]:
    """Write what was declared in the form the rules read: functions marked, nothing left out."""
    flow.is_closed = True
    raw: dict[str, Any] = {"name": flow.declared["name"], "topics": flow.declared["topics"]}
    for kind in ("producers", "consumers"):
        handlers: Any = flow.declared[kind]
        raw[kind] = {name: _duly_marked(fields) for name, fields in handlers.items()}
    return raw


def _duly_marked(fields: Any) -> Any:
    if _duly_is_function(fields):
        return "function"
    if _duly_type(fields).__name__ != "dict":
        return fields
    return {
        key: "function" if _duly_is_function(value) else value
        for key, value in fields.items()
        if value is not None
    }


def _duly_function(flow: DulyWorkflow, handler: str, step: str) -> Any:
    """Find the function that is one step of one handler."""
    if step == "produce":
        producers: Any = flow.declared["producers"]
        fields = producers[handler]
        return fields if _duly_is_function(fields) else fields["handler"]
    consumers: Any = flow.declared["consumers"]
    return consumers[handler][step]
