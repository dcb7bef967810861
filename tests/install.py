"""Installs the wheel that is built here into empty environments, in every way, and uses it there.

    python -m tests.install            # from the index of this machine, with its caches

`make test` does the same without an index (tests/test_install.py): from a folder with the packages
of this environment, packed again as the wheels that they were.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests import house

HERE: Final = Path(sys.executable).parent
USES = (("--version",), ("--help",), ("completion", "bash"), ("init", "project"))
PATIENCE_S = 600
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# What an installer adds to a package, and no wheel has.
ADDED: Final = frozenset({"INSTALLER", "REQUESTED", "direct_url.json"})


def build_wheel(folder: Path, *, root: Path = house.ROOT) -> Path:
    """Build the wheel of a tree."""
    return build("wheel", folder, root)


def build(kind: str, folder: Path, root: Path = house.ROOT) -> Path:
    """Build the wheel or the archive of a tree, into a folder of its own."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    before = {*folder.glob("duly-*")}
    subprocess.run(command, cwd=root, check=True, capture_output=True, timeout=PATIENCE_S)
    (made,) = {*folder.glob("duly-*")} - before
    return made


def pack(name: str, folder: Path) -> None:
    """Pack an installed package as the wheel that it was."""
    found = metadata.distribution(name)
    lines = (found.read_text("WHEEL") or "").splitlines()
    tags = (line.partition(": ")[2].split("-") for line in lines if line.startswith("Tag: "))
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    stem = f"{found.name.replace('-', '_')}-{found.version}"
    programs = {each.name for each in found.entry_points if each.group == "console_scripts"}
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as wheel:
        for each in found.files or ():
            if each.name in ADDED or each.suffix == ".pyc":
                continue
            place = str(each)
            if each.parts[0] == "..":
                if each.parent.name != "bin" or each.name in programs:
                    continue
                place = f"{stem}.data/scripts/{each.name}"
            wheel.write(str(each.locate()), place)


def pack_all(names: Iterable[str], folder: Path) -> int:
    """Pack packages that are installed here; say how many."""
    packed = 0
    for name in sorted(names):
        try:
            pack(name, folder)
        except metadata.PackageNotFoundError:  # of another system or version of Python
            continue
        packed += 1
    return packed


def needed(*extras: str) -> set[str]:
    """Name what the lock file has for Duly with extras, but Duly itself."""
    lock = tomllib.loads((house.ROOT / "uv.lock").read_text(encoding="utf-8"))
    packages = {each["name"]: each for each in lock["package"]}
    own = packages["duly"]
    wanted = [*own["dependencies"]]
    wanted += [each for extra in extras for each in own["optional-dependencies"].get(extra, ())]
    found: set[str] = set()
    while wanted:
        each = wanted.pop()
        package = packages[each["name"]]
        more = (
            package.get("optional-dependencies", {}).get(name, ()) for name in each.get("extra", ())
        )
        further = [one for group in more for one in group]
        if each["name"] not in found:
            further += package.get("dependencies", ())
        found.add(each["name"])
        wanted += further
    return found


# -- The ways to install --------------------------------------------------------------------------


def by_pip(folder: Path, requirement: str, source: Path | None) -> Path:
    """Install by pip into an empty environment; return the program."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--quiet"]
    given = () if source is None else ("--no-compile", "--no-index", "--find-links", str(source))
    _must(*pip, *given, requirement)
    return folder / "bin" / "duly"


def by_uv_tool(folder: Path, requirement: str, source: Path | None) -> Path:
    """Install as a tool of uv; return the program."""
    own = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    words = (str(HERE / "uv"), "tool", "install", "--quiet", requirement)
    _must(*words, environ=own | _of_uv(source))
    return folder / "bin" / "duly"


def by_pipx(folder: Path, requirement: str, source: Path | None) -> Path:
    """Install by pipx; from a folder through uv, since pipx fetches a pip of its own for itself."""
    own = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    own |= {"PATH": f"{HERE}{os.pathsep}{os.environ['PATH']}"} | _of_uv(source)
    given = () if source is None else ("--backend", "uv")
    _must(str(HERE / "pipx"), "install", *given, requirement, environ=own)
    return folder / "bin" / "duly"


Way = Callable[[Path, str, Path | None], Path]
PLAIN: Final[tuple[str, ...]] = ()
EXTRAS: Final = ("postgres", "mcp", "models", "otel")
WAYS: Final[tuple[tuple[Way, tuple[str, ...]], ...]] = (
    (by_uv_tool, PLAIN),
    (by_uv_tool, EXTRAS),
    (by_pipx, PLAIN),
    (by_pip, EXTRAS),
    (by_pip, PLAIN),
    (by_pipx, EXTRAS),
)
IN_CI: Final = WAYS[:4]  # each program once, and one of them both ways


def ask(wheel: Path, extras: tuple[str, ...]) -> str:
    """Spell what an installer is asked for."""
    return f"duly[{','.join(extras)}] @ {wheel.as_uri()}" if extras else str(wheel)


def use(folder: Path, program: Path, *, is_whole: bool = True) -> str:
    """Use what was installed: it makes a project and checks its workflow; return its version."""

    def run(*words: str) -> str:
        command = [str(program), *words]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, env=clean()
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.strip()

    if is_whole:
        for words in USES:
            run(*words)
        for path in sorted((folder / "project/workflows").iterdir()):
            run("--project", "project", "check", str(path))
    return run("--version")


def clean(more: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """Return the variables of this process without those that let another package be found."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return own | dict(more)


def _of_uv(source: Path | None) -> dict[str, str]:
    if source is None:
        return {}
    cache = {"UV_CACHE_DIR": str(source.parent / "uv")}
    return cache | {"UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(source)}


def _must(*words: str, environ: Mapping[str, str] = NOTHING) -> None:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_S, env=clean(environ), check=False
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)


def main() -> None:
    """Install in every way, and say which."""
    with tempfile.TemporaryDirectory(prefix="duly-install-") as name:
        folder = Path(name)
        wheel = build_wheel(folder)
        for number, (way, extras) in enumerate(WAYS):
            own = folder / str(number)
            own.mkdir()
            told = use(own, way(own, ask(wheel, extras), None))
            print(f"{way.__name__} [{','.join(extras)}]: {told}", flush=True)


if __name__ == "__main__":
    main()
