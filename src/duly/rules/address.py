"""One address of a mail, read the way that leaves no doubt who gets it (K12).

Law 1: a field holds one address, `ada@acme.com` or `Ada <ada@acme.com>`; a second one is refused,
       with any separator between the two.
Law 2: a text that Unicode would write in another way (NFKC) is refused: what looks like `@` or like
       a dot to a mail server must be one here as well.
Law 3: what has several readings (quoted local parts, comments, routes, groups) is refused rather
       than understood.
Law 4: all of it is one printable line. A line end in it would begin another header.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from duly.errors import Invalid

ADDRESS_CHARS_MAX: Final = 254
LOCAL_CHARS_MAX: Final = 64
NAME_CHARS_MAX: Final = 200

NAMED: Final = re.compile(r'(?P<name>"[^"\\]*"|[^"]*?)\s*<(?P<address>[^<>]*)>')
LOCAL: Final = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*")
LABEL: Final = re.compile(r"[^\W_]([\w-]*[^\W_])?")
SEPARATORS: Final = frozenset("@,;:<>()[]\\")  # what a display name must not have in it


def parse_address(text: str, path: str, *, is_named_fine: bool = True) -> str:
    """Return the one address in a field, its domain in lower case, or raise Invalid."""
    if unicodedata.normalize("NFKC", text) != text:
        raise Invalid(code="lookalike", path=path, facts={"given": text[:ADDRESS_CHARS_MAX]})
    found = NAMED.fullmatch(text) if is_named_fine else None
    address = text if found is None else found["address"]
    name = "" if found is None else found["name"].strip('"')
    local, _, domain = address.partition("@")
    is_one = (
        text.isprintable()  # also between the name and the address, where a line end would fit
        and len(address) <= ADDRESS_CHARS_MAX
        and 0 < len(local) <= LOCAL_CHARS_MAX
        and LOCAL.fullmatch(local) is not None
        and all(LABEL.fullmatch(label) for label in domain.split("."))
        and len(name) <= NAME_CHARS_MAX
        and not SEPARATORS.intersection(name)
    )
    if not is_one:
        raise Invalid(
            code="wrong_value",
            path=path,
            facts={"wanted": "address", "given": text[:ADDRESS_CHARS_MAX]},
        )
    return f"{local}@{domain.lower()}"
