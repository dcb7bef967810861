"""A user of its own for each locked process, where the host is root and can give one.

Law 1: such a user owns no file and shares its number with no other process, so file modes refuse
       what the lock would miss, and the kernel counts the threads of this process alone.
Law 2: a process that its host could not kill afterwards, or that could not reach the files it
       still needs, stays root: behind the same lock, without capabilities.

Under a host that is not root a locked process has the host's user: only root can give another.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

# Far from every user of a machine; the number of the process is added.
FIRST_USER: Final = 2_000_000_000
CAP_KILL: Final = 1 << 5
CAPABILITIES: Final = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)


def become_own_user(needed: Collection[str] = ()) -> bool:
    """Become a user of its own if a root host started this process; tell whether it did.

    `needed` are the files that the process still opens or executes.
    """
    if os.geteuid() != 0 or not _can_kill():
        return False
    user = FIRST_USER + os.getpid()
    try:
        os.setgroups([])
        os.setresgid(user, user, 0)
        os.setresuid(user, user, 0)
        if all(os.access(path, os.R_OK | os.X_OK, effective_ids=True) for path in needed):
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            return True
    except OSError:
        pass  # a container may know a few users only
    os.setresuid(0, 0, 0)
    os.setresgid(0, 0, 0)
    return False


def stays_root(needed: Collection[str] = ()) -> bool:
    """Tell whether a process that this host starts would stay root, by starting one."""
    import subprocess  # only the host asks, and each worker would pay for it

    if os.geteuid() != 0:
        return False
    # This file is the program: started without the rest of Duly it takes 20 ms.
    done = subprocess.run(
        [sys.executable, "-I", "-S", __file__, *needed],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode != 0


def _can_kill() -> bool:
    """Tell whether root here may kill other users' processes; a container can take that away."""
    try:
        found = CAPABILITIES.search(Path("/proc/self/status").read_text("ascii", "replace"))
    except OSError:
        return False
    return found is not None and bool(int(found[1], 16) & CAP_KILL)


if __name__ == "__main__":
    sys.exit(0 if become_own_user(sys.argv[1:]) else 1)
