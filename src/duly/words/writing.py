"""How a draft of a model was tested, said to the person who decides about it (M9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from duly.words.noun import say_list, say_number
from duly.words.phrase import end
from duly.words.preview import say_untried
from duly.words.replay import say_replay

TESTED: Final = "How it was tested"
DIFFERENT: Final = "What is different"
INDENT: Final = "  "
MISMATCHES_SHOWN: Final = 3


def say_written(told: Mapping[str, Any]) -> str:
    """Say what a model wrote: its preview, how it was tested, and what is different."""
    sections = [told["preview"]["text"], _section(TESTED, _say_tested(told))]
    if told["diff"]:
        sections.append(_section(DIFFERENT, _say_different(told)))
    return "\n\n".join(sections)


def _section(head: str, lines: Iterator[str]) -> str:
    shown = [f"{INDENT}{each}" for line in lines for each in line.split("\n")]
    return "\n".join([head, *shown])


def _say_tested(told: Mapping[str, Any]) -> Iterator[str]:
    rounds = told["rounds"]
    yield "It passed the strict check."
    if len(rounds) > 1:
        yield f"The model needed {say_number(len(rounds) - 1, 'correction')}."
    if told["untried"]:
        yield say_untried(told["untried"])
    yield _say_simulated(told["simulated"], told["unproven"])


def _say_simulated(simulated: Mapping[str, Any] | None, unproven: str | None) -> str:
    if simulated is None:
        return end(f"It was not crashed in a simulation ({(unproven or '').replace('_', ' ')})")
    if simulated["troubles"]:
        return "In a simulation it did not run to its end, so no crash was tried."
    if not simulated["crashes"]:
        return "In a simulation it changed nothing, so there was no crash to try."
    crashes = say_number(simulated["crashes"], "place")
    wrong: Sequence[Mapping[str, Any]] = simulated["mismatches"]
    if not wrong:
        return f"Crashed at {crashes} in a simulation, it made every change exactly once."
    shown = "; ".join(each["where"] for each in wrong[:MISMATCHES_SHOWN])
    return f"Crashed at {crashes} in a simulation, it ended OTHERWISE {len(wrong)} times: {shown}."


def _say_different(told: Mapping[str, Any]) -> Iterator[str]:
    yield told["diff"].rstrip("\n")
    if told["unused"]:
        yield f"It is allowed and uses no more: {say_list(told['unused'])}."
    past = told["what_if"]
    if past is not None:
        yield say_replay(past["tried"], len(past["differences"]))
        for each in past["differences"]:
            yield f"{INDENT}{each['text']}"
