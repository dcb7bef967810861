"""Every command and every program of the first page runs (U6)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from duly.env import Loop
from duly.faces.demo.folder import PYTHON, TABLE, DemoFolder
from duly.faces.demo.mail import write_mails
from duly.faces.demo.post import MAILS
from duly.rules.standing import InputStatus
from tests import house, readme_page
from tests.faces.post_stand import make_desk, posting, rows_of

PAGE = readme_page.README.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What is not run here: `make` has a test of its own, and `pip` is run by `make setup`.
NOT_RUN = ("make ", "pip install ")
PATIENCE_S = 300.0


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(PAGE) if found == language]


def test_every_block_of_the_page_is_of_a_kind_that_is_run() -> None:
    assert {language for language, _ in BLOCK.findall(PAGE)} == {"sh", "python", "text"}
    assert (len(blocks("text")), len(blocks("sh")), len(blocks("python"))) == (1, 3, 3)


def test_what_the_page_shows_of_the_demo_is_what_the_demo_prints() -> None:
    """U6: test_demo.py compares the whole text with what it really prints."""
    whole = [line for chapter in readme_page.mask(readme_page.shown()) for line in chapter]
    (shown,) = blocks("text")
    assert [
        line
        for chapter in readme_page.mask(shown)
        for line in chapter
        if line.strip() and line not in whole
    ] == []


def test_the_page_s_workflow_makes_each_mail_a_row(tmp_path: Path) -> None:
    """W1: it is deployed strictly, as it stands, in the project that `duly init` makes."""
    with posting() as post:
        make_desk(tmp_path / "project", post)
        (tmp_path / "project/workflows/mail_desk.py").unlink()
        script = """
        cat > workflows/mail.py
        duly check workflows/mail.py && duly deploy --grant && duly drain
        """
        done = subprocess.run(
            ["sh", "-e", "-c", script],
            input=blocks("python")[0],
            cwd=tmp_path / "project",
            env=readme_page.path_to_duly(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows_of(tmp_path / "project") == list(MAILS)


def test_every_command_of_the_page_does_what_it_is_there_for(tmp_path: Path) -> None:
    run = [text for text in blocks("sh") if not text.startswith(NOT_RUN)]
    assert len(run) == 1
    for text in run:
        done = subprocess.run(
            ["sh", "-e"],
            input=text,
            cwd=tmp_path,
            env=readme_page.path_to_duly(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "001.eml,billing@shop.example,Invoice 4711 is due" in done.stdout
        assert "table.insert" in done.stdout


def test_the_page_tells_the_way_to_duly_as_the_demo_does_in_a_fresh_clone() -> None:
    """U6: after `make demo` the command is in .venv/bin, which no shell looks into."""
    assert '   export PATH=…/duly/.venv/bin:"$PATH"\n' in readme_page.shown()
    assert 'export PATH="$PWD/.venv/bin:$PATH"' in PAGE.partition("## Your first workflow")[0]


def test_every_page_can_be_reached_from_the_first_one() -> None:
    """U6: a page nobody links to is a page nobody reads."""
    linked = set(re.findall(r"\]\(docs/([a-z-]+\.md)\)", PAGE))
    assert {each.name for each in (house.ROOT / "docs").glob("*.md")} == linked


def test_every_target_of_make_that_the_page_names_is_there() -> None:
    makefile = (house.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)", PAGE))
    assert {"demo", "test"} <= named
    assert named - targets == set()


async def test_a_host_lives_as_long_as_the_application_does(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """U2: the page's lifespan, entered by a stand-in for an application, works off a mail."""
    folder = DemoFolder(tmp_path / "app")
    folder.build(TABLE)
    folder.deliver(write_mails(1, 1))
    monkeypatch.chdir(folder.path)
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[1], "README.md", "exec"), names)
    app = SimpleNamespace(state=SimpleNamespace())
    async with names["lifespan"](app):
        while not [
            each
            for each in await app.state.host.inputs(PYTHON.name)
            if each.status is InputStatus.DONE
        ]:
            await Loop().sleep(0.05)
    assert [row.mail for row in folder.rows(PYTHON)] == ["001.eml"]


def test_the_page_s_test_passes_where_duly_and_pytest_are_installed(tmp_path: Path) -> None:
    (tmp_path / "test_mail.py").write_text(blocks("python")[2], encoding="utf-8")
    shutil.copytree(house.ROOT / "examples", tmp_path / "examples")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mail.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_setup_says_what_it_is_doing() -> None:
    """U6: one plain line for each stage, and no command line between them."""
    dry = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"],
        cwd=house.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    told = re.findall(r'^echo "(.+)"$', dry.stdout, re.MULTILINE)
    assert [line[:3] for line in told] == ["1/4", "2/4", "3/4", "4/4", "Rea"]
    recipe = (house.ROOT / "Makefile").read_text(encoding="utf-8").split("$(STAMP):")[1]
    commands = [line for line in recipe.split("\n\n")[0].splitlines()[1:] if line.strip()]
    assert all(line.startswith("\t@") for line in commands)
