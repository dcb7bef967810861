"""What a test of a workflow or a connector stands on: virtual time, a world that counts, faults.

Law: nothing here knows the engine from inside. A test sees what a user sees, plus the truth about
the outside, which the host itself can only ask for.
"""

from __future__ import annotations

from duly.testing.crash import Crash, CrashingStore
from duly.testing.env import VirtualEnv
from duly.testing.exam import ExamFailed, Report, examine, look_at_disk
from duly.testing.fault import Fault
from duly.testing.loop import Stuck, VirtualLoop
from duly.testing.sandbox import Outstanding
from duly.testing.stage import Stage, open_stage
from duly.testing.world import Happened, World

__all__ = [
    "Crash",
    "CrashingStore",
    "ExamFailed",
    "Fault",
    "Happened",
    "Outstanding",
    "Report",
    "Stage",
    "Stuck",
    "VirtualEnv",
    "VirtualLoop",
    "World",
    "examine",
    "look_at_disk",
    "open_stage",
]
