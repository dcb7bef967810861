"""Brings the examples to `duly init --template` and `duly example`; a test says when they differ.

python -m tests.faces.example_text            compare
python -m tests.faces.example_text --write    write the texts anew
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from duly.faces.cli import init
from duly.faces.cli.template import TEMPLATES
from duly.testing import daily
from tests import house

FOLDER: Final = Path(init.__file__).parent / "text" / "example"
DAILY: Final = Path(daily.__file__).parent / "text"
# The demo has no minute to wait; a project that stays should not look every second.
SLOWER: Final = {'every="1s"': 'every="1m"', 'interval: "1s"': 'interval: "1m"'}


def derive() -> dict[str, str]:
    """Write each text by the name it has beside the others: an example, looking once a minute."""
    texts = {}
    for name, template in TEMPLATES.items():
        folder = "examples/demo" if name.startswith("mail-") else "examples"
        text = (house.ROOT / folder / template.file).read_text(encoding="utf-8")
        for fast, slow in SLOWER.items():
            text = text.replace(fast, slow)
        texts[f"{template.file}.txt"] = text
    return texts


def derive_daily() -> dict[str, str]:
    """Read each example of daily life, by the name its text has."""
    paths = [
        path
        for folder in ("daily", "google")
        for path in sorted((house.ROOT / "examples" / folder).iterdir())
        if path.suffix in daily.SUFFIXES.values()
    ]
    return {f"{path.name}.txt": path.read_text(encoding="utf-8") for path in paths}


def kept(folder: Path = FOLDER) -> dict[str, str]:
    """Read the texts as the package has them."""
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def main() -> int:
    """Write the texts, or say whether they are stale."""
    made = {FOLDER: derive(), DAILY: derive_daily()}
    if "--write" in sys.argv:
        for folder, texts in made.items():
            folder.mkdir(exist_ok=True)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
        return 0
    is_same = all(kept(folder) == texts for folder, texts in made.items())
    print("as they were" if is_same else "stale; write them with --write")
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
