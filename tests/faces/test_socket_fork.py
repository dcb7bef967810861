"""A host with a control socket whose process forks: the child neither listens nor removes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from duly.api.wire import reach

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
import duly
from duly.faces.socket import Control

async def main():
    path = Path(sys.argv[1])
    async with duly.Host("sqlite:///" + sys.argv[2]) as host, Control(host, path):
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print("left:", path.exists(), flush=True)
        if os.fork() == 0:
            os.write(1, b"child\\n")
            sys.stdin.read()
            os._exit(0)
        os.write(1, b"ready\\n")
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_the_control_socket_is_the_parents_alone(tmp_path: Path) -> None:
    """H1: a child that outlives its parent does not take calls that it cannot answer."""
    path = tmp_path / "duly.socket"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), str(tmp_path / "duly.db")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            assert process.stdout.readline() == "left: True\n"
            said = {process.stdout.readline() for _ in range(2)}
            assert said == {"ready\n", "child\n"}
            reached = reach(path)
            assert reached is not None
            reached.close()
        finally:
            process.kill()
            process.wait()
        assert path.exists()
        assert reach(path) is None
