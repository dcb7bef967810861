"""One sandbox per language and module: `subject` is every language in turn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sandbox.contract import LANGUAGES, Subject, make_subject


@pytest.fixture(scope="module", params=LANGUAGES)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    made = await make_subject(request.param)
    yield made
    await made.sandbox.close()
