"""One example for each command, as it stands in its help and in docs/command-line.md.

Law: every command of this table can be parsed as it stands; a test does so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RUN: Final = "run_019a8b7c0d1e2f30"
MUTATION: Final = "mutation_019a8b7c0d1e2f30"

EXAMPLES: Final[Mapping[str, str]] = {
    "status": "duly status",
    "attention": "duly attention invoices --follow",
    "why": "duly why invoices",
    "inputs": "duly inputs invoices --status pending",
    "outputs": "duly outputs invoices --limit 20",
    "workflows": "duly workflows --json",
    "workflow": "duly workflow invoices",
    "events": "duly events invoices --topic mail.received --status skipped",
    "runs": "duly runs invoices --status failed:logic",
    "run": f"duly run {RUN}",
    "logs": f"duly logs {RUN} --follow",
    "mutations": "duly mutations --status indeterminate",
    "mutation": f"duly mutation {MUTATION} --json",
    "approvals": "duly approvals invoices",
    "actions": "duly actions --limit 10",
    "extensions": "duly extensions",
    "approve": f"duly approve {MUTATION}",
    "reject": f"duly reject {MUTATION} --yes",
    "approve-all": f"duly approve-all {MUTATION} mutation_019a8b7c0d1e2f31",
    "allow": f'duly allow {MUTATION} 20 8h --where \'{{"row": "*"}}\'',
    "amend": f'duly amend {MUTATION} 3f… \'{{"text": "Dear Ada"}}\'',
    "allowances": "duly allowances invoices",
    "revoke-allowance": "duly revoke-allowance allowance_019a8b7c0d1e2f30",
    "settle": f"duly settle {MUTATION} happened",
    "skip": "duly skip invoices mail.received 42",
    "retry": f"duly retry {RUN}",
    "abandon": f"duly abandon {RUN}",
    "pause": "duly pause invoices",
    "resume": "duly resume invoices",
    "run-now": "duly run-now invoices",
    "publish": 'duly publish invoices mail.received --title "Mail 42" --payload \'{"id": 42}\'',
    "grant": "duly grant invoices table.insert --mutations-per-day 100",
    "revoke": "duly revoke invoices table.insert",
    "reconnect": "duly reconnect mailbox",
    "what-if": "duly what-if invoices workflows/invoices.py",
    "deploy": "duly deploy workflows/invoices.py --grant",
    "versions": "duly versions invoices",
    "diff": "duly diff invoices 1.0 2.0",
    "rollback": "duly rollback invoices 1.0",
    "remove": "duly remove invoices",
    "drain": "duly drain",
    "secret set": "duly secret set mailbox password",
    "secret list": "duly secret list",
    "secret drop": "duly secret drop mailbox password",
    "set-secret": "duly set-secret mailbox password",
    "secrets": "duly secrets --json",
    "drop-secret": "duly drop-secret mailbox password",
    "backup": "duly backup backups/monday.db",
    "verify": "duly verify",
    "tidy": "duly tidy",
    "bus emit": 'duly bus emit task.received \'{"text": "Write to Ada"}\'',
    "bus schedule-at": 'duly bus schedule-at 3600 reminder.due \'{"text": "Tea"}\'',
    "bus schedule": 'duly bus schedule 3600 reminder.due \'{"text": "Tea"}\'',
    "bus cancel": "duly bus cancel 7",
    "bus journal": "duly bus journal --topic task.received --follow",
    "bus deliveries": "duly bus deliveries --status dead",
    "bus deferred": "duly bus deferred",
    "bus resume": "duly bus resume",
    "bus retry": "duly bus retry 12 post:task.received:send",
    "bus discard": "duly bus discard 12 post:task.received:send",
    "bus unsubscribe": "duly bus unsubscribe post:task.received:send",
}
