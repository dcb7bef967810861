"""The scripts that lie in the folder of a project: their names, and the text of one.

Law 1  Only a plain file of that folder itself is read, never where a link leads; nor one that
       another user could have written (K14).
Law 2  What is listed and what is read have a limit.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duly.api.trust import check_file
from duly.errors import Invalid, short
from duly.rules.source import DEFAULT_LIMITS, SUFFIXES, Source

SCRIPTS_MAX: Final = 100
READ_ONLY: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe is waited for by none


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """The folder of a project, and the one of its scripts, if it has one."""

    project: Path
    scripts: Path | None = None

    def list_scripts(self) -> list[str]:
        """List the names of the scripts; none, where the folder cannot be read."""
        if self.scripts is None:
            return []
        try:
            with os.scandir(self.scripts) as found:
                names = [each.name for each in found if _is_script(each)]
        except OSError:
            return []
        return sorted(names)[:SCRIPTS_MAX]

    def read_script(self, name: str) -> Source:
        """Read one of the scripts that are listed, whole and once."""
        language = SUFFIXES.get(Path(name).suffix)
        if self.scripts is None or language is None or Path(name).name != name:
            raise _unreadable(name, os.strerror(errno.ENOENT))
        path = self.scripts / name
        most = DEFAULT_LIMITS.source_bytes
        try:
            check_file(path, self.project, os.environ)
            with os.fdopen(os.open(path, READ_ONLY), "rb") as file:
                is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                content = file.read(most + 1) if is_plain else b""
            text = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise _unreadable(name, getattr(error, "strerror", None) or str(error)) from None
        if not is_plain:
            raise _unreadable(name, os.strerror(errno.EINVAL))
        if len(content) > most:
            facts = {"limit": most, "unit": "bytes"}
            raise Invalid(code="too_long", path="source", subject=short(name), facts=facts)
        return Source(language, text, name)


def _is_script(entry: os.DirEntry[str]) -> bool:
    is_named = Path(entry.name).suffix in SUFFIXES and not entry.name.startswith((".", "_"))
    return is_named and entry.is_file(follow_symlinks=False)


def _unreadable(name: str, cause: str) -> Invalid:
    facts = {"cause": cause}
    return Invalid(code="unreadable", path="source", subject=short(name), facts=facts)
