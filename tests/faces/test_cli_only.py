"""No id is typed where only one thing waits, and Tab knows the ids there are."""

from __future__ import annotations

import time
from pathlib import Path

import click
import pytest

from duly.faces.cli import completion
from duly.faces.cli.completion import complete_explained, complete_id
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts, answer, call, copy, running


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, cli_stand.prepare(folder)


@pytest.fixture
def past(made: tuple[Path, Facts], tmp_path: Path) -> tuple[Path, Facts]:
    return copy(made[0], tmp_path / "project"), made[1]


@pytest.mark.parametrize(
    ("words", "became"),
    [
        (("approve", "--yes"), "in_flight"),
        (("reject", "--reason", "Ada has left", "--yes"), "rejected"),
    ],
)
def test_the_only_call_that_waits_need_not_be_named(
    past: tuple[Path, Facts], words: tuple[str, ...], became: str
) -> None:
    """A4, U6: it is shown first, with its hash, and a second time nothing is left."""
    folder, facts = past
    done = call(folder, *words)
    assert (done.exit_code, f"hash: {facts.hash}\n" in done.stdout) == (0, True)
    assert answer(folder, "mutation", facts.proposed)["status"] == became
    again = call(folder, *words)
    assert (again.exit_code, "Nothing waits for" in again.stderr) == (1, True)


def test_the_only_unknown_change_is_settled_by_one_word(past: tuple[Path, Facts]) -> None:
    """L10, U6: with a beginning of its id as well; what is no answer is wrong use."""
    folder, facts = past
    for words in ((), ("perhaps",), ("a", "b", "skip")):
        assert call(folder, "settle", *words, "--yes").exit_code == 2
    assert call(folder, "settle", "skip", "--yes").exit_code == 0
    assert answer(folder, "mutation", facts.unknown)["status"] == "skipped"


def test_of_several_none_is_chosen(past: tuple[Path, Facts]) -> None:
    """U6: they are listed with what to type, and what is typed then is taken."""
    folder, facts = past
    refused = call(folder, "retry")
    assert refused.exit_code == 1
    typed = [line.split() for line in refused.stdout.splitlines() if "duly retry" in line]
    ids = [words[2] for words in typed]
    assert len(ids) == 2
    assert "Name the one you mean." in refused.stderr
    assert call(folder, "retry", "--json").stdout == ""
    (mine,) = (each for each in ids if facts.failed_run.startswith(f"run_{each}"))
    assert call(folder, "retry", mine).exit_code == 0
    assert answer(folder, "runs", "fails")[0]["retry_of"] == facts.failed_run


def complete(folder: Path, complete: completion.Completer, begun: str) -> list[str]:
    """Press Tab behind some letters."""
    root = click.Context(click.Command("duly"))
    root.params["project"] = str(folder)
    return [each.value for each in complete(root, click.Argument(["id"]), begun)]


def test_tab_completes_ids_newest_first(
    past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: of one kind by digits, of several with their kind; each names one thing."""
    folder, facts = past
    monkeypatch.setattr(completion, "PATIENCE_S", 60.0)  # a busy machine answers later
    mutations = complete_id(("mutation",))
    assert complete(folder, mutations, "") == []
    with running(folder):
        runs = [each["id"] for each in answer(folder, "runs")]
        found = complete(folder, complete_id(("run",)), "")
        assert len(found) == len(runs)
        assert all(whole.startswith(f"run_{each}") for whole, each in zip(runs, found, strict=True))
        digits = facts.proposed.partition("_")[2]
        for begun in ("", digits[:5], facts.proposed[:12]):
            (mine,) = (
                each for each in complete(folder, mutations, begun) if each in facts.proposed
            )
            assert mine.startswith(begun)
        every = complete(folder, complete_explained, "")
        assert every[:5] == ["asks", "checks", "fails", "lost", "rests"]
        assert {each.partition("_")[0] for each in every[5:]} == {"run", "mutation"}
        assert complete(folder, complete_explained, "as") == ["asks"]
        assert complete(folder, mutations, "no id") == []


def test_tab_never_hangs(past: tuple[Path, Facts], monkeypatch: pytest.MonkeyPatch) -> None:
    """U6: a host that is slow to answer is not waited for."""
    folder, _ = past
    monkeypatch.setattr(completion, "PATIENCE_S", 0.0)
    with running(folder):
        begun = time.process_time()
        assert complete(folder, complete_explained, "") == []
        assert time.process_time() - begun < 5
