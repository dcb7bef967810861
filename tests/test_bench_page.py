"""The pages of figures say what was measured (U6)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import page, picture, report
from bench.crash_window import figures
from bench.crash_window.__main__ import SUBJECTS
from bench.crash_window.figures import Counted
from bench.crash_window.figures import Row as Death
from bench.report import Conditions, Idle, Report, Row, Section

QUIET = Conditions("2026-01-02", 5, 2, 0.1, 1.9, 0.02, "3.11.7", "3.50.0", "Linux")
SPEED = Row("Duly, Python", 200.0, 190.0, 210.0, 0.25, 0.2, 0.3, 3_000.0, 10)
OURS = replace(SPEED, children_us=1_500.0, against={"DBOS": 4.0}, goals={"DBOS": 5.0})
THEIRS = replace(SPEED, name="DBOS 3.3.0", ratio=0.05, cpu_us=12_000.0)
RUNS = Section([OURS, THEIRS], [Idle("Duly, Python", 2.5, 2.0, 4.0, 3.0)], [], QUIET)
BUSY = replace(RUNS, conditions=replace(QUIET, others=0.8))


def test_the_pages_and_the_picture_are_as_the_figures_say() -> None:
    """U6: after a change run `python -m bench.page --write`."""
    stale = [
        path.name
        for path, content in page.pages(report.kept()).items()
        if path.read_text(encoding="utf-8") != content
    ]
    assert stale == []


def test_both_tables_of_the_crash_window_are_as_it_was_counted() -> None:
    """U6: after a change run `python -m bench.crash_window.figures --write`."""
    counted = figures.kept()
    assert figures.main([]) == 0, "a page differs"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", counted.on)
    for page_of in (figures.PAGE, figures.README):
        text = page_of.read_text(encoding="utf-8")
        assert counted.said in text
        for each in counted.rows:
            assert f"| {each.program} | {each.version} | " in text
    assert [each.program for each in counted.rows] == [each.label for each in SUBJECTS]


def test_a_count_that_is_wrong_is_bold_and_a_change_that_waits_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [tmp_path / each for each in ("bench.md", "first.md")]
    for each in pages:
        each.write_text("a\n<!-- crash window -->\nold<!-- end of crash window -->\nb\n")
    monkeypatch.setattr(figures, "PAGE", pages[0])
    monkeypatch.setattr(figures, "README", pages[1])
    rows = (Death("one", "1", 0, 2, "well"), Death("two", "2", 0, 1, "asks a person"))
    found = figures.pages(Counted("2026-01-02", "3.11.7", "Linux", rows))
    assert [*found] == pages
    for text in found.values():
        assert "| one | 1 | **0** | **2** | well |\n| two | 2 | 0 | 1 | asks a person |\n" in text
        assert "old" not in text
        assert text.endswith("3.11.7 on Linux.\n\n<!-- end of crash window -->\nb\n")


def test_facts_come_back_from_json_as_they_were() -> None:
    found: Report = {"runs": RUNS, "step": Section([SPEED])}
    assert report.decode(report.encode(found)) == found


def test_text_and_markdown_have_the_same_cells() -> None:
    found: Report = {"runs": RUNS}
    line = next(each for each in page.markdown(found).splitlines() if "Python |" in each)
    cells = [each.strip() for each in line.strip("| ").split("|")]
    printed = page.text(found)
    assert cells[:4] == ["10", "Duly, Python", "200", "0.25 (0.20 to 0.30)"]
    assert cells[4:] == ["4.0 of 5", "–", "–", "3,000", "1,500", "–"]
    for cell in cells:
        assert cell in printed
    for words in ("2.5 ms (2.0 to 4.0, goal 3)", "2026-01-02", "5 rounds", "quiet", "load 0.1"):
        assert words in printed
        assert words in page.markdown(found)


@pytest.mark.parametrize(("section", "has_speeds"), [(RUNS, True), (BUSY, False)])
def test_the_first_page_shows_no_speed_of_a_busy_machine(
    section: Section, has_speeds: bool
) -> None:
    shown = page.readme({"runs": section})
    assert "| Duly, Python | 4.5 ms |" in shown
    assert ("| 0.25 |" in shown) == has_speeds
    assert ("Speeds are left out" in shown) != has_speeds


def test_a_goal_is_met_by_the_ratio() -> None:
    rows = [replace(SPEED, goal=0.25), replace(SPEED, goal=0.26)]
    printed = page.text({"store": Section(rows, conditions=QUIET)})
    assert [words in printed for words in ("0.25 met", "0.26 missed")] == [True, True]


def test_a_bar_is_as_long_as_a_run_is_dear() -> None:
    drawn = ET.fromstring(picture.draw(RUNS.rows, "words & <signs>"))
    bars = [each for each in drawn.iter() if each.tag.endswith("rect")][1:]
    widths = [float(each.attrib["width"]) for each in bars]
    longest = picture.WIDTH - picture.LEFT - picture.RIGHT
    expected = [longest / 4, longest / 8, longest, 0.0]
    assert widths == pytest.approx(expected, abs=0.1)


def test_what_is_kept_is_replaced_section_by_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FIGURES", tmp_path / "figures.json")
    before, after = Section([SPEED], conditions=QUIET), Section([THEIRS], conditions=QUIET)
    report.keep({"bus": before, "step": before})
    assert report.keep({"bus": after}) == {"bus": after, "step": before} == report.kept()
