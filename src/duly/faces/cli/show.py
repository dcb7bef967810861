"""What each verb's answer looks like in a terminal: sentences, entries and tables.

Law 1  The first thing said is what a person wants to know; ids stand where they can be copied.
Law 2  What the script claims and what the host observed are kept apart, and the claim is marked
       as the script's words (L11).
Law 3  An answer no row of `SHOWN` knows is shown by its fields, so that no verb is left out (U6).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias, cast

import click

from duly.api.clock import read_clocks
from duly.api.registry import VERBS
from duly.api.text import cut, visible, visible_json
from duly.api.value import Json, has_lines
from duly.api.word import Standing
from duly.faces.cli.base import paper, say, show, table
from duly.faces.cli.spelling import spell, spell_done
from duly.fact import Offer
from duly.words import Clock, say_next, say_offer
from duly.words.done import SENTENCES, tell_done, tell_nothing
from duly.words.phrase import in_quotes

Answer: TypeAlias = Any
Args: TypeAlias = Mapping[str, Any]

CALL_CHARS_MAX: Final = 300  # of a call or a payload in a list; `--json` has all of it
NO_TITLE: Final = "no title given"
APPROVAL_OFFERS: Final = ("approve", "allow", "reject")
NOTHING_PENDING: Final = "Nothing pending"


def shown(verb: str, answer: Json, args: Args) -> None:
    """Show what a verb answered."""
    if verb in ENTRIES and isinstance(answer, list):
        if not answer:
            say(spell_done(tell_nothing(verb)))
        for place, each in enumerate(answer):
            if place and verb in SPACED:
                say("")
            ENTRIES[verb](each)
    elif verb in TABLES and isinstance(answer, list):
        columns, row = TABLES[verb]
        if answer:
            table(map(row, answer), columns)
        else:
            say(spell_done(tell_nothing(verb)))
    elif (done := tell_done(verb, answer, args)) is not None:
        say(spell_done(done))
    else:
        ANSWERS.get(verb, fields)(answer)


def fields(answer: Answer) -> None:
    """Show anything by its fields."""
    if isinstance(answer, list):
        for each in answer:
            fields(each)
        if not answer:
            say("Nothing.")
    elif isinstance(answer, dict):
        table(
            ((name.replace("_", " "), _value(each)) for name, each in answer.items()),
            ("", ""),
        )
    else:
        say(_value(answer))


def _value(value: Json) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def at(moment: str | None) -> str:
    """Write a time as people here write it, by the clock on their wall."""
    if moment is None:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def call(observed: Mapping[str, Any]) -> str:
    """Write a call as it was observed, cut to what a list has room for."""
    args = observed["args"]
    told = (
        ", ".join(f"{name}={json.dumps(each, ensure_ascii=False)}" for name, each in args.items())
        if isinstance(args, dict)
        else _value(args)
    )
    return cut(f"{observed['tool']}({told})", CALL_CHARS_MAX)


def claim(claimed: str | None) -> str:
    """Write what the script calls a change, in quotation marks: the words are the script's."""
    return NO_TITLE if claimed is None else in_quotes(claimed)


def change(each: Mapping[str, Any]) -> None:
    """Write what was observed and what is claimed, one below the other (L11)."""
    if each["observed"] is not None:
        say(f"observed: {call(each['observed'])}", indent=2)
        say(f"claimed:  {claim(each['claimed'])}", indent=2)


def place(script: Mapping[str, Any] | None) -> None:
    """Write where a script failed, and what it printed last (U7)."""
    if script is None:
        return
    line = "" if script["line"] is None else f", line {script['line']}"
    say(f"script:   {script['handler']}.{script['step']}{line}", indent=2)
    for text in script["logs"]:
        say(f"log:      {text}", indent=2)


def offers(offered: Iterable[Mapping[str, Any]], *, indent: int) -> None:
    """Write what can be done as commands to paste; a line is not broken.

    What comes of it stands beside a command where it fits, else below it; as a comment, so that it
    can be pasted as well.
    """
    from rich.cells import cell_len

    width = paper().width
    for each in offered:
        typed = spell(VERBS[each["verb"]], each["args"], each["asks"])
        line, does = " " * indent + typed, f"# {visible(each['text'])}"
        fits = cell_len(f"{line}  {does}") <= width
        click.echo(f"{line}  {does}" if fits else line)
        if not fits:
            say(does, indent=indent + 2)


def side_by_side(claimed: str | None, observed: Mapping[str, Any]) -> None:
    """Show what the script claims and what the host observed, side by side (L11)."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    args = observed["args"]
    parts = [visible(observed["tool"])]
    if isinstance(args, dict):
        parts += [_argument(name, each) for name, each in args.items()]
    else:
        parts.append(_pretty(args))
    made = Table(box=box.ROUNDED, expand=True)
    made.add_column("claimed by the script", ratio=1, overflow="fold")
    made.add_column("observed by the host", ratio=1, overflow="fold")
    told = NO_TITLE if claimed is None else in_quotes(claimed)
    made.add_row(Text(visible(told)), Text("\n".join(parts)))
    show(made)


def _argument(name: str, value: Json) -> str:
    """Write one argument as JSON, so that what is spelled out cannot pass for what was written.

    A text of several lines keeps them, each marked as a line of it; also inside an object or a
    list, whose parts are then written one by one.
    """
    shown = visible(name)
    if not has_lines(value):
        return f"{shown} = {_pretty(value)}"
    if isinstance(value, str):
        lines = (f"  | {_pretty(line)[1:-1]}" for line in value.split("\n"))
        return "\n".join([f"{shown} =", *lines])
    whole = cast("dict[str, Json] | list[Json]", value)
    entries = whole.items() if isinstance(whole, dict) else enumerate(whole)
    parts = (_argument(_pretty(key), each) for key, each in entries)
    return "\n".join([f"{shown} =", *(textwrap.indent(part, "  ") for part in parts)])


def _pretty(value: Json) -> str:
    return visible_json(json.dumps(value, ensure_ascii=False, indent=2))


# -- Entries ------------------------------------------------------------------------------------


def workflow(each: Answer) -> None:
    """Show how a workflow stands (U1)."""
    say(f"{each['name']} {each['version']}: {each['standing']}", style="bold")
    say(_sentence(each["reason"]["text"]), indent=2)
    plan = [each["text"] for each in each["schedule"]]
    clock = Clock(read_clocks()[0])
    if each["next_check_at"]:
        plan.append(say_next(datetime.fromisoformat(each["next_check_at"]), clock))
    if each["wakes_at"]:
        wakes_at = datetime.fromisoformat(each["wakes_at"])
        plan.append(f"The script asked to wake up {clock.say_wait(wakes_at)}")
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


def attention(each: Answer) -> None:
    """Show what waits for a person, and what they can type (F8)."""
    say(each["workflow"] or "The host", style="bold")
    say(each["reason"]["detail"], indent=2)
    change(each)
    place(each["script"])
    say(f"since {at(each['since'])}", indent=2)
    offers(each["offers"], indent=4)


def why(each: Answer) -> None:
    """Show why something stands as it does (U7)."""
    say(each["reason"]["detail"])
    for title in each["inputs"]:
        say(f"works on: {title}", indent=2)
    change(each)
    place(each["script"])
    if each["at"] is not None:
        say(f"moves on at {at(each['at'])}", indent=2)
    if each["offers"]:
        say("You can type:", indent=2)
        offers(each["offers"], indent=4)


def came_in(each: Answer) -> None:
    """Show an input, and indented what came of it (U2)."""
    stale = ", waiting too long" if each["stale"] else ""
    say(f"{each['status']}{stale}: {each['title']}", style="bold")
    say(at(each["created_at"]), indent=2)
    for output in each["outputs"]:
        say(f"→ {_output(output)}", indent=4)
    if not each["outputs"]:
        say(_sentence(each["reason"]["text"]), indent=4)


def came_out(each: Answer) -> None:
    """Show an output, and indented because of what it is (U2)."""
    say(_output(each), style="bold")
    say(f"{at(each['at'])}  {each['id']}", indent=2)
    for title in each["inputs"]:
        say(f"← {title}", indent=4)


def _output(each: Answer) -> str:
    status, claimed = each["status"].replace("_", " "), claim(each["claimed"])
    if each["observed"] is None:
        return f"{status}: {claimed}"
    # How a call that was answered became known is in `duly mutation`; a person's word is shown.
    by_person = each["known"] is not None and each["known"]["by"]
    return f"{status}: {call(each['observed'])} (claimed: {claimed})" + (
        f"; {known(each['known'])}" if by_person else ""
    )


def run(each: Answer) -> None:
    """Show a run."""
    say(f"{each['status']}  {each['id']}", style="bold")
    say(
        f"{at(each['created_at'])}  {each['handler']} of {each['workflow']} {each['version']}, "
        f"{each['phase']}" + (f", outcome {each['outcome']}" if each["outcome"] else ""),
        indent=2,
    )
    if each["retry_of"]:
        say(f"follows {each['retry_of']}", indent=2)
    if each["error"]:
        error = each["error"]
        place = f" (line {error['line']})" if error["line"] else ""
        say(f"{error['failure']}: {error['message']}{place}", indent=2)


def mutation(each: Answer) -> None:
    """Show a row of the ledger in a list."""
    say(f"{each['status']}  {each['id']}", style="bold")
    say(f"observed: {call(each)}", indent=2)
    say(f"claimed:  {claim(each['title'])}", indent=2)
    sent = f", sent {at(each['sent_at'])}" if each["sent_at"] else ", not sent"
    say(f"{each['workflow']}, attempt {each['attempt']}{sent}", indent=2)


def whole_mutation(each: Answer) -> None:
    """Show one row of the ledger with all it holds."""
    say(f"{each['status']}  {each['id']}", style="bold")
    side_by_side(each["title"], each)
    rest = ("workflow", "run", "held_by", "attempt", "sent_at", "key", "hash", "result")
    fields({name: at(each[name]) if name == "sent_at" else each[name] for name in rest})
    further = ("late", "approved_by", "allowance", "amended_by", "proposed")
    more = {name: each[name] for name in further if each[name]}
    if each["known"]:
        more["known"] = known(each["known"])
    if more:
        fields(more)


def known(each: Answer) -> str:
    """Write how an outcome became known, when, and by whom (L12)."""
    by = f" by {each['by']}" if each["by"] else ""
    said = f": {each['said']}" if each["said"] else ""
    return f"{each['how'].replace('_', ' ')}{by}, {at(each['at'])}{said}"


def approval(each: Answer) -> None:
    """Show a call that waits for a person, and what they can type."""
    say(f"{each['workflow']}  {each['mutation']}", style="bold")
    side_by_side(each["claimed"], each["observed"])
    for title in each["inputs"]:
        say(f"for: {title}", indent=2)
    # The box has every argument under its own name; a label of the tool's is worth a line more.
    for name, text in each["form"]:
        if name not in each["observed"]["args"]:
            say(f"{name}: {text}", indent=2)
    if each["waits"] == "approval":
        say(f"risk {each['risk']}, since {at(each['created_at'])}", indent=2)
        offers((_offer(verb, each["mutation"]) for verb in APPROVAL_OFFERS), indent=4)
    else:
        say(f"waits for the {each['waits']} {each['waits_on']}", indent=2)


def _offer(verb: str, mutation_id: str) -> dict[str, Any]:
    asks = ("calls", "until") if verb == "allow" else ()
    made = Offer(verb, {"mutation": mutation_id}, verb, asks)
    return {"verb": verb, "args": made.args, "asks": asks, "text": say_offer(made)}


def log_line(each: Answer) -> None:
    """Show a line a run's script said."""
    say(f"{at(each['at'])}  {each['source']}: {each['text']}")


def journaled(each: Answer) -> None:
    """Show an event of the bus."""
    became = "undelivered" if each["undelivered"] else each["status"]
    say(f"{each['id']}  {each['topic']}  {became}", style="bold")
    say(f"{at(each['created_at'])}  from {each['source']}", indent=2)
    say(cut(_value(each["payload"]), CALL_CHARS_MAX), indent=2)
    if each["error"]:
        say(each["error"], indent=2)


def deferred(each: Answer) -> None:
    """Show an event that is put on the bus later, or was."""
    say(f"{each['id']}  {each['topic']}  {each['status']}", style="bold")
    say(f"fires at {at(each['fire_at'])}, from {each['source']}", indent=2)
    say(cut(_value(each["payload"]), CALL_CHARS_MAX), indent=2)


def finding(each: Answer) -> str:
    """Write a finding as a good linter does."""
    told = f"{each['sentence']} {each['suggestion']}"
    if "line" not in each:
        return f"{each.get('file', 'source')}: refuses: {told}"
    where = f"{each['file']}:{each['line']}:{each['column']}"
    return f"{where}: {each['severity']}: {each['rule']}: {told}"


# -- Whole answers ------------------------------------------------------------------------------


def diff(answer: Answer) -> None:
    """Show a unified diff as it is; its lines are not broken."""
    click.echo(visible(answer, is_block=True) if answer else "The two versions are the same.")


def verified(answer: Answer) -> None:
    """Show whether the store is sound."""
    say("The store is sound." if answer["ok"] else "The store is not sound:")
    for each in answer["problems"]:
        say(each, indent=2)


def found(answer: Answer) -> None:
    """Show what a search found, and how to go on."""
    keys = ("workflow", "topic", "message_id", "status", "title")
    table(([each[key] for key in keys] for each in answer["hits"]), keys)
    if answer["after"]:
        say(f"There may be more: add --after {answer['after']}")


def queried(answer: Answer) -> None:
    """Show what a SELECT returned."""
    table(([_value(each) for each in row] for row in answer["rows"]), answer["columns"])
    say("There are more rows than the limit." if answer["is_cut"] else "")


def replay(answer: Answer) -> None:
    """Show where a version would have done otherwise."""
    tried, differences = answer["tried"], answer["differences"]
    if not tried:
        say("There is no past run to compare with yet: nothing is proven.")
        return
    runs = f"{tried} past {'run' if tried == 1 else 'runs'}"
    if not differences:
        say(f"{runs} tried; each would have made the same change.")
        return
    say(f"{runs} tried; {len(differences)} would have been otherwise or cannot be told:")
    for each in differences:
        say(each["sentence"], indent=2)


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?", "…")) else f"{text}."


ENTRIES: Final[Mapping[str, Callable[[Answer], None]]] = {
    "workflows": workflow,
    "attention": attention,
    "inputs": came_in,
    "outputs": came_out,
    "runs": run,
    "mutations": mutation,
    "approvals": approval,
    "logs": log_line,
    "bus.journal": journaled,
    "bus.deferred": deferred,
}
SPACED: Final = frozenset({"workflows", "attention", "approvals"})
ANSWERS: Final[Mapping[str, Callable[[Answer], None]]] = {
    "workflow": workflow,
    "run": run,
    "mutation": whole_mutation,
    "why": why,
    "diff": diff,
    "source": diff,
    "verify": verified,
    "what_if": replay,
    "find": found,
    "sql": queried,
}
Row: TypeAlias = Callable[[Answer], tuple[object, ...]]
TABLES: Final[Mapping[str, tuple[tuple[str, ...], Row]]] = {
    "events": (
        ("seq", "topic", "message id", "status", "title"),
        lambda each: (
            each["seq"],
            each["topic"],
            each["message_id"],
            each["status"],
            each["title"],
        ),
    ),
    "versions": (
        ("version", "active", "author", "by way of", "from", "made", "findings"),
        lambda each: (
            each["version"],
            "active" if each["active"] else "",
            each["author"],
            each["origin"],
            each["parent"],
            at(each["created_at"]),
            len(each["findings"]),
        ),
    ),
    "actions": (
        ("at", "who", "what", "workflow", "on"),
        lambda each: (at(each["at"]), each["by"], each["verb"], each["workflow"], each["target"]),
    ),
    "allowances": (
        ("allowance", "workflow", "tool", "used", "until", "by", "ended"),
        lambda each: (
            *(each["id"], each["workflow"], each["tool"], f"{each['used']} of {each['calls']}"),
            *(at(each["until"]), each["given_by"], each["ended"] or "–"),
        ),
    ),
    "approve_all": (
        ("mutation", "refused"),
        lambda each: (each["mutation"], each["refused"] or "–"),
    ),
    "extensions": (
        ("extension", "version", "stage", "error"),
        lambda each: (each["id"], each["version"], each["stage"], each["error"]),
    ),
    "secrets": (
        ("connector", "name", "problem"),
        lambda each: (each["connector"], each["name"], each["problem"]),
    ),
    "bus.deliveries": (
        ("event", "subscriber", "status", "attempts", "why"),
        lambda each: (
            each["event_id"],
            each["subscriber_id"],
            each["status"],
            each["attempts"],
            each["error"] or (each["reason"] and each["reason"]["text"]),
        ),
    ),
}
# The verbs whose answers have a shape of their own.
SHAPES: Final = frozenset({*ENTRIES, *TABLES, *ANSWERS, *SENTENCES})
