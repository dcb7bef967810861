"""A host that forks while its sandboxes have workers: they stay the parent's, in both languages.

The story runs in a process of its own, because its children end as interpreters end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 120

PROGRAM = """
import asyncio, os, signal, sys, tempfile
from pathlib import Path
import duly

PYTHON = '''
from duly import workflow
flow = workflow("python", topics=["t"])
@flow.producer()
async def poll(ctx, state):
    return (state or 0) + 1
'''
JAVASCRIPT = '''
export default Keep.workflow({name: "javascript", topics: ["t"], producers: {
  poll: async (ctx, state) => (state || 0) + 1}})
'''
NAMES = ("python", "javascript")

def say(text):
    os.write(1, (text + "\\n").encode())

def workers():
    while True:
        tasks = Path("/proc/self/task").iterdir()
        try:
            return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread has ended meanwhile

async def work(host, runs):
    for name in NAMES:
        if runs > 1:
            await host.run_now(name)
    await host.drain()
    done = [len(await host.runs(name)) for name in NAMES]
    say(f"runs: {done}")

async def main():
    async with duly.Host("sqlite:///" + sys.argv[1]) as host:
        for name, text in zip(NAMES, (PYTHON, JAVASCRIPT)):
            await host.deploy(duly.Source(name, text))
        await work(host, 1)
        before = workers()
        for runs, leave in enumerate(("exit", "return"), 2):
            child = os.fork()
            if child == 0:
                if leave == "return":
                    return
                sys.exit(0)
            _, status = os.waitpid(child, 0)
            say(f"child: {os.waitstatus_to_exitcode(status)}")
            await work(host, runs)
            say(f"the same workers: {len(before) > 1 and before == workers()}")
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        await work(host, 4)
        say(f"others: {bool(workers() - before)}")
    say(f"left: {workers()} {os.listdir(tempfile.gettempdir())}")

asyncio.run(main())
"""


def test_the_workers_of_a_host_outlive_its_forked_children(tmp_path: Path) -> None:
    """H1, X2: the child ends none, and takes neither their channels nor their launcher away."""
    (tmp_path / "tmp").mkdir()
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "duly.db")],
        env=os.environ | paths,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    told = ["runs: [1, 1]"]
    for runs in (2, 3):
        told += ["child: 0", f"runs: [{runs}, {runs}]", "the same workers: True"]
    told += ["runs: [4, 4]", "others: True", "left: set() []"]
    assert (done.stdout.splitlines(), done.stderr) == (told, "")
