"""The golden file of errors: every situation, what is typed, the exit code, and what is said.

python -m tests.faces.errors            compare
python -m tests.faces.errors --write    write it anew, and read it before you commit it
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.faces.cli_stand import Facts, copy
from tests.faces.errors.situation import SITUATIONS, Desk

FILE: Final = Path(__file__).with_name("messages.txt")
HEAD: Final = """\
What a person is told when a command cannot do what they want: what they typed, the exit code, and
every word. 0 stands where nothing went wrong and the answer is the news.
"""
MASKS: Final = (
    (re.compile(r"(run|mutation)_1[0-9a-f]{7,26}"), r"\1_…"),
    # How long a shortened id is depends on when others were made, and so does where a line ends.
    (re.compile(r"\b1[0-9a-f]{7,26}\b\n? +# "), "ID  # "),
    (re.compile(r"\b1[0-9a-f]{7,26}\b"), "ID"),
    (re.compile(r"process \d+|pid \d+"), "process …"),
    (re.compile(r"duly-\w+\.txt"), "duly-….txt"),
    (re.compile(r"store version \d+"), "store version …"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "…"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d"), "…"),
)


def tell(name: str, past: Path, facts: Facts, folder: Path) -> str:
    """Bring a project into a situation and write down what is said."""
    desk = Desk(copy(past, folder), facts)
    said = SITUATIONS[name](desk)
    text = masked(said.text.strip(), folder)
    return f"[{name}]\n$ duly {masked(said.typed, folder).strip()}\n{said.code}  {text}\n"


def masked(text: str, folder: Path) -> str:
    """Leave out what is another thing on every machine."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, shown in MASKS:
        text = pattern.sub(shown, text)
    return text


def read() -> dict[str, str]:
    """Read the golden file, situation by situation."""
    _, *blocks = re.split(r"^(?=\[)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {block.split("]", 1)[0][1:]: block.strip() + "\n" for block in blocks}
