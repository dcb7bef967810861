"""The whole text of the figures is what a monitor reads (Prometheus, text format 0.0.4)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly.rules.figure import FigureName
from duly.rules.verb import Scope
from tests.web.stand import ask, bearer, fake, serving

pytestmark = pytest.mark.anyio

HEAD = re.compile(r"# (HELP|TYPE) ([a-z][a-z0-9_]*) (\S.*)")
LINE = re.compile(r"([a-z][a-z0-9_]*)(?:\{(.*)\})? (-?\d[0-9.e+-]*)")
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\\\|\\"|\\n)*)"(?:,|$)')
UNITS = ("_seconds", "_bytes", "_seconds_total", "_bytes_total")


def read(text: str) -> dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]]:
    """Read the text as a monitor does; anything else than the format is an error."""
    assert text.endswith("\n")
    found: dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]] = {}
    lines = text.removesuffix("\n").split("\n")
    while lines:
        heads = [HEAD.fullmatch(lines.pop(0)) for _ in range(2)]
        (help_word, name, _), (type_word, typed, kind) = (each.groups() for each in heads if each)
        assert (help_word, type_word, typed) == ("HELP", "TYPE", name)
        assert name not in found, "the lines of one name stand together"
        assert kind == ("counter" if name.endswith("_total") else "gauge")
        values: dict[tuple[tuple[str, str], ...], float] = {}
        while lines and not lines[0].startswith("#"):
            line = LINE.fullmatch(lines.pop(0))
            assert line is not None
            assert line[1] == name
            pairs = tuple(LABEL.findall(line[2] or ""))
            assert LABEL.sub("", line[2] or "") == ""
            assert pairs not in values, "one value for the same labels"
            values[pairs] = float(line[3])
        assert values, f"{name} is announced and has no value"
        found[name] = (kind, values)
    return found


async def test_the_text_of_a_host_is_read_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        await web.deploy()
        found = read((await web.ask("/metrics", scope=Scope.READ)).text)
    assert found.keys() - {"duly_info"} <= {*FigureName}
    assert len(found) > 5
    for name, (_, values) in found.items():
        if "seconds" in name or "bytes" in name:
            assert name.endswith(UNITS)
        if name != "duly_info":
            assert {tuple(key for key, _ in pairs) for pairs in values} == {FigureName(name).labels}


async def test_a_name_with_any_character_stays_one_label() -> None:
    """A name that a person chose cannot add a label, a line or a figure."""
    app, door = fake()
    hard = 'a "b"\\\n# TYPE x counter\nduly_attention 9'
    door.answers["figures"] = [
        {"name": "duly_pending_events", "value": 2.0, "labels": {"workflow": hard}},
        {"name": "duly_attention", "value": 7, "labels": {}},
        {"name": "duly_pending_events", "value": 1, "labels": {"workflow": "b"}},
    ]
    found = read((await ask(app, "/metrics", headers=bearer(Scope.READ))).text)
    _, pending = found["duly_pending_events"]
    spelled = hard.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert pending == {(("workflow", spelled),): 2.0, (("workflow", "b"),): 1.0}
    assert found["duly_attention"][1] == {(): 7.0}
