"""The plugin as a user has it: his tests run in virtual time, all others as before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import house

PAGE = house.ROOT / "docs" / "testing.md"
CONFTEST = """
from duly.testing.plugin import duly_world, pytest_fixture_setup
from duly.testing.plugin import pytest_pycollect_makeitem
"""
BESIDE = """
import asyncio, pytest

@pytest.mark.parametrize("hours", [1, 24])
async def test_ours(duly_world, hours, tmp_path):
    await asyncio.sleep(hours * 3600)
    assert duly_world.loop.time() == hours * 3600 and tmp_path.exists()

class TestMethods:
    async def test_ours(self, duly_world):
        await duly_world.advance("7d")
        assert duly_world.env.now().isoformat() == "2026-01-08T00:00:00+00:00"

def test_ours_without_a_coroutine(duly_world):
    assert duly_world.run(duly_world.advance("1s")) is None

@pytest.mark.anyio
async def test_theirs(anyio_backend):
    await asyncio.sleep(0)
    assert type(asyncio.get_running_loop()).__name__ != "VirtualLoop"

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


OVER = """
import asyncio, os, pytest

@pytest.fixture
def furnished(duly_world):
    return duly_world

@pytest.fixture
async def host(duly_world):
    await asyncio.sleep(3600)
    return await duly_world.host()

@pytest.fixture
async def later(furnished):
    await asyncio.sleep(60)
    yield furnished.loop.time()
    await asyncio.sleep(60)
    (furnished.loop.folder / "down").write_text(str(furnished.loop.time()))

async def test_over_a_fixture_without_await(furnished):
    await asyncio.sleep(7200)
    assert furnished.loop.time() == 7200

async def test_over_one_with_await(host):
    await host.drain()

async def test_over_both_and_the_world(host, duly_world, furnished):
    assert duly_world is furnished and duly_world.loop.time() == 3600
    await host.drain()

def test_without_a_coroutine(host):
    assert os.path.exists(host.place)

class TestMethods:
    @pytest.fixture
    async def own(self, duly_world):
        return await duly_world.host()

    async def test_over_a_method(self, own):
        await own.drain()

@pytest.fixture
def furnished_here(furnished, tmp_path):
    furnished.loop.folder = tmp_path
    return furnished

async def test_set_up(furnished_here, later):
    assert later == 60
    test_set_up.folder = furnished_here.loop.folder

def test_taken_down():
    assert (test_set_up.folder / "down").read_text() == "120.0"

@pytest.fixture
async def theirs():
    return type(asyncio.get_running_loop()).__name__
"""
THEIRS = """
@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_theirs(theirs):
    assert theirs != "VirtualLoop"
"""


def run_pytest(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *options, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_tests_of_anyio_run_beside_ours(tmp_path: Path, mode: str) -> None:
    status, words = run_pytest(tmp_path, BESIDE, f"--anyio-mode={mode}")
    assert (status, "5 passed" in words) == (0, True), words


@pytest.mark.parametrize(
    ("text", "options", "count"),
    [
        (OVER + THEIRS, ("--anyio-mode=auto",), 8),
        (OVER + THEIRS, ("--anyio-mode=strict",), 8),
        (OVER, ("-p", "no:anyio"), 7),
    ],
    ids=["auto", "strict", "without"],
)
def test_a_fixture_of_the_user_s_own_may_stand_on_the_world(
    tmp_path: Path, text: str, options: tuple[str, ...], count: int
) -> None:
    """Asynchronous or not, with the plugin of anyio or without; theirs stay theirs."""
    status, words = run_pytest(tmp_path, text, *options)
    assert (status, f"{count} passed" in words) == (0, True), words


def test_a_failure_of_ours_is_a_failure(tmp_path: Path) -> None:
    status, words = run_pytest(tmp_path, "async def test_ours(duly_world): assert 1 == 2\n")
    assert (status, "assert 1 == 2" in words) == (1, True), words


@pytest.mark.parametrize("number", [0, 1])
def test_every_example_of_the_page_that_is_a_test_passes(tmp_path: Path, number: int) -> None:
    """A3: the second with a policy that asks, and with real files."""
    example = house.examples(PAGE.read_text(encoding="utf-8"))[number]
    status, words = run_pytest(tmp_path, example)
    assert (status, "1 passed" in words) == (0, True), words


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('["data"]["subject"]', '["data"]["from"]'),
        ('"ids": [mail["message_id"]]', '"ids": []'),
        ('message_id=mail["id"]', 'message_id="1"'),
    ],
)
def test_the_example_of_the_page_fails_when_its_workflow_is_wrong(
    tmp_path: Path, right: str, wrong: str
) -> None:
    example = house.examples(PAGE.read_text(encoding="utf-8"))[0]
    assert right in example
    status, words = run_pytest(tmp_path, example.replace(right, wrong))
    assert (status, "1 failed" in words) == (1, True), words


def test_whoever_does_not_ask_for_a_world_imports_no_host() -> None:
    """Every program that has Duly installed imports the plugin, whatever it tests."""
    asked = "import sys, duly.testing.plugin; sys.exit('duly.host' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
