"""One thing on paper, each kind in its own way: a workflow, what waits, an input, a run, a call.

Law: the first thing said is what a person wants to know; ids stand where they can be copied.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeAlias

from duly.api.text import cut
from duly.api.word import Standing
from duly.faces.cli.base import say, table
from duly.faces.cli.call import (
    CALL_CHARS_MAX,
    COLUMNS,
    call,
    change,
    claim,
    offers,
    place,
    side_by_side,
    value,
)
from duly.faces.cli.view import View
from duly.fact import Offer
from duly.words import say_next, say_offer
from duly.words.phrase import end

Answer: TypeAlias = Any

APPROVAL_OFFERS: Final = ("approve", "allow", "reject")
NOTHING_PENDING: Final = "Nothing pending"


def workflow(each: Answer, view: View) -> None:
    """Show how a workflow stands (U1)."""
    say(f"{each['name']} {each['version']}: {each['standing']}", style="bold")
    say(end(each["reason"]["text"]), indent=2)
    plan = [each["text"] for each in each["schedule"]]
    if each["next_check_at"]:
        plan.append(say_next(datetime.fromisoformat(each["next_check_at"]), view.clock))
    if each["wakes_at"]:
        wakes_at = datetime.fromisoformat(each["wakes_at"])
        plan.append(f"The script asked to wake up {view.clock.say_wait(wakes_at)}")
    if plan:
        say(". ".join(plan) + ".", indent=2)
    pending = ", ".join(count["text"] for count in each["pending"])
    # What waits for a person is no event that waits; "nothing pending" would mislead there.
    is_odd = each["standing"] == Standing.NEEDS_ATTENTION and not pending
    done = [each["activity"]["text"]]
    if not is_odd:
        done.append(f"{pending} pending" if pending else NOTHING_PENDING)
    say(". ".join(done) + ".", indent=2)
    left = [f"{each[word]} {word}" for word in ("stale", "orphaned") if each[word]]
    if left:
        say(", ".join(left) + ": see `duly attention`.", indent=2)
    if each["findings"]:
        count = len(each["findings"])
        say(f"{count} {'finding' if count == 1 else 'findings'} at deploy.", indent=2)


def attention(each: Answer, view: View) -> None:
    """Show what waits for a person, and what they can type (F8)."""
    say(each["workflow"] or "The host", style="bold")
    say(each["reason"]["detail"], indent=2)
    change(each["observed"], each["claimed"], indent=2)
    place(each["script"], view)
    say(f"since {view.at(each['since'])}", indent=2)
    offers(each["offers"], view, indent=4)


def why(each: Answer, view: View) -> None:
    """Show why something stands as it does (U7)."""
    say(each["reason"]["detail"])
    titles = each["inputs"] if view.is_full else each["inputs"][:1]
    more = len(each["inputs"]) - len(titles)
    for title in titles:
        say(f"works on: {title}{f' and {more} more' if more else ''}", indent=2)
    change(each["observed"], each["claimed"], indent=2)
    place(each["script"], view)
    if each["at"] is not None:
        say(f"moves on at {view.at(each['at'])}", indent=2)
    if each["offers"]:
        say("You can type:", indent=2)
        offers(each["offers"], view, indent=4)


def came_in(each: Answer, view: View) -> None:
    """Show an input, and indented what came of it (U2)."""
    stale = ", waiting too long" if each["stale"] else ""
    say(f"{each['status']}{stale}: {each['title']}", style="bold")
    say(view.at(each["created_at"]), indent=2)
    if each["outputs"]:
        rows = (
            (became(output, view), call_of(output), claimed_of(output))
            for output in each["outputs"]
        )
        table(rows, ("became", *COLUMNS), is_even=True, indent=4)
    else:
        say(end(each["reason"]["text"]), indent=4)


def came_out(each: Answer, view: View) -> None:
    """Show an output, and indented because of what it is (U2)."""
    say(f"{became(each, view)}  {view.named(each['id'])}", style="bold")
    say(view.at(each["at"]), indent=2)
    table([(call_of(each), claimed_of(each))], COLUMNS, is_even=True, indent=2)
    for title in each["inputs"]:
        say(f"← {title}", indent=4)


def became(each: Answer, view: View) -> str:
    """Write what became of an output; a person's word on it is named with the person."""
    status: str = each["status"].replace("_", " ")
    # How a call that was answered became known is in `duly mutation`; a person's word is shown.
    by_person = each["known"] is not None and each["known"]["by"]
    return f"{status}; {known(each['known'], view)}" if by_person else status


def call_of(each: Answer) -> str:
    """Write what was observed of an output; an event that no consumer takes is one itself."""
    if each["observed"] is None:
        return f"published to {each['id'].partition('/')[0]}"
    return call(each["observed"])


def claimed_of(each: Answer) -> str:
    """Write what the script calls an output."""
    return claim(each["claimed"])


def run(each: Answer, view: View) -> None:
    """Show a run."""
    say(f"{each['status']}  {view.named(each['id'])}", style="bold")
    say(
        f"{view.at(each['created_at'])}  {each['handler']} of {each['workflow']} "
        f"{each['version']}, {each['phase']}"
        + (f", outcome {each['outcome']}" if each["outcome"] else ""),
        indent=2,
    )
    if each["retry_of"]:
        say(f"follows {view.named(each['retry_of'])}", indent=2)
    if each["error"]:
        error = each["error"]
        place = f" (line {error['line']})" if error["line"] else ""
        say(f"{error['failure']}: {error['message']}{place}", indent=2)


def mutation(each: Answer, view: View) -> None:
    """Show a row of the ledger in a list."""
    say(f"{each['status']}  {view.named(each['id'])}", style="bold")
    change(each, each["title"], indent=2)
    sent = f", sent {view.at(each['sent_at'])}" if each["sent_at"] else ", not sent"
    say(f"{each['workflow']}, attempt {each['attempt']}{sent}", indent=2)


def whole_mutation(each: Answer, view: View) -> None:
    """Show one row of the ledger with all it holds; ids and hash are in full."""
    say(f"{each['status']}  {each['id']}", style="bold")
    side_by_side(each["title"], each)
    rest = ("workflow", "run", "held_by", "attempt", "sent_at", "key", "hash", "result")
    told = {name: each[name] for name in rest} | {"sent_at": view.at(each["sent_at"])}
    further = ("approved_by", "allowance", "amended_by", "proposed")
    told |= {name: each[name] for name in further if each[name]}
    if each["late"]:
        told["late"] = "; ".join(late["text"] for late in each["late"])
    if each["known"]:
        told["known"] = known(each["known"], view)
    fields(told)


def known(each: Answer, view: View) -> str:
    """Write how an outcome became known, when, and by whom (L12)."""
    by = f" by {each['by']}" if each["by"] else ""
    said = f": {each['said']}" if each["said"] else ""
    return f"{each['how'].replace('_', ' ')}{by}, {view.at(each['at'])}{said}"


def approval(each: Answer, view: View) -> None:
    """Show a call that waits for a person, and what they can type."""
    say(f"{each['workflow']}  {view.named(each['mutation'])}", style="bold")
    side_by_side(each["claimed"], each["observed"])
    approval_facts(each, indent=2)
    if each["waits"] == "approval":
        say(f"risk {each['risk']}, since {view.at(each['created_at'])}", indent=2)
        made = [_offer(verb, each["mutation"]) for verb in APPROVAL_OFFERS]
        offers(made, view, indent=4)
    else:
        say(f"waits for the {each['waits']} {each['waits_on']}", indent=2)


def approval_facts(each: Answer, *, indent: int = 0) -> None:
    """Write what else a person must know before a yes: for what, and what was amended (A3)."""
    for title in each["inputs"]:
        say(f"for: {title}", indent=indent)
    # The box has every argument under its own name; a label of the tool's is worth a line more.
    args = each["observed"]["args"]
    for name, text in each["form"]:
        if not isinstance(args, dict) or name not in args:
            say(f"{name}: {text}", indent=indent)
    if each["answering"]:
        say(f"if its answer is lost: {each['answering']['text']}", indent=indent)
    say(f"hash: {each['hash']}", indent=indent)
    if each["amended_by"]:
        say(f"amended by {each['amended_by']}; the script asked for:", indent=indent)
        say(call({"tool": each["observed"]["tool"], "args": each["proposed"]}), indent=indent + 2)
    if each["editable"]:
        say(f"you may change: {', '.join(each['editable'])} (`duly amend`)", indent=indent)


def _offer(verb: str, mutation_id: str) -> dict[str, Any]:
    asks = ("calls", "until") if verb == "allow" else ()
    made = Offer(verb, {"mutation": mutation_id}, verb, asks)
    return {"verb": verb, "args": made.args, "asks": asks, "text": say_offer(made)}


def journaled(each: Answer, view: View) -> None:
    """Show an event of the bus."""
    became = "undelivered" if each["undelivered"] else each["status"]
    say(f"{each['id']}  {each['topic']}  {became}", style="bold")
    say(f"{view.at(each['created_at'])}  from {each['source']}", indent=2)
    say(cut(value(each["payload"]), CALL_CHARS_MAX), indent=2)
    if each["error"]:
        say(each["error"], indent=2)


def deferred(each: Answer, view: View) -> None:
    """Show an event that is put on the bus later, or was."""
    say(f"{each['id']}  {each['topic']}  {each['status']}", style="bold")
    say(f"fires at {view.at(each['fire_at'])}, from {each['source']}", indent=2)
    say(cut(value(each["payload"]), CALL_CHARS_MAX), indent=2)


def fields(answer: Answer) -> None:
    """Show a record of any kind by its fields."""
    rows = ((name.replace("_", " "), value(each)) for name, each in answer.items())
    table(rows, ("", ""))
