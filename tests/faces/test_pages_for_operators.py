"""The commands and the unit that the pages for operators show exist and fit the host (U6)."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import click
import pytest

from duly import host
from duly.bus import dispatcher, loader
from duly.engine import late, scheduler
from duly.faces.cli import duly as command_line
from tests import house

PAGES = sorted(
    str(each.relative_to(house.ROOT))
    for each in (
        house.ROOT / "README.md",
        house.ROOT / "SECURITY.md",
        *(house.ROOT / "docs").glob("*.md"),
        *(house.ROOT / "examples").rglob("*.md"),
    )
)
FOR_OPERATORS = ("docs/deployment.md", "docs/troubleshooting.md", "docs/operations.md")
# Commands stand in blocks of these kinds; a block of no kind is what a command printed.
TYPED = ("sh", "text", "console")
# Lines of another program that name Duly: what an agent is told of our server.
FOREIGN = ("claude mcp add ", "createdb ")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
COMMAND = re.compile(r"(?:^|[\s/\"(])duly(?: --project \S+)? ([a-z][a-z -]*)(.*)$")


def page(name: str) -> str:
    return (house.ROOT / name).read_text(encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    """Take every `duly …` out of a page: of its blocks and of what stands in backticks."""
    typed = [
        line
        for kind, body in BLOCK.findall(text)
        if kind in TYPED
        for line in body.split("\n")
        if not line.startswith(FOREIGN)
    ]
    spans = [each for each in SPAN.findall(BLOCK.sub("", text)) if not each.startswith(FOREIGN)]
    found = [
        match.group(0).split("duly", 1)[1]
        for each in [*typed, *spans]
        if (match := COMMAND.search(each))
    ]
    return [re.sub(r"--project \S+", "", each).split() for each in found]


def check(words: list[str]) -> None:
    """Follow the words to their command, and find every option among its own."""
    command: click.Command = command_line
    context = click.Context(command)
    # A group alone lists what it has, and a line of usage ends with what could follow.
    while isinstance(command, click.Group) and words and not words[0].startswith("["):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    options = {name for each in command.get_params(context) for name in each.opts}
    named = {each for each in words if each.startswith("--")}
    assert named <= options, (command.name, words)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_the_page_exists_with_its_options(name: str) -> None:
    """U6: what a page tells an operator to type can be typed."""
    found = commands(page(name))
    assert len(found) > 10 or name not in FOR_OPERATORS
    for words in found:
        check(words)


def test_commands_are_looked_for_in_blocks_of_text_too() -> None:
    """U6: and a line of another program is not taken for ours."""
    block = "```text\nduly pause a\nclaude mcp add duly http://x\n```\nType `duly service`."
    assert commands(block) == [["pause", "a"], ["service"]]
    for words in commands(block):
        check(words)


def test_a_command_that_is_not_there_is_noticed() -> None:
    (words,) = commands("Type `duly statsu NAME`.")
    with pytest.raises(AssertionError):
        check(words)
    (words,) = commands(
        "```sh\nsudo -u letters /usr/local/duly/bin/duly --project /srv status --all\n```"
    )
    with pytest.raises(AssertionError):
        check(words)


def unit() -> str:
    text: str
    (text,) = [body for kind, body in BLOCK.findall(page("docs/deployment.md")) if kind == "ini"]
    return text


def test_the_unit_gives_a_stop_the_time_it_may_take() -> None:
    """R7, L6: the service manager must not kill a host that still stops in order."""
    parsed = ConfigParser()
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(unit())
    service = parsed["Service"]
    longest_s = scheduler.STOP_S + dispatcher.STOP_S + loader.CLOSE_S + host.CLOSE_S + late.CLOSE_S
    assert int(service["TimeoutStopSec"]) > longest_s
    assert f"--stop-timeout {service['TimeoutStopSec']} " in page("docs/deployment.md")
    # Only the host gets the signal: its workers are the host's to end.
    assert service["KillMode"] == "mixed"
    check(service["ExecStart"].split()[3:])


def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    """U6: where systemd is installed, it finds nothing wrong with the unit."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:  # it was parsed by the test above
        return
    file = tmp_path / "letters.service"
    file.write_text(unit().replace("/usr/local/duly/bin/duly", "/bin/true"), encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", str(file)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
