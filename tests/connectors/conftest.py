"""One process that reads mails for all these tests; each connector would start its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duly.connectors.mail import Mail
from duly.connectors.reader import Readers, ReadingConnector


@pytest.fixture(autouse=True, scope="session")
def _shared_readers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shared = Readers()
        shared.read("mail", b"", Mail)  # in this thread: a process ends with the one that began it
        patch.setattr(ReadingConnector, "_readers", shared)
        yield
        shared.close()
