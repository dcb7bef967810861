"""Write the golden file anew, or say where it differs from what is said now."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.faces.cli_stand import prepare
from tests.faces.errors import sheet
from tests.faces.errors.situation import SITUATIONS


def main() -> int:
    """Play every situation in a folder of its own."""
    told: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        past = Path(name) / "past"
        facts = prepare(past)
        for place, each in enumerate(SITUATIONS):
            told[each] = sheet.tell(each, past, facts, Path(name) / str(place))
    if "--write" in sys.argv:
        sheet.FILE.write_text("\n".join([sheet.HEAD, *told.values()]), encoding="utf-8")
        return 0
    different = [each for each in told if sheet.read().get(each) != told[each]]
    print("\n".join(told[each] for each in different) or "as it was")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
