"""What pages show as pieces of a project, put together as a reader would, does what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

import duly
from duly.api.build import build_host
from duly.api.project import Project
from duly.config import load
from duly.rules.value import Json
from tests import house
from tests.faces.real import call, make_project

SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (house.ROOT / "docs" / name).read_text(encoding="utf-8")


def project(folder: Path, settings: str) -> Project:
    file = folder / "duly.toml"
    file.write_text(settings, encoding="utf-8")
    return Project(folder, file, load(file, {}))


async def test_only_what_is_big_waits_for_a_person_and_what_is_behind_it_waits_too(
    tmp_path: Path,
) -> None:
    """A3, F6: docs/writing-workflows.md, "Asking a person about some changes"."""
    chapter = page("writing-workflows.md").partition("## Asking a person about some changes")[2]
    (tmp_path / "tables").mkdir()
    (settings, *_) = TOML.findall(chapter)
    async with build_host(project(tmp_path, settings)) as host:
        script = duly.Source("python", house.examples(chapter)[0])
        await host.deploy(script, by="me", grant=True, strict=True)
        for number, quantity in enumerate((3, 500, 7)):
            order: Json = {"number": number, "quantity": quantity}
            title = f"Order {number}: {quantity} pieces"
            await host.publish(
                "orders", "order.placed", message_id=str(number), title=title, payload=order
            )
        await host.drain()
        table = tmp_path / "tables" / "orders.csv"
        assert [line.split(",")[1] for line in table.read_text().splitlines()[1:]] == ["3"]
        (waiting,) = await host.approvals()
        assert (waiting.observed.tool, waiting.claimed) == (
            "big_table.insert",
            "Enter order 1 for 500 pieces",
        )
        await host.approve(waiting.mutation, waiting.hash, by="me")
        await host.drain()
        written = [line.split(",")[1] for line in table.read_text().splitlines()[1:]]
        assert written == ["3", "500", "7"]


async def test_a_call_beyond_the_glob_of_its_grant_waits(tmp_path: Path) -> None:
    """A1: the same page's grant, which no script gets around."""
    shown = page("writing-workflows.md")
    words = re.findall(r"^duly grant letters outbox.write --where '(.*)'$", shown, re.MULTILINE)
    assert words == ['{"path": "drafts/*"}']
    (tmp_path / "outbox").mkdir()
    settings = '[connectors.outbox]\nuse = "files"\npath = "outbox"\n'
    script = """
from duly import workflow

flow = workflow("letters", topics={"letter": {"ingress": True}})


@flow.consumer("letter")
class write:
    async def prepare(self, ctx, state):
        (letter,) = await ctx.peek("letter", limit=1) or [None]
        if letter is None:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "letter", "ids": [letter["message_id"]]}],
            "data": letter["payload"],
            "ui": {"title": f"Write {letter['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.outbox.write(path=prepared["data"]["path"], text="Dear all")
"""
    async with build_host(project(tmp_path, settings)) as host:
        await host.deploy(duly.Source("python", script), by="me")
        await host.grant("letters", "outbox.write", where={"path": "drafts/*"}, by="me")
        for path in ("drafts/one.txt", "sent.txt"):
            await host.publish("letters", "letter", title=path, payload={"path": path})
        await host.drain()
        assert (tmp_path / "outbox" / "drafts" / "one.txt").exists()
        assert not (tmp_path / "outbox" / "sent.txt").exists()
        (asked,) = await host.attention()
        assert "goes beyond the grant of outbox.write (path=drafts/*)" in str(asked)


async def test_the_smallest_extension_is_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B9: docs/extensions.md, "The smallest extension"."""
    chapter = page("extensions.md").partition("## The smallest extension")[2].partition("\n## ")[0]
    folder = tmp_path / "extensions" / "hello"
    folder.mkdir(parents=True)
    (folder / "manifest.yaml").write_text(YAML.findall(chapter)[0], encoding="utf-8")
    (folder / "main.py").write_text(house.examples(chapter)[0], encoding="utf-8")
    async with build_host(project(tmp_path, TOML.findall(chapter)[0])) as host:
        assert [each.stage for each in await host.extensions()] == ["ready"]
        await host.bus.emit("user.message", {"text": "Ann"}, source="cli")
        await host.drain()
    assert capsys.readouterr().out == "Hello, Ann!\n"


def test_a_backup_is_put_back_by_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: docs/operations.md, backup, restore, what to compare, and going on."""
    monkeypatch.chdir(make_project(tmp_path))
    assert call(None, "deploy", "--grant").exit_code == 0
    said = {}
    for line in "".join(SHELL.findall(page("operations.md"))).splitlines():
        words = shlex.split(line)
        if words[0] != "duly":
            subprocess.run(["/bin/sh", "-c", line], check=True)
            continue
        done = call(None, *words[1:])
        assert done.exit_code == 0, (line, done.output)
        said[words[1]] = done.stdout
    assert "Restored from a backup of " in said["status"]
    assert (tmp_path / "away" / "duly.db").exists()
    resumed = call(None, "resume", "--all")
    assert resumed.exit_code == 0, resumed.output
    assert "Restored from a backup" not in call(None, "status").stdout


def test_every_command_that_the_pages_speak_of_exists() -> None:
    """U6: with the options they give it; a page must not promise what `--help` does not know."""
    for name in ("operations.md", "settings.md", "extensions.md", "event-bus.md", "repair.md"):
        for words in re.findall(r"`duly ([a-z-]+(?: [a-z-]+)?)", page(name)):
            first, _, second = words.partition(" ")
            help_page = page("command-line.md")
            assert f"### duly {first}\n" in help_page, (name, words)
            if first in ("bus", "secret"):
                assert f"### duly {first} {second}\n" in help_page, (name, words)
