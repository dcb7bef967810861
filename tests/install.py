"""Installs the wheel that is built here into empty environments, and uses it there.

    python -m tests.install            # pip, and uv and pipx where they are; needs an index

`make test` does a part of it without an index (tests/test_install.py): the wheel, and beside it
nothing but the packages that Duly itself needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from tests import house

EXTRAS = ("", "postgres", "mcp", "postgres,mcp")
USES = (("--version",), ("--help",), ("completion", "bash"), ("init", "project"))
PATIENCE_S = 600


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=house.ROOT, check=True, capture_output=True, timeout=PATIENCE_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path) -> Path:
    """Make an empty environment, which has not even pip; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def put_in(python: Path, *requirements: str) -> None:
    """Install by the pip of this environment into another one."""
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--quiet"]
    subprocess.run([*pip, *requirements], check=True, timeout=PATIENCE_S, env=clean())


def link_packages(python: Path, names: Iterable[str]) -> int:
    """Link installed packages into an environment, each by what its own list names."""
    (place,) = python.parent.parent.glob("lib/python*/site-packages")
    linked = 0
    for name in sorted(names):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of another system or version of Python
            continue
        linked += 1
        for top in _tops(found):
            if not (target := place / top).exists():
                target.symlink_to(Path(str(found.locate_file(top))))
        for each in found.files or ():  # programs, as the interpreter of Python scripts
            if each.parts[-2:-1] == ("bin",) and each.parts[0] == "..":
                (python.parent / each.name).symlink_to(Path(str(found.locate_file(each))).resolve())
    return linked


def use(folder: Path, program: Path) -> None:
    """Use what was installed: it answers, makes a project, and checks its workflow."""

    def run(*words: str) -> None:
        command = [str(program), *words]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, env=clean()
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)

    for words in USES:
        run(*words)
    for path in sorted((folder / "project/workflows").iterdir()):
        run("--project", "project", "check", str(path))


def clean() -> dict[str, str]:
    """Return the variables of this process without those that let another package be found."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def _tops(found: metadata.Distribution) -> set[str]:
    files = found.files or ()
    tops = {each.parts[0] for each in files if each.parts}
    return tops - {"..", "__pycache__", "bin"}


def _walk(folder: Path, wheel: Path) -> Iterator[str]:
    for number, extra in enumerate(EXTRAS):
        own = folder / f"pip-{number}"
        python = make_environment(own)
        put_in(python, f"{wheel}[{extra}]" if extra else str(wheel))
        use(own, own / "bin" / "duly")
        yield f"pip [{extra}]"
    for tool, words in (("uv", ("tool", "install")), ("pipx", ("install",))):
        program = shutil.which(tool)
        if program is None:
            yield f"{tool}: not here"
            continue
        own = folder / tool
        own.mkdir()
        places = ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "PIPX_HOME", "PIPX_BIN_DIR")
        environ = clean() | {name: str(own / name) for name in places}
        subprocess.run([program, *words, str(wheel)], check=True, env=environ, timeout=PATIENCE_S)
        (duly,) = (each for each in own.glob("*_BIN_DIR/duly"))
        use(own, duly)
        yield tool


def main() -> None:
    """Install in every way there is, and say which."""
    with tempfile.TemporaryDirectory(prefix="duly-install-") as name:
        folder = Path(name)
        for said in _walk(folder, build_wheel(folder)):
            print(f"installed and used: {said}", flush=True)


if __name__ == "__main__":
    main()
