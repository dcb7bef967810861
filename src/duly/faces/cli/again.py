"""A process that begins again: the same number, the same arguments, the sockets of its page.

Law 1  It begins only when its host has given its store back, or where the process would end anyway:
       all that this process still holds or sends ends with its old program, as at its end (L6).
Law 2  The sockets at which the page listens are handed on, so that a browser that comes in between
       waits for the new page and is not refused. Nothing else is: every other file is closed.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Final, NoReturn

from duly.faces.cli.base import EXIT_FAILED

VARIABLE: Final = "DULY_LISTENING"  # the numbers of the sockets that are handed on
SOCKETS_MAX: Final = 2


class Again:
    """Whether this process begins again, and the sockets that it was handed and hands on."""

    def __init__(self, handed: Iterable[socket.socket] = ()) -> None:
        self.handed = [*handed]
        self.is_due = False
        self._kept: list[socket.socket] = []

    def keep(self, *listening: socket.socket | None) -> None:
        """Hand sockets on; they may be closed here."""
        self._kept += [each.dup() for each in listening if each is not None]

    def begin(self) -> NoReturn:
        """Put this program anew in the place of this one (law 1)."""
        numbers = [each.fileno() for each in self._kept]
        for each in numbers:
            os.set_inheritable(each, True)
        environ = {**os.environ, VARIABLE: ",".join(map(str, numbers))}
        try:
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environ)
        except OSError as error:
            sys.stderr.write(f"{sys.executable} cannot be started: {error.strerror}\n")
            sys.stderr.flush()
            os._exit(EXIT_FAILED)


def take_over(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """Take the sockets that this program was handed by the one before it, if there was one."""
    found = []
    for each in environ.pop(VARIABLE, "").split(",")[:SOCKETS_MAX]:
        with suppress(ValueError, OSError):  # it is no number, or no socket of this process
            made = socket.socket(fileno=int(each))
            made.set_inheritable(False)
            found.append(made)
    return found
