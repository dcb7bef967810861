"""What only the command line knows of its commands; all else stands at the verb's method (U6).

Law 1  A verb without a row has a command of its name all the same, with its docstring as help.
Law 2  Every verb has exactly one command. `Row.verb` says whose it is where the names differ.
Law 3  Nothing is imported for this table, so that `duly --help` is shown at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

HERE: Final = "duly.faces.cli"
BEGIN, RUN, LOOK, DECIDE, WRITE, KEEP = SECTIONS = (
    "Begin",
    "Run",
    "Look",
    "Decide",
    "Write",
    "Keep",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One command: where it is listed, and what is peculiar to it.

    `short` stands in lists, where the docstring of the verb is too long. `place` is where a command
    is that is more than its verb. `left_out` names the arguments that it finds out by itself.
    `meanwhile` is said while it works. `is_moving` says that a host goes on after it; without one
    that is told. `is_explained` asks besides why it stands so.
    """

    section: str
    short: str = ""
    place: str = ""
    verb: str = ""
    example: str = ""
    left_out: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    meanwhile: str = ""
    is_moving: bool = False
    is_explained: bool = False
    is_failed: Callable[[Any], bool] | None = None


SEEN: Final = frozenset({"seen"})
CLI: Final = MappingProxyType({"source": "cli"})

ROWS: Final[Mapping[str, Row]] = {
    "init": Row(BEGIN, "Make a small project that works.", f"{HERE}.init:init"),
    "demo": Row(BEGIN, "See Duly survive a crash, here.", "duly.faces.demo.command:demo"),
    "example": Row(BEGIN, "Run an example workflow, here.", f"{HERE}.example:example"),
    "guide": Row(BEGIN, "Read how to write a workflow; also for a model.", f"{HERE}.guide:guide"),
    "connect": Row(
        BEGIN, "Connect a service, and prove that it can be asked.", f"{HERE}.connect:connect"
    ),
    "doctor": Row(BEGIN, "Check this machine and this project.", f"{HERE}.doctor:doctor"),
    "trust": Row(
        BEGIN, "Use a project that another user could have written.", f"{HERE}.trust:trust"
    ),
    "completion": Row(BEGIN, "Print completion for your shell.", f"{HERE}.completion:completion"),
    "help": Row(BEGIN, "List every command: `duly help all`.", f"{HERE}.help:help_"),
    "serve": Row(RUN, "Run the host until it is stopped.", f"{HERE}.serve:serve"),
    "dev": Row(RUN, "Run the host and deploy each file when it is saved.", f"{HERE}.dev:dev"),
    "mcp": Row(RUN, "Serve this project to an agent by MCP.", f"{HERE}.mcp:mcp"),
    "restart": Row(
        RUN, "Start the running host again.", meanwhile="Trying the settings in another process …"
    ),
    "drain": Row(
        RUN, "Do the work that is due now, and end.", f"{HERE}.deploy:drain", example="duly drain"
    ),
    "status": Row(
        LOOK,
        "See the state of everything, on one screen.",
        f"{HERE}.look:status",
        example="duly status",
    ),
    "attention": Row(
        LOOK,
        "List what waits for you.",
        f"{HERE}.attention:attention",
        example="duly attention invoices --follow",
    ),
    "why": Row(
        LOOK,
        "Explain the state of something.",
        f"{HERE}.look:why",
        example="duly why invoices",
    ),
    "inputs": Row(LOOK, "List what came in, and what came of it."),
    "outputs": Row(LOOK, "List what was changed, and because of what."),
    "workflows": Row(LOOK, "List the workflows."),
    "workflow": Row(LOOK, "Show one workflow."),
    "events": Row(LOOK, "List the events of a workflow."),
    "runs": Row(LOOK, "List runs, newest first."),
    "run": Row(LOOK, "Show one run."),
    "logs": Row(LOOK, "Show what the script of a run logged."),
    "mutations": Row(LOOK, "List the ledger, newest first."),
    "mutation": Row(LOOK, "Show one row of the ledger.", is_explained=True),
    "find": Row(LOOK, "Find events by their message id, title or day."),
    "ids": Row(LOOK, "List ids by their beginning, newest first."),
    "short-ids": Row(LOOK, "Shorten ids so that each is still unique."),
    "sql": Row(LOOK, "Read the documented views, also while a host runs."),
    "certificate": Row(
        LOOK,
        "Show everything that is known about a change.",
        is_failed=lambda answer: not all(each["seal"]["is_whole"] for each in answer["changes"]),
    ),
    "approvals": Row(LOOK, "List the calls that wait for a yes or no."),
    "models": Row(LOOK, "List what was asked of models, and what it cost."),
    "questions": Row(LOOK, "List the newest questions to models."),
    "allowances": Row(LOOK, "List the calls that are allowed in advance."),
    "actions": Row(LOOK, "List what people and agents did."),
    "extensions": Row(LOOK, "List the extensions of the project."),
    "attention-count": Row(LOOK, "Count what waits for you."),
    "grants": Row(LOOK, "List what a workflow may do."),
    "right": Row(LOOK, "Say what stands of one capability."),
    "uses": Row(LOOK, "List what a version of a workflow uses."),
    "upcoming": Row(LOOK, "List when the producers of a workflow run next."),
    "history": Row(LOOK, "List what happened to a run or a change."),
    "connection": Row(LOOK, "Show what a connection needs, and what is proven."),
    "offered": Row(
        LOOK,
        "Show the tools of an MCP server, and those agreed to.",
        meanwhile="Asking the server …",
    ),
    "check-connection": Row(
        LOOK,
        "Try whether the set-up of a connection works.",
        is_failed=lambda answer: bool(answer["faults"]),
        meanwhile="Trying it …",
    ),
    "connections": Row(LOOK, "List the connections to outside services."),
    "kinds": Row(LOOK, "List the kinds of connections that a page can add."),
    "settings": Row(LOOK, "Say whether the settings have changed since the host started."),
    "wait": Row(LOOK, "Wait until the state of something changes."),
    "writes": Row(LOOK, "Count the writes of the host that runs."),
    "figures": Row(LOOK, "List the figures of the host, for a monitor."),
    "next-due": Row(LOOK, "Say when the host has something to do next."),
    "approve": Row(
        DECIDE,
        "Let a proposed call be sent, once.",
        f"{HERE}.decide:approve",
        left_out=SEEN,
        is_moving=True,
    ),
    "approve-all": Row(
        DECIDE,
        "Approve several calls of one tool.",
        f"{HERE}.decide:approve_all",
        example="duly approve-all mutation_019a8b7c0d1e2f30 mutation_019a8b7c0d1e2f31",
        is_moving=True,
    ),
    "allow": Row(
        DECIDE,
        "Approve a call and the next ones like it.",
        f"{HERE}.decide:allow",
        left_out=SEEN,
        is_moving=True,
    ),
    "amend": Row(DECIDE, "Change a proposed call before you approve it."),
    "reject": Row(
        DECIDE,
        "Decline a proposed call.",
        f"{HERE}.decide:reject",
        left_out=SEEN,
        is_moving=True,
    ),
    "revoke-allowance": Row(DECIDE, "Ask again before calls that were allowed."),
    "settle": Row(
        DECIDE,
        "Say what became of an unknown change.",
        f"{HERE}.decide:settle",
        left_out=SEEN,
        is_moving=True,
    ),
    "skip": Row(DECIDE, "Skip an event for good.", is_moving=True),
    "retry": Row(DECIDE, "Retry a stopped run.", is_moving=True),
    "abandon": Row(DECIDE, "Give up a run.", is_moving=True),
    "pause": Row(DECIDE, "Let no run of a workflow start."),
    "resume": Row(DECIDE, "Let runs start again.", f"{HERE}.decide:resume", is_moving=True),
    "run-now": Row(DECIDE, "Run the producers of a workflow, or one, now.", is_moving=True),
    "publish": Row(DECIDE, "Publish an event into a workflow.", is_moving=True),
    "grant": Row(DECIDE, "Allow a workflow a capability.", left_out=SEEN, is_moving=True),
    "choose-asks": Row(DECIDE, "Choose when a grant asks you first."),
    "revoke": Row(DECIDE, "Take a capability back."),
    "reconnect": Row(DECIDE, "Say that a connection works again.", is_moving=True),
    "begin-oauth": Row(DECIDE, "Begin a sign-in at the provider of a service."),
    "finish-oauth": Row(DECIDE, "End a sign-in with what came back.", is_moving=True),
    "prove": Row(
        DECIDE,
        "Try once whether a service can be asked about a change.",
        meanwhile="Making one real call, and looking for it …",
    ),
    "add-connection": Row(
        DECIDE,
        "Write a new connection into the settings, as a page does.",
        left_out=frozenset({"secrets", "once"}),
    ),
    "pin": Row(
        DECIDE,
        "Agree to the tools of an MCP server as shown.",
        meanwhile="Asking the server …",
    ),
    "check": Row(WRITE, "List everything that is wrong with a source.", f"{HERE}.check:check"),
    "try": Row(
        WRITE,
        "See what a source would do now; nothing is sent.",
        f"{HERE}.trial:try_",
        verb="try_",
    ),
    "write": Row(WRITE, "Let a model write a workflow; you decide.", f"{HERE}.write:write"),
    "preview": Row(WRITE, "Read in words what a source will do.", f"{HERE}.preview:preview"),
    "what-if": Row(
        WRITE,
        "Compare a source with what past runs did.",
        meanwhile="Playing past runs again …",
    ),
    "simulate": Row(
        WRITE, "Crash a workflow at every point, and count.", f"{HERE}.simulate:simulate"
    ),
    "tools": Row(WRITE, "List what scripts may call.", f"{HERE}.tools:tools"),
    "deploy": Row(
        WRITE, "Make files the active versions.", f"{HERE}.deploy:deploy", is_moving=True
    ),
    "versions": Row(WRITE, "List the versions of a workflow."),
    "source": Row(WRITE, "Show the text of a version."),
    "diff": Row(WRITE, "Show what changed between two versions."),
    "rollback": Row(WRITE, "Go back to an older version.", is_moving=True),
    "propose": Row(WRITE, "Keep a source for a person to adopt."),
    "proposals": Row(WRITE, "List the sources that are proposed."),
    "proposal": Row(WRITE, "Show a proposed source."),
    "adopt": Row(WRITE, "Put a proposed source to use.", is_moving=True),
    "decline": Row(WRITE, "Turn a proposal down."),
    "remove": Row(WRITE, "Take a workflow out of service.", f"{HERE}.erase:remove"),
    "service": Row(KEEP, "Let systemd run the host.", f"{HERE}.systemd:service"),
    "service install": Row(KEEP, "Write the unit and start it.", f"{HERE}.systemd:install"),
    "service status": Row(KEEP, "Show how the service is.", f"{HERE}.systemd:status"),
    "service logs": Row(KEEP, "Show what the service printed.", f"{HERE}.systemd:logs"),
    "service remove": Row(KEEP, "Stop the service and remove its unit.", f"{HERE}.systemd:remove"),
    "secret": Row(KEEP, "Set, list and drop secrets of connectors.", f"{HERE}.secret:secret"),
    "secret set": Row(
        KEEP,
        "Keep a secret for a connector, sealed.",
        verb="set_secret",
        left_out=frozenset({"value"}),
        is_moving=True,
    ),
    "secret list": Row(KEEP, "List the secrets by name.", verb="secrets"),
    "secret drop": Row(KEEP, "Forget a secret.", verb="drop_secret"),
    "backup": Row(KEEP, "Copy the store while it runs.", meanwhile="Copying the store …"),
    "export": Row(
        KEEP, "Write workflows with their history to a file.", meanwhile="Writing the file …"
    ),
    "import": Row(
        KEEP, "Import workflows from a file.", verb="import_", meanwhile="Reading the file …"
    ),
    "verify": Row(
        KEEP,
        "Check the whole store.",
        meanwhile="Reading the whole store …",
        is_failed=lambda answer: not answer["ok"],
    ),
    "hosts": Row(KEEP, "List the hosts of this store."),
    "move": Row(KEEP, "Move the store from its file to PostgreSQL.", f"{HERE}.move:move"),
    "tidy": Row(
        KEEP,
        "Remove finished history the policy does not keep.",
        meanwhile="Tidying the store …",
    ),
    "forget": Row(
        KEEP,
        "Erase an input and everything made from it.",
        f"{HERE}.erase:forget",
        meanwhile="Erasing it …",
    ),
    "forgettable": Row(KEEP, "Show what forgetting an input would erase."),
    "open": Row(
        RUN,
        "Print a link that signs a browser in.",
        f"{HERE}.shown:open_",
        verb="new_link",
        example="duly open --scope decide",
    ),
    "token": Row(KEEP, "Make, list and revoke tokens and devices.", f"{HERE}.token:token"),
    "token new": Row(KEEP, "Make a token for a program.", verb="new_token"),
    "token list": Row(KEEP, "List tokens and devices.", verb="tokens"),
    "token revoke": Row(KEEP, "Take a token or a device back.", verb="revoke_token"),
    "channel": Row(KEEP, "List channels and pair accounts.", f"{HERE}.channel:channel"),
    "channel pair": Row(KEEP, "Pair an account that may decide.", verb="pair"),
    "channel list": Row(KEEP, "List channels and their accounts.", verb="channels"),
    "channel unpair": Row(KEEP, "Take an account back.", verb="unpair"),
    "asked": Row(KEEP, "Show what a message with a code asks."),
    "answer": Row(KEEP, "Answer a message with a code."),
    "sign-in": Row(KEEP, "Use the code of a link."),
    "sign-out": Row(KEEP, "Take back the token that is given."),
    "who": Row(KEEP, "Say whose token this is."),
    "admitted": Row(KEEP, "Say which of several tokens are good."),
    "new-hook": Row(
        KEEP,
        "Open a topic to a webhook.",
        f"{HERE}.secret:new_hook",
        left_out=frozenset({"secret"}),
    ),
    "hooks": Row(KEEP, "List the webhooks of a workflow."),
    "receive": Row(KEEP, "Publish what a webhook sent.", is_moving=True),
    "bus": Row(KEEP, "Use the event bus.", f"{HERE}.bus:bus"),
    "bus emit": Row(KEEP, "Put an event on the bus.", defaults=CLI, is_moving=True),
    "bus schedule": Row(
        KEEP,
        "Put an event on the bus after so many seconds.",
        verb="bus.schedule_at",
        defaults=CLI,
        is_moving=True,
    ),
    "bus cancel": Row(KEEP, "Stop a deferred event.", is_failed=lambda answer: not answer),
    "bus journal": Row(KEEP, "List events, newest first."),
    "bus deliveries": Row(KEEP, "List deliveries, oldest event first."),
    "bus subscribers": Row(KEEP, "List the subscribers of the bus."),
    "bus deferred": Row(KEEP, "List deferred events, in the order in which they fire."),
    "bus resume": Row(KEEP, "Let a restored bus deliver again.", is_moving=True),
    "bus retry": Row(KEEP, "Give a dead delivery all its attempts again.", is_moving=True),
    "bus discard": Row(KEEP, "Close a dead delivery for good."),
    "bus unsubscribe": Row(KEEP, "End a subscription."),
}
# What a person needs on the first day; `duly help all` lists the rest.
FIRST: Final = (
    "init",
    "dev",
    "serve",
    "status",
    "attention",
    "why",
    "approve",
    "check",
    "deploy",
    "doctor",
)
_OTHERWISE: Final[Mapping[str, str]] = {row.verb: name for name, row in ROWS.items() if row.verb}


def command_of(verb: str) -> str:
    """Name the command of a verb: `run_now` is run-now, `bus.emit` is bus emit."""
    return _OTHERWISE.get(verb) or verb.rstrip("_").replace("_", "-").replace(".", " ")


def row_of(verb: str, *, is_question: bool = False) -> Row:
    """Return what is peculiar to the command of a verb; one without a row is listed by its kind."""
    return ROWS.get(command_of(verb)) or Row(LOOK if is_question else DECIDE)
