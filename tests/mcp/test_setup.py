"""What docs/mcp.md tells the settings of clients is what `duly` and `/mcp` take (U6)."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any, Final

from click.testing import CliRunner

from duly.faces.cli import duly
from duly.faces.web.agent import PATH
from tests.house import ROOT

PAGE: Final = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
VARIABLE: Final = "DULY_TOKEN"


def servers() -> list[dict[str, Any]]:
    """Read every server that a block of settings names."""
    found: list[dict[str, Any]] = []
    for kind, text in BLOCK.findall(PAGE):
        if kind == "json":
            found += json.loads(text)["mcpServers"].values()
        if kind == "toml":
            found += tomllib.loads(text)["mcp_servers"].values()
        if text.startswith("claude mcp add"):
            words = shlex.split(text)
            if "--" in words:
                command, *args = words[words.index("--") + 1 :]
                found.append({"command": command, "args": args})
            else:
                name, _, value = words[-1].partition(": ")
                url = next(each for each in words if each.startswith("http:"))
                found.append({"url": url, "headers": {name: value}})
    return found


def test_every_setting_of_a_client_leads_to_this_host() -> None:
    """U6, M5: each client is named with a command, and those that can with the address."""
    programs = [each for each in servers() if "command" in each]
    addresses = [each for each in servers() if "url" in each]
    assert (len(programs), len(addresses)) == (3, 3)
    for each in programs:
        assert each["command"] == "duly"
        done = CliRunner().invoke(duly, [*each["args"], "--help"])
        assert done.exit_code == 0, done.output
        assert "mcp" in done.output
    for each in addresses:
        assert each["url"] == f"http://127.0.0.1:7337{PATH}"
        header = each.get("headers", {}).get("Authorization", "")
        assert each.get("bearer_token_env_var") == VARIABLE or (
            header.startswith("Bearer $") and VARIABLE in header
        )
