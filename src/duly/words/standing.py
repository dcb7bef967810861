"""How a workflow stands and why: a short sentence (U1), and one or two longer ones (U7).

Law 1  A long sentence says what waits, for whom, and what to do. No word of the machinery occurs
       in it (U5), and no command: what can be done is an offer.
Law 2  What went wrong is quoted, so that another's words are not taken for ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ERROR: Final = "[: {message}]"
_REPAIR: Final = (
    "[. Version {proposed} is proposed and not adopted: {unrepaired}"
    "|. It was not repaired: {unrepaired}]"
)
_FAILED: Final = f"The script failed{_ERROR}{_REPAIR}"
_CORRECT: Final = "Deploy a corrected version"
_OR_END: Final = "then retry or abandon"
_NO_HELP: Final = "nothing is needed from you"
_BACKUP: Final = "what was done since then is not known here"
_COMPARE: Final = "Compare what it is about to do with what is there already, then resume it."
# What follows when what it needs is there; in a paused workflow nothing does (F7).
_CONTINUES: Final = "[ and resume the workflow: {paused}|; it then continues where it stopped]"
_IDLE: Final = "Nothing to do right now"
_PAUSED: Final = "Paused by {paused_by}"
_LATER: Final = (
    "[; the next check comes {check_in}[, and a wake-up that the script asked for {wake_in}]"
    "|; a wake-up that the script asked for comes {wake_in}]"
)

UNCOMPARED: Final = "; all wait until it has compared what it was told before the server began"
DUE_WITHOUT_HOST: Final = "Something is due, and waits for a host"

SHORT: Final[Mapping[str, str]] = {
    "outcome_unknown": "Waiting for you to say whether {short} happened",
    "needs_approval": "Waiting for you to approve {short}",
    "needs_secret": "Waiting for the secret {secret} of {connection}",
    "needs_connection": "Waiting for you to reconnect [{needs}|a connection]",
    "daily_limit_reached": "The daily limit of {lacking} is used up",
    "grant_too_narrow": "Waiting for you to widen the grant of {lacking}",
    "denied_outside": "The service[ {service}] does not allow {lacking}",
    "needs_grant": "Waiting for you to allow {lacking}",
    "failed_after_change": _FAILED,
    "failed_after_rejection": _FAILED,
    "failed_after_skip": _FAILED,
    "record_lost": "No record of {there} says whether {short} was made before",
    "wrong_set_up": "The set-up of {there} needs its owner[: {message}]",
    "call_refused": f"The call {{short}} was refused{_ERROR}{_REPAIR}",
    "failed_choosing": _FAILED,
    "script_failed": _FAILED,
    "retries_exhausted": f"Every attempt failed{_ERROR}",
    "crashed_too_often": "Duly stopped[ {attempts} times in a row| again and again] during this",
    "escalated": "[{said}|It waits for you]",
    "log_lost": "The store has lost its log; what was done since {copied_at} is not known here",
    "writes_lost": (
        "The server lost changes that it had confirmed; what was done since {copied_at} is not "
        "known here"
    ),
    "standby_behind": (
        "A standby was promoted that lacks confirmed changes; what was done since {copied_at} is "
        "not known here"
    ),
    "standby_promoted": (
        "A standby was promoted; it may lack what was done since {copied_at}, and no host can tell"
    ),
    "imported": f"Imported from a file of {{copied_at}}; {_BACKUP}",
    "handed_over": (
        "Handed over to another store at {copied_at}; what that store does is not known here"
    ),
    "restored": f"Restored from a backup of {{copied_at}}; {_BACKUP}",
    "internal_fault": f"A fault of Duly or a connector{_ERROR}",
    "paused_unblocked": _PAUSED,
    "paused_unsent": _PAUSED,
    "paused_sending": f"{_PAUSED}; Duly still finishes {{short}}",
    "paused_resending": f"{_PAUSED}; Duly still finds out whether {{short}} happened",
    "paused_unaskable": f"{_PAUSED}; it is unknown whether {{short}} happened",
    "paused_asking": f"{_PAUSED}; Duly still finds out whether {{short}} happened",
    "paused": _PAUSED,
    "waits_for_machine": "Waiting for a host on the machine {machine}",
    "waits_for_tool": "Waiting for a host that has [{tools}[ and {more_tools} more]|all it needs]",
    "waits_for_host": (
        "Waiting for [host {host}|a host] to compare what it was told before the server started"
    ),
    "unblocked": "Continuing: [{needs}|what it waited for] is there",
    "unsent": "About to send {short}",
    "resending": "Finding out whether {short} happened",
    "sending": "Sending {short}",
    "unasked": "The outside cannot be asked yet whether {short} happened; Duly keeps asking",
    "asking": "Finding out whether {short} happened",
    "unreachable": "The outside cannot be reached since {unreachable_since}; retrying {retry_in}",
    "retrying": "Temporary error; retrying {retry_in}",
    "repairing": "The script is being repaired",
    "interrupted_again": "Interrupted again and again; retrying {retry_in}",
    "interrupted": "Continuing after an interruption",
    "at_work": "At work",
    "due": "Nothing under way yet; it begins in a moment",
    "held_back": _IDLE,
    "left_pending": _IDLE,
    "scheduled": _IDLE,
    "idle": _IDLE,
    "told": "{said}",
}

LONG: Final[Mapping[str, str]] = {
    "outcome_unknown": (
        f"It is not known whether {{change}} happened{_ERROR}. "
        "Look in {there}, then say whether it happened, or skip it."
    ),
    "needs_approval": (
        "[{tried_by} said yes before, and on {tried_at} it failed[: {tried_error}] and changed "
        "nothing; now |]{call} waits for your yes or no; "
        "[it was not sent since{?tried}|nothing was sent]. "
        "[{stopped}: resume it before you approve, or reject now"
        "|Approve it to send exactly this call once, or reject it to skip {subject}]."
    ),
    "needs_secret": (
        "The connection to {connection} has no secret {secret}; Duly was {doing}. "
        f"Set it{_CONTINUES}."
    ),
    "needs_connection": (
        "The connection to {lacking} needs you to sign in again; Duly was {doing}. "
        f"Sign in to {{lacking}}, then reconnect it here{_CONTINUES}."
    ),
    "daily_limit_reached": (
        f"The daily limit of {{lacking}} is used up{_ERROR}; Duly was {{doing}}. "
        f"Retry after midnight UTC, or grant a higher limit{_CONTINUES}."
    ),
    "grant_too_narrow": (
        f"The grant of {{lacking}} does not cover this call{_ERROR}; Duly was {{doing}}. "
        f"Abandon it, or widen the grant{_CONTINUES}."
    ),
    "denied_outside": (
        f"It is granted here, but {{there}} itself refused{_ERROR}; Duly was {{doing}}. "
        "Have it allowed there, then retry, or grant {lacking} here once more"
        f"{_CONTINUES}."
    ),
    "needs_grant": (
        "{whole} may not use {lacking} yet; Duly was {doing}. "
        f"Abandon it, or grant it{_CONTINUES}."
    ),
    "failed_after_change": (
        f"{{call}} is done, but the script failed afterwards{_ERROR}. "
        f"{_CORRECT}; it continues from there, and the change is not made again."
    ),
    "failed_after_rejection": (
        f"{{call}} was rejected, and the script failed afterwards{_ERROR}. {_CORRECT}, or abandon."
    ),
    "failed_after_skip": (
        f"{{call}} was skipped, and the script failed afterwards{_ERROR}. {_CORRECT}, or abandon."
    ),
    "record_lost": (
        "{call} was not sent again[: {whole_message}]. Look in {there} for its change: if it is "
        "there, skip {subject}; if it is not, retry."
    ),
    "wrong_set_up": (
        "The set-up of {there} is not right[: {whole_message}], so "
        "[{call} changed nothing{?tool}|Duly stopped while {doing}]. "
        "Correct it, then retry, or [skip {subject}{?tool}|abandon]."
    ),
    "call_refused": (
        f"{{call}} was refused{_ERROR}; nothing was changed. {_CORRECT}, or skip {{subject}}."
    ),
    "failed_choosing": (
        f"The script failed while {{doing}}{_ERROR}. {_CORRECT}, retry, or abandon"
        "[; if {suspect} is the cause, skip it]."
    ),
    "script_failed": (
        f"The script failed while {{doing}}{_ERROR}. {_CORRECT}, or skip {{subject}}."
    ),
    "retries_exhausted": (
        f"[{{attempts}} attempts|Every attempt] failed while {{doing}}{_ERROR}. "
        f"Wait until the cause is gone, {_OR_END}."
    ),
    "crashed_too_often": (
        "Duly stopped[ {attempts} times in a row| again and again] while {doing}. "
        f"Find out what stops it, {_OR_END}."
    ),
    "escalated": "[{said}|It waits for you; Duly was {doing}].",
    "log_lost": f"{{stopped}}[; back then Duly was {{doing}}]. {_COMPARE}",
    "writes_lost": f"{{stopped}}[; back then Duly was {{doing}}]. {_COMPARE}",
    "standby_behind": f"{{stopped}}[; back then Duly was {{doing}}]. {_COMPARE}",
    "standby_promoted": f"{{stopped}}[; back then Duly was {{doing}}]. {_COMPARE}",
    "imported": f"{{stopped}}. {_COMPARE}",
    "handed_over": (
        "{stopped}. Leave it paused, or remove it. Resume it only if no other store has it."
    ),
    "restored": f"{{stopped}}[; back then Duly was {{doing}}]. {_COMPARE}",
    "internal_fault": (
        f"A fault of Duly or a connector came up while {{doing}}{_ERROR}. Fix it, {_OR_END}."
    ),
    "paused_unblocked": "What it waited for, {lacking}, is there, but {paused}. Resume it.",
    "paused_unsent": "{call} is approved, but {paused}. Resume it to send the call.",
    "paused_sending": (
        "{stopped}; {change} had been sent before, and Duly still waits for its answer. "
        "Nothing new begins until you resume it."
    ),
    "paused_resending": (
        "{stopped}; {change} had been sent once more, in a way that cannot make it twice. "
        "Duly still waits for the answer; resume it for what follows."
    ),
    "paused_unaskable": (
        "It is not known yet whether {change} happened, and {paused}. "
        "Resume it, and Duly finds out by itself."
    ),
    "paused_asking": (
        "It is not known yet whether {change} happened, and {paused}. "
        "Duly still finds out by itself, {retry_in}; what follows waits until you resume it."
    ),
    "paused": (
        "{stopped}[ while Duly was {doing}. Resume it to continue"
        "|. Resume it to continue[; {pending} pending]]."
    ),
    "waits_for_machine": (
        "It uses files of the machine {machine}, and no host serves there. Start one there, or "
        "give this name (fleet.machine in the settings) to the machine where the files are now."
    ),
    "waits_for_tool": (
        "[It needs {tools}[ and {more_tools} more], and no|No] host has all it needs[. Looked at: "
        "{hosts}[ and {more_hosts} more]]. Start a host that has it, or give one of these the "
        "connector in its settings and start it again."
    ),
    "waits_for_host": (
        "The database server was started again. Before anything begins, each host compares what it "
        "was told before[, and host {host} has not done so yet]. This takes seconds[. If that host "
        "is gone, the others wait for it until {waits_until} at most|. Host {host} has already "
        "had ten minutes for it: stop that host]."
    ),
    "unblocked": (
        f"What it waited for, {{lacking}}, is there. Duly continues by itself; {_NO_HELP}."
    ),
    "unsent": "{call} is approved and is sent next. Duly does that by itself.",
    "resending": (
        "{call} is being sent once more, in a way that cannot make it twice. "
        f"Duly waits for the answer; {_NO_HELP}."
    ),
    "sending": f"{{call}} was sent. Duly waits for the answer; {_NO_HELP}.",
    "unasked": (
        "[Since {unreachable_since} the outside cannot be asked|The outside cannot be asked yet] "
        f"whether {{change}} happened{_ERROR}. Duly keeps asking by itself[, {{retry_in}}]; "
        "if you know it, say whether it happened, or skip it."
    ),
    "asking": (
        f"It is not known yet whether {{change}} happened{_ERROR}. "
        f"Duly finds out by itself, {{retry_in}}; {_NO_HELP}."
    ),
    "unreachable": (
        f"The outside cannot be reached since {{unreachable_since}}{_ERROR}. "
        f"Duly retries by itself, {{retry_in}}; {_NO_HELP}."
    ),
    "retrying": (
        f"Temporary error while {{doing}}{_ERROR}. "
        f"Duly retries by itself, {{retry_in}}; {_NO_HELP}."
    ),
    "repairing": (
        f"The script failed while {{doing}}{_ERROR}. "
        f"Duly has asked for a corrected version; {_NO_HELP} yet."
    ),
    "interrupted_again": (
        "Duly stopped[ {attempts} times in a row| again and again] while {doing}. "
        f"It retries by itself, {{retry_in}}; {_NO_HELP}."
    ),
    "interrupted": f"Duly stopped while {{doing}}. It continues by itself; {_NO_HELP}.",
    "at_work": f"Duly is {{doing}}; {_NO_HELP}.",
    "due": f"There is something to do; Duly begins as soon as it can, and {_NO_HELP}.",
    "held_back": (
        "It begins {held_in}: the last time, it only published something new "
        "and took nothing that was pending."
    ),
    "left_pending": (
        "The script looked at what is pending ({pending}) and took nothing. "
        f"It looks again when something new comes in{_LATER}; until then you can skip what is "
        "pending, or deploy a version that takes it."
    ),
    "scheduled": f"Nothing is pending{_LATER}.",
    "idle": (
        "Nothing is pending. It begins when something comes in"
        "[, or when you ask for a check{?can_be_run}]."
    ),
    "told": "{said}.",
}
