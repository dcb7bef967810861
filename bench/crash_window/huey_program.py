"""Queue the mail on huey, or say what its queue holds; the consumer does the work."""

from __future__ import annotations

from bench.crash_window import effect
from bench.crash_window.huey_task import huey, write

if effect.PLACE:
    write(effect.MAIL)
else:
    effect.say(f"{huey.pending_count()} tasks waiting, {huey.result_count()} results")
