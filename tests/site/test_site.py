"""The site is whole: every page is there, links lead somewhere, nothing is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from duly.api.registry import Registry
from duly.faces.cli import commands
from tests import house
from tests.site.build import BrokenLinks, Site, build
from tests.site.markdown import slug, write
from tests.site.order import DECISIONS, MENU, VERBS

# Of these elements a browser fetches the address by itself.
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}


class Read(HTMLParser):
    """What a browser would see: links, what is fetched, and anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            self.links.append(given["href"] or "")
        if tag in FETCHED:
            self.fetched.append(given[FETCHED[tag]] or "")
        if given.get("id"):
            self.anchors.add(given["id"] or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return build(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(scope="module")
def read(site: Site) -> dict[Path, Read]:
    return {path: Read(path.read_text("utf-8")) for path in sorted(site.out.rglob("*.html"))}


def test_every_link_of_the_built_pages_leads_to_a_file_and_to_an_anchor(
    site: Site, read: dict[Path, Read]
) -> None:
    """U6: read as a browser reads them, from a folder, without a server."""
    missing = []
    for path, page in read.items():
        for link in {*page.links, *page.fetched}:
            if link.startswith(("https://", "http://", "mailto:", "data:,")):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.is_file() or not target.is_relative_to(site.out.resolve()):
                missing.append(f"{path.name}: {link}")
            elif anchor and anchor not in read[site.out / target.relative_to(site.out)].anchors:
                missing.append(f"{path.name}: {link} has no such anchor")
    assert missing == []


def test_no_page_fetches_anything_from_elsewhere(site: Site, read: dict[Path, Read]) -> None:
    """U6: no font, no script, no picture of another place; it opens without a network."""
    fetched = {link for page in read.values() for link in page.fetched}
    assert [link for link in fetched if "://" in link or link.startswith("//")] == []
    for name in ("site.css", "site.js"):
        text = (site.out / name).read_text("utf-8")
        assert re.findall(r"https?:|@import|url\(|fetch\(|XMLHttp|eval", text) == []


def test_every_page_of_the_repository_is_in_the_site(site: Site, read: dict[Path, Read]) -> None:
    """U6: from the menu, or from the list of decisions."""
    pages = [
        each.relative_to(house.ROOT).as_posix() for each in (house.ROOT / "docs").rglob("*.md")
    ]
    assert {*pages, VERBS, DECISIONS} <= set(site.pages)
    listed = read[site.out / "decisions" / "index.html"].links
    decided = [Path(each).stem for each in pages if each.startswith("docs/decisions/")]
    assert [each for each in decided if f"{each}.html" not in listed] == []
    named = [path for _, row in MENU for path in row]
    assert len(named) == len(set(named))
    assert [each for each in named if each not in site.pages] == []


def test_every_verb_of_the_registry_has_its_section(site: Site) -> None:
    """U6: the reference is made from what every face is made from."""
    sections = {each.title for each in site.pages[VERBS].sections if each.level == 3}
    assert sections == set(Registry())


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in {path for _, row in MENU for path in row} - {VERBS, DECISIONS}:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("# A page\n\n## A part\n")
    for path in ("docs/reference.md", "docs/http.md"):  # what the page of verbs links to
        (root / path).write_text("# A page\n\n## A host\n\n## A part\n")
    build(tmp_path / "out", root)
    for link in ("gone.md", "http.md#gone", "../../outside.md", "pictures/gone.png"):
        (root / "docs/demo.md").write_text(f"# A page\n\n[here]({link})\n")
        with pytest.raises(BrokenLinks, match=r"docs/demo\.md: "):
            build(tmp_path / "out", root)


def test_markup_of_a_page_is_shown_and_not_obeyed() -> None:
    """U6: a page can quote what a stranger wrote."""
    made = write("# A <b>\n\n<script>x</script>\n\n```python\nx = '<i>'\n```\n", str)
    assert "<script>" not in made.html
    assert "<i>" not in made.html
    assert (made.title, made.sections[0].anchor) == ("A <b>", "a-b")
    assert slug("What `check` finds: A, B") == "what-check-finds-a-b"


def test_every_command_that_the_list_of_tasks_names_is_there() -> None:
    """U6: docs/how-to.md and docs/index.md."""
    for name in ("how-to.md", "index.md"):
        text = (house.ROOT / "docs" / name).read_text("utf-8")
        named = set(re.findall(r"`duly ([a-z-]+)", text))
        assert named - {*commands()} == set(), name
