"""The container image where no engine runs: its file is followed on an empty machine.

    python -m tests.image                     # some minutes; needs root, fetches packages
    python -m tests.image --fresh FOLDER      # keep the fresh file system for the next time

What is the same: the instructions of both files in `examples`, typed in order; the installed wheel;
its user, variables, command and health check; the first command of the compose file, in an empty
volume; no capability and no new privilege; a disk that is read-only but for /project and an empty
/tmp; processes and a network of its own; SQLite and PostgreSQL. The hostile corpus runs in the
first image, against the wheel.

What is not: the base image (Debian's python3 in its place), the layers, a way to the outside, the
limits of a container, and the engine's filter of system calls.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.house import ROOT
from tests.install import build_wheel
from tests.machine import NOTHING, PATH, Machine, making
from tests.postgres.server import address, start, stop

FILES: Final = ROOT / "examples"
PROJECT: Final = "/project"
TESTS: Final = "/corpus"
TAIL_CHARS: Final = 3000
# What the corpus needs besides the wheel; the versions are those of the lock file.
NEEDED: Final = ("pytest", "hypothesis", "anyio")
CORPUS: Final = ("tests/sandbox/hostile", "tests/sandbox/test_contract.py")
# Starts the image's command, waits until its health check is well, and works as a person would.
DRIVER: Final = """
import json, pathlib, signal, subprocess, sys, time

def duly(*words):
    done = subprocess.run(["duly", *words], capture_output=True, text=True)
    print("$ duly", *words, "\\n" + done.stdout + done.stderr, flush=True)
    assert done.returncode == 0, words

def wait(is_there, what):
    ends_s = time.monotonic() + 240
    while not is_there():
        assert host.poll() is None, "the host ended"
        assert time.monotonic() < ends_s, what
        time.sleep(0.5)

def read(*words):
    return json.loads(subprocess.check_output(["duly", *words, "--json"]))

command, check, has_project = json.loads(sys.argv[1])
host = subprocess.Popen(command)
wait(lambda: subprocess.run(check, capture_output=True).returncode == 0, "it was never well")
duly("doctor")
if has_project:
    duly("deploy", "--grant")
    wait(lambda: read("approvals"), "no letter waits for a yes")
    (asked,) = read("approvals")
    duly("approve", asked["mutation"], "--yes")
    letter = pathlib.Path("outbox/ada.txt")
    wait(lambda: letter.exists() and "Ada" in letter.read_text(), "no letter")
else:
    duly("status")
host.send_signal(signal.SIGTERM)
assert host.wait(150) == 0, "it did not stop in order"
assert subprocess.run(check, capture_output=True).returncode, "a host that is gone is well"
print("one note, one yes, one letter" if has_project else "well, and stopped in order")
"""


def instructions(folder: str) -> list[tuple[str, str]]:
    """Read the file of an image, instruction by instruction."""
    text = (FILES / folder / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def check_of(folder: str) -> list[str]:
    """Return the command of an image's health check."""
    (check,) = (rest for word, rest in instructions(folder) if word == "HEALTHCHECK")
    command: list[str] = json.loads(check[check.index("CMD ") + 4 :])
    return command


def first_of(folder: str) -> list[str]:
    """Return what the comment of a compose file tells a person to run in the host first."""
    text = (FILES / folder / "compose.yaml").read_text(encoding="utf-8")
    (found,) = re.findall(r"^#   docker compose run --rm host (.+)$", text, re.MULTILINE)
    return shlex.split(found)


@dataclass(slots=True)
class Image:
    """What the instructions of a file have made so far."""

    machine: Machine
    user: str = "root"
    folder: str = "/"
    environ: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    command: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)

    def follow(self, word: str, rest: str, context: Path) -> None:
        """Follow one instruction; one that is not known here is an error."""
        match word:
            case "FROM":  # python and pip by these names, where the base image has them
                self._must("sh", "-c", "! id duly || userdel --remove duly; rm -rf /tmp/*")
                self._must("python3", "-m", "venv", "--clear", "/usr/local")
            case "COPY":
                *sources, target = (each for each in rest.split() if not each.startswith("--"))
                place = self.machine.root / Path("/", self.folder, target).relative_to("/")
                for path in (found for each in sources for found in context.glob(each)):
                    shutil.copy(path, place / path.name if target.endswith("/") else place)
            case "RUN":
                self._must("sh", "-ec", rest)
            case "USER":
                self.user = rest
            case "WORKDIR":
                self._must("mkdir", "--parents", rest)
                self.folder = rest
            case "ENV":
                self.environ |= dict(each.split("=", 1) for each in shlex.split(rest))
            case "VOLUME":
                self.volumes.append(rest)
            case "CMD":
                self.command = json.loads(rest)
            case "STOPSIGNAL" | "HEALTHCHECK":
                assert word == "HEALTHCHECK" or rest == "SIGTERM", rest
            case _:
                raise ValueError(f"not known here: {word}")

    def _must(self, *words: str) -> None:
        done = self.machine.run(*words, folder=self.folder, environ=self.environ)
        if done.returncode:
            raise SystemExit(f"{words}: {(done.stdout + done.stderr)[-TAIL_CHARS:]}")

    def run(
        self,
        *words: str,
        project: Path | None = None,
        environ: Mapping[str, str] = NOTHING,
        binds: Mapping[Path, str] = NOTHING,  # type: ignore[assignment]  # empty
    ) -> tuple[int, str]:
        """Run a command as its compose file does; return its exit status and what it said."""
        volumes = {} if project is None else {project: self.volumes[0]}
        done = self.machine.run(
            *words,
            user=self.user,
            folder=self.folder,
            environ={**self.environ, **environ},
            binds={**volumes, **binds},
            is_shut=True,
        )
        return done.returncode, done.stdout + done.stderr


def build(machine: Machine, folder: str) -> Image:
    """Follow the file of an image from its first line to its last."""
    image = Image(machine)
    with tempfile.TemporaryDirectory() as name:
        build_wheel(Path(name))
        for path in (FILES / folder).glob("*.toml"):
            shutil.copy(path, name)
        for word, rest in instructions(folder):
            image.follow(word, rest, Path(name))
    return image


def add_corpus(image: Image) -> None:
    """Put the tests beside the image, and what they need; nothing of the source."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    versions = {each["name"]: each.get("version") for each in lock["package"]}
    wanted = (f"{name}=={versions[name]}" for name in NEEDED)
    image._must("pip", "install", "--quiet", "--target", f"{TESTS}/packages", *wanted)
    place = image.machine.root / TESTS.lstrip("/")
    for name in ("tests", "verification"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)


@contextmanager
def project_of(image: Image, folder: Path) -> Iterator[Path]:
    """Make an empty volume, which belongs to the user of the image."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        Path(name).chmod(0o700)
        shutil.chown(name, int(image.user), int(image.user))
        yield Path(name)


def walk(machine: Machine) -> Iterator[tuple[str, int, str]]:
    """Build and use the image; yield what was tried, its exit status and what it said."""
    image, near = build(machine, "container"), machine.root.parent
    words = ("python", "-c", DRIVER, json.dumps([image.command, check_of("container"), True]))
    key = {"DULY_KEY": "A" * 43 + "="}
    first = first_of("container")
    with project_of(image, near) as project:
        yield ("the first command", *image.run(*first, project=project, environ=key))
        yield ("on SQLite", *image.run(*words, project=project, environ=key))
    server = near / "server"
    try:
        start(server, "fsync=on", "full_page_writes=on")  # as `duly doctor` asks for
        url = address(Path("/srv"))
        own, binds = {**key, "DULY_URL": url}, {server: "/srv"}
        with project_of(image, near) as project:
            image.run(*first, project=project, environ=own)
            said = image.run(*words, project=project, environ=own, binds=binds)
            yield ("on PostgreSQL", *said)
        yield from attack(image, near)
        fleet = build(machine, "fleet")
        words = (*words[:3], json.dumps([fleet.command, check_of("fleet"), False]))
        yield ("a host of a fleet", *fleet.run(*words, environ=own, binds=binds))
    finally:
        stop(server)


def attack(image: Image, near: Path) -> Iterator[tuple[str, int, str]]:
    """Run the hostile corpus in the image, against its wheel."""
    add_corpus(image)
    own = {"PYTHONPATH": f"{TESTS}/packages:{TESTS}", "HOME": "/tmp", "TEST_EVERY_CASE": "1"}
    line = f"cd {TESTS} && exec python -m pytest -p no:cacheprovider {' '.join(CORPUS)}"
    with project_of(image, near) as project:
        yield ("the hostile corpus", *image.run("sh", "-c", line, project=project, environ=own))


def main() -> int:
    """Make the machine, build the image on it, and use it; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.image")
    parser.add_argument("--fresh", type=Path)
    wanted = parser.parse_args()
    wrong, tried = [], 0
    with making(wanted.fresh) as machine:
        for says, status, said in walk(machine):
            tried += 1
            last = said.strip().rpartition("\n")[2]
            print(f"{'wrong' if status else 'well'}: {says}: {last}", file=sys.stderr, flush=True)
            if status:
                wrong.append(f"{says}: {said[-TAIL_CHARS:]}")
                print(said[-TAIL_CHARS:], file=sys.stderr, flush=True)
    print(json.dumps({"tried": tried, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
