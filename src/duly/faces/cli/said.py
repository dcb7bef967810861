"""What is said after an act, and where there is nothing to show.

Law: an act that was done is told in one sentence, and what it leaves to do is a command to paste.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from duly.faces.cli.offer import quote
from duly.rules.wording import in_quotes

Answer: TypeAlias = Any
Args: TypeAlias = Mapping[str, Any]


def _counted(answer: Answer, args: Args) -> str:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in answer.items())
    return f"Removed: {counts}."


def _name(args: Args, key: str = "workflow") -> str:
    return in_quotes(str(args[key]))


# How an act that was done is told, from its answer and what it was given.
SAID: Final[Mapping[str, Callable[[Answer, Args], str]]] = {
    "abandon": lambda _, args: f"The run {args['run']} is given up.",
    "approve": lambda _, args: f"Approved: {args['mutation']} is sent once, exactly as shown.",
    "allow": lambda _, args: (
        f"Approved: {args['mutation']}, and the next {args['calls']} like it. `duly allowances` "
        "lists what is allowed."
    ),
    "amend": lambda seen, args: (
        f"Amended. `duly approve {args['mutation']} --hash {seen}` lets it be sent so."
    ),
    "revoke_allowance": lambda _, args: f"{args['allowance']} covers nothing any more.",
    "reject": lambda _, args: f"Rejected: {args['mutation']} is not sent.",
    "settle": lambda _, args: f"Settled: {args['mutation']} as {args['answer']}.",
    "backup": lambda made, _: (
        f"Written: {made['path']} ({made['bytes']} bytes). The key is not "
        "in it; keep it in another place."
    ),
    "drop_secret": lambda _, args: f"The secret {args['name']} of {args['connector']} is gone.",
    "set_secret": lambda _, args: f"The secret {args['name']} of {args['connector']} is kept.",
    "grant": lambda goes_on, args: (
        f"{_name(args)} may use {args['capability']}."
        + (" What waited for it goes on." if goes_on else "")
    ),
    "revoke": lambda _, args: f"{_name(args)} may not use {args['capability']} any more.",
    "pause": lambda _, args: (
        f"{_name(args)} is paused. `duly resume {quote(args['workflow'])}` lets it go on."
    ),
    "resume": lambda _, args: f"{_name(args)} goes on.",
    "publish": lambda what, args: PUBLISHED.get(what, what),
    "reconnect": lambda count, args: (
        f"{args['connector']} is connected; "
        f"{count} {'run' if count == 1 else 'runs'} that waited for it go on."
    ),
    "remove": lambda _, args: f"{_name(args)} is out of service; its history stays.",
    "retry": lambda run_id, _: f"Tried again, as {run_id}.",
    "rollback": lambda made, _: f"{in_quotes(made['workflow'])} is at version {made['version']}.",
    "run_now": lambda count, _: f"{count} {'check is' if count == 1 else 'checks are'} due now.",
    "skip": lambda changed, _: "Skipped for good." if changed else "It was over already.",
    "tidy": _counted,
    "bus.cancel": lambda done, args: (
        "Cancelled."
        if done
        else f"Not cancelled: {args['deferred_id']} has fired or was cancelled before. "
        "`duly bus deferred` lists what is still scheduled."
    ),
    "bus.discard": lambda status, _: f"Discarded; the event is {status}.",
    "bus.emit": lambda event_id, _: f"Emitted as event {event_id}.",
    "bus.resume": lambda done, _: "The bus tells what waits." if done else "The bus is not held.",
    "bus.retry": lambda status, _: f"Tried again; the event is {status}.",
    "bus.schedule_at": lambda deferred_id, _: (
        f"Scheduled as {deferred_id}. `duly bus cancel {deferred_id}` takes it back."
    ),
    "bus.unsubscribe": lambda count, _: (
        f"Unsubscribed; {count} {'delivery was' if count == 1 else 'deliveries were'} closed."
    ),
}
PUBLISHED: Final[Mapping[str, str]] = {
    "new": "Published.",
    "same": "It was there already, with the same content.",
    "replaced": "It was waiting; its content is replaced.",
    "beside": "It is being worked on; the new content is kept beside it.",
    "frozen": "It is over already and stays as it was.",
    "dropped": "It is over already and stays as it was; this other content was not taken.",
}
EMPTY: Final[Mapping[str, str]] = {
    "workflows": "There is no workflow yet. `duly deploy FILE` brings one.",
    "attention": "Nothing waits for you.",
    "inputs": "Nothing came in.",
    "outputs": "Nothing came of it yet.",
    "runs": "There are no such runs.",
    "mutations": "There are no such mutations.",
    "approvals": "No call waits for you.",
    "approve_all": "Nothing was approved.",
    "allowances": "Nothing is allowed beyond a single yes.",
    "logs": "The script said nothing.",
    "events": "There are no such events.",
    "versions": "There are no such versions.",
    "actions": "Nobody did anything.",
    "extensions": 'There is no extension. duly.toml names their folder: extensions = "…".',
    "secrets": "There is no secret. `duly secret set CONNECTOR NAME` keeps one.",
    "bus.journal": "There are no such events.",
    "bus.deliveries": "There are no such deliveries.",
    "bus.deferred": "There are no such events.",
}
