"""What a test of a workflow or a connector stands on: virtual time, a world that counts, faults.

Law: nothing here knows the engine from inside. A test sees what a user sees, plus the truth about
the outside, which the host itself can only ask for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from duly.connectors.blob import MemoryBlobs, using_blobs
    from duly.testing.child import ExamFailed
    from duly.testing.crash import Crash, CrashingStore
    from duly.testing.env import VirtualEnv
    from duly.testing.exam import Report, examine, look_at_disk
    from duly.testing.exam_record import record_exam
    from duly.testing.fault import Fault
    from duly.testing.loop import Stuck, VirtualLoop
    from duly.testing.network import WEB_REPLIES, NetworkReport, WebReply, examine_network
    from duly.testing.sandbox import Outstanding
    from duly.testing.stage import Stage, open_stage
    from duly.testing.world import Happened, World

__all__ = [
    "WEB_REPLIES",
    "Crash",
    "CrashingStore",
    "ExamFailed",
    "Fault",
    "Happened",
    "MemoryBlobs",
    "NetworkReport",
    "Outstanding",
    "Report",
    "Stage",
    "Stuck",
    "VirtualEnv",
    "VirtualLoop",
    "WebReply",
    "World",
    "examine",
    "examine_network",
    "look_at_disk",
    "open_stage",
    "record_exam",
    "using_blobs",
]

# pytest imports this package for its plugin in every program that has Duly installed.
_WHERE: Final = {
    "Crash": "duly.testing.crash",
    "CrashingStore": "duly.testing.crash",
    "ExamFailed": "duly.testing.child",
    "Fault": "duly.testing.fault",
    "Happened": "duly.testing.world",
    **dict.fromkeys(("MemoryBlobs", "using_blobs"), "duly.connectors.blob"),
    "Outstanding": "duly.testing.sandbox",
    "Report": "duly.testing.exam",
    "Stage": "duly.testing.stage",
    "Stuck": "duly.testing.loop",
    "VirtualEnv": "duly.testing.env",
    "VirtualLoop": "duly.testing.loop",
    "World": "duly.testing.world",
    **dict.fromkeys(
        ("WEB_REPLIES", "NetworkReport", "WebReply", "examine_network"), "duly.testing.network"
    ),
    "examine": "duly.testing.exam",
    "look_at_disk": "duly.testing.exam",
    "open_stage": "duly.testing.stage",
    "record_exam": "duly.testing.exam_record",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a part at its first use."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name]), name)
