"""The mail account of a demo's page: the ready-made one, for a server that files at once.

A provider may take minutes until a sent mail is found among the sent ones, so the ready-made
account believes "it is not there" after ten minutes (L6). The server of the demo keeps a mail
before it says that it took it, and forgets what came in half when the connection ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from duly.api.value import Json
from duly.connectors.base import Call, Verdict, mutation
from duly.connectors.mail_account import MailAccount
from duly.connectors.post import SentMail
from duly.connectors.signature import Address
from duly.rules.blob import Blob

FILED_S: Final = 2.0


class DemoMailAccount(MailAccount):
    """A mail account whose server files what it takes within two seconds."""

    @mutation(
        noun="mail",
        lag_s=FILED_S,
        key_in="header",
        asked="by_search",
        labels={"to": "To", "subject": "Subject", "text": "Body"},
    )
    async def send(
        self,
        call: Call,
        to: list[Address],
        subject: str,
        text: str,
        cc: list[Address] | None = None,
        reply_to: str | None = None,
        attachments: list[Blob] | None = None,
    ) -> SentMail:
        """Send a mail of plain text.

        Returns {message_id}.
        """
        sending = MailAccount.send.function
        return await sending(self, call, to, subject, text, cc, reply_to, attachments)

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        """Look for the mail of this call in the folder of sent mails."""
        return await MailAccount.send_happened(self, call)

    @send.trial
    def send_tried(self) -> Mapping[str, Json] | None:
        """Sends one mail from this account to itself, and looks for it among the sent mails."""
        return MailAccount.send_tried(self)
