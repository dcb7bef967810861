"""What is wrong with a value that a caller gave: one pair of sentences for each code.

The first says what is wrong with what, the second what to do. In braces stands a fact of the error;
a part in square brackets is left out where one of its facts is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Pair = tuple[str, str]

VALUES: Final[Mapping[str, Pair]] = {
    "blank": ("{subject} is blank.", "Write a text."),
    "empty": ("{subject} is empty.", "Put at least one entry in it."),
    "missing": ("{subject} is missing[ for {of}].", "Add it."),
    "unreadable_text": ("The text of {subject} cannot be read: {cause:bare}.", "Correct it."),
    "no_operation": (
        "Scripts could do nothing with this service: no operation is described.",
        "Describe one, paste its OpenAPI text, or name hosts that may be read.",
    ),
    "by_is_known": (
        (
            "{subject} cannot be given: Duly knows who acts from the sign-in, or from the "
            "process that asks."
        ),
        "Leave it out.",
    ),
    "not_text": ("{subject} must be a string[, not {kind:kind}].", ""),
    "not_name": (
        "{subject} is not a name[: {given:shown}].",
        "Use 1 to {most} letters, digits, dots, underscores or hyphens.",
    ),
    "reserved_name": (
        "{subject} is {given:shown}, a name that belongs to Duly[ ({reserved:list})].",
        "Choose another name.",
    ),
    "wrong_name": (
        "{subject:quoted} cannot be the name of a {what}.",
        "Use {form:form}, and no word that Python or ctx already uses.",
    ),
    "wrong_value": (
        "{subject}[ is {given:shown}; it][ is {kind:kind}; it] must be {wanted:wanted}.",
        "",
    ),
    "wrong_type": ("{subject} is {given:or}.", "Give {wanted:or}."),
    "wrong_shape": ("{subject}: {cause:bare}.", "Correct it."),
    "url_form": (
        "{subject} is {given:shown}.",
        "Write http:// or https://, a host and a path, in ASCII and without spaces.",
    ),
    "url_userinfo": (
        "{subject} has a user name or a password before the host.",
        "Leave it out; store the password as a secret.",
    ),
    "url_query": ("{subject} is {given:shown}.", "Leave out the ? and what follows it."),
    "url_fragment": ("{subject} is {given:shown}.", "Leave out the # and what follows it."),
    "url_port": ("{subject} is {given:shown}.", "Write a port from 1 to 65535, or none."),
    "url_host": (
        "{subject} has the host {given:shown}.",
        (
            "Write a name in ASCII without a dot at its end, four decimal numbers, or an IPv6"
            " address in brackets."
        ),
    ),
    "url_path": (
        "{subject} is {given:shown}.",
        "Write a path without . and .. and with whole escapes.",
    ),
    "wrong_key": (
        (
            "{subject}[ (line {line}, column {column})] has a key that is not a text[ but "
            "{kind:kind}]."
        ),
        "Keys must be strings; put it in quotes.",
    ),
    "wrong_length": ("{subject} must be a text of {least} to {most} [{of} ]characters.", ""),
    "wrong_number": (
        (
            "{subject} is {given}; give a number that is[ {least} or more][ more than {above}], "
            "and finite."
        ),
        "",
    ),
    "wider_than_store": (
        "{subject} is {given}, and the store keeps at most {most}.",
        "Lower it to {most} or less.",
    ),
    "less_than": ("{subject} is {given}, less than {other} ({value}).", "Raise it."),
    "not_positive": ("{subject} is {given}.", "Give a positive number."),
    "not_finite": ("{subject} is {given}, which JSON does not have.", "Send null or a string."),
    "not_one_of": ("{subject} is {given:shown}.", "Use one of {known:list}."),
    "out_of_range": (
        (
            "{subject}[ is {given}; it] must be [more than {more_than} and at most {most}]"
            "[a whole number from {least} to {most}]."
        ),
        "",
    ),
    "too_large_number": ("{subject} is an integer beyond ±(2^53 - 1).", "Send it as a string."),
    "too_long": ("{subject} is longer than {limit} {unit}.", "Shorten it."),
    "short_secret": (
        'The secret "{name}" must be a text of at least {limit} {unit}.',
        "Choose a longer one.",
    ),
    "too_many": (
        "{subject}: at most {limit} {unit} are allowed.",
        "Use fewer at a time.",
    ),
    "no_blob": (
        "{subject} names no blob of this workflow.",
        "Use a handle that a tool gave to this workflow; an unused one is removed after a time.",
    ),
    "blobs_full": (
        "The blobs of this workflow would take more than {limit} bytes.",
        "Get fewer or smaller files; blobs that nothing open uses are removed after some days.",
    ),
    "too_deep": ("{subject} is nested deeper than {limit}.", "Make it flatter."),
    "answer_too_long": (
        "{subject}: the result has {given} bytes, and one call returns at most {limit}.",
        "Ask for fewer at a time.",
    ),
    "contains_itself": ("{subject} contains itself.", "Remove the cycle."),
    "control_character": (
        "{subject} has a control character.",
        "Keep it on one plain line.",
    ),
    "half_character": (
        "{subject} has a NUL or half a character.",
        "Send whole characters, in UTF-8.",
    ),
    "lookalike": (
        "{subject}: {given:shown} has characters that only look like others.",
        "Type it again.",
    ),
    "unprintable": (
        "{subject}: {given:shown} has characters that cannot be printed.",
        "Use plain ones.",
    ),
    "query_of_act": (
        "The arguments of a POST are in its body; Duly would not read its query.",
        "Put all of them into the body.",
    ),
    "given_twice": ("{subject}[ (line {line}, column {column})] is given twice.", "Give it once."),
    "unknown_field": ("{subject} is not known.", "{nearest}"),
    "unknown_setting": ("{subject} is not a setting.", "The nearest one is {near}."),
    "unknown_argument": ("{subject}: no such argument[ of {of}].", "{nearest}"),
    "not_json": ("{subject} is not JSON: {cause}.", "Send valid JSON text."),
    "not_toml": ("this is not TOML: {cause}.", "Correct it."),
    "not_utf8": ("{subject} is not UTF-8 at byte {byte}.", "Write it in UTF-8."),
    "not_yaml": ("{subject} is not YAML: {cause:bare}.", "Correct it."),
    "wrong_number_in_yaml": (
        (
            "{subject} is not YAML: an escaped character or the version in it has a number that "
            "does not exist."
        ),
        "Correct it.",
    ),
    "not_quoted": (
        (
            "{subject}[ (line {line}, column {column})][ is {kind:kind}][ is no {claimed}]"
            "[ is {read} to YAML]."
        ),
        'Put it in quotes[: {key}: "{given}"].',
    ),
    "yaml_alias": (
        "{subject}[ (line {line}, column {column})] is an alias of another place.",
        "Write it out.",
    ),
    "misfit": (
        (
            "{subject}: {given:shown} does not match this call. A glob is compared with texts "
            "and lists of texts."
        ),
        'Write a glob that matches it; "*" covers every value.',
    ),
    "limits_nothing": (
        "{capability} only reads, so {subject} would limit nothing.",
        "Leave it out.",
    ),
    "no_result": (
        'A result belongs only to a change that happened, not to "{answer}".',
        "Leave {subject} out.",
    ),
    "really_read": (
        "{subject}: {tool} only reads, so the trial calls it for real and takes no result for it.",
        "Leave it out.",
    ),
    "changes_nothing": (
        "{subject} changes nothing.",
        "Give another value, or approve the call as it is.",
    ),
    "not_editable": (
        "{subject}: a person cannot change this argument of {tool}.",
        "[Editable: {known:list}.]",
    ),
    "several_workflows": (
        "Several workflows have this message id: {workflows:list}.",
        "Name one in {subject}.",
    ),
    "several_topics": (
        "Several topics have this message id: {topics:list}.",
        "Name one in {subject}.",
    ),
    "several_tools": (
        "These calls use several tools: {tools:list}.",
        "Approve the calls of one tool at a time.",
    ),
}

SCHEDULES: Final[Mapping[str, Pair]] = {
    "interval_timezone": (
        "{subject}: an interval has no timezone; only a cron pattern has one.",
        "Leave it out.",
    ),
    "wrong_cron": (
        "{subject}: the cron pattern {given:shown} is wrong: {cause:bare}.",
        "Correct it.",
    ),
    "cron_never": ("{subject}: the cron pattern {given:shown} never happens.", "Correct it."),
}

SCRIPTS: Final[Mapping[str, Pair]] = {
    "source_problems": (
        "The workflow has {count:problem}, so nothing was stored.",
        "{problems:each}",
    ),
    "source_refused": ("{subject} was refused, so nothing was stored.", "{problems:each}"),
    "no_sources": (
        "The folder {subject} has no file that ends in {known:or}.",
        "Name a file, or another folder.",
    ),
    "not_workflow_name": (
        "{subject} is not a workflow name.",
        "Use 1 to {most} printable characters, without a slash, and not dots alone.",
    ),
    "no_handlers": ("{subject} has no handler.", "Declare a producer or a consumer."),
    "consumed_twice": (
        '{subject} names "{topic}", which {consumer} already consumes.',
        "Let one consumer do both, or publish to a second topic.",
    ),
    "not_loaded": ("[{subject}: ]{said:bare}.", "Correct it and deploy again."),
    "not_one_exported": (
        "The source declares {count:exported}.",
        "Write `export default Keep.workflow({{...}})` once.",
    ),
    "not_one_workflow": ("{subject} declares {count} workflows.", "Declare exactly one."),
    "no_language": (
        "{file}: the end of the name does not say in which language the file is.",
        "Name the file {known:or}.",
    ),
    "another_workflow": (
        (
            'The source declares "{declared}", not "{subject}", so it cannot be compared with '
            'the past runs of "{subject}".'
        ),
        "",
    ),
    "loader_died": (
        (
            "{subject}: the process that loads the source died; the source is not the cause. "
            "Nothing was stored."
        ),
        "Deploy it again.",
    ),
    "not_in_step": (
        "{subject}: the step {step} may not {operation:operation}.",
        "Do it in {steps:or}.",
    ),
    "not_subscribed": (
        '{subject}: this consumer does not subscribe to "{topic}".',
        "{nearest}",
    ),
    "undeclared_topic": ('{subject}: the topic "{topic}" is not declared.', "{nearest}"),
    "not_in_publishes": (
        '{subject}: the list "publishes" of this handler does not name "{topic}".',
        "Add it there, or publish elsewhere.",
    ),
    "no_ingress": (
        'The topic "{subject}" takes nothing from outside.',
        "Declare it with ingress: true, then deploy.",
    ),
    "not_listening": (
        'The topic "{subject}" does not listen to "{bus_topic}" on the bus.',
        'Declare it with ingress: {{bus: "{bus_topic}"}}, then deploy.',
    ),
    "not_reservable": (
        "{subject}: event {event} of topic {topic} cannot be reserved[: it is {status}].",
        "Reserve only events that peek returned.",
    ),
}

WORKERS: Final[Mapping[str, Pair]] = {
    "script_stalled": (
        "The script waits for something that never happens.",
        "Wait only for the calls of ctx.",
    ),
    "too_many_calls": ("The step made more than {limit} {unit}.", "Make fewer in one step."),
    "step_left": ("The host stopped this step; it does not continue.", ""),
    "worker_lost": (
        "The process that ran this script died; the script can run again[ ({cause:bare})].",
        "",
    ),
    "no_worker": (
        "A worker for scripts could not be started: {cause:bare}.",
        "Check that the machine has memory and processes left, then try again.",
    ),
    "reader_died": (
        "The process that read the source died; the source is not the cause.",
        "Try again.",
    ),
    "half_read": ("The source was not read to its end.", "Load it again."),
    "not_python": ("This is not Python: {cause}.", ""),
    "not_locked": (
        (
            "This machine cannot lock the processes that {task:task}; missing: {missing:list}"
            "[ ({cause})]."
        ),
        ('Use Linux with Landlock and seccomp, or accept the risk: sandbox.unlocked = "i-accept".'),
    ),
    "not_for_scripts": (
        "{subject} is not for scripts.",
        "Call the tools of ctx[, and import only {known:list}].",
    ),
    "called_while_loading": ("{subject} is called while the module loads.", "Call it in a step."),
    "arguments_too_large": (
        "The arguments of the calls in this step take more memory than a step may use.",
        "Do less in one step.",
    ),
    "not_json_text": ("{subject} is not JSON text, or is nested too deeply.", "Return plain JSON."),
    "too_many_values": (
        "A step sends and receives at most {limit} values in all[; {subject} is one too many].",
        "Use fewer values in one step.",
    ),
    "slept_too_long": (
        "The script slept longer than the {seconds} s of wall time it may take.",
        "Return wake_at instead.",
    ),
    "sandbox_closed": ("The sandbox is closed; scripts no longer run.", "Open the host again."),
    "module_not_installed": (
        "The module {subject} is not installed.",
        "Install Duly again, with its dependencies.",
    ),
}

AUTHORS: Final[Mapping[str, Pair]] = {
    "half_idempotent": (
        "{subject}: idempotent and key_lifetime_s go together.",
        (
            "Say how long the outside remembers a key (math.inf for a unique column), or leave "
            "both out."
        ),
    ),
    "settles_read": (
        "{subject} only reads, so there is nothing to settle.",
        "Make it a mutation, or leave idempotent and reconciles out.",
    ),
    "key_contradiction": (
        "{subject} declares two things that contradict each other: {clash:clash}.",
        "Declare only what the tool really has.",
    ),
    "same_spelling": (
        '{where}: "{subject}" and another name are both "{spelling}" in a script.',
        "Rename one of them.",
    ),
    "not_repairer": (
        "repairer: {subject} cannot be asked for a repair.",
        "Give an object that has `async def repair(self, case)`.",
    ),
    "not_connector": (
        "{subject} is not a duly.Connector.",
        "Name a class that is derived from it.",
    ),
    "not_channel": ("{subject} is not a channel.", "Give it an `async def send`."),
    "not_async": ("{subject} is not async.", "Write it as `async def`."),
    "takes_no_event": (
        "{subject} must take one argument, the event.",
        "Write `async def handler(event)`.",
    ),
    "wrong_handle": (
        "{subject}: this handle contains a secret; a handle is an id alone.",
        "Keep only the id.",
    ),
    "name_twice": ('{subject}: two of them are called "{name}".', "Rename one."),
    "no_channels": ("This host has no channel that reaches a person.", "Give the host a channel."),
    "no_channel": ('There is no channel "{subject}".', "{nearest}"),
    "no_text": ("Event {event} ({topic}) has no text to send.", 'Put the text under "text".'),
}

EXTENSIONS: Final[Mapping[str, Pair]] = {
    "no_file": ("There is no file {subject}.", "Write one, or move the folder elsewhere."),
    "no_module": ("There is no module {subject} in {folder}.", "Correct its entrypoint."),
    "module_outside": (
        "The module {subject} is outside of {folder}; it was not run.",
        "Move it there.",
    ),
    "no_class": ("The module {module} has no class {subject}.", "Correct the name. {nearest}"),
    "not_extension": (
        "{subject} is not an extension.",
        "Give its class an `async def initialize(self, context)`.",
    ),
    "other_arguments": (
        "{subject} takes other arguments than it is given.",
        "Let it take {wanted:list}.",
    ),
    "no_dependency": ('It depends on "{subject}", which is not there.', "{nearest}"),
    "depends_on_itself": ("{subject} names the extension itself.", "Remove it."),
    "circle": ("It depends on itself: {circle:arrows}.", "Remove one of these from {subject}."),
    "dependency_not_loaded": (
        'It needs "{subject}", which is not loaded.',
        "Correct that one first.",
    ),
    "agent_missing": (
        "{subject} is invoke_agent, but the extension has no agent.",
        "Add `agent:` with its instructions.",
    ),
    "several_agents": (
        "It uses invoke_agent, and depends on several agents: {agents:list}.",
        "Leave one in {subject}.",
    ),
    "no_model": (
        "It is an agent without code, so a model has to answer for it, and no model is configured.",
        "Add a table [models.default], or name in depends_on an extension that answers.",
    ),
    "no_agent": (
        (
            "It uses invoke_agent, and there is no agent: neither it nor what it depends on has an "
            "`async def answer(self, event, instructions, model)`."
        ),
        "Add one to {subject}.",
    ),
}
