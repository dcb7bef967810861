"""The golden file: every situation, and what a person is told in it.

python -m tests.desk.golden            compare
python -m tests.desk.golden --write    write it anew, and read it before you commit it
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from duly.errors import NotFound
from duly.fact import Offer, Reason
from duly.testing import Stage
from duly.words import say, say_offer
from tests.desk.golden.situation import OTHERS, Asked, Builder
from tests.desk.situation import SITUATIONS
from tests.engine.stand import NAME, Play

FILE: Final = Path(__file__).with_name("sentences.txt")
HEAD: Final = """\
What a person is told, situation by situation. The words of the engine name the first ones only so
that nobody loses count; everything after the colon is read by people who never saw the code.
"""
ID: Final = re.compile(r"(run|mutation)_[0-9a-f]{12,}")


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
        how = f"{shown.standing}: {_say(play, shown.reason)}"
    except NotFound:
        how = "gone"
    said = _say(play, why.reason, long=True)
    lines = [
        f"[{name}]",
        f"code       {why.reason.code}",
        f"standing   {how}",
        f"why        {said}",
    ]
    for entry in await play.host.attention():
        lines.append(f"attention  {_say(play, entry.reason, long=True)}")
        lines += [_offered(each) for each in entry.offers]
    return "\n".join(lines) + "\n"


def _say(play: Play, reason: Reason, *, long: bool = False) -> str:
    return say(reason, play.host.now, long=long)


def _offered(offer: Offer) -> str:
    args = json.dumps({name: _masked(name, each) for name, each in offer.args.items()})
    asks = f" asks {', '.join(offer.asks)}" if offer.asks else ""
    return f"           {offer.verb} {args}{asks}  # {say_offer(offer)}"


def _masked(name: str, value: Any) -> Any:
    """Leave out what is another thing on every machine."""
    return "…" if name == "seen" else ID.sub(r"\1_…", value) if isinstance(value, str) else value


def read() -> dict[str, str]:
    """Read the golden file, situation by situation."""
    _, *blocks = re.split(r"^(?=\[)", FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {block.split("]", 1)[0][1:]: block.strip() + "\n" for block in blocks}
