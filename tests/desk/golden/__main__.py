"""Write the golden file anew, or say where it differs from what is said now."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from duly.testing.stage import open_stage
from tests.desk.golden import sheet


def main() -> int:
    """Play every situation on a stage of its own."""
    told: dict[str, str] = {}
    for name in sheet.BUILDERS:
        with tempfile.TemporaryDirectory() as folder, open_stage(Path(folder)) as stage:
            told[name] = stage.run(sheet.tell(name, stage))
    if "--write" in sys.argv:
        sheet.FILE.write_text("\n".join([sheet.HEAD, *told.values()]), encoding="utf-8")
        return 0
    different = [name for name in told if sheet.read().get(name) != told[name]]
    print("\n".join(told[name] for name in different) or "as it was")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
