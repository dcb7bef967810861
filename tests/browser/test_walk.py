"""A real Chromium, a real host: every page, every decision, in one go (G9, G13, G14).

All walks share one host and one browser, which cost most. Each is reported by itself.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.audit import a_double_click_deploys_once, audit, without_javascript
from tests.browser.live import LIVE, is_as_reloaded
from tests.browser.picture import KEEP
from tests.browser.stand import WAIT_MS, walking
from tests.browser.walk import WALKS


def test_a_person_walks_through_every_page(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """G9, G13, G14: no error on a console, no request elsewhere, no finding of axe."""
    expect.set_options(timeout=WAIT_MS)
    pictures = Path(os.environ.get(KEEP) or tmp_path)
    with walking(tmp_path / "project") as person:
        person.pictures = pictures
        page = person.context().new_page()
        for walk in (*WALKS, *LIVE):
            with subtests.test(walk.__name__):
                walk(person, page)
                is_as_reloaded(page)
            assert person.problems == [], walk.__name__
        page.close()
        audit(person, pictures)
        without_javascript(person)
        a_double_click_deploys_once(person)
        assert person.problems == []
