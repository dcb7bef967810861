"""G13: what could not be read is not shown as if nothing were there."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.errors import NotFound
from duly.host import Host
from duly.rules.source import EXAMPLE
from duly.words import page as words
from tests.faces.stand import replace_verb
from tests.web.stand import ask, serving
from tests.web.test_page import post, signed


async def test_what_could_not_be_read_is_no_empty_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version whose capabilities are not known does not look like one that uses nothing."""

    async def fail(host: Host, workflow: str, version: str | None = None) -> tuple[str, ...]:
        raise NotFound(code="no_version", subject=workflow)

    async with serving(tmp_path) as web:
        headers = await signed(web)
        sent = {"source.language": "python", "source.text": EXAMPLE["text"]}
        assert (await post(web.app, headers, "/act/deploy", sent)).status == 303
        read = (await ask(web.app, "/w/invoices/versions/1.0", headers=headers)).text
        replace_verb(monkeypatch, "uses", fail)
        unread = (await ask(web.app, "/w/invoices/versions/1.0", headers=headers)).text
    assert (words.UNREADABLE in read, words.UNREADABLE in unread) == (False, True)
    assert words.USES_NOTHING not in unread
