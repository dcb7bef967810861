"""docs/settings.md names every setting with its default; what pages show as TOML loads."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from duly.api.build import CHANNELS, CONNECTORS, build_host
from duly.api.project import Project
from duly.config import APPROVALS, NO_SETTINGS, Backoff, Config, WorkflowPolicy, load
from duly.model_settings import ModelSettings
from tests import house

DOCS = house.ROOT / "docs"
PAGE = (DOCS / "settings.md").read_text(encoding="utf-8")
CHAPTER = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"\[([\w.]+)\]")
ROW = re.compile(r"^\| `([a-z_]+)` \| (?:`(.+?)`|–) \|", re.MULTILINE)
USE = re.compile(r'^\| `"([a-z0-9_]+)"` \| (.*?) \|', re.MULTILINE)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"^```python\n# (\w+)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOP = "At the top of the file"

# The pages that show a piece of a duly.toml, and the modules they leave to the reader.
PAGES = (
    "connectors",
    "event-bus",
    "models",
    "extensions",
    "google",
    "repair",
    "settings",
    "writing-connectors",
    "writing-workflows",
)
CARDS = """
import duly


class Cards(duly.Connector):
    def __init__(self, board):
        self.board = board

    @duly.read
    async def search(self) -> list:
        return []
"""
MECHANIC = """
class Mechanic:
    async def repair(self, case):
        return None
"""
LEFT_TO_THE_READER = {"cards": CARDS, "mechanic": MECHANIC}


def chapters() -> dict[str, str]:
    return dict(CHAPTER.findall(PAGE))


def keys_of(kind: Any, key: str = "") -> Iterator[str]:
    """List every setting, as the page names it; NAME stands where a person gives the name."""
    for name, inner in get_type_hints(kind).items():
        place = f"{key}.{name}".lstrip(".")
        if get_origin(inner) is Mapping and get_args(inner)[1] is not str:
            place += ".NAME"
            inner = get_args(inner)[1]
        yield place
        if is_dataclass(inner):
            yield from keys_of(inner, place)


def shown() -> dict[str, str | None]:
    """Read every setting of the page, with the default it gives as TOML."""
    found: dict[str, str | None] = {}
    for title, text in chapters().items():
        tables = [""] if title == TOP else TABLE.findall(title)
        for table in tables:
            if table:
                found[table] = None
            for name, default in ROW.findall(text):
                found[f"{table}.{name}".lstrip(".")] = default or None
    return found


def default_of(key: str) -> Any:
    """Answer what a setting is without a file."""
    if key.startswith("policy.workflows.NAME."):
        return getattr(WorkflowPolicy(), key.rpartition(".")[2])
    if key.startswith("models.NAME."):
        return next(each.default for each in fields(ModelSettings) if key.endswith(f".{each.name}"))
    value: Any = Config()
    for name in key.split("."):
        value = getattr(value, name)
    return value


def test_every_setting_stands_on_the_page_and_nothing_else_does() -> None:
    """W5: an unknown key is refused, so the page must name each that is known."""
    assert set(shown()) == {*keys_of(Config)}
    assert {"url", "policy.reconcile.first_s", "policy.workflows.NAME.mutate_reads"} <= set(shown())


def test_every_default_of_the_page_is_the_default() -> None:
    """N: also those of lists that were written once and changed since."""
    tables = {key for key in keys_of(Config) if key.rpartition(".")[2] == "NAME"}
    tables |= {"policy", "policy.limits", "policy.retries", "policy.reconcile"}
    tables |= {"bus", "sandbox", "fleet", "page", "backup", "otel"}
    for key in shown().keys() - tables:
        told = shown()[key]
        value = None if told is None else tomllib.loads(f"value = {told}")["value"]
        default = default_of(key)
        plain = list(default) if isinstance(default, tuple) else default
        assert (dict(plain) if isinstance(plain, Mapping) else plain) == value, key


def test_the_two_backoffs_share_their_chapter() -> None:
    """F2, L5: one chapter can speak for both only while they are of one kind."""
    assert [each.name for each in fields(Backoff)] == [
        name for name, _ in ROW.findall(chapters()["[policy.retries] and [policy.reconcile]"])
    ]


@pytest.mark.parametrize(
    ("title", "built_in", "unwritten"),
    [
        ("[connectors.NAME]", CONNECTORS, {"name"}),
        # A stream and a function cannot be written in TOML.
        ("[channels.NAME]", CHANNELS, {"name", "stream", "token"}),
    ],
)
def test_every_built_in_kind_stands_there_with_its_keys(
    title: str, built_in: Mapping[str, str], unwritten: set[str]
) -> None:
    """U6: what `use` may say, and what the other keys of the table are."""
    told = {use: re.findall(r"`(\w+)`", keys) for use, keys in USE.findall(chapters()[title])}
    assert told.keys() == built_in.keys()
    for use, place in built_in.items():
        module, _, name = place.partition(":")
        taken = inspect.signature(getattr(__import__(module, fromlist=[name]), name)).parameters
        assert set(told[use]) == set(taken) - unwritten, use


def test_every_word_of_an_approval_stands_there() -> None:
    """A3: the words, in the order of their strictness, with nothing beside them."""
    table = chapters()["[policy]"].partition("| word |")[2]
    words = re.findall(r'^\| `"([a-z:_]+)"` \|', table, re.MULTILINE)
    assert sorted(words) == sorted(APPROVALS)


def test_every_variable_of_the_page_is_read() -> None:
    """W5: the environment wins, and what is no setting is left alone."""
    chapter = chapters()["The environment"]
    exported = dict(re.findall(r"^export (\w+)=(.*)$", chapter, re.MULTILINE))
    config = load(None, {name: text.strip("'") for name, text in exported.items()})
    assert config.url == "sqlite:////var/lib/duly/duly.db"
    assert (config.policy.runs_max, config.policy.limits.step_cpu_s) == (20, 2.5)
    assert config.policy.approvals == {"*": "always"}
    assert set(re.findall(r"`(DULY_[A-Z_]+)`", chapter)) == NO_SETTINGS


@pytest.mark.parametrize("page", PAGES)
def test_every_piece_of_a_duly_toml_makes_a_host(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U6: it loads, every module and class it names is found, and every key is taken."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    modules = {**LEFT_TO_THE_READER, **dict(MODULE.findall(text))}
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, source in modules.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    pieces = TOML.findall(text)
    assert pieces
    for piece in pieces:
        file = tmp_path / "duly.toml"
        file.write_text(piece, encoding="utf-8")
        config = load(file, {})
        for table in config.connectors.values():
            if "." not in str(table.get("path", ".")):
                (tmp_path / table["path"]).mkdir(exist_ok=True)
        build_host(Project(tmp_path, file, config))
    for name in modules:
        sys.modules.pop(name, None)
