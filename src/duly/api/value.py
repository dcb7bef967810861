"""JSON as every face reads and writes it (N)."""

from __future__ import annotations

from duly.rules.catalog import has_lines as has_lines
from duly.rules.value import INTEGER_MAX as INTEGER_MAX
from duly.rules.value import Json as Json
from duly.rules.value import decode as decode
from duly.rules.value import encode as encode
from duly.rules.value import nearest as nearest
from duly.rules.value import refuse_unknown as refuse_unknown
from duly.rules.value import suggest as suggest
