"""A proxy that sends every change a second time, and returns the second answer."""

from __future__ import annotations

from typing import Any

from duly.connectors.response import HttpResponse
from duly.connectors.transport import HttpRequest, Transport


class Twice(Transport):
    """The transport of a connector behind such a proxy."""

    async def change(self, request: HttpRequest, **more: Any) -> HttpResponse:
        """Send a change twice."""
        await super().change(request, **more)
        return await super().change(request, **more)
