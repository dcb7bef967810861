"""Mail, a row and an answer on real servers: the host is killed, the network is cut."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from tests.breaks import tenth_of_commit
from tests.connectors.post_office import PostOffice
from tests.fire.mail import MailFire
from tests.fire.stand import Nursery

ROUNDS: Final = 20  # `python -m tests.fire.mail` has hundreds
SEED: Final = tenth_of_commit()


def test_every_mail_is_one_row_and_one_answer(nursery: Nursery, tmp_path: Path) -> None:
    """L3, L5, L7: over IMAP, SQL and SMTP; what was sent is found, and no person is asked."""
    (tmp_path / "host").mkdir()
    with closing(PostOffice(tmp_path / "office")) as office:
        report = MailFire(nursery, office, tmp_path / "host", SEED).blow(ROUNDS)
    assert report.rounds == ROUNDS
    assert report.rows == report.answers == report.mails >= ROUNDS
    assert report.questions == 0
