"""What these tests share: one process that reads mails, one mail server, one PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.connectors.mail import Mail
from duly.connectors.reader import Readers, ReadingConnector
from tests.connectors.books import Books, FileBooks, ServerBooks, user_of
from tests.connectors.post_office import PostOffice
from tests.postgres.conftest import server_folder as server_folder


@pytest.fixture(autouse=True, scope="session")
def _shared_readers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shared = Readers()
        shared.read("mail", b"", Mail)  # in this thread: a process ends with the one that began it
        patch.setattr(ReadingConnector, "_readers", shared)
        yield
        shared.close()


@pytest.fixture(scope="session")
def one_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostOffice]:
    """Run Dovecot and an SMTP server for all tests of this process."""
    made = PostOffice(tmp_path_factory.mktemp("office"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def other_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostOffice]:
    """Run another IMAP server, with an SMTP server."""
    made = PostOffice(tmp_path_factory.mktemp("other-office"), "pymap")
    yield made
    made.close()


@pytest.fixture(params=["dovecot", "pymap"])
def office(request: pytest.FixtureRequest) -> PostOffice:
    """Return a mail server; a test that wants one is run on each."""
    wanted = "one_office" if request.param == "dovecot" else "other_office"
    found: PostOffice = request.getfixturevalue(wanted)
    return found


@pytest.fixture(params=["sqlite", "postgresql"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Books:
    """Return an empty table of invoices."""
    if request.param == "sqlite":
        return FileBooks(tmp_path)
    server: Path = request.getfixturevalue("server_folder")
    return ServerBooks(server, user_of(tmp_path))
