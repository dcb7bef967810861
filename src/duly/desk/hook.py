"""Webhooks: the secrets that let a sender publish into a topic, and what it sent (G8, G12).

Law 1  The host checks a webhook, not the process that parses HTTP: the secret never leaves it.
Law 2  A message that proves nothing is refused with one error for every cause: a sender learns
       neither which workflows there are nor which of them take webhooks.
Law 3  A message is answered after it is on the disk.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from duly.desk.base import USER, HasDesk, find, find_topic
from duly.desk.publication import publish
from duly.desk.secret import Vault
from duly.errors import Invalid, RequestRefused
from duly.rules import webhook
from duly.rules.event import Republish
from duly.rules.value import decode
from duly.rules.verb import Scope, act
from duly.store.base import Transaction

# Under which "connector" the secrets of webhooks are kept; each has the name `workflow/topic`.
HOOKS: Final = "hooks"

log = logging.getLogger("duly.hook")


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook that was just opened; `secret` and `key` are shown this once.

    A sender that signs uses `path` and the secret; one that cannot uses `path`, a slash and `key`.
    """

    workflow: str
    topic: str
    path: str
    secret: str
    key: str


class Hooks(HasDesk):
    """What lets a sender outside publish into a topic."""

    @act(scope=Scope.ADMIN, example={"workflow": "invoices", "topic": "mail.received"})
    async def new_hook(self, workflow: str, topic: str, *, by: str = USER) -> Hook:
        """Open a topic with ingress to a webhook; its secret is shown this once.

        A secret it had before is replaced. To close it, drop the secret `workflow/topic` of
        `hooks`.
        """
        # Rules: G12, A5.
        desk = self._desk()
        action = desk.action(by, "new_hook")
        vault = desk.vault
        if vault is None:
            raise RequestRefused(code="no_vault")

        def look(tx: Transaction) -> None:
            find_topic(tx, find(tx, workflow), topic, is_orphan_fine=False)

        await desk.look(look)
        name = _name(workflow, topic)
        secret = webhook.write_secret(desk.parts.env.random_bytes(webhook.SECRET_BYTES))
        sealed = await vault.seal(HOOKS, name, secret)
        set_secret = desk.parts.store.set_secret
        verb = partial(set_secret, HOOKS, name, sealed, action=action, now=desk.now_ms)

        async def keep() -> None:
            await verb()
            vault.keep(HOOKS, name, secret)

        await desk.complete(keep)
        path = f"/hooks/{quote(workflow, safe='')}/{quote(topic, safe='')}"
        return Hook(workflow, topic, path, secret, webhook.url_key(secret))

    @act(
        scope=Scope.AGENT,
        example={
            "workflow": "invoices",
            "topic": "mail.received",
            "body": '{"type": "mail"}',
            "message_id": "msg_1",
            "signed_at": "1767225600",
            "signature": "v1,…",
        },
    )
    async def receive(
        self,
        workflow: str,
        topic: str,
        body: str,
        *,
        message_id: str | None = None,
        signed_at: str | None = None,
        signature: str | None = None,
        key: str | None = None,
        by: str = USER,
    ) -> Republish:
        """Publish what a webhook sent, if it is signed or came to the secret address.

        `body` is the JSON as it was sent. A message id that came before is the same event.
        """
        # Rules: G12, T10.
        desk = self._desk()
        action = desk.action(by, "receive")
        secret = None if desk.vault is None else _secret(desk.vault, workflow, topic)
        given = message_id or webhook.id_of(body)
        is_known = secret is not None and (
            webhook.is_key(secret, key)
            if key is not None
            else webhook.is_signed(
                secret,
                message_id=message_id or "",
                signed_at=signed_at or "",
                signature=signature or "",
                body=body,
                now_ms=desk.now_ms,
            )
        )
        if not is_known:
            name = _name(workflow, topic)
            if secret is None:
                log.warning("A webhook for %s was refused: none is open there", name)
            else:
                how = "signature or time" if key is None else "key"
                log.warning("A webhook for %s was refused: wrong %s", name, how)
            raise RequestRefused(code="hook_refused")
        payload = decode(body, "body")
        title = webhook.title_of(payload, given)
        message = {"message_id": given, "title": title, "payload": payload}
        try:
            return await publish(desk, workflow, topic, message, action)
        except Invalid as error:
            log.warning("A webhook for %s was not taken: %s", _name(workflow, topic), error)
            raise


def _name(workflow: str, topic: str) -> str:
    return f"{workflow}/{topic}"


def _secret(vault: Vault, workflow: str, topic: str) -> str | None:
    return vault.find(HOOKS, _name(workflow, topic))
