"""Half a year of steady inputs: the store stops growing, but for what stays of each (H5, G13)."""

from __future__ import annotations

from bench.half_year import BACKUPS, DAYS, MONTH_DAYS, TEXT_CHARS, growth, live

SETTLED: int = 2  # months: what came in the first was removed by the end of the second
PAGE_ROWS: int = 100  # what a list shows, if it is not asked for more
STAYS_BYTES_MAX: int = 5_000  # of an input: its id, the key of its change, its empty run


def test_a_store_stops_growing_where_history_is_removed() -> None:
    """H5: free pages included; a change whose call was long kept a page of the file for ever."""
    months = live(DAYS, 1)
    assert len(months) == DAYS // MONTH_DAYS
    settled = growth([months[SETTLED - 1], months[-1]])[0]
    assert settled < STAYS_BYTES_MAX < TEXT_CHARS < growth(months)[0]
    assert [each.backups for each in months] == [BACKUPS.keep] * len(months)
    # A question costs what is shown, which is a page of each list, and what is open.
    full = [each.steps for each in months if each.inputs > PAGE_ROWS]
    assert len(full) > 1
    assert max(full) <= min(full) * 1.02
