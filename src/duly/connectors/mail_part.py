"""What is attached to a mail, as a blob; taken out of the mail in the locked process (K7, K15)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Final

from duly.connectors.base import read
from duly.connectors.mail import ATTACHMENTS_MAX, SEPARATOR, MailPart
from duly.connectors.reader import BOUNDS, ReadingConnector, Unreadable
from duly.errors import Refused
from duly.rules.blob import Blob

PART_BOUNDS: Final = replace(BOUNDS, answer_bytes=16 * 1024 * 1024)  # a mail has at most 10 MiB


class Attached(ReadingConnector):
    """A connector whose mails have attachments."""

    @read(by_id=True, timeout_s=60)
    async def attachment(self, id: str, number: int = 1) -> Blob | None:  # noqa: A002
        """Fetch what is attached to a mail: number 1 is the first of its `attachments`.

        Returns {blob, name, type, size}, or nothing if the mail has no such attachment.
        """
        if not 1 <= number <= ATTACHMENTS_MAX:
            raise Refused(f"number: a mail has attachments 1 to {ATTACHMENTS_MAX}.")
        found = await self._fetch_one(id)
        if found is None:
            return None
        asked = str(number).encode() + SEPARATOR + found[1].data
        try:
            part = await self.in_thread(
                self.readers.read, "mail.part", asked, MailPart, PART_BOUNDS
            )
        except Unreadable as error:
            raise Refused(f"The mail cannot be read: {error}.") from None
        if part.data is None:
            return None
        return await self.keep_blob(part.data, name=part.name, type=part.type)

    @abstractmethod
    async def _fetch_one(self, id: str) -> Any:  # noqa: A002
        """Return the folder of a mail and the mail as it was fetched; None if there is none."""
