"""The unit by which systemd runs a host: made from a few facts, and read by no program of ours.

Law 1  A unit waits longer for a stop than the host does, so that a send that is out ends by itself.
Law 2  Nothing in a name or a path is expanded by systemd: each is quoted, `%` and `$` are doubled.
Law 3  What a unit forbids, a host and its workers can do without. It filters no system calls:
       workers lock themselves further, and need those calls for it.
Law 4  Two projects never share a unit, also if their folders have the same name.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duly.errors import Invalid

NAME_CHARS_MAX: Final = 60
DIGEST_CHARS: Final = 8
STOP_S: Final = 150  # a host takes 30 s for sends, 30 s for threads, 10 s for handlers
# What every unit has, also one of a user, whose manager cannot change what it sees of the disk.
HARDENING: Final = (
    "UMask=0077",
    "NoNewPrivileges=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
)
# What only the system's manager can do.
HARDENING_OF_SYSTEM: Final = (
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "PrivateTmp=yes",
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A service of one project; with a `user` it is one of the system's."""

    project: Path
    python: Path
    user: str | None = None
    environment: Path | None = None

    @property
    def name(self) -> str:
        """The name that systemd knows it by; the digest tells folders of one name apart."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.project.name).strip("-.")
        digest = hashlib.sha256(os.fsencode(self.project)).hexdigest()[:DIGEST_CHARS]
        return f"duly-{plain[:NAME_CHARS_MAX] or 'host'}-{digest}.service"

    @property
    def text(self) -> str:
        """The file."""
        python, project = quote_word(str(self.python)), quote_word(str(self.project))
        start = f"{python} -m duly --project {project} serve"
        lines = [
            "[Unit]",
            f"Description=Duly host of {self.project.name}".replace("%", "%%"),
            *(("After=network-online.target", "Wants=network-online.target") if self.user else ()),
            "",
            "[Service]",
            "Type=exec",
            *((f"User={self.user}",) if self.user else ()),
            f"WorkingDirectory={escape(str(self.project))}",
            *((f"EnvironmentFile={escape(str(self.environment))}",) if self.environment else ()),
            f"ExecStart={start}",
            "KillMode=mixed",
            f"TimeoutStopSec={STOP_S}",
            "Restart=on-failure",
            "RestartSec=10",
            *HARDENING,
        ]
        if self.user:
            lines += [*HARDENING_OF_SYSTEM, f"ReadWritePaths={quote(str(self.project))}"]
        target = "multi-user.target" if self.user else "default.target"
        return "\n".join((*lines, "", "[Install]", f"WantedBy={target}", ""))


def escape(text: str) -> str:
    """Write a text so that systemd expands nothing in it; a control character cannot be written."""
    if not text.isprintable():
        raise Invalid(code="wrong_value", path="project", facts={"wanted": "printable_path"})
    return text.replace("%", "%%")


def quote(text: str) -> str:
    """Write a text as one word of a list."""
    inside = escape(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inside}"'


def quote_word(text: str) -> str:
    """Write a text as one word of a command, in which systemd replaces variables."""
    return quote(text).replace("$", "$$")
