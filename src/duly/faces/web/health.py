"""For programs that watch a host: `/healthz`, `/metrics` in the text format of Prometheus.

Law: `/healthz` needs no sign-in, so that it costs the host one question at a time, however many ask
it; a host that does not answer within seconds is said to be silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from duly import __version__
from duly.api.registry import Scope
from duly.api.value import Json
from duly.api.word import FigureName
from duly.errors import StoreUnavailable
from duly.faces.web.guard import OPEN, Entry, visit_of
from duly.words.figure import MEANINGS

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SILENT_S: Final = 5.0  # after which a host that has not answered is said to be silent


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
    """Write the figures of the host."""
    found: Any = await visit_of(request).session.call("figures")
    lines = [
        "# HELP duly_info The version that runs.",
        "# TYPE duly_info gauge",
        f'duly_info{{version="{__version__}"}} 1',
    ]
    by_name: dict[str, list[Any]] = {}
    for each in found:
        by_name.setdefault(each["name"], []).append(each)
    for name, figures in by_name.items():
        known = FigureName(name)
        lines += [f"# HELP {name} {MEANINGS[known]}", f"# TYPE {name} {known.kind}"]
        lines += [f"{name}{_labels(each['labels'])} {each['value']:.12g}" for each in figures]
    return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


def _labels(labels: Mapping[str, str]) -> str:
    """Spell labels; a name that a person chose may have any character in it."""
    pairs = [f'{name}="{_escape(value)}"' for name, value in labels.items()]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
