"""What the pages show is true: an example prints what its page says, and no name goes unshown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duly
from tests import house

PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EMBEDDING = (house.ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")


def run_welcome(folder: Path) -> list[str]:
    """Run the page's first example as a person would, and answer what it prints."""
    program = folder / "welcome.py"
    program.write_text(house.examples(EMBEDDING)[0], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program.name], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_the_program_that_embeds_a_host_prints_what_its_page_says(tmp_path: Path) -> None:
    """L3, T5: run again, it posts nothing, and the ledger still knows both posts."""
    promised = PRINTED.findall(EMBEDDING)[0].splitlines()
    assert run_welcome(tmp_path) == promised
    assert run_welcome(tmp_path) == [line for line in promised if "the chat shows" not in line]


def test_every_public_name_stands_in_an_example_that_runs() -> None:
    pages = [*(house.ROOT / "docs").glob("*.md"), house.ROOT / "README.md"]
    shown = "\n".join(
        text for page in pages for text in house.examples(page.read_text(encoding="utf-8"))
    )
    imported = " ".join(re.findall(r"^from duly import (.*)$", shown, re.MULTILINE))
    words = set(re.findall(r"\w+", imported)) | set(re.findall(r"\bduly\.(\w+)", shown))
    assert set(duly.__all__) - words == set()


def test_every_public_name_stands_in_the_reference() -> None:
    page = (house.ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+)`", page.partition("## A host")[0]))
    assert set(duly.__all__) - listed == set()


def test_every_link_of_the_pages_leads_somewhere() -> None:
    pages = [*(house.ROOT / "docs").glob("*.md"), house.ROOT / "README.md"]
    pages.append(house.ROOT / "examples" / "README.md")
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


def slug(title: str) -> str:
    """Answer how a heading is linked to."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_link_into_a_page_names_a_heading_of_it() -> None:
    pages = {
        path.name: path for path in (*(house.ROOT / "docs").glob("*.md"), house.ROOT / "README.md")
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in pages.items()}
    headings = {
        name: {slug(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        for name, text in texts.items()
    }
    broken = [
        f"{name}: {page}#{heading}"
        for name, text in texts.items()
        for page, heading in re.findall(r"\]\((?:docs/)?([a-z-]+\.md|)#([^)]*)\)", text)
        if heading not in headings[page or name]
    ]
    assert broken == []
