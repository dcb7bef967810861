"""`duly init`: what it writes works, and nothing that was there is touched."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from duly.api.zone import find_zone
from duly.faces.cli import duly
from duly.testing.exam_record import read_exam
from tests.faces.real import call


def test_a_new_project_passes_its_test_and_does_its_work(tmp_path: Path) -> None:
    """W5: its own test passes, its workflow is deployed without a warning, and it writes once."""
    folder = tmp_path / "my project"
    made = call(None, "init", str(folder))
    assert made.exit_code == 0, made.output
    assert "duly dev" in made.output
    assert made.output.index("duly serve") < made.output.index("duly dev")  # the page comes first
    # A connector of the project's own, which a test imports; pytest is called as people call it.
    (folder / "chat.py").write_text("ROOMS = 3\n")
    own = "import chat\n\ndef test_rooms():\n    assert chat.ROOMS == 3\n"
    (folder / "tests" / "test_chat.py").write_text(own)
    tested = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout
    assert call(folder, "check", str(folder / "workflows" / "welcome.py")).exit_code == 0
    assert call(folder, "deploy", "--grant").exit_code == 0
    drained = call(folder, "drain")
    assert "waits for you" in drained.stdout  # A3: it asks above low risk
    assert not (folder / "outbox" / "ada.txt").exists()
    (waiting,) = json.loads(call(folder, "approvals", "--json").stdout)
    assert waiting["form"] == [["File", "ada.txt"], ["Text", "Welcome, Ada!\n"]]
    assert call(folder, "approve", waiting["mutation"], "--yes").exit_code == 0
    drained = call(folder, "drain")
    assert drained.exit_code == 0, drained.output
    assert call(folder, "drain").stdout.startswith("No runs were committed; nothing waits for you.")
    assert (folder / "outbox" / "ada.txt").read_text() == "Welcome, Ada!\n"
    assert len((folder / "README.md").read_text().splitlines()) == 5


def test_nothing_is_written_where_a_file_is_in_the_way(tmp_path: Path) -> None:
    """W5: the file in the way is named, and the folder stays as it was."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "ada.txt").write_text("mine")
    refused = call(None, "init", str(tmp_path))
    assert refused.exit_code == 1
    assert f"{tmp_path / 'inbox' / 'ada.txt'} exists already" in refused.output
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["ada.txt", "inbox"]
    assert (tmp_path / "inbox" / "ada.txt").read_text() == "mine"


def test_the_way_into_a_folder_with_a_blank_can_be_pasted(tmp_path: Path) -> None:
    """U6: a command can be pasted as it stands."""
    told = CliRunner().invoke(duly, ["init", str(tmp_path / "my project")])
    assert f"  cd '{tmp_path}/my project'\n" in told.stdout


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """H3: what the disk says is told with the place."""
    (tmp_path / "file").write_text("")
    refused = call(None, "init", str(tmp_path / "file" / "project"))
    assert refused.exit_code == 1
    assert "cannot be written: Not a directory" in refused.output


@pytest.mark.parametrize(
    ("variable", "file", "link", "found"),
    [
        ("Asia/Tokyo", "Europe/Berlin", None, "Asia/Tokyo"),
        (":/usr/share/zoneinfo/Asia/Tokyo", None, None, "Asia/Tokyo"),
        (None, "Europe/Berlin\n", "/usr/share/zoneinfo/Asia/Tokyo", "Europe/Berlin"),
        (None, None, "../usr/share/zoneinfo/America/Argentina/Salta", "America/Argentina/Salta"),
        ("EST5EDT,M3.2.0", "no/such", "/etc/mine", "UTC"),
        ("../../etc/passwd", None, None, "UTC"),
        (None, None, None, "UTC"),
    ],
)
def test_the_zone_of_a_project_is_the_machines(
    tmp_path: Path, variable: str | None, file: str | None, link: str | None, found: str
) -> None:
    """S2: by its name, wherever the machine keeps it; else UTC."""
    (tmp_path / "etc").mkdir()
    if file is not None:
        (tmp_path / "etc" / "timezone").write_text(file)
    if link is not None:
        (tmp_path / "etc" / "localtime").symlink_to(link)
    environ = {} if variable is None else {"TZ": variable}
    assert find_zone(environ, tmp_path) == found


def test_init_writes_the_zone_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S2: so that the project means the same on another machine."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert call(None, "init", str(tmp_path / "new")).exit_code == 0
    settings = tomllib.loads((tmp_path / "new" / "duly.toml").read_text())
    assert settings["policy"]["timezone"] == "Asia/Tokyo"


def test_a_new_connector_passes_its_exam_as_it_is(tmp_path: Path) -> None:
    """K1, U6: with its double, and the record of its exam is of its code."""
    folder = tmp_path / "duly-tea-shop"
    made = CliRunner().invoke(duly, ["init", "--connector", "tea_shop", str(folder)])
    assert made.exit_code == 0, made.output
    tested = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout
    assert read_exam(folder / "src" / "duly_tea_shop").points["add"] > 20
    entry = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    assert entry == {"duly.connectors": {"tea_shop": "duly_tea_shop:TeaShop"}}
    again = CliRunner().invoke(duly, ["init", "--connector", "tea_shop", str(folder)])
    assert again.exit_code == 1


@pytest.mark.parametrize("words", [["Tea"], ["tea-shop"], ["slack"], ["tea", "--template", "fifo"]])
def test_a_name_that_no_connector_can_have_is_refused(tmp_path: Path, words: list[str]) -> None:
    """U6: and nothing is written."""
    done = CliRunner().invoke(duly, ["init", "--connector", *words, str(tmp_path / "x")])
    assert done.exit_code == 2
    assert not (tmp_path / "x").exists()
