"""How a reason is kept and sent: its code and its facts as JSON (F8, B10).

Law: what a store keeps is read back as it was written. A sentence that an older Duly kept is read
as the code `told` with the sentence as its one fact, so it is shown as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from duly.errors import Invalid
from duly.fact import Reason
from duly.rules.count import Count
from duly.rules.value import Json, decode, encode

TOLD: Final = "told"  # the code of a sentence that an older Duly kept
KEPT_BYTES_MAX: Final = 1_000_000


def plain(facts: Mapping[str, Any]) -> dict[str, Json]:
    """Write facts as JSON: a time becomes ISO text."""
    return {name: _plain(each) for name, each in facts.items()}


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat(timespec="milliseconds")
        return text.removesuffix("+00:00") + "Z"
    if isinstance(value, Count):
        return {
            name: each
            for name in ("count", "noun", "done", "is_more", "tool")
            if (each := getattr(value, name))
        }
    if isinstance(value, Mapping):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, str) else cast("Json", value)


def keep(reason: Reason) -> str:
    """Write a reason as the text a row keeps."""
    kept: Json = {"code": str(reason.code), "subject": reason.subject, "facts": plain(reason.facts)}
    return encode(kept, "reason", limit_bytes=KEPT_BYTES_MAX)


def read_kept(text: str) -> Reason:
    """Read what a row keeps."""
    try:
        kept = decode(text)
    except Invalid:
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get("code"), str):
        return Reason(TOLD, facts={"said": text})
    told = cast("dict[str, Any]", kept)
    return Reason(told["code"], told.get("subject", ""), told.get("facts", {}))
