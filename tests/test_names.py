"""Names and words: one class has one name, and a sentence names its actor.

Law: each checker reads text and returns its offences. What it must catch is planted here; what it
must leave alone is the repository.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests import house
from tests.house import ROOT, SOURCE, VERIFICATION

# A sentence with one of these does not say who acts: caller, task, host, worker, user, script.
# Written with brackets, so that this file does not name them itself.
UNNAMED = re.compile(r"\b(who|what)eve[r]\b|\b(no|some|any)bod[y]\b|\bsomeon[e]\b", re.IGNORECASE)
TEXTS = frozenset({".py", ".sql", ".js", ".md"})

# A record or a message bears the name of what it carries, and is read as `record.Run`, `wire.Call`.
CARRIERS = frozenset({"record", "wire", "python_wire"})
# Names that two classes share, and why that is clear where they are read.
SHARED = {
    "Answer": "to a call of a script; of a person",
    "Fault": "of a worker; in `duly.testing`, what goes wrong on demand",
    "Clock": "a connector for users; for words, when now is",
    "Mailbox": "a connector for users; in `duly.testing`, what stands in for it",
    "Parameter": "of a tool; of a verb",
    "Place": "in a script; of a page; of an offer",
    "Registry": "of connectors; of verbs",
    "Worker": "does the work of a workflow; a process that runs scripts",
    "World": "a step's clock and dice; in `duly.testing`, the outside of a test",
}


def unnamed_actors(text: str) -> list[str]:
    """Find the lines that do not say who acts."""
    lines = enumerate(text.splitlines(), 1)
    return [f"{number}: {each[0]}" for number, line in lines for each in UNNAMED.finditer(line)]


def shared_names(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Find the public classes of several modules that share a name; faces meet no other room."""
    places: dict[str, list[str]] = {}
    for module, text in texts.items():
        room, last = module.split(".")[0], module.split(".")[-1]
        if room == "faces" or last in CARRIERS:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    return {name: found for name, found in places.items() if len(found) > 1}


def _texts(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        is_ours = not house.NOT_OURS.intersection(path.parts)
        if path.is_file() and path.suffix in TEXTS and is_ours:
            yield path


def _offences(paths: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{each}"
        for path in paths
        for each in unnamed_actors(path.read_text(encoding="utf-8"))
    ]


def test_a_sentence_names_its_actor() -> None:
    texts = [*_texts(SOURCE), *_texts(VERIFICATION)]
    assert {"engine", "faces", "store"} <= {
        path.relative_to(ROOT).parts[2] for path in texts if SOURCE in path.parents
    }
    assert _offences(texts) == []


def test_a_page_names_its_actor() -> None:
    pages = (ROOT / "docs").glob("*.md")
    assert _offences([*pages, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]) == []


def test_a_sentence_without_an_actor_is_caught() -> None:
    for word in ("Who" + "ever", "what" + "ever", "no" + "body", "Some" + "one", "any" + "body's"):
        assert unnamed_actors(f"One line.\nHere {word} waits.") == [f"2: {word.split(chr(39))[0]}"]
    assert unnamed_actors("The caller waits, whichever it is; no body of a request is read.") == []


def test_one_class_has_one_name() -> None:
    texts = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in house.modules()
    }
    assert {"engine.worker", "rules.lifecycle"} <= set(texts)
    assert set(shared_names(texts)) - set(SHARED) == set()


def test_two_classes_with_one_name_are_caught() -> None:
    text = "class Seat:\n    class Inner: ...\nclass _Own: ..."
    assert shared_names({"bus.seat": text, "sandbox.seat": text}) == {
        "Seat": ["bus.seat", "sandbox.seat"]
    }
    assert shared_names({"bus.seat": text, "desk.record": text, "faces.seat": text}) == {}
