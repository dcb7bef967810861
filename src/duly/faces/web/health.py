"""For programs that watch a host: `/healthz`, `/metrics` in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from duly import __version__
from duly.api.page import PAGE_ROWS_MAX
from duly.api.registry import Scope
from duly.api.word import Standing
from duly.faces.web.guard import OPEN, Entry, visit_of

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
AT_MOST: Final = f"up to {PAGE_ROWS_MAX}"  # what one question returns


def list_entries() -> Iterator[Entry]:
    """Make the entries; that the host answers needs no sign-in."""
    yield Entry("/healthz", healthz, {"GET": OPEN})
    yield Entry("/metrics", metrics, {"GET": Scope.READ})


async def healthz(request: Request) -> Response:
    """Tell that the host answers; if it does not, the guard says so."""
    await visit_of(request).session.call("next_due")
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """Write the figures there are."""
    session = visit_of(request).session
    workflows: Any = await session.call("workflows", limit=PAGE_ROWS_MAX)
    waiting: Any = await session.call("attention", limit=PAGE_ROWS_MAX)
    standings = Counter(each["standing"] for each in workflows)
    lines = [
        *_figure("duly_info", "The version that runs.", [(f'version="{__version__}"', 1)]),
        *_figure(
            "duly_workflows",
            f"Workflows by standing, {AT_MOST}.",
            [(f'standing="{each}"', standings[each]) for each in Standing],
        ),
        *_figure("duly_attention", f"What waits for a person, {AT_MOST}.", [("", len(waiting))]),
    ]
    return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _figure(name: str, told: str, values: list[tuple[str, int]]) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} gauge"
    for labels, value in values:
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
