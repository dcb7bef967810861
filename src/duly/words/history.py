"""What happened to a run, one short sentence for each moment (U7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# How a run stands, by its status.
RUN_IS: Final[Mapping[str, str]] = {
    "active": "goes on",
    "paused:transient": "waits and is tried again",
    "paused:approval": "waits for a person",
    "paused:reconciliation": "waits until the outcome of its call is known",
    "failed:logic": "failed in the script",
    "failed:internal": "failed inside Duly or a connector",
    "committed": "is done",
    "crashed": "was interrupted",
    "abandoned": "was abandoned",
}
# What a person did, by the verb; another verb is said as it stands.
ACTED: Final[Mapping[str, str]] = {
    "abandon": "abandoned",
    "amend": "amended",
    "approve": "approved",
    "reconnect": "connected again",
    "reject": "rejected",
    "resume": "resumed",
    "retry": "tried again",
    "settle": "settled",
    "skip": "skipped",
}
SHORT: Final[Mapping[str, str]] = {
    "run_began": "A run of {handler} began, with version {version}",
    "run_taken_up": "The work was taken up again, with version {version}",
    "call_proposed": "The script asked for {tool}",
    "call_sent": "[The call was begun, and nothing was sent{?unsent}|The call was sent]",
    "call_sent_last": "The call was sent again, {sends} times in all",
    "call_known": "The change is {status}.[ {known}]",
    "person_acted": "{acted} by {by}",
    "run_changed": (
        "The run [waits for the owner of a connection{?for_owner}|{run_is}][: {error}]"
    ),
}


def say_act(verb: str) -> str:
    """Say what a person did."""
    return ACTED.get(verb, verb.replace("_", " "))
