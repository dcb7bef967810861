"""docs/path-agent.md, word by word: the agent's calls by the SDK's client, the rest typed.

Law: each block is of a kind that is done here; one that is not understood fails. What an answer
must have in it stands on the page below the call.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests import house
from tests.faces.real import PATIENCE_S, Running, running, wait_for
from tests.mcp.stand import FAR_S
from tests.readme_page import path_to_duly

PAGE = house.ROOT / "docs" / "path-agent.md"
BLOCK = re.compile(r"^```([a-z ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
START = "duly serve"


class Reader:
    """A person with two terminals beside an agent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = ""
        self.hash = ""
        self.answer = ""
        self._read_up_to = 0

    def type(self, line: str) -> None:
        """Type one line in the second terminal."""
        if line.startswith("cd "):
            self.folder /= line[3:]
            return
        if "MUTATION" in line:
            (waiting,) = json.loads(self._shell("duly approvals --json"))
            line = line.replace("MUTATION", waiting["mutation"]) + " --yes"
        self.answer = self._shell(line.replace("HASH", self.hash))

    def _shell(self, line: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-ec", line],
            cwd=self.folder,
            env=path_to_duly(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    def reads(self, line: str, host: Running) -> None:
        """Wait until the first terminal says this, after what it said before."""
        wait_for(lambda: line in host.said[self._read_up_to :], line, host)
        self._read_up_to = host.said.index(line, self._read_up_to) + len(line)

    async def ask(self, agent: Client, told: str) -> None:
        """Let the agent call a tool."""
        filled: Any = json.loads(told.replace("HASH", self.hash))
        if "source" in filled["args"]:
            source = {"language": "python", "text": self.source, "name": "letters.py"}
            filled["args"]["source"] = source
        async with asyncio.timeout(FAR_S):
            result = await agent.call_tool(filled["tool"], filled["args"])
        (content,) = result.content
        said = json.loads(content.text)  # type: ignore[union-attr]
        self.answer = json.dumps(said.get("data", said), separators=(",", ":"))
        if filled["tool"] == "deploy":
            self.hash = said["data"]["hash"]


async def test_every_call_and_command_of_the_path_with_an_agent_is_so(tmp_path: Path) -> None:
    """M5, U6: from an empty folder to a letter of a workflow that an agent proposed."""
    reader = Reader(tmp_path)
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    begin = blocks.index(("sh first terminal", f"{START}\n"))
    for _, text in blocks[:begin]:
        for line in text.splitlines():
            reader.type(line)
    words = ["-P", "-m", "duly", "--project", str(reader.folder), "mcp"]
    kind, added = blocks[begin + 1]
    assert (kind, added.split()[-4:]) == ("text", ["duly", "--project", "/home/me/letters", "mcp"])
    started = StdioServerParameters(command=sys.executable, args=words)
    with running(reader.folder, "serve", "--page-port", "0") as host:
        host.until("Page http://")
        async with Client(stdio_client(started)) as agent:
            for kind, text in blocks[begin + 2 :]:
                await walk(reader, agent, host, kind, text)
        assert [each.name for each in (reader.folder / "outbox").glob("*.txt")] == ["ada.txt"]
        assert (reader.folder / "outbox/ada.txt").read_text() == (
            "Dear Ada, thank you for your note.\n"
        )
        host.tell(signal.SIGTERM)
        assert host.end() == 0


async def walk(reader: Reader, agent: Client, host: Running, kind: str, text: str) -> None:
    """Do what one block says."""
    if kind == "json agent":
        await reader.ask(agent, text)
    elif kind == "text answer":
        assert text.strip() in reader.answer, (text, reader.answer)
    elif kind == "python proposal":
        reader.source = text
    elif kind == "text first terminal":
        for line in text.splitlines():
            await asyncio.to_thread(reader.reads, line, host)
    else:
        assert kind == "sh", kind
        for line in text.splitlines():
            await asyncio.to_thread(reader.type, line)
