"""Agents that answer events: which extension provides one, and what becomes of its answer (B9).

Law 1: an extension that says `invoke_agent` is its own agent if it can answer. Else the agent is
       the only one it depends on that can. Where there is none, a model of the settings answers.
       Where that is missing too, or where there are two agents, the extension is not started: the
       host does not guess which was meant, and its events wait.
Law 2: an answer is put on the bus before it is sent, as an event for the user. What fails while it
       is sent is tried again by itself, and the agent is not asked a second time for that.
Law 3: an answer is only text. An agent that acts does so as an extension, in its own name. The
       answer to a failed script may be a better script: it is kept as a proposal for a person, and
       nothing more (B10).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any, Protocol, runtime_checkable

from duly.errors import Invalid
from duly.rules.announcement import Topic
from duly.rules.delivery import OWN_SOURCE, Event
from duly.rules.manifest import Manifest
from duly.rules.word import Status

ADDRESS = ("channel_id", "user_id")  # where an answer goes: back to where the event came from


@runtime_checkable
class AgentProvider(Protocol):
    """An extension that can answer: it also has this method.

    It is asked about the event; instructions and model stand in the manifest of the extension that
    asks. An empty answer is not sent; an error fails the delivery, which is tried again.
    """

    async def answer(self, event: Event, instructions: str, model: str | None) -> str:
        """Answer an event with a text for the user, or with an empty one."""


class Corrections(Protocol):
    """Where the case of a failed script is laid out, and where a better one can be left (B10)."""

    async def lay_out(self, run_id: str) -> dict[str, Any] | None:
        """Show the case of a run, if it waits for a correction of its script."""

    async def propose(self, run_id: str, answer: str, *, by: str) -> bool:
        """Keep an answer as a proposal, if it is a script of the workflow; tell whether it is."""


def is_provider(extension: object) -> bool:
    """Tell whether an extension can answer."""
    return iscoroutinefunction(getattr(extension, "answer", None))


def no_model(manifest: Manifest) -> AgentProvider | None:
    """Say that there is no model to answer for a manifest."""
    return None


def choose_provider(
    manifest: Manifest,
    extensions: Mapping[str, object],
    find_model: Callable[[Manifest], AgentProvider | None] = no_model,
) -> AgentProvider:
    """Find the agent an extension asks, or say why there is none (law 1).

    Where neither it nor what it depends on can answer, a model of the host does, if there is one.
    """
    nearest = (manifest.id,), manifest.depends_on
    for ids in nearest:
        able = [each for each in ids if is_provider(extensions.get(each))]
        if len(able) > 1:
            raise Invalid(code="several_agents", path="depends_on", facts={"agents": able})
        if able:
            found: Any = extensions[able[0]]
            return found  # type: ignore[no-any-return]  # it has the method, by law 1
    if (model := find_model(manifest)) is not None:
        return model
    if manifest.module is None:
        raise Invalid(code="no_model", path="agent")
    raise Invalid(code="no_agent", path="depends_on")


async def ask_agent(
    manifest: Manifest,
    event: Event,
    extensions: Mapping[str, object],
    say: Callable[[dict[str, Any]], Awaitable[object]],
    workshop: Corrections,
    find_model: Callable[[Manifest], AgentProvider | None] = no_model,
) -> None:
    """Let the agent answer an event, and say its answer to the user (B9).

    Of a script that failed it is shown the case; a script it answers with is proposed (B10).
    """
    assert manifest.agent is not None, manifest
    provider = choose_provider(manifest, extensions, find_model)
    run_id = _failed_run(event)
    if run_id is not None and (case := await workshop.lay_out(run_id)) is not None:
        event = replace(event, payload={**event.payload, "case": case})
    answer: object = await provider.answer(event, manifest.agent.instructions, manifest.agent.model)
    if not isinstance(answer, str):
        raise Invalid(
            code="wrong_value",
            path="answer",
            facts={"wanted": "agent_text", "kind": type(answer).__name__},
        )
    if not answer.strip():
        return
    if run_id is None or not await workshop.propose(run_id, answer, by=manifest.id):
        address = {key: event.payload[key] for key in ADDRESS if key in event.payload}
        await say({"text": answer, **address})


def _failed_run(event: Event) -> str | None:
    """Return the run whose script has failed, as only the host itself can say (B1, F3)."""
    if (event.topic, event.source) != (Topic.RUN_FAILED, OWN_SOURCE):
        return None
    is_script_s = event.payload.get("status") == Status.FAILED_LOGIC
    return str(event.payload["run"]) if is_script_s else None
