"""Agents that answer events: which extension provides one, and what becomes of its answer (B9).

Law 1: an extension that says `invoke_agent` asks itself if it can answer, else the only one among
       those it depends on that can. Where there is none, or are two, the extension is not started:
       its events wait for it, and nobody guesses who was meant.
Law 2: an answer is put on the bus before it is sent, as an event for the user. What fails while it
       is sent is tried again by itself, and the agent is not asked a second time for that.
Law 3: an answer only speaks. Whatever an agent may do, it does as an extension, in its own name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Protocol, runtime_checkable

from duly.errors import Invalid
from duly.rules.delivery import Event
from duly.rules.manifest import Manifest

ADDRESS = ("channel_id", "user_id")  # where an answer goes: back to where the event came from


@runtime_checkable
class AgentProvider(Protocol):
    """An extension that can answer: it also has this method.

    The event is what it is asked about; instructions and model stand in the manifest of whoever
    asks. An empty answer is said to nobody; an error fails the delivery, which is tried again.
    """

    async def answer(self, event: Event, instructions: str, model: str | None) -> str:
        """Answer an event with a text for the user, or with an empty one."""


def is_provider(extension: object) -> bool:
    """Tell whether an extension can answer."""
    return iscoroutinefunction(getattr(extension, "answer", None))


def choose_provider(manifest: Manifest, extensions: Mapping[str, object]) -> AgentProvider:
    """Find the agent an extension asks, or say why there is none (law 1)."""
    nearest = (manifest.id,), manifest.depends_on
    for ids in nearest:
        able = [each for each in ids if is_provider(extensions.get(each))]
        if len(able) > 1:
            raise Invalid(
                f"It says invoke_agent, and depends on several agents: {', '.join(able)}. Leave one"
                " in depends_on.",
                path="depends_on",
            )
        if able:
            found: Any = extensions[able[0]]
            return found  # type: ignore[no-any-return]  # it has the method, by law 1
    raise Invalid(
        "It says invoke_agent, and nobody is there to answer: neither it nor what it depends on has"
        " an `async def answer(self, event, instructions, model)`. Add one to depends_on.",
        path="depends_on",
    )


async def ask_agent(
    manifest: Manifest,
    event: Event,
    extensions: Mapping[str, object],
    say: Callable[[dict[str, Any]], Awaitable[object]],
) -> None:
    """Let the agent answer an event, and say its answer to the user (B9)."""
    assert manifest.agent is not None, manifest
    provider = choose_provider(manifest, extensions)
    answer: object = await provider.answer(event, manifest.agent.instructions, manifest.agent.model)
    if not isinstance(answer, str):
        raise Invalid(
            f"{type(provider).__name__} answered event {event.id} with a {type(answer).__name__};"
            " an agent answers with a text.",
            path="answer",
        )
    if answer.strip():
        address = {key: event.payload[key] for key in ADDRESS if key in event.payload}
        await say({"text": answer, **address})
