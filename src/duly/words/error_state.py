"""What does not exist, cannot be done now, or failed below: one pair of sentences for each code.

The first says what happened to what, the second what to do. In braces stands a fact of the error; a
part in square brackets is left out where one of its facts is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Pair = tuple[str, str]

UNKNOWN_NAMES: Final[Mapping[str, Pair]] = {
    "no_workflow": ('There is no workflow "{subject}".', "{nearest}"),
    "no_version": ('There is no version "{subject}"[ of "{workflow}"].', "{nearest}"),
    "no_active_version": ('"{subject}" has no active version.', "Name the version that you mean."),
    "no_topic": ('"{workflow}" has no topic "{subject}".', "{nearest}"),
    "no_handler": ('There is no handler "{subject}".', "{nearest}"),
    "no_producer": ('"{workflow}" has no producer "{subject}".', "{nearest}"),
    "no_run": ("There is no run {subject}.", ""),
    "no_mutation": ("There is no mutation {subject}.", ""),
    "no_event": ("Topic {topic} has no event {subject}.", ""),
    "no_input": ('"{workflow}" has no event "{subject}".', ""),
    "no_input_anywhere": (
        'No workflow has an event "{subject}".',
        "Check the message id; an old event may have been removed.",
    ),
    "no_allowance": (
        "There is no allowance {subject}.",
        "List the allowances to see those that exist.",
    ),
    "no_grant": ('"{workflow}" has no grant for "{subject}".', "{nearest}"),
    "no_capability": ('No tool here needs "{subject}".', "{nearest}"),
    "no_tool": ("There is no tool {subject}.", "{nearest}"),
    "no_example": ('There is no example "{subject}".', "{nearest}"),
    "no_verb": ('There is no verb "{subject}".', "{nearest}"),
    "no_connector": ('There is no connector "{subject}".', "{nearest}"),
    "no_secret": ('There is no secret "{subject}".', "{nearest}"),
    "ambiguous_id": (
        "Several ids begin with {subject}: {candidates:list}[, {more}].",
        "Type more of the one you mean.",
    ),
    "none_waits": ("Nothing waits for {subject}.", "Name what you mean by its id."),
    "several_wait": (
        "Several things wait for {subject}: {candidates:list}.",
        "Name the one you mean.",
    ),
    "short_id": (
        "{subject} is too short for an id.",
        "Type at least {least} characters of it, without its kind.",
    ),
    "no_bus_event": (
        "There is no event {subject} on the bus.",
        "Check the number; an old event may have been removed.",
    ),
    "no_delivery": (
        "There is no delivery of event {event} to {subject}.",
        "Check the event and the subscriber.",
    ),
    "no_deferred": ("There is no deferred event {subject}, and there never was.", ""),
    "no_subscriber": ("There is no subscriber {subject}.", ""),
}

REQUESTS: Final[Mapping[str, Pair]] = {
    "run_over": (
        "Cannot {act}: the run is already {status}.",
        "A run that is over does not change any more.",
    ),
    "outcome_unknown": (
        "Cannot {act}: whether the outside change happened is not known yet ({row}).",
        "Settle it first.",
    ),
    "still_asking": (
        "Cannot {act}: its mutation is {row}, and Duly is still asking the service what happened.",
        (
            "Wait. You can answer when Duly stops asking, or when the service could not be asked "
            "for an hour."
        ),
    ),
    "not_possible_now": (
        "Cannot {act}: the run is {status}[, its mutation {row}].",
        "Look at the run to see what can be done now.",
    ),
    "waits_for_other": (
        "Cannot {act}: this run waits for a {waits}.",
        "Look at what it waits for, and do that first.",
    ),
    "paused": ("Cannot {act} while the workflow is paused.", "Resume it first."),
    "workflow_paused": ("The workflow[ {subject}] is paused.", "Resume it first."),
    "busy": ('"{subject}" still works on earlier input.', "Wait for it, or settle it first."),
    "has_open_run": ('"{subject}" has an open run.', "Finish or abandon it first."),
    "active_already": (
        'Version {subject} of "{workflow}" is active already.',
        "Choose another one.",
    ),
    "no_proposal": (
        'Version {subject} of "{workflow}" was in use, so it is no longer a proposal.',
        "Only a version that was proposed can be declined.",
    ),
    "proof_under_way": (
        "{subject} is being tried already.",
        "Wait until that trial has ended, then look at it.",
    ),
    "trial_over": (
        "There is a newer trial of {subject} than this one.",
        "Look at the newest trial.",
    ),
    "needs_no_proof": (
        "{subject} needs no trial.",
        "Its connection shows already what the service can say about a call.",
    ),
    "cannot_be_asked": (
        "{subject} was not tried: the service could not be asked about a call.",
        "Nothing was sent. Check that the service can be reached, then try again.",
    ),
    "chosen_meanwhile": (
        (
            'The choice of when you are asked before changes of "{subject}" in "{workflow}" was '
            "changed since it was shown; nothing was changed now."
        ),
        "Look at the choice that holds now, and choose again.",
    ),
    "right_changed": (
        (
            'What "{workflow}" may do by "{subject}" was changed since it was shown: it was given, '
            "limited or taken back. It is left as it is now."
        ),
        "Look at what stands now, and decide again.",
    ),
    "deployed_meanwhile": (
        'Another caller deployed "{subject}" at the same moment; nothing was stored here.',
        "Look at the version that is active now, then deploy again.",
    ),
    "proposal_gone": (
        (
            'There is no proposal "{subject}": it was adopted or declined, or another version is '
            "active by now."
        ),
        "List those there are.",
    ),
    "own_proposal": (
        "{by} proposed {subject} and cannot adopt it.",
        "Let a person adopt it, on the page or on the command line.",
    ),
    "for_a_person": (
        "{subject} is decided by a person.",
        "Show the person the page or the command; it cannot be done here.",
    ),
    "not_written": (
        "The model wrote no source that may be proposed, in {rounds} drafts[: {problems}].",
        "Say what you want in other words or in smaller steps, or write it yourself.",
    ),
    "no_simulator": (
        "This host cannot simulate.",
        "Serve the project on the command line; that host can.",
    ),
    "simulation_late": (
        "The simulation was not over after {seconds} s and was ended.",
        "Try fewer crashes, or run it on the command line.",
    ),
    "simulation_failed": (
        "The simulation ended without a report[: {cause}].",
        "Run it on the command line to see all that it says.",
    ),
    "no_repair_wanted": ('"{subject}" no longer waits for a repair; nothing was changed.', ""),
    "nothing_to_settle": ("Mutation {subject} is {status}: there is nothing to settle.", ""),
    "not_proposed": ("Mutation {subject} is {status}; it does not wait for approval.", ""),
    "not_as_shown": ("Mutation {subject} is not what was shown.", "Look at it again."),
    "sent_since": ("Mutation {subject} was sent again since it was shown.", "Look at it again."),
    "never_sent": (
        "Mutation {subject} is never sent: {flaw:flaw}.",
        "Reject it, or retry run {run}, which makes the call again.",
    ),
    "connector_gone": (
        "{subject} cannot be sent: this host does not have its connector.",
        "Start the host with this connector, or reject the call.",
    ),
    "not_asked_before": (
        (
            "{subject}: the past run that is repeated did not make this read, so its result is "
            "not known."
        ),
        "",
    ),
    "key_forgotten": (
        (
            "It was not sent again: the service may have forgotten its key by now, and could "
            "make the change twice."
        ),
        "",
    ),
    "too_risky": (
        (
            "{subject} has {risk} risk, and the policy permits an allowance only up to {most} "
            "(allowance_risk_max)."
        ),
        "Approve this call alone.",
    ),
    "still_out": (
        (
            "The call {subject} itself has not returned, so it may still be made. You can say now "
            "that it happened, or skip it."
        ),
        (
            "To say that it did not happen, stop the host, which ends the call. Start it again, "
            "wait until the lag is over, and say it then."
        ),
    ),
    "too_early": (
        "The request may still arrive, so it is too early to say that it did not happen.",
        "Say so from {from} on.",
    ),
    "cannot_ask_or_resend": (
        (
            "{subject} cannot be asked what happened to this call, and the call cannot be sent "
            "again safely."
        ),
        "Say whether it happened, or skip it.",
    ),
    "revoked_already": ("Allowance {subject} was revoked already.", ""),
    "no_vault": ("This host keeps no secrets.", "Give them to the connector itself."),
    "keeps_everything": (
        "This host keeps all its history, so there is nothing to remove.",
        "Set retention_days in its policy to remove history.",
    ),
    "not_sqlite": (
        "Only a SQLite store can do this.",
        "Use the database's own tools: docs/postgresql.md names them.",
    ),
    "file_exists": ("{subject} exists already; nothing was written.", "Name another place."),
    "no_folder": (
        "{subject}: there is no folder {folder}[ ({cause})].",
        "Make it, or name another one.",
    ),
}

GRANTS: Final[Mapping[str, Pair]] = {
    "not_granted": ("{tool} needs {subject}, which is not granted.", "Grant it to continue."),
    "beyond_grant": (
        "{tool} goes beyond the grant of {subject} ({limits:list}).",
        "Widen the grant to continue.",
    ),
    "used_up": (
        (
            "{subject} was used {count:times} since midnight UTC, which is all its grant allows in "
            "a day."
        ),
        "Grant it with a higher limit, or try it again after midnight UTC.",
    ),
}

BUS: Final[Mapping[str, Pair]] = {
    "name_taken": ("The name {subject} is taken on the bus.", "Choose another."),
    "own_topic": (
        "Only the host itself emits on {subject}, where it announces what happened.",
        "Choose a topic of your own.",
    ),
    "not_your_source": (
        "Only {subject} itself can emit as {subject}.",
        "Give a source of your own.",
    ),
    "not_your_subscriber": ("The subscriber {subject} belongs to {owner}.", "Choose another name."),
    "not_your_deferred": (
        "Deferred event {subject} was not scheduled by {source}.",
        "Cancel it as its own source.",
    ),
    "listens_elsewhere": (
        "Subscriber {subject} listens to {known}.",
        "Unsubscribe it before it subscribes to {topic}.",
    ),
    "connected_already": (
        "Subscriber {subject} is connected already.",
        "Give this one another subscriber_id.",
    ),
    "too_many_subscribers": (
        "{limit} subscribers are connected, which is the limit.",
        "Unsubscribe one before {subject}.",
    ),
    "too_many_deferred": (
        "{subject} has {limit} events scheduled, which is the limit (bus.deferred_max).",
        "Cancel some, or wait until they have fired.",
    ),
    "subscriber_of_workflow": (
        (
            "The subscriber {subject} belongs to a workflow, whose topic {topic} listens to "
            "{bus_topic}."
        ),
        "Deploy the workflow without this topic, or remove the workflow.",
    ),
    "subscription_gone": (
        "No handler subscribes to {topic} as {subject} any more.",
        "Discard this delivery.",
    ),
    "not_dead": ("{subject} is {status}; only a dead delivery can {move}.", ""),
}

HOSTS: Final[Mapping[str, Pair]] = {
    "opened_before": (
        "This host was opened before; a host can be opened once.",
        "Make another one.",
    ),
    "not_open": ("The host is not open.", "Use it inside `async with`."),
    "closed": ("The host is closed.", "Open another one on the same store."),
    "another_loop": (
        "The host and its bus belong to the event loop that opened them.",
        "Use them there; from a thread, use asyncio.run_coroutine_threadsafe.",
    ),
    "works_already": ("This host is being drained or served already.", "Do one at a time."),
    "still_sending": (
        "{tools:list}: still being sent, so the host keeps its store and the lock on it.",
        "Close the host again when that is over, or end the process.",
    ),
    "host_forked": (
        ("{subject}: this host belongs to the parent of this process, which continues with it."),
        "Open a host on another store here, or start a process instead of forking one.",
    ),
    "no_mcp": (
        "MCP needs the package mcp, which is not installed.",
        "Install it: pip install 'duly[mcp]'.",
    ),
    "no_psycopg": (
        "A store on PostgreSQL needs the package psycopg, which is not installed.",
        "Install Duly with its extra `postgres`: docs/postgresql.md says how.",
    ),
    "lapsed_sending": (
        (
            "{subject}: this host lost its lease while {tools:list} was still being sent; another "
            "host asks what became of it."
        ),
        "End this process and start another.",
    ),
    "bug": (
        "Duly asked itself for a change that its rules do not allow ({all}).",
        "Report it: this is a bug in Duly.",
    ),
}

SECRETS: Final[Mapping[str, Pair]] = {
    "secret_key_gone": (
        (
            'The secret "{subject}" of {connector} is sealed, and its key is gone: '
            "neither {variable} nor {file} is there."
        ),
        "Bring the key back and start again, or set the secret again.",
    ),
    "secret_key_other": (
        (
            'The secret "{subject}" of {connector} was sealed with another key than the one in '
            "{where}."
        ),
        "Bring that key back and start again, or set the secret again.",
    ),
    "secret_damaged": (
        'The secret "{subject}" of {connector} is damaged, though its key is right.',
        "Set it again.",
    ),
    "key_needed": (
        "A store on PostgreSQL needs its key in {subject}, the same one on every machine.",
        "Make one with `openssl rand -base64 32`, and keep it safe: secrets are sealed with it.",
    ),
    "key_other": (
        "The other hosts of this store seal with another key than the one in {subject}.",
        "Use theirs; to change it, stop all of them and give the old one in {old} as well.",
    ),
    "key_unfinished": (
        "Not everything in this store is sealed with the key in {subject} yet.",
        (
            "Start a host that also has the other key, in {old}, and let it finish. If that key is "
            "lost, give the same key in both places: what the lost one sealed stays unreadable."
        ),
    ),
    "no_key": (
        "{subject} is not a key. A key is {bytes} bytes written in base64.",
        "If the key is lost, remove this one and set the secrets again.",
    ),
    "key_of_another": (
        "{subject} belongs to another user, who knows this key.",
        "Remove it and set the secrets again.",
    ),
    "key_open_to_others": ("{subject} can be read by others.", "Make it yours alone: chmod 600."),
}
