"""What a version would do, as a trial of it shows (W5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from duly.rules.count import Count
from duly.words.noun import say_count, say_list, say_number, say_times
from duly.words.phrase import in_quotes

SHORT: Final[Mapping[str, str]] = {
    "tried": (
        "Would {would}.[ {over}][ What follows {untried} was not tried: its result is unknown.]"
        "[ It was cut after {cut_after} runs of consumers.][ {left_out}][ {broken}]"
    ),
}


def say_would(facts: Mapping[str, Any]) -> str:
    """Say what would be changed and published: "append 3 rows and publish 2 events"."""
    would = [_say_change(each) for each in facts.get("changes", ())]
    if published := facts.get("published"):
        would.append(f"publish {say_count(Count(published, 'event'))}")
    return say_list(would or ["change nothing"])


def _say_change(change: Mapping[str, Any]) -> str:
    done, noun, count = change["done"], change.get("noun"), change["count"]
    if noun is None:
        return f"call {done} {say_times(count)}"
    return f"{done} {say_number(count, noun)}"


def say_over(count: int) -> str:
    """Say how many published events no run would take, because they are over."""
    are = "is" if count == 1 else "are"
    return f"{say_number(count, 'event')} {are} over already and {are} not taken again."


def say_left_out(reads: Sequence[Mapping[str, Any]]) -> str:
    """Say which reads had more that the script was not seen to ask for, and how to go on."""
    return " ".join(map(_say_open_read, reads))


def _say_open_read(read: Mapping[str, Any]) -> str:
    by = read["goes_on_by"]
    how = (
        "it has no argument that says where to go on; it needs one, or a narrower question"
        if by is None
        else f"call it again with another {in_quotes(by)} until `has_more` is false"
    )
    found = say_number(read["items"], "item")
    return (
        f"{read['tool']} gave {found} and left out more, and the script was not seen to ask for it:"
        f" {how}."
    )


def say_broken(facts: Mapping[str, Any]) -> str:
    """Say which handlers stopped, where and why."""
    return " ".join(map(_say_problem, facts.get("problems", ())))


def _say_problem(problem: Mapping[str, Any]) -> str:
    where = "" if problem.get("line") is None else f" (line {problem['line']})"
    return f"{problem['handler']} stopped{where}: {problem['message'].rstrip('.')}."
