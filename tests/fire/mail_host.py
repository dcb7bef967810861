"""The mail account of a host that is killed again and again: it waits seconds, not ten minutes.

Law: between a mail's last byte and its place in the folder of sent mails lies no time here. The
next host starts when the server has ended all it was told, and the network ends a connection at
the client when the server has ended it. So a short lag is true.
"""

from __future__ import annotations

from duly.connectors.base import Call, Verdict, mutation
from duly.connectors.mail_account import MailAccount
from duly.connectors.post import SentMail
from duly.connectors.signature import Address
from duly.rules.blob import Blob
from duly.rules.value import Json

LAG_S = 0.3


class QuickMail(MailAccount):
    """A mail account of a provider that is quick."""

    @mutation(noun="mail", lag_s=LAG_S, key_in="header", asked="by_search")
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
        """Send a mail of plain text."""
        send = MailAccount.send.function
        return await send(self, call, to, subject, text, cc, reply_to, attachments)

    @send.reconcile
    async def send_happened(self, call: Call) -> Verdict:
        """Look for the mail of this call in the folder of sent mails."""
        return await MailAccount.send_happened(self, call)

    @send.trial
    def send_tried(self) -> dict[str, Json]:
        """Sends one mail from this account to itself."""
        return {"to": ["desk@example.com"], "subject": "A trial", "text": "One."}
