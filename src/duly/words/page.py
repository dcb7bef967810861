"""What a page says where no answer says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from duly.rules.asking import AskedHow, ProofBy
from duly.words.asking import say_fault as say_fault
from duly.words.asking import say_trial as say_trial
from duly.words.exam import tell_foreign as tell_foreign
from duly.words.exam import uses as uses
from duly.words.oauth import BRING_ADDRESS as BRING_ADDRESS
from duly.words.oauth import NOT_AGREED as NOT_AGREED
from duly.words.oauth import OPEN_ADDRESS as OPEN_ADDRESS
from duly.words.oauth import OPEN_DEVICE as OPEN_DEVICE
from duly.words.oauth import OTHER_ACCOUNT as OTHER_ACCOUNT
from duly.words.oauth import SIGN_IN as SIGN_IN
from duly.words.oauth import SIGNED_IN as SIGNED_IN
from duly.words.oauth import SIGNED_OUT as SIGNED_OUT
from duly.words.oauth import TYPE_CODE as TYPE_CODE
from duly.words.oauth import say_account as say_account
from duly.words.oauth import say_other as say_other
from duly.words.oauth import say_scopes as say_scopes
from duly.words.offered import AGREE as AGREE
from duly.words.offered import ASK_OFFERS as ASK_OFFERS
from duly.words.offered import OFFERS_AGREED as OFFERS_AGREED
from duly.words.offered import OFFERS_ARE_WORDS as OFFERS_ARE_WORDS
from duly.words.offered import OFFERS_NOTHING as OFFERS_NOTHING
from duly.words.offered import OFFERS_OTHERS as OFFERS_OTHERS
from duly.words.offered import OFFERS_STALE as OFFERS_STALE
from duly.words.offered import OFFERS_UNSEEN as OFFERS_UNSEEN
from duly.words.offered import PINS as PINS
from duly.words.offered import say_agreed as say_agreed
from duly.words.offered import say_offers as say_offers
from duly.words.phrase import USER, in_quotes, say_wait
from duly.words.replay import say_replay

HOW_TO_SIGN_IN: Final = "Type this in the folder of the project, and open the link that it prints:"
SIGNED_IN_ALREADY: Final = "I am signed in already"
EMPTY: Final = "–"
NO_MATCH: Final = "Nothing matches. Take the filter away, or look for another text or day."
NO_MORE_MATCH: Final = "Nothing further matches."
UNFINISHED: Final = "Nothing matches so far, and not everything was looked through yet."
NO_INPUT_YET: Final = "Nothing came in yet. Publish something on the page"
NOT_FOUND_YET: Final = "Nothing came in yet. Duly looks by itself; Run now looks at once."
BUS: Final = "Duly announces here what happens, and tells the programs that subscribe to it."
TOOLS: Final = (
    "A connection leads to one service. Scripts read and change things there by its tools."
)
CONNECTS: Final = (
    "One command lists the kinds of connections, another adds one to duly.toml; then start the"
    " host again."
)
ACTIONS: Final = "What people and programs told Duly to do, the newest first."
MODELS: Final = (
    "What was asked of language models in the last seven days, by account and day of UTC. Tokens"
    " of an answer that was lost stay counted. An account shows its newest questions below."
)
THE_HOST: Final = "the host"
NO_MODEL_ASKED: Final = "No model was asked in the last seven days."
NO_QUESTION: Final = "No question is kept."
NO_WORKFLOW_YET: Final = "There is no workflow yet."
FIRST_CONNECT: Final = "Connect the services that your script will use."
THEN_SCRIPT: Final = (
    "Get a script: give the guide and your wish to a language model, take one of the project, or"
    " write one."
)
THEN_DEPLOY: Final = "Deploy it below: Duly first says what it would do, and what it asks for."
SCRIPTS_HERE: Final = "The project has these scripts. Open one to see what it would do:"
NO_SCRIPT: Final = "There is no script in the folder of the project that you could deploy here."
SCRIPT_CHANGED: Final = "Nothing was deployed: this changed meanwhile. It is shown as it is now."
TAKEN_BACK: Final = "taken back by"
NOT_DEPLOYABLE: Final = "It cannot be deployed as it is"
DEPLOY_ALLOWED: Final = "Deploy, and allow what it asks for"
DEPLOY_TICKED: Final = "Deploy, and allow only what is ticked"
PASTED: Final = "A pasted script"
LOOK_FIRST: Final = "Check it"
LOOKS_FIRST: Final = "It is not deployed by this: the next page shows what it would do."
MISTAKES: Final = "What looks wrong in it"
CHANGE_TEXT: Final = "Change the text"
FIRST_TEXT: Final = "Paste the text of a script"
GUIDE: Final = "A language model can write it: give it your wish, and"
GRANTS: Final = "Allow it what it uses and is not allowed yet"
NOT_ALLOWED_HEAD: Final = "It is not allowed all that it uses"
NOT_ALLOWED: Final = "It stops at its first call of a tool of these, until you allow it:"
GRANT_OTHER: Final = "Allow something else, or with a limit"
GRANT_LOOK: Final = "Look at what stands"
GRANT_HEAD: Final = "Allow a workflow something"
GRANT_NONE: Final = "It is not allowed this now."
GRANT_NOW: Final = "It is allowed this now. What you save takes the place of these limits:"
GRANT_CHANGED: Final = (
    "Nothing was changed: this right was given, limited or taken back since it was shown to you."
    " Below is what stands now."
)
GRANT_KEEPS: Final = "When you are asked before its changes stays as it is."
PAUSED_TOO: Final = "Resume it before you approve: while it is paused nothing is sent."
BECAUSE_OF: Final = "Because of"
UNREADABLE: Final = "This could not be read. Nothing is known about it; reload the page."
COPY: Final = "Copy"
COPIED: Final = "Copied."
SHOWN_ONCE: Final = "This is shown once. Keep it before you leave this page."
CLAIMED: Final = "What the script calls it. Only the observed call is sent."
CLAIMED_ONLY: Final = "What the script calls it."
AMENDS: Final = "Nothing is sent by this. The amended call is shown, and approved as yours."
PROPOSED_FIRST: Final = "The script wanted this call:"
NOT_SENT: Final = (
    "Nothing was sent. Compare the two calls, then decide about the one that waits now."
)
CALL_CHANGED: Final = "The call changed"
DIFFERS: Final = "differs"
SHOWN_THEN: Final = "What you were shown"
WAITS_NOW: Final = "What waits now"
NOT_KEPT: Final = "It is not kept any more."
DECIDE_AGAIN: Final = "Read it again and decide"
THIS_CHANGE: Final = "All about this change"
THAT_CHANGE: Final = "All about that change"
NOTHING_CHANGED: Final = "Nothing was changed by it."
AFTER_ANSWER: Final = "checks again after your answer"
AFTER_THIS: Final = "checks again after that"
# What Duly retries by itself, by the code of its reason: nothing moves until then.
HELD_UP: Final[Mapping[str, str]] = {
    "unreachable": "retrying",
    "retrying": "retrying",
    "interrupted_again": "retrying",
    "unasked": "not known yet",
}
THIS_RUN: Final = "What the script did"
SKIPS: Final = "What is skipped ends for good; nothing is sent for it."
SAME_CAPABILITIES: Final = "Nothing of what it may touch is different."
TRY_TODAY: Final = "Try it with the data of today; nothing is sent"
WISH: Final = "What should be done, when, and for whom? A model writes it, and you decide."
NO_MODEL: Final = (
    "Any chat can write a workflow: give it the guide and your wish. To let Duly ask a model"
    " itself, name one in duly.toml, below [models.default]."
)
WISH_CHANGE: Final = "What should be different? A model changes it, and you decide."
USES_NOTHING: Final = "It uses no tool."
WHAT_IF: Final = "Nothing is sent: past runs are repeated with what they were given."
NO_SCHEDULE: Final = "It has no producer: it works when something is published."
ANSWERED_ONCE: Final = "The first answer counts, and is written down as that of"
PAIR: Final = "Show a code here and point the camera of the phone at it."
LINK_ONCE: Final = "This link signs one browser in, once, within a minute."
ONLY_HERE: Final = (
    "This address is that of this machine alone, and no phone reaches it. Give the page another one"
    " in the settings of the project, with a certificate or a proxy that has one."
)
QR: Final = "The link as a picture for a camera"
NO_INGRESS: Final = "Nothing can be published from outside: none of its topics has ingress."
WHAT_WAITS: Final = "What it waits for"
GUIDE_OF: Final = (
    "Give a language model this text and your wish. It says how a workflow is written, and which"
    " tools this project has. Connect first what your wish needs, and copy the text afterwards: it"
    " knows only the connections that are here now. Then paste what the model writes where you"
    " deploy a script."
)
GUIDE_COPY: Final = "To copy it, click into it and press Ctrl+A, then Ctrl+C (on a Mac ⌘A, ⌘C)."
NEVER_SHOWN: Final = "A secret is sealed when it is set, and never shown."
NO_ACCOUNT: Final = "No account is paired yet, so nothing is asked over this channel."
# A connection, and the proof of what it says (K10).
IF_LOST: Final = "If the answer is lost,"
NO_SECRET: Final = "It names no secret that it needs."
ONLY_READS: Final = "It changes nothing outside; it only reads."
ITS_FOLDER: Final = "Its files are in the folder"
THAT_MACHINE: Final = "on the machine of the host"
SETTINGS_BY_COMMAND: Final = (
    "Its settings stand in duly.toml. A page changes none: change one by a command on the machine"
    " of the host, or in the file."
)
OLD_SETTINGS: Final = (
    "It is not tried now: the host still uses the settings as they were. Start the host again"
    " first."
)
UNTRIED: Final = "Nothing has tried it since it was set: a wrong one is noticed at the first call."
TRIES_NOTHING: Final = "Setting it tries nothing: a wrong one is noticed at the first call."
PROVE_IT: Final = "Prove it below."
NOT_AT_ALL: Final = (
    "This means: if the answer to such a change is lost, it may have been made or not, and Duly"
    " cannot find out. It does not send it again by itself; you look at the service and say what"
    " became of it."
)
GIVE_KEY: Final = (
    "If the service takes a key with a change and can be asked by it, say so in the operation (key"
    " and verify): then Duly finds out by itself."
)
LAST_TRIAL: Final = "The last trial:"
TRIAL: Final = (
    "To prove that the service can be asked, one real change is made with your account, once:"
)
TRIAL_ARGS: Final = "The arguments of this one call, as JSON"
TRIAL_TAKES: Final = "It can take a minute. What came of it is shown here."
TRIAL_VOID: Final = (
    "It proves nothing any more: the settings or the secrets have changed, or the store was "
    "restored."
)
TRIAL_CHANGED: Final = (
    "Nothing was sent now: a trial was made meanwhile, or it would do something else than you were "
    "shown. This is how it stands."
)
VERIFY: Final = "The whole store is read; nothing is changed. That can take a while."
MORE_ON_DOCTOR: Final = "This machine and the settings of the project are checked by the command:"
# For the script of the page, which makes no sentence of its own.
LOST: Final = "The connection to the host is lost. What you see is how it was; it is tried again."
SIGNED_OUT_HERE: Final = (
    "This browser is not signed in any more. What you see is how it was; sign in again to go on."
)
GONE_HERE: Final = "This is not here any more. What you see is how it was."
BACK_AGAIN: Final = "Connected again."
RESTARTED: Final = "The host was started again. What you see is how it stands now."
NOT_JSON: Final = "This is not JSON yet."
NEW: Final = "new"


# What a person calls the status of an event; the other words are said as they are (U5).
EVENT_WORDS: Final = {"reserved": "pending", "consumed": "done"}
KEPT: Final = "kept"
# What people call a zone that has a name for machines.
ZONES: Final = {"Etc/UTC": "UTC", "Etc/GMT": "UTC", "GMT": "UTC", "Zulu": "UTC"}


# What an empty list means; a search that did not see everything does not say that nothing matches.
EMPTY_LISTS: Final = {"match": NO_MATCH, "further": NO_MORE_MATCH, "unfinished": UNFINISHED}


def say_empty(what: str) -> str:
    """Say why a list that was narrowed shows nothing."""
    return EMPTY_LISTS[what]


def name_event(each: Mapping[str, Any]) -> str:
    """Name how an event stands: one that no consumer takes is kept, and waits for nothing (W9)."""
    return event_word(each, EVENT_WORDS.get(each["status"], each["status"]))


def event_word(each: Mapping[str, Any], status: str) -> str:
    """Return the status of an event, or the word for an output."""
    return KEPT if each["is_output"] and each["status"] == "pending" else status


# What a person calls the status of a run, and what failed; the other words are said as they are.
STATUS_WORDS: Final = {
    "committed": "done",
    "failed:logic": "failed in the script",
    "failed:internal": "failed inside",
    "paused:approval": "waits for you",
    "paused:transient": "waits, then goes on",
    "paused:reconciliation": "outcome not known yet",
}
FAILURES: Final = {"logic": "In the script", "internal": "Inside Duly or a connector"}


# The status of a change in the words of the lists of outputs (U2): one thing, one word.
CHANGE_WORDS: Final = {
    "proposed": "waiting",
    "in_flight": "under way",
    "needs_reconcile": "unknown",
    "indeterminate": "unknown",
    "applied": "done",
    "failed": "not done",
}
# How the outcome of a change became known (L12).
KNOWN_WORDS: Final = {
    "answered": "the service answered",
    "asked": "the service was asked",
    "sent_again": "it was sent again under the same key",
    "settled": "a person settled it",
    "unsent": "not sent",
}
NOTHING_LEFT: Final = "nothing was sent"
LONG_CHARS: Final = 2000  # about a screen
SETTLE: Final = "Say what became of it"
# A button that settles says what it answers.
ANSWERS: Final = {
    "happened": "It happened",
    "did_not_happen": "It did not happen",
    "skip": "Leave it open and skip",
    "try_again": "Find out again",
}


def name_change(status: str) -> str:
    """Name the status of a change as the lists do."""
    return CHANGE_WORDS.get(status, status)


def say_decided(status: str, *, is_approved: bool) -> str:
    """Say what was decided about a call; that of a no is said by what became of it.

    Viewers with the same rights share a page, so it does not say "you". An address may name any
    call: of one that no person approved nothing is said but what became of it.
    """
    if is_approved and status != "rejected":
        return "Approved."
    return "Not decided." if status == "proposed" else ""


def say_failed_yes(by: str) -> str:
    """Say that a yes to the same call came to nothing before."""
    return "Your yes was tried and failed" if by == USER else f"{by} said yes, and it failed"


def name_known(how: str, *, is_unsent: bool = False) -> str:
    """Name how the outcome of a change became known."""
    if is_unsent:
        return NOTHING_LEFT
    return KNOWN_WORDS.get(how) or plain(how)


def name_offer(offer: Mapping[str, Any], title: str) -> str:
    """Name the button of an offer; one that skips names the input, by its title if it has one."""
    args = offer["args"]
    if "answer" in args:
        return ANSWERS.get(args["answer"]) or plain(args["answer"]).capitalize()
    name = plain(offer["verb"]).capitalize()
    if offer["verb"] != "skip":
        return name
    return f"{name} {in_quotes(title) if title else args['message_id']}"


def say_lost(answering: Mapping[str, Any]) -> str:
    """Say plainly what happens if the answer to a call is lost; K1's own words follow it."""
    there = answering["tool"].partition(".")[0]
    if answering["asked"] == AskedHow.NOT_AT_ALL:
        return f"{IF_LOST} a person must decide whether it happened: {there} cannot tell."
    if answering["proof"] == ProofBy.TRIAL and answering["proven_at"] is None:
        return (
            f"{IF_LOST} a person must decide whether it happened, until a trial has proven that "
            f"{there} can tell."
        )
    return f"{IF_LOST} Duly finds out from {there} whether it happened."


def name_status(status: str) -> str:
    """Name a status as people do."""
    return STATUS_WORDS.get(status) or plain(status)


def name_failure(failure: str) -> str:
    """Name what failed."""
    return FAILURES.get(failure) or plain(failure)


def plain(word: str) -> str:
    """Write a word of a verb or a status as people do: `in_flight` is “in flight”."""
    return word.replace("_", " ").replace(".", " ").replace(":", ", ")


# Who moves something on, as people say it; what is not here is said as it stands.
MOVERS: Final = {
    "host": "Duly itself",
    "backoff": "Duly itself, when its pause is over",
    "repair": "a repair",
    "reconciler": "Duly itself: it asks the service what happened",
    "person": "you",
    "resume": "the person who resumes it",
    "subscriber": "a program that takes it",
    "nothing": "nothing: it is over",
}


def name_mover(mover: str) -> str:
    """Name who or what moves something on."""
    return MOVERS.get(mover, mover)


REFUSALS: Final[Mapping[int, str]] = {
    400: "This does not fit",
    403: "You may not do this",
    404: "There is nothing here",
    405: "There is nothing here",
    408: "This took too long",
    409: "This was not done",
    413: "This is too long",
    415: "This does not fit",
    421: "This address is not known",
    422: "This cannot be put to use",
    429: "This was too much at once",
    431: "This is too long",
    502: "A service failed",
    503: "The store cannot be used now",
    504: "It is not known whether this was done",
}


def say_refused(status: int) -> str:
    """Say in the heading of a page why something was refused; the error says the rest.

    >>> say_refused(409)
    'This was not done'
    """
    return REFUSALS.get(status, "Something is wrong in Duly")


def say_more(count: int, *, is_cut: bool) -> str:
    """Say how much more waits than a page shows."""
    at_least = "at least " if is_cut else ""
    return f"And {at_least}{count} more {'waits' if count == 1 else 'wait'}."


def say_first(count: int) -> str:
    """Say that a page lists no more workflows, so that the others have to be opened by name."""
    listed = f"Only the first {count:,} workflows are listed."
    return f"{listed} The address of another is /w/ and its name."


def say_line(line: int) -> str:
    """Say where a script failed."""
    return f"It failed in line {line}."


def say_connection(origin: str) -> str:
    """Say where the service of a connection is."""
    return f"Its service is {origin}."


def say_waiting(count: int) -> str:
    """Say how much waits for a connection."""
    runs = "1 run waits" if count == 1 else f"{count} runs wait"
    return f"{runs} for this connection. A new secret lets them go on; so does this button:"


def say_untried(secret: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> str:
    """Say that a secret was set and no change was proven with it; "" where there is no such."""
    proven = [each["answering"]["proven_at"] for each in tools if each["needs_trial"]]
    if secret["set_at"] is None or any(proven):
        return ""
    return UNTRIED if proven else TRIES_NOTHING


def say_lacks(found: Mapping[str, Any], *, is_tried: bool = False) -> str:
    """Say in half a sentence what a connection lacks: a secret, a proof, or nothing.

    `is_tried`: its set-up was tried just now, and works.
    """
    unset = [each["name"] for each in found["secrets"] if each["set_at"] is None]
    if unset:
        return f"not set: {', '.join(unset)}"
    trials = [each for each in found["tools"] if each["needs_trial"]]
    unproven = sum(each["answering"]["proven_at"] is None for each in trials)
    if unproven:
        return f"{unproven} of {len(trials)} proofs to make"
    if found["can_check"]:
        return "its set-up works" if is_tried else "the page Tools tries its set-up"
    return "proven with your account" if trials else "nothing to prove"


def say_length(text: str) -> str:
    """Say how long a text is that fills more than a screen; nothing of a shorter one."""
    return f"{len(text):,} characters" if len(text) > LONG_CHARS else ""


def say_together(count: int) -> str:
    """Say that several calls of one tool can be approved at once."""
    return f"{count} calls wait. Tick those you have read; each is sent exactly as shown."


def say_tried(tried: int, different: int) -> str:
    """Say what came of trying a version on past runs."""
    if not tried:
        return "There is no past run to try it on."
    runs = "1 past run was" if tried == 1 else f"{tried} past runs were"
    return f"{runs} tried; {different or 'none'} would change something else."


def say_moment(at: str, zone: str) -> str:
    """Say a time as people write it, to the minute; the page names the zone once."""
    there = _read(at, zone)
    return f"{there.day} {there:%b %Y, %H:%M}"


def say_exactly(at: str, zone: str) -> str:
    """Say a time to the second, with its zone."""
    there = _read(at, zone)
    return f"{there.day} {there:%b %Y, %H:%M:%S} {there.tzname()}"


def say_zone(zone: str) -> str:
    """Say once which clock a page goes by."""
    return f"Times are those of {ZONES.get(zone, zone)}."


def say_gap(before: str, after: str) -> str:
    """Say how long after something the next thing happened."""
    gap_ms = round((_read(after) - _read(before)).total_seconds() * 1000)
    return "" if gap_ms < 1000 else f"{say_wait(gap_ms)} later"


def _read(at: str, zone: str = "UTC") -> datetime:
    return datetime.fromisoformat(at).astimezone(ZoneInfo(zone))


def say_past(past: Mapping[str, Any]) -> str:
    """Say what a comparison with past runs showed."""
    return say_replay(past["tried"], len(past["differences"]))
