"""A page shows all that the demo prints; this command runs the demo again and writes the page.

python -m tests.readme_page --write      # or without, to see it
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import house

README = house.ROOT / "README.md"
DEMO = house.ROOT / "docs" / "demo.md"
SHOWN = re.compile(r"(?<=^```text\n)A demo of Duly.*?(?=^```$)", re.MULTILINE | re.DOTALL)
# What differs from one run to the next; the way to `duly` is told only to whom it is not known.
CHANCE = (
    (r"mutation_[0-9a-f]+", "MUTATION"),
    (r"\b(process|kill -9) \d+", r"\1 PID"),
    (r"\b(port|at) \d{4,5}\b", r"\1 PORT"),
    (r" *export PATH=.*\n", ""),
)


def path_to_duly() -> dict[str, str]:
    """Answer an environment in which `duly` is this one."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def path_without_duly() -> dict[str, str]:
    """Answer an environment like that of a fresh clone, where `make demo` is all one knows."""
    folders = os.environ["PATH"].split(":")
    return {**os.environ, "PATH": ":".join(each for each in folders if not has_duly(each))}


def has_duly(folder: str) -> bool:
    """Tell whether a folder of the PATH has the command."""
    return (Path(folder) / "duly").exists()


def shown() -> str:
    """Read what the page says that the demo prints."""
    (found,) = SHOWN.findall(DEMO.read_text(encoding="utf-8"))
    return str(found)


def mask(text: str) -> list[list[str]]:
    """Take chance out of what a demo told, chapter by chapter.

    Two workflows run side by side, so the order of the lines of a chapter is chance as well.
    """
    for pattern, word in CHANCE:
        text = re.sub(pattern, word, text, flags=re.IGNORECASE)
    return [sorted(chapter.splitlines()) for chapter in text.strip().split("\n\n")]


def main() -> None:
    """Run the demo, and print or write what it tells."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("duly")), "demo", "--no-page"],
            cwd=folder,
            env=path_without_duly(),
            capture_output=True,
            text=True,
            check=True,
        )
    told = done.stdout.replace(str(house.ROOT), "…/duly")
    print(told)
    if "--write" in sys.argv:
        page = DEMO.read_text(encoding="utf-8")
        DEMO.write_text(SHOWN.sub(lambda _: told, page), encoding="utf-8")


if __name__ == "__main__":
    main()
