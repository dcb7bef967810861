"""Records of a host, and the limits of its verbs, for a face that has a host in its own process."""

from __future__ import annotations

from duly.bus.record import Journaled as Journaled
from duly.desk.approval import SEVERAL_MAX as SEVERAL_MAX
from duly.desk.commands import ANSWERS as ANSWERS
from duly.desk.record import Workflow as Workflow
from duly.rules.fault import mask as mask
from duly.rules.fault import trace as trace
from duly.script.finding import Severity as Severity
