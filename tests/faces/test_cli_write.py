"""`duly write` and `duly preview`: a person sees what it does, and then says yes to its hash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.desk import write as writing
from duly.errors import RequestRefused
from duly.faces.cli import base
from tests.faces.cli_stand import answer, call
from tests.house import ROOT
from tests.models.server import MODEL, ModelServer

WISH = "File every ticket of my inbox in the table, in order."
SOURCE = (ROOT / "examples" / "fifo.py").read_text(encoding="utf-8")
TOML = """\
url = "sqlite:///duly.db"
workflows = "workflows"

[connectors.inbox]
use = "files"
path = "inbox"

[connectors.table]
use = "table"
path = "table"

[models.default]
api = "openai"
url = "URL/v1"
model = "MODEL"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    with ModelServer(tmp_path_factory.mktemp("server")) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(writing, "CRASHES", 1)
    server.lines.clear()
    server.script(f"```python\n{SOURCE}```")
    for name in ("inbox", "table", "workflows"):
        (tmp_path / name).mkdir()
    (tmp_path / "inbox" / "t1.txt").write_text("The printer is out of paper\n")
    text = TOML.replace("URL", server.url).replace("MODEL", MODEL)
    (tmp_path / "duly.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_person_sees_what_it_does_before_they_are_asked(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9: a no leaves a proposal, a yes puts exactly it to use and allows what it asks for."""
    monkeypatch.setattr(base, "is_terminal", lambda: True)
    no = call(folder, "write", WISH, given="n\n")
    assert no.exit_code == 1, no.output
    assert "A new workflow, “fifo”." in no.stdout
    assert "table: always “tickets”" in no.stdout
    assert "The printer is out of paper" in no.stdout
    assert "Crashed at 1 place in a simulation, it made every change exactly once." in no.stdout
    assert answer(folder, "workflows") == []
    (kept,) = answer(folder, "proposals")
    server.script(f"```python\n{SOURCE}```")
    monkeypatch.setattr(writing.Writing, "simulate", _cannot)  # the simulation was seen above
    yes = call(folder, "write", WISH, given="y\n")
    assert yes.exit_code == 0, yes.output
    assert "“fifo” is at version 1.0." in yes.stdout
    assert [each["capability"] for each in answer(folder, "grants", "fifo")] == kept["uses"]
    assert answer(folder, "proposals") == []


def test_a_change_shows_its_difference_and_the_past(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9, F3: behind `write --change` stand the runs that there were."""
    monkeypatch.setattr(writing.Writing, "simulate", _cannot)
    file = folder / "workflows" / "fifo.py"
    file.write_text(SOURCE)
    for words in (("deploy", str(file), "--grant"), ("drain",)):
        done = call(folder, *words)
        assert done.exit_code == 0, done.output
    server.lines.clear()
    changed = SOURCE.replace('table="tickets"', 'table="letters"')
    assert changed != SOURCE
    server.script(f"```python\n{changed}```")
    told = call(folder, "write", "Use the table letters.", "--change", "fifo")
    assert told.exit_code == 0, told.output
    assert '+        await ctx.table.insert(table="letters", row=row)' in told.output
    assert "1 would have been otherwise" in told.output
    assert 'with table "tickets"; now it would call it with table "letters"' in told.output
    (kept,) = answer(folder, "proposals")
    assert kept["replaces"] == "1.0"


async def _cannot(*_: object, **__: object) -> None:
    raise RequestRefused(code="no_simulator")


def test_without_a_terminal_it_waits_as_a_proposal(
    folder: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9: no yes is given in the name of a person; its preview can be read again.

    The model speaks Anthropic's format here, and is corrected once.
    """
    settings = folder / "duly.toml"
    text = settings.read_text().replace('"openai"', '"anthropic"').replace("/v1", "")
    settings.write_text(text)
    server.heard_all.clear()
    server.lines.insert(0, "Here is what I would do.")
    monkeypatch.setattr(writing.Writing, "simulate", _cannot)
    kept = call(folder, "write", WISH)
    assert kept.exit_code == 0, kept.output
    assert ["anthropic-version" in each.headers for each in server.heard_all] == [True, True]
    spoken = [who for who, _ in server.heard_all[1].messages]
    assert (spoken, server.surplus) == (["user", "assistant", "user"], 0)
    assert answer(folder, "workflows") == []
    (proposed,) = answer(folder, "proposals")
    assert proposed["hash"] in kept.output.replace("\n", "")
    again = call(folder, "preview", proposed["hash"], "--text-only")
    assert "A new workflow, “fifo”." in again.stdout
