"""Reads the twenty wrong drafts; as a program, shows each preview without the code, to be judged.

python -m tests.models.wrong_drafts.reading
"""

from __future__ import annotations

import asyncio
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import duly
from duly.host import Host
from duly.rules.source import Language
from duly.words import Clock, say_preview
from tests.models.wrong_drafts.world import CONNECTORS

NOW_MS = 1_790_000_000_000  # so that the year is not said
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Draft:
    """A draft, what the person asked for, and what in its preview shows that it is wrong."""

    name: str
    asked: str
    source: duly.Source
    telling: str = ""
    of: str = ""


def read_drafts() -> tuple[list[Draft], list[Draft]]:
    """Return the right drafts and the wrong ones."""
    told = tomllib.loads((HERE / "drafts.toml").read_text(encoding="utf-8"))
    texts = {name: (HERE / f"{name}.py.txt").read_text(encoding="utf-8") for name in told["right"]}
    right = [Draft(name, told["right"][name], _source(text)) for name, text in texts.items()]
    wrong = []
    for each in told["wrong"]:
        text = texts[each["of"]]
        for old, new in each["edits"]:
            assert old in text, (each["name"], old)
            text = text.replace(old, new)
        asked, telling = told["right"][each["of"]], each["telling"]
        wrong.append(Draft(each["name"], asked, _source(text), telling, each["of"]))
    return right, wrong


def _source(text: str) -> duly.Source:
    return duly.Source(Language.PYTHON, text)


def open_host(folder: str | Path) -> Host:
    """Make a host with the office that the drafts are for."""
    return Host(f"sqlite:///{folder}/duly.db", connectors=[each() for each in CONNECTORS])


async def preview(host: Host, draft: Draft) -> str:
    """Say what a draft would do, as every face shows it."""
    return say_preview(await host.preview(draft.source, grant=True), Clock(NOW_MS))


async def show() -> None:
    """Print every wrong draft with what was asked for; which is wrong how is not said."""
    _, wrong = read_drafts()
    with TemporaryDirectory() as folder:
        async with open_host(folder) as host:
            for place, each in enumerate(wrong, 1):
                print(f"=== {place}. A person asked: {each.asked}\n")
                print(await preview(host, each), end="\n\n")


if __name__ == "__main__":
    asyncio.run(show())
