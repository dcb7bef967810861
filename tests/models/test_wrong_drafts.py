"""Of twenty wrong drafts at least seventeen can be recognised from their preview alone (M9)."""

from __future__ import annotations

from pathlib import Path

from duly.script.finding import Finding, refusing
from tests.models.wrong_drafts.reading import open_host, preview, read_drafts

RECOGNISED_MIN = 17


async def test_a_person_sees_what_is_wrong_without_the_code(tmp_path: Path) -> None:
    """M9: each preview has the telling fact, and the preview of the right draft has not."""
    right, wrong = read_drafts()
    assert len(wrong) == 20
    async with open_host(tmp_path) as host:
        shown = {each.name: await preview(host, each) for each in right}
        assert not [name for name, told in shown.items() if "stopped" in told]
        unseen = []
        for each in wrong:
            found = await host.check(each.source)
            assert not refusing([one for one in found if isinstance(one, Finding)]), found
            assert each.telling not in shown[each.of], each.name
            if each.telling not in await preview(host, each):
                unseen.append(each.name)
    assert len(wrong) - len(unseen) >= RECOGNISED_MIN
    assert unseen == []
