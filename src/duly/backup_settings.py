"""How often a serving host copies its store: `[backup]` of `duly.toml`.

    [backup]
    every = "1d"            # without it no copy is made
    keep = 7                # copies that stay
    folder = "backups"      # beside duly.toml, unless it is absolute

Law: a copy that is older goes only when a newer one is whole (H5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duly.errors import ConfigError, short

KEEP_MAX: Final = 1_000
EVERY_MS_MIN: Final = 60_000
UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EVERY: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """When copies are made, how many stay, and where they are."""

    every: str | None = None
    keep: int = 7
    folder: str = "backups"

    def __post_init__(self) -> None:
        if self.every is not None and self.every_ms < EVERY_MS_MIN:
            given = {"wanted": "backup_interval", "given": short(self.every)}
            raise ConfigError(code="wrong_value", subject="every", facts=given)
        if type(self.keep) is not int or not 1 <= self.keep <= KEEP_MAX:
            facts = {"given": self.keep, "least": 1, "most": KEEP_MAX}
            raise ConfigError(code="out_of_range", subject="keep", facts=facts)
        if not self.folder:
            raise ConfigError(code="blank", subject="folder")

    @property
    def every_ms(self) -> int:
        """How long it is from one copy to the next; 0 for what is no time."""
        found = _EVERY.fullmatch(self.every or "")
        return 0 if found is None else int(found[1]) * UNITS_MS[found[2]]
