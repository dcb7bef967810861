"""What is said after an act, and where a question found nothing.

Law 1  An act that was done is told in one sentence, made from its arguments and its answer. One
       without a row here is told by its answer alone.
Law 2  What it leaves to do is an offer; each face spells it its own way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final, TypeAlias

from duly.fact import NO_FACTS, Offer
from duly.rules.webhook import example_of
from duly.words.forgetting import was_erased
from duly.words.noun import plural
from duly.words.oauth import say_signed_in
from duly.words.phrase import in_quotes

Answer: TypeAlias = Any
SPLIT: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")  # between the words of a type's name
UNSEARCHED: Final = " Its id is too short to look for in runs that only mention it."
Args: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """What to tell a person: a sentence, and an offer of what to do next."""

    sentence: str
    next: Offer | None = None


# What comes of an offer, by its code; a face writes it behind the command or the button.
DOES: Final[Mapping[str, str]] = {
    "lists_allowances": "lists what is allowed",
    "sends_it_so": "lets it be sent so",
    "goes_on": "lets it go on",
    "takes_it_back": "takes it back",
    "lists_scheduled": "lists what is still scheduled",
    "brings_one": "brings one",
    "puts_it_to_use": "puts it to use, if you are a person who may",
    "keeps_one": "keeps one",
}
PUBLISHED: Final[Mapping[str, str]] = {
    "new": "Published.",
    "same": "It was there already, with the same content.",
    "replaced": "It was waiting; its content is replaced.",
    "beside": "It is being worked on; the new content is kept beside it.",
    "frozen": "It is over already and stays as it was.",
    "dropped": "It is over already and stays as it was; this other content was not taken.",
}
# What the sender of a webhook is told: it knows neither events nor workflows.
RECEIVED: Final[Mapping[str, str]] = {
    "new": "Taken.",
    "same": "It was taken before, and waits or is worked on. This post is the same, not a new one.",
    "replaced": "One with this id was waiting; it has the content of this post now.",
    "beside": "One with this id is worked on; the content of this post is kept beside it.",
    "frozen": "It was taken before and is done. This post is the same, not a new one.",
    "dropped": "One with this id is done already, so that the content of this post is NOT taken.",
}


def say_received(what: str) -> str:
    """Say to the sender of a webhook what became of it (G12, T5)."""
    return RECEIVED.get(what, what)


def tell_done(verb: str, answer: Answer, args: Args) -> Done:
    """Tell an act that was done."""
    make = SENTENCES.get(verb)
    if make is None:
        return Done("Done." if answer is None else f"Done: {answer}.")
    made = make(answer, args)
    return made if isinstance(made, Done) else Done(made)


def tell_nothing(verb: str, kind: str) -> Done:
    """Tell that a question found nothing; `kind` is the record it would have found, if one."""
    found = NOTHING.get(verb)
    if found is None:
        noun = SPLIT.sub(" ", kind).lower()
        found = f"There are no such {plural(noun)}." if noun else "Nothing."
    return found if isinstance(found, Done) else Done(found)


def _name(args: Args) -> str:
    return in_quotes(str(args["workflow"]))


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _allow(_: Answer, args: Args) -> Done:
    told = f"Approved: {args['mutation']}, and the next {args['calls']} like it."
    return Done(told, Offer("allowances", NO_FACTS, "lists_allowances"))


def _amend(seen: Answer, args: Args) -> Done:
    given = {"mutation": args["mutation"], "seen": seen}
    return Done("Amended.", Offer("approve", given, "sends_it_so"))


def _pause(_: Answer, args: Args) -> Done:
    offer = Offer("resume", {"workflow": args["workflow"]}, "goes_on")
    return Done(f"{_name(args)} is paused.", offer)


def _grant(is_moved: Answer, args: Args) -> str:
    more = " What waited for it goes on." if is_moved else ""
    return f"{_name(args)} may use {args['capability']}.{more}"


def _tidy(counts: Answer, _: Args) -> str:
    told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    return f"Removed: {told}."


def _forget(made: Answer, _: Args) -> str:
    names = ("events", "runs", "mutations", "bus_events", "questions", "blobs")
    told = ", ".join(f"{made[each]} {each.replace('_', ' ')}" for each in names if made[each])
    left = (
        ("the state of {}", made["states"]),
        ("{} of another workflow", [_copy(each) for each in made["elsewhere"]]),
        ("the file {}", made["backups"]),
    )
    rest = [text.format(each) for text, found in left for each in found]
    more = f" Still there: {'; '.join(rest)}." if rest else ""
    looked = "" if made["is_looked_for"] else UNSEARCHED
    before = made["erased_before"]
    what = f"Erased: {told}" if before is None else f"It {was_erased(before)}; once more: {told}"
    return f"{what}. Message ids, keys and digests stay.{more}{looked}"


def _export(made: Answer, _: Args) -> str:
    what = f"Written: {made['path']} ({made['bytes']} bytes): {', '.join(made['workflows'])}."
    needs = f" Secrets it needs: {', '.join(made['secrets'])}." if made["secrets"] else ""
    over = " Paused here for good." if made["handed_over"] else " A copy: it goes on here."
    return f"{what}{over}{needs}"


def _import(made: Answer, _: Args) -> str:
    what = f"Taken in, and paused: {', '.join(made['workflows'])} ({made['lines']} lines)."
    grants = f" Granted: {', '.join(made['grants'])}." if made["grants"] else ""
    needs = f" Secrets to set: {', '.join(made['secrets'])}." if made["secrets"] else ""
    sealed = f" Not sealed: {made['unsealed']} changes." if made["unsealed"] else ""
    return f"{what}{grants}{needs}{sealed}"


def _copy(each: Answer) -> str:
    return f"{each['message_id']} in {each['topic']} of {each['workflow']}"


def _cancel(is_done: Answer, args: Args) -> Done:
    if is_done:
        return Done("Cancelled.")
    told = f"Not cancelled: {args['deferred_id']} has fired or was cancelled before."
    return Done(told, Offer("bus.deferred", NO_FACTS, "lists_scheduled"))


def _schedule(deferred_id: Answer, _: Args) -> Done:
    offer = Offer("bus.cancel", {"deferred_id": deferred_id}, "takes_it_back")
    return Done(f"Scheduled as {deferred_id}.", offer)


def _new_hook(made: Answer, _: Args) -> str:
    if made["secret"] is None:
        return f"{made['sender']} posts to {made['path']} and signs with the secret it gave you."
    if made["key"] is None:
        return (
            f"{made['sender']} posts to {made['path']} and signs with {made['secret']}, which is "
            "not shown again."
        )
    # Each address stands alone on its line, so that it is copied without a full stop.
    return (
        "A sender that cannot sign posts to this address; its end is a key:\n"
        f"  {made['path']}/{made['key']}\n"
        f"Try it:\n  {say_curl(made)}\n"
        f"A sender that signs posts to the address without its key, and signs with\n"
        f"  {made['secret']}\n"
        "Neither the key nor the secret is shown again."
    )


def say_curl(made: Mapping[str, Any]) -> str:
    """Write the command that tries a webhook which takes a key."""
    headers, payload = example_of(made["id_from"], made["id_name"], made["title"])
    heads = {"Content-Type": "application/json", **headers}
    asked = [f"-H {quote(f'{name}: {value}')}" for name, value in heads.items()]
    body = json.dumps(payload, ensure_ascii=False)
    return f"curl {' '.join(asked)} -d {quote(body)} '{made['path']}/{made['key']}'"


def _propose(made: Answer, _: Args) -> Done:
    told = f"Proposed for {in_quotes(made['workflow'])} as {made['hash']}; it grants nothing."
    return Done(told, Offer("adopt", {"proposal": made["hash"]}, "puts_it_to_use"))


SENTENCES: Final[Mapping[str, Callable[[Answer, Args], str | Done]]] = {
    "abandon": lambda _, args: f"The run {args['run']} is given up.",
    "add_connection": lambda made, _: (
        f"{made['name']} is in the settings; scripts use it when the host was started again."
    ),
    "adopt": lambda made, _: f"{in_quotes(made['workflow'])} is at version {made['version']}.",
    "allow": _allow,
    "amend": _amend,
    "approve": lambda _, args: f"Approved: {args['mutation']} is sent once, exactly as shown.",
    "backup": lambda made, _: (
        f"Written: {made['path']} ({made['bytes']} bytes). The key is not in it; keep it in "
        "another place."
    ),
    "deploy": lambda made, _: (
        f"{in_quotes(made['workflow'])} is at version {made['version']}."
        if made["new"]
        else f"{in_quotes(made['workflow'])} has this text already, as version {made['version']}. "
        "No new version was made."
    ),
    "drop_secret": lambda _, args: f"The secret {args['name']} of {args['connector']} is gone.",
    "export": _export,
    "import_": _import,
    "forget": _forget,
    "grant": _grant,
    "new_hook": _new_hook,
    "new_link": lambda made, _: f"Code: {made['code']}. It signs one browser in, within a minute.",
    "new_token": lambda made, _: (
        f"{in_quotes(made['name'])} may {made['scope']}. This token is not shown again."
    ),
    "answer": lambda made, _: made["told"],
    "pair": lambda made, _: (
        f"Send it to the bot within ten minutes: /start {made['code']}. The account that does may "
        f"say yes or no as {in_quotes(made['name'])}."
    ),
    "pause": _pause,
    "propose": _propose,
    "write": lambda made, args: _propose(made["proposal"], args),
    "publish": lambda what, _: PUBLISHED.get(what, what),
    "pin": lambda made, args: f"Agreed to {len(made['tools'])} tools of {args['connector']}.",
    "finish_oauth": lambda ended, _: say_signed_in(ended),
    "prove": lambda made, args: f"{args['tool']}: {made['answering']['text']}.",
    "reconnect": lambda count, args: (
        f"{args['connector']} is connected; "
        f"{_count(count, 'run', 'runs')} that waited for it go on."
    ),
    "decline": lambda is_new, args: (
        f"{args['version'][:8]} is declined." if is_new else "It was declined already."
    ),
    "reject": lambda _, args: f"Rejected: {args['mutation']} is not sent.",
    "remove": lambda _, args: f"{_name(args)} is out of service; its history stays.",
    "resume": lambda _, args: f"{_name(args)} goes on.",
    "restart": lambda _, __: "The host stops in order and begins again.",
    "retry": lambda run_id, _: f"Tried again, as {run_id}.",
    "choose_asks": lambda is_new, args: (
        f"When you are asked before changes of {args['capability']}: "
        f"{'it holds from the next call on.' if is_new else 'it stood so already.'}"
    ),
    "revoke": lambda _, args: f"{_name(args)} may not use {args['capability']} any more.",
    "receive": lambda what, _: PUBLISHED.get(what, what or "Nothing was published: it asked."),
    "revoke_token": lambda _, args: f"{in_quotes(str(args['name']))} is let in no more.",
    "revoke_allowance": lambda _, args: f"{args['allowance']} covers nothing any more.",
    "rollback": lambda made, _: f"{in_quotes(made['workflow'])} is at version {made['version']}.",
    "run_now": lambda count, _: f"{_count(count, 'check is', 'checks are')} due now.",
    "set_secret": lambda _, args: f"The secret {args['name']} of {args['connector']} is kept.",
    "settle": lambda _, args: f"Settled: {args['mutation']} as {args['answer']}.",
    "sign_in": lambda made, _: f"Signed in as {in_quotes(made['name'])}: {made['token']}",
    "sign_out": lambda _, __: "Signed out.",
    "skip": lambda is_new, _: "Skipped for good." if is_new else "It was over already.",
    "tidy": _tidy,
    "unpair": lambda _, args: f"{in_quotes(str(args['name']))} decides nothing any more.",
    "bus.cancel": _cancel,
    "bus.discard": lambda status, _: f"Discarded; the event is {status}.",
    "bus.emit": lambda event_id, _: f"Emitted as event {event_id}.",
    "bus.resume": lambda done, _: "The bus tells what waits." if done else "The bus is not held.",
    "bus.retry": lambda status, _: f"Tried again; the event is {status}.",
    "bus.schedule_at": _schedule,
    "bus.unsubscribe": lambda count, _: (
        f"Unsubscribed; {_count(count, 'delivery was', 'deliveries were')} closed."
    ),
}
NOTHING: Final[Mapping[str, str | Done]] = {
    "actions": "No person and no agent has done anything.",
    "allowances": "Nothing is allowed beyond a single yes.",
    "approvals": "No call waits for you.",
    "approve_all": "Nothing was approved.",
    "attention": "Nothing waits for you.",
    "channels": "There is no channel: duly.toml names none.",
    "extensions": 'There is no extension. duly.toml names their folder: extensions = "…".',
    "find": "There are no such events.",
    "grants": "It is allowed nothing.",
    "hooks": "No webhook of it is open.",
    "hosts": "No host is here.",
    "inputs": "Nothing came in.",
    "kinds": "No connection can be added here: a program embeds this host.",
    "logs": "The script said nothing.",
    "models": "No model was asked in the last seven days.",
    "questions": "No model was asked.",
    "outputs": "Nothing came of it yet.",
    "proposals": "No source is proposed.",
    "runs": "There are no such runs.",
    "tools": "There is no tool: duly.toml names no connector.",
    "secrets": Done(
        "There is no secret.",
        Offer("set_secret", NO_FACTS, "keeps_one", asks=("connector", "name")),
    ),
    "diff": "The two versions are the same.",
    "tokens": Done(
        "There is no token and no device.",
        Offer("new_token", NO_FACTS, "brings_one", asks=("name", "scope")),
    ),
    "workflows": Done(
        "There is no workflow yet.", Offer("deploy", NO_FACTS, "brings_one", asks=("source",))
    ),
    "bus.deferred": "There are no such events.",
    "bus.subscribers": "There is no subscriber.",
    "ids": "No id begins so.",
    "bus.journal": "There are no such events.",
}
