"""What axe says of a page as it stands before a person, and whether it is as wide as its window."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias

from playwright.sync_api import Page, ViewportSize

from tests.browser.picture import take
from tests.browser.stand import NARROW, WIDE, Person

Scheme: TypeAlias = Literal["light", "dark"]
AXE: Final = Path(str(files("axe_playwright_python"))) / "axe.min.js"
# In the dark nothing but colours is different: these rules see it (decision 521).
BY_LOOK: Final = ["color-contrast", "scrollable-region-focusable", "target-size"]
LOOKS: Final[tuple[tuple[ViewportSize, Scheme, list[str] | None], ...]] = (
    (WIDE, "light", None),
    (WIDE, "dark", BY_LOOK),
    (NARROW, "light", None),
    (NARROW, "dark", BY_LOOK),
)
SOME_LOOKS: Final = (LOOKS[0], LOOKS[-1])
RUN: Final = """rules => axe.run(rules ? { runOnly: rules } : {}).then(
  found => found.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"""
# How far the page is wider than its window; a part that scrolls by itself counts for nothing.
# What a finger and a mouse can hit; axe leaves out what it takes for text between lines.
TOO_SMALL: Final = """[...document.querySelectorAll("input[type=checkbox]")].filter(
  each => each.checkVisibility() && each.offsetWidth < 16).map(each => each.outerHTML)"""
TOO_WIDE: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def judge(person: Person, page: Page, name: str, picture: str = "") -> None:
    """Look at a page where a walk stands: what is wrong with it fails the walk."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for size, scheme, rules in (*SOME_LOOKS, (WIDE, "light", [])):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        if rules != []:  # the last one is how the walk goes on
            person.problems += list_findings(page, f"{name} ({scheme})", rules)
            if picture and person.pictures is not None:
                take(page, person.pictures / f"{picture}-{size['width']}.png")


def list_findings(page: Page, path: str, rules: list[str] | None) -> Iterator[str]:
    """Say what is wrong with a page as it looks now."""
    width = page.evaluate("innerWidth")
    for rule, nodes in page.evaluate(RUN, rules):
        yield f"{path} at {width}: {rule} {nodes[:3]}"
    for small in page.evaluate(TOO_SMALL):
        yield f"{path} at {width}: too small {small}"
    if (wider := page.evaluate(TOO_WIDE)) > 0:
        yield f"{path} at {width}: {wider} px too wide"
