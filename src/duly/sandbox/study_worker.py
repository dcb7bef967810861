"""The worker that reads sources: one locked process, a few functions, nothing that runs a script.

Law 1: it is locked as the workers of scripts are, and takes work only then (X1). A parser that a
       source breaks is broken in here.
Law 2: between two sources it keeps nothing of ours; how long it computes is the host's to watch.

Which functions these are is told by its host: this room does not know the rooms they stand in.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from duly.cell import lock
from duly.sandbox import wire, worker_channel
from duly.words import error as _sentences  # noqa: F401  # the lock lets nothing in later

ADDRESS_SPACE_BYTES: Final = 1024 * 1024 * 1024


def serve(channel: int, places: tuple[str, ...]) -> None:
    """Serve studies until the channel ends; a place is written name=module:function."""
    functions: dict[str, Callable[[bytes], bytes]] = {}
    for each in places:
        name, _, place = each.partition("=")
        module, _, function = place.partition(":")
        functions[name] = getattr(import_module(module), function)
    for function_of in functions.values():
        function_of(b"")  # what is loaded late is loaded now: the lock lets nothing in
    wire.pack(wire.Studied(b""))
    report = lock.lock((channel,), lock.Profile(memory_bytes=ADDRESS_SPACE_BYTES))
    worker_channel.write(channel, wire.pack(wire.Ready(held=report.held, missing=report.missing)))
    while (body := worker_channel.read(channel)) is not None:
        request = wire.unpack_study(body)
        if isinstance(request, wire.Study):
            made = functions[request.what](request.body)
            worker_channel.write(channel, wire.pack(wire.Studied(made)))
