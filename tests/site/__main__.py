"""`python -m tests.site [FOLDER]`: build the site, or say which links lead nowhere."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.house import ROOT
from tests.site.build import BrokenLinks, build

if __name__ == "__main__":
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "site"
    try:
        site = build(out)
    except BrokenLinks as broken:
        sys.exit(f"These links lead nowhere:\n{broken}")
    print(f"{len(site.pages)} pages: {(out / 'index.html').as_uri()}")
