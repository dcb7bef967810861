"""Why a failed run was not repaired, or why a repair is only proposed (F3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from duly.fact import Reason
from duly.words.noun import say_list, say_number, say_times
from duly.words.phrase import in_quotes
from duly.words.template import fill

REFUSALS: Final[dict[str, str]] = {
    "no_repairer": "there is no repairer.",
    "repairs_off": "the policy allows no repairs.",
    "chain_used_up": "a repair was asked for {times}, which is all the policy allows.",
    "day_used_up": "a repair was asked for {times} within a day, which is all the policy allows.",
    "version_replaced": "version {version} is active by now; retry to go on with it.",
    "repairer_late": "the repairer gave no answer in {seconds} s.",
    "repairer_cancelled": "the repairer gave up half-way.",
    "repairer_failed": "the repairer failed: {kind}: [{said}|it did not say why]",
    "nothing_offered": "the repairer has none to offer.",
    "no_source_given": "the repairer answered with a {kind}, which is no source.",
    "same_text": "the repairer gave back the text that failed.",
    "repair_not_run": "the repair cannot be run. {said}",
    "repair_not_examined": "the repair could not be examined. {said}",
    "of_another_workflow": "the repair is of another workflow, {workflow}.",
    "fault_inside": "a fault inside Duly, {said}.",
    "needs_grants": "it needs {names}, which {is_or_are} not granted.",
    "leaves_out": "it leaves out {deeds}, and what waits there would be left lying.",
    "adds": "it adds {deeds}, which only a person may.",
    "not_clean": "it does not check clean: {said}",
    "asks_by_chance": (
        "it asks the clock or the dice where the failed version did not: {word} on line {line}"
        "[ and in {more_places}]."
    ),
    "changes_risky_step": "it changes {handler}.{step}, which calls {names}, a tool of high risk.",
    "too_tangled": "it is too tangled to be compared with the version that failed.",
    "not_replayed": "it was not tried on all that was done within {seconds} s.",
    "does_otherwise": "it would not do again what was done. {said}[ (and {more} more)]",
    "given_up_before": "its text is that of version {version}, which was given up.",
    "paused_meanwhile": "the workflow was paused meanwhile.",
    "moved_meanwhile": "the workflow was moved on by another act meanwhile.",
    "written_by_agent": "an agent wrote it, and whether it is put to use is for you to say.",
}
# What a version does, by its kind.
DEEDS: Final[Mapping[str, str]] = {
    "produce": "{name}",
    "schedule": "the schedule of {name}",
    "subscribe": "{name} for {topic}",
    "mutate": "the change {name} makes",
    "next": "what follows {name}",
    "way": "the way into {name}",
}


def say_unrepaired(found: Reason | str | Mapping[str, Any]) -> str:
    """Say why there is no repair; a sentence that an older Duly kept is said as it is."""
    if isinstance(found, str):
        return found
    if isinstance(found, Reason):
        return say_unrepaired({"code": found.code, "facts": found.facts})
    code, facts = str(found.get("code", "")), found.get("facts", {})
    return fill(REFUSALS.get(code, code), lambda name: _part(name, facts))


def _part(name: str, facts: Mapping[str, Any]) -> str:
    if name == "times":
        return say_times(facts["count"])
    if name == "names":
        return say_list(facts["names"])
    if name == "is_or_are":
        return "is" if len(facts["names"]) == 1 else "are"
    if name == "deeds":
        return say_list([say_deed(each) for each in facts["deeds"]])
    if name in ("word", "workflow"):
        return in_quotes(facts[name])
    if name == "more_places":
        return say_number(facts["more"], "more place") if facts["more"] else ""
    value = facts.get(name)
    return "" if value in (None, "", 0) else str(value)


def say_deed(deed: Mapping[str, str]) -> str:
    """Name something a version does: “file” for “mail”."""
    return fill(DEEDS[deed["deed"]], lambda name: in_quotes(deed.get(name) or ""))
