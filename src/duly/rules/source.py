"""A workflow's text before it is run: its language, its words, its name in error messages.

Law: a line of a text ends with a line feed, for every reader of it. A source turns the other ends
     (CR LF, a lone CR) into that when it is made. To both languages these are the same, inside a
     text of several lines too; our readers, which count lines, saw different ones (X3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, Literal

from duly.config import Limits
from duly.errors import Invalid

DEFAULT_LIMITS = Limits()


class Language(StrEnum):
    """What a workflow can be written in (W1)."""

    JAVASCRIPT = "javascript"
    PYTHON = "python"


# What stands for a source where an example needs one.
EXAMPLE: Final[Mapping[str, str]] = {
    "language": "python",
    "text": """\
from duly import workflow

flow = workflow("invoices", topics={"mail.received": {"ingress": True}})


@flow.consumer("mail.received")
class note:
    async def prepare(self, ctx, state):
        mails = await ctx.peek("mail.received", limit=1)
        ids = [mail["message_id"] for mail in mails]
        return {"reservations": [{"topic": "mail.received", "ids": ids}] if ids else [], "data": {}}
""",
    "name": "workflows/invoices.py",
}
SUFFIXES = {".js": Language.JAVASCRIPT, ".mjs": Language.JAVASCRIPT, ".py": Language.PYTHON}


@dataclass(frozen=True, slots=True, init=False)
class Source:
    """One source file; `name` is what error messages call it, `path` where it lies, if it does."""

    language: Language
    text: str
    name: str = "source"
    path: str | None = None

    def __init__(
        self,
        language: Language | Literal["javascript", "python"],
        text: str,
        name: str = "source",
        path: str | None = None,
    ) -> None:
        object.__setattr__(self, "language", Language(language))
        if isinstance(text, str):  # a repairer may give anything: what it gave is refused later
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "path", path)

    @property
    def hash(self) -> str:
        """Name the text by its content."""
        return sha256(f"{self.language}\n{self.text}".encode("utf-8", "surrogatepass")).hexdigest()


def check_source(source: Source, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse a text that is too long, or that is no text (N)."""
    try:
        size_bytes = len(source.text.encode())
    except UnicodeEncodeError:
        raise Invalid(code="half_character", path=source.name) from None
    if size_bytes > limits.source_bytes:
        raise Invalid(
            code="too_long", path=source.name, facts={"limit": limits.source_bytes, "unit": "bytes"}
        )
