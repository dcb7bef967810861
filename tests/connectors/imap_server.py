"""The IMAP server of the tests: pymap in memory, whose folders take marks of the client's own.

python tests/connectors/imap_server.py --host 127.0.0.1 --port 1143 … dict …
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pymap.config
from pymap.backend.dict.mailbox import MailboxData
from pymap.main import main
from pymap.parsing.specials.flag import Wildcard
from pysasl.hashing import BuiltinHash

_known: Any = MailboxData.permanent_flags


def _with_own(self: MailboxData) -> frozenset[Any]:
    """Take any word as a flag, as the servers of most providers do."""
    found: frozenset[Any] = _known.fget(self)
    return found | {Wildcard}


MailboxData.permanent_flags = property(_with_own)  # type: ignore[assignment,method-assign]

# Half a million rounds of hashing for each sign-in would be most of what these tests cost.
setattr(pymap.config, "BuiltinHash", partial(BuiltinHash, rounds=1))  # noqa: B010

if __name__ == "__main__":
    main()
