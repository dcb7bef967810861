"""The breaks of the desk: grants, approvals, secrets and the verbs of people, each taken away."""

from __future__ import annotations

from typing import Any

from duly.engine.live import Reads
from duly.rules.access import Step
from duly.rules.permission import Grant, proposal_hash
from duly.rules.prepared import Judgement
from duly.rules.redaction import Redactor
from duly.rules.seal import name_key
from duly.store import recording
from duly.store.base import barrier
from duly.store.record import Action
from tests.breaks import Break
from tests.breaks.store import _approve_anything

GRANT = ("tests/desk/test_grant.py",)
STALE = ("tests/web/test_stale_right.py",)
CHOSEN = ("tests/desk/test_chosen.py",)
ASKED = ("tests/web/test_when_asked.py",)
ALLOWANCES = ("tests/desk/test_allowance.py",)
SEALS = ("tests/engine/test_ledger_seal.py",)
FINDING = ("tests/desk/test_find.py",)
ENDS = ("tests/engine/test_end_seal.py",)
APPROVAL = ("tests/desk/test_approval.py",)
SECRET = ("tests/desk/test_secret.py",)
VERSION = ("tests/desk/test_version.py",)
STATES = ("tests/desk/test_every_state.py",)
TRIAL = ("tests/desk/test_trial.py",)
REHEARSAL = ("tests/engine/test_rehearsal.py",)
REPLAY = ("tests/engine/test_replay.py",)
RECORDING = ("tests/store/test_exam_recording.py",)

_write_reads = Reads.text


async def _count_none(*_: Any, **__: Any) -> int:
    return 0


async def _miss_nothing(*_: Any, **__: Any) -> None:
    return None


async def _do_nothing(*_: Any, **__: Any) -> None:
    return None


async def _give_it_up(self: Any, live: Any, mutation: Any) -> None:
    await self.ledger.cannot_send(live, mutation)


def _take_any_grant(_: object, capability: str, limit: Any, where: Any, asks: Any = None) -> Grant:
    return Grant(str(capability), None, {})


async def _find_no_change(self: Any, live: Any, row: Any) -> bool:
    return False


def _hash_of_the_call_alone(tool: str, args: Any, inputs: object) -> str:
    return proposal_hash(tool, args, None)


def _keep_as_it_is(value: Any, _: object, **__: object) -> Any:
    return value


def _by_nobody(self: Any, by: object, verb: str, detail: str | None = None) -> Any:
    return Action(self.parts.env.new_id("action"), "somebody", verb, detail)


def _lend_everything(catalog: Any, allowed: object) -> tuple[str, ...]:
    return tuple({each.capability for each in catalog.tools})


def _write_secrets(self: Reads, secrets: object) -> str | None:
    return _write_reads(self, Redactor())


def _keep_beside(tx: Any, workflow_id: str, run_id: str, chain: str, reads: str | None) -> None:
    """Keep what a prepare read, and leave what an earlier attempt did."""
    if reads is not None:
        recording.keep_reads(tx, run_id, Step.PREPARE, reads)


BREAKS = (
    Break("A1", "duly.desk.trial", "_harmless", _lend_everything, TRIAL, "a trial lends reads"),
    Break(
        "A5",
        "duly.engine.live",
        "Reads.text",
        _write_secrets,
        REHEARSAL,
        "what a run read is kept with the secrets in it",
    ),
    Break(
        "A5",
        "duly.desk.trial",
        "redact_text",
        _keep_as_it_is,
        TRIAL,
        "a trial shows what the script says as it is",
    ),
    Break(
        "A5",
        "duly.engine.replay",
        "_show",
        lambda parts, difference: difference,
        REPLAY,
        "a difference shows its arguments as they are",
    ),
    Break(
        "C5",
        "duly.engine.rehearsal",
        "judge_reservation",
        lambda *_: Judgement.RESERVE,
        REHEARSAL,
        "a rehearsal takes events that are taken",
    ),
    Break(
        "C13",
        "duly.engine.replay",
        "Still.now_ms",
        lambda self: 0,
        REPLAY,
        "a past run is repeated at another time",
    ),
    Break(
        "F3",
        "duly.engine.replay",
        "_obstacle",
        lambda *_: None,
        REPLAY,
        "what cannot be repeated is repeated all the same",
    ),
    Break(
        "F3",
        "duly.engine.replay",
        "compare",
        lambda *_: None,
        REPLAY,
        "every version changes the same",
    ),
    Break(
        "R5",
        "duly.store.recording",
        "begin_recording",
        _keep_beside,
        RECORDING,
        "a fresh attempt is answered with what another was told",
    ),
    Break("A1", "duly.engine.envelope", "count_today", _count_none, GRANT, "nobody counts a day"),
    Break(
        "A1",
        "duly.engine.envelope",
        "find_missing",
        _miss_nothing,
        GRANT,
        "a recorded call is sent although its grant was taken back",
    ),
    Break("A1", "duly.desk.grant", "check_grant", _take_any_grant, GRANT, "limits are not kept"),
    Break(
        "A3",
        "duly.rules.permission",
        "Envelope.asks",
        property(lambda self: {}),
        CHOSEN,
        "what a person chose with a grant asks nobody",
    ),
    Break(
        "A3",
        "duly.store.granted",
        "keep_asks",
        lambda matching: {},
        CHOSEN,
        "a later grant takes back what was chosen",
    ),
    Break(
        "A3",
        "duly.rules.permission",
        "_only",
        lambda tool, chosen: chosen,
        ("tests/rules/test_permission.py",),
        "a choice for a tool asks for another one whose capability has its name",
    ),
    Break(
        "H5",
        "duly.desk.carrying",
        "_check_grant",
        lambda desk, line, number: None,
        ("tests/desk/test_carrying.py",),
        "a file brings a rule for a tool that is not there, and nobody is asked",
    ),
    Break(
        "A1",
        "duly.store.people",
        "find_removed",
        lambda tx, name: None,
        ASKED,
        "a form gives a workflow what was shown of another one of its name",
    ),
    Break(
        "A6",
        "duly.rules.right",
        "Right.word",
        property(lambda self: ""),
        STALE,
        "a form gives back what was revoked since, and replaces limits that it did not show",
    ),
    Break(
        "A6",
        "duly.rules.right",
        "Right.losses",
        property(lambda self: 0),
        STALE,
        "a clock that is set back hides a revocation from a form that deploys",
    ),
    Break(
        "G12",
        "duly.desk.hook",
        "_check_open",
        lambda *_, **__: None,
        ("tests/web/test_hook_open.py",),
        "a form for a new key that is sent again kills the key that was shown",
    ),
    Break(
        "A2",
        "duly.desk.deploy",
        "missing_capabilities",
        lambda granted, used: (),
        VERSION,
        "a rollback does not say what it lacks",
    ),
    Break(
        "A3",
        "duly.rules.permission",
        "is_approval_needed",
        lambda tool, *policies, **counted: False,
        APPROVAL,
        "nobody is asked",
    ),
    Break(
        "A4",
        "duly.store",
        "Store.approve",
        barrier(_approve_anything),
        APPROVAL,
        "any hash is fine",
    ),
    Break(
        "A4",
        "duly.store.record",
        "MutationRow.is_unsent",
        property(lambda self: False),
        APPROVAL,
        "an approval is forgotten by a restart",
    ),
    Break(
        "A4",
        "duly.engine.approval",
        "find_missing",
        _miss_nothing,
        APPROVAL,
        "grants and limits are not checked again",
    ),
    Break("A5", "duly.connectors.registry", "redact", _keep_as_it_is, SECRET, "an answer has it"),
    Break(
        "A5", "duly.desk.secret", "_place", lambda *_: b"", SECRET, "a seal opens in another place"
    ),
    Break("A5", "duly.desk.secret", "OTHERS", 0, SECRET, "others may read the key"),
    Break(
        "A5",
        "duly.rules.decoding",
        "Decoder.open",
        lambda self, view: (),
        ("tests/desk/test_canary.py",),
        "a secret is known in one spelling only",
    ),
    Break(
        "A5",
        "duly.engine.successor",
        "redact_text",
        _keep_as_it_is,
        SECRET,
        "an error's words have it",
    ),
    Break("A6", "duly.desk.base", "Desk.action", _by_nobody, GRANT, "who granted is not known"),
    Break(
        "L11",
        "duly.rules.permission",
        "proposal_hash",
        _hash_of_the_call_alone,
        APPROVAL,
        "an approval is for any input",
    ),
    Break(
        "L11",
        "duly.engine.ledger",
        "Ledger.refuse_changed",
        _find_no_change,
        SEALS,
        "a changed row is sent and asked about",
    ),
    Break(
        "L11",
        "duly.rules.seal",
        "make_seal",
        lambda key, facts, **_: f"{name_key(key)}:sealed",
        SEALS,
        "a seal covers nothing",
    ),
    Break(
        "L11",
        "duly.engine.approval",
        "_check_whole",
        _do_nothing,
        SEALS,
        "a yes seals what another program wrote",
    ),
    Break(
        "H1",
        "duly.store.inquiry",
        "SelectGuard.authorize",
        lambda *_: 0,
        FINDING,
        "a SELECT reads every table",
    ),
    Break(
        "A5",
        "duly.store.inquiry",
        "SelectRunner._shown",
        lambda self, *values: values[0],
        FINDING,
        "a SELECT compares texts that hold secrets",
    ),
    Break("L15", "duly.store.statements", "seal_end", _do_nothing, ENDS, "an end is not sealed"),
    Break("L15", "duly.store.seal", "_is_whole", lambda *_: True, ENDS, "a changed row is sealed"),
    Break(
        "L15",
        "duly.store.seal",
        "find_changed_parts",
        lambda *_: (),
        ENDS,
        "contents are not compared with their digests",
    ),
    Break(
        "L15",
        "duly.store.seal",
        "check_rows",
        lambda *_, **__: {},
        ENDS,
        "a rotation seals what was changed",
    ),
    Break(
        "L12",
        "duly.store.record",
        "MutationRow.known",
        property(lambda self: None),
        ("tests/engine/test_ledger_known.py",),
        "how an outcome became known is not kept",
    ),
    Break(
        "A3",
        "duly.rules.allowance",
        "find_end",
        lambda allowance, version, now: None,
        ALLOWANCES,
        "an allowance never ends",
    ),
    Break(
        "A3",
        "duly.rules.allowance",
        "_rest",
        lambda args, allowance: b"",
        ALLOWANCES,
        "what an allowance does not name may be anything",
    ),
    Break(
        "A3",
        "duly.engine.approval",
        "is_risk_allowed",
        lambda tool, most: True,
        ALLOWANCES,
        "any risk may be allowed",
    ),
    Break(
        "A3",
        "duly.rules.permission",
        "first_calls",
        lambda tool, *policies: 0,
        ALLOWANCES,
        "the first calls do not ask",
    ),
    Break(
        "A3",
        "duly.engine.approval",
        "amend_args",
        lambda tool, old, args: {**old, **args},
        ALLOWANCES,
        "a person may amend anything",
    ),
    Break("R9", "duly.engine.approval", "reject", _do_nothing, STATES, "a rejection does nothing"),
    Break(
        "R9",
        "duly.desk.commands",
        "Commands.retry",
        _do_nothing,
        STATES,
        "a retry leaves the run where it is",
    ),
    Break(
        "R4",
        "duly.engine.worker",
        "Worker._send_held",
        _give_it_up,
        APPROVAL,
        "an approved call is made anew by another run",
    ),
)
