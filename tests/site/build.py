"""The site, built: every page as HTML in a folder that works as it lies there, without a server.

Law 1  A link that leads nowhere fails the build, with its page. So does an anchor that is missing.
Law 2  No page asks for anything outside of its folder: no font, no script, no picture.
Law 3  A file of the repository that a page links to comes along as text.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from duly import __version__
from tests.house import ROOT
from tests.site.markdown import Written, write
from tests.site.order import DECISIONS, MENU, REST, VERBS
from tests.site.verbs import write_verbs

HERE: Final = Path(__file__).parent
# A link to a folder of the repository means this page.
FOLDERS: Final = {"docs/decisions": DECISIONS, "examples": "examples/README.md"}
AWAY: Final = ("https://", "http://", "mailto:")


class BrokenLinks(Exception):
    """Links of the pages lead nowhere."""


@dataclass
class Site:
    """What is built: texts by their path, then pages, and the files that come along."""

    root: Path
    out: Path
    texts: dict[str, str]
    pages: dict[str, Written] = field(default_factory=dict)
    anchors: list[tuple[str, str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def resolve(self, page: str, target: str) -> str:
        """Return what stands in the HTML for a link of a page."""
        if target.startswith(AWAY):
            return target
        name, _, anchor = target.partition("#")
        path = os.path.normpath(PurePosixPath(page).parent / name) if name else page
        path = FOLDERS.get(path, path)
        if path == "README.md":
            path = "docs/index.md"  # the first page of the repository is another one than ours
        if path in self.texts:
            if anchor:
                self.anchors.append((page, path, anchor))
            return relative(page, address(path)) + (f"#{anchor}" if anchor else "")
        if not (self.root / path).exists() or path.startswith(".."):
            self.broken.append(f"{page}: {target}")
            return target
        return relative(page, self.bring(path))

    def bring(self, path: str) -> str:
        """Copy a file, or the files of a folder one after the other; return where that lies."""
        is_picture = path.endswith((".png", ".svg"))
        where = address(path) if is_picture else f"files/{path}.txt"
        target = self.out / where
        target.parent.mkdir(parents=True, exist_ok=True)
        if (self.root / path).is_dir():
            parts = sorted(each for each in (self.root / path).glob("*.*") if each.is_file())
            texts = (f"== {each.name} ==\n\n{each.read_text('utf-8')}" for each in parts)
            target.write_text("\n".join(texts), encoding="utf-8")
        else:
            shutil.copyfile(self.root / path, target)
        return where


def build(out: Path, root: Path = ROOT) -> Site:
    """Build the site into a folder; raise BrokenLinks where a link leads nowhere."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    site = Site(root, out, texts_of(root))
    for path, text in site.texts.items():
        site.pages[path] = write(text, lambda target, page=path: site.resolve(page, target))  # type: ignore[misc]
    for page, path, anchor in site.anchors:
        if anchor not in {each.anchor for each in site.pages[path].sections}:
            site.broken.append(f"{page}: {path}#{anchor}")
    if site.broken:
        raise BrokenLinks("\n".join(site.broken))
    _write(site)
    return site


def texts_of(root: Path) -> dict[str, str]:
    """Read every page: those of the menu, the decisions, and what is left of `docs/`."""
    made = {VERBS: write_verbs(), DECISIONS: _decisions(root)}
    paths = [path for _, row in MENU for path in row]
    paths += sorted(each.relative_to(root).as_posix() for each in (root / "docs").rglob("*.md"))
    paths += sorted(
        each.relative_to(root).as_posix() for each in (root / "examples").rglob("README.md")
    )
    return {
        path: made[path] if path in made else (root / path).read_text(encoding="utf-8")
        for path in dict.fromkeys(paths)
    }


def address(path: str) -> str:
    """Return where a page or picture lies in the site; those of `docs/` lie at its top."""
    path = path.removeprefix("docs/")
    if path.endswith("README.md"):
        return path.removesuffix("README.md") + "index.html"
    return path.removesuffix(".md") + ".html" if path.endswith(".md") else path


def relative(page: str, target: str) -> str:
    """Return the way from a page to an address of the site."""
    return os.path.relpath(target, PurePosixPath(address(page)).parent).replace(os.sep, "/")


def menu_of(site: Site) -> list[tuple[str, list[str]]]:
    """Return the menu; pages that no row names come last."""
    rows = [(title, list(paths)) for title, paths in MENU]
    named = {path for _, paths in rows for path in paths}
    rest = [
        path
        for path in site.texts
        if path not in named and not path.startswith(("docs/decisions/", "examples/"))
    ]
    return [*rows, (REST, rest)] if rest else rows


def _decisions(root: Path) -> str:
    lines = ["# Decisions", "", "Each page has a question, the options, and what was decided.", ""]
    for path in sorted((root / "docs/decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)


def _write(site: Site) -> None:
    shelf = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    sheet = shelf.get_template("page.html")
    menu = menu_of(site)
    order = [path for _, paths in menu for path in paths]
    for path, page in site.pages.items():
        target = site.out / address(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        place = order.index(path) if path in order else None
        after = order[place + 1] if place is not None and place + 1 < len(order) else None
        text = sheet.render(
            page=page,
            version=__version__,
            base="../" * address(path).count("/"),
            menu=[(title, [_item(site, path, each) for each in row]) for title, row in menu],
            after=None if after is None else _item(site, path, after),
        )
        target.write_text(text, encoding="utf-8")
    for name in ("site.css", "site.js"):
        shutil.copyfile(HERE / name, site.out / name)
    index = [
        (page.title, each.title, f"{address(path)}#{each.anchor}", each.text)
        for path, page in site.pages.items()
        for each in page.sections
    ]
    found = json.dumps(index, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    (site.out / "find.js").write_text(f"var FIND = {found};\n", encoding="utf-8")


def _item(site: Site, page: str, target: str) -> tuple[str, str, bool]:
    return site.pages[target].title, relative(page, address(target)), page == target
