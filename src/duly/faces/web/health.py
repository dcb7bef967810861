"""For programs that watch a host: `/healthz`, `/metrics` in the text format of Prometheus.

Law: `/healthz` needs no sign-in, so that it costs the host one question at a time, however many ask
it; a host that does not answer within seconds is said to be silent.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from duly import __version__
from duly.api.page import PAGE_ROWS_MAX
from duly.api.registry import Scope
from duly.api.value import Json
from duly.api.word import Standing
from duly.errors import StoreUnavailable
from duly.faces.web.guard import OPEN, Entry, visit_of

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SILENT_S: Final = 5.0  # after which a host that has not answered is said to be silent
AT_MOST: Final = f"up to {PAGE_ROWS_MAX}"  # what one question returns


def list_entries() -> Iterator[Entry]:
    """Make the entries; that the host answers needs no sign-in."""
    yield Entry("/healthz", Health().healthz, {"GET": OPEN})
    yield Entry("/metrics", metrics, {"GET": Scope.READ})


class Health:
    """The one question to the host that all who ask for its health share."""

    silent_s = SILENT_S

    def __init__(self) -> None:
        self._asking: asyncio.Future[Json] | None = None

    async def healthz(self, request: Request) -> Response:
        """Tell that the host answers, or that it is silent."""
        if self._asking is None or self._asking.done():
            session = visit_of(request).session
            self._asking = asyncio.ensure_future(session.call("next_due"))
            # All who asked may have given up by the time it fails.
            self._asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(self.silent_s):
                await asyncio.shield(self._asking)
        except TimeoutError:
            raise StoreUnavailable(code="host_silent", subject="channel") from None
        return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """Write the figures there are."""
    session = visit_of(request).session
    workflows: Any = await session.call("workflows", limit=PAGE_ROWS_MAX)
    waiting: Any = await session.call("attention_count")
    standings = Counter(each["standing"] for each in workflows)
    lines = [
        *_figure("duly_info", "The version that runs.", [(f'version="{__version__}"', 1)]),
        *_figure(
            "duly_workflows",
            f"Workflows by standing, {AT_MOST}.",
            [(f'standing="{each}"', standings[each]) for each in Standing],
        ),
        *_figure("duly_attention", f"What waits for a person, {AT_MOST}.", [("", waiting)]),
    ]
    return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _figure(name: str, told: str, values: list[tuple[str, int]]) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} gauge"
    for labels, value in values:
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"
