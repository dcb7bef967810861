"""How every face shows text that comes from outside (G9).

It is decided in `rules`, which faces do not import. Nothing heavy is imported with it.
"""

from __future__ import annotations

from duly.rules.cell import guard_parts as guard_parts
from duly.rules.shown import TAB_COLUMNS as TAB_COLUMNS
from duly.rules.shown import cut as cut
from duly.rules.shown import visible as visible
from duly.rules.shown import visible_json as visible_json
