"""The golden file: every situation, and what a person is told in it.

python -m tests.desk.golden            compare
python -m tests.desk.golden --write    write it anew, and read it before you commit it
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from duly.desk.record import Offer
from duly.errors import NotFound
from duly.testing import Stage
from tests.desk.golden.situation import OTHERS, Asked, Builder
from tests.desk.situation import SITUATIONS
from tests.engine.stand import NAME, Play

FILE: Final = Path(__file__).with_name("sentences.txt")
HEAD: Final = """\
What a person is told, situation by situation. The words of the engine name the first ones only so
that nobody loses count; everything after the colon is read by people who never saw the code.
"""
ID: Final = re.compile(r"(run|mutation)_[0-9a-f]{12,}")
HASH: Final = re.compile(r'seen="[^"]*"')


async def _open(builder: Callable[[Stage], Awaitable[Play]], stage: Stage) -> Asked:
    return await builder(stage), NAME


BUILDERS: Final[dict[str, Builder]] = {
    **{name: partial(_open, builder) for name, builder in SITUATIONS.items()},
    **OTHERS,
}


async def tell(name: str, stage: Stage) -> str:
    """Bring a host into a situation and write down what it says."""
    play, asked = await BUILDERS[name](stage)
    why = await play.host.why(asked)
    try:
        shown = await play.host.workflow(NAME)
        how = f"{shown.standing}: {shown.reason}"
    except NotFound:
        how = "gone"
    lines = [f"[{name}]", f"standing   {how}", f"why        {why.sentence}"]
    for entry in await play.host.attention():
        lines += [f"attention  {entry.sentence}", *_offered(entry.offers)]
    return "\n".join(lines) + "\n"


def _offered(offers: Iterable[Offer]) -> list[str]:
    return [f"           {each.verb}: {_masked(each.say)}  # {each.does}" for each in offers]


def _masked(text: str) -> str:
    """Leave out what is another thing on every machine."""
    return HASH.sub('seen="…"', ID.sub(r"\1_…", text))


def read() -> dict[str, str]:
    """Read the golden file, situation by situation."""
    _, *blocks = re.split(r"^(?=\[)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {block.split("]", 1)[0][1:]: block.strip() + "\n" for block in blocks}
