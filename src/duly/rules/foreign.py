"""What is known of a connector that another package brings, before anything is granted to it (K14).

Law: it is the word of the package about the code that was installed when the host was built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignCode:
    """The package of a connector, the hash of its code, and how often each tool was examined.

    The hash is None if the code is not found, and empty if it is too large. `is_stale`: what the
    package says of an exam is about other code.
    """

    package: str
    code: str | None
    points: Mapping[str, int]
    is_stale: bool
