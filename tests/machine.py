"""A machine with almost nothing on it: Debian with python3, venv, pip and make, in a folder.

    with making(folder) as machine:
        machine.run("sh", "-c", "python3 --version", user="visitor")

Law 1: its files, users, processes and /tmp are its own; the kernel and the network are this one's.
Law 2: what a command started in it ends with that command, and nothing stays mounted.
Law 3: it is told how this machine reaches its package index, and nothing else of it.

It needs root and `debootstrap`, which is fetched where `apt-get` can.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NoReturn

from tests.house import ROOT

PACKAGES: Final = ("python3", "python3-venv", "make")
SUITE: Final = "bookworm"  # the oldest one whose Python is new enough
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE_S: Final = 3600
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
# How pip reaches its index: by these settings of this machine, and by these certificates.
OF_PIP: Final = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
ADVICE: Final = "This needs Linux, root and debootstrap (Debian: `apt-get install debootstrap`)."
NOT_HERE: Final = 77  # as `make proof` understands it
# The mounts are of a namespace of their own, so they end with it. The shell stays process 1: it
# takes in the processes that others leave behind, as the init of a container does.
ENTER: Final = """
set -e
root=$1 is_shut=$2; shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
[ "$is_shut" = no ] || mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
[ "$is_shut" = no ] || mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
chroot "$root" "$@"
"""
# A new network has a loopback device that is switched off (SIOCSIFFLAGS: up, running).
LOOPBACK: Final = """
import fcntl, os, socket, struct, sys
with socket.socket() as end:
    fcntl.ioctl(end, 0x8914, struct.pack("16sh22x", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A file system, and how commands run in it."""

    root: Path

    def run(
        self,
        *words: str,
        user: str = "root",
        folder: str = "/",
        environ: Mapping[str, str] = NOTHING,
        binds: Mapping[Path, str] = NOTHING,  # type: ignore[assignment]  # empty
        is_shut: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, as a user, with no variable but those that are given.

        In one that is shut the disk is read-only but for what is bound and an empty /tmp, nothing
        has or gets a capability, and the network is a loopback device of its own.
        """
        mounts = [each for pair in binds.items() for each in map(str, pair)]
        own = ("--reuid", user, "--regid", user, "--init-groups")
        lost = ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
        command = [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private"),
            *(("--net", sys.executable, "-c", LOOPBACK) if is_shut else ()),
            *("sh", "-c", ENTER, "sh", str(self.root), "yes" if is_shut else "no"),
            *(*mounts, "--", "env", f"--chdir={folder}"),
            *("setpriv", *own, *(lost if is_shut else ())),
            *words,
        ]
        return subprocess.run(
            command,
            env={"PATH": PATH, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def add_user(self, name: str) -> str:
        """Add a user, and return the home."""
        _must("chroot", str(self.root), "useradd", "--create-home", name)
        return f"/home/{name}"

    def take_tree(self, folder: str, owner: str) -> None:
        """Put what git knows of this tree into a folder: a clone, without its history."""
        listed = _must("git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard")
        for name in listed.split("\0")[:-1]:
            if (ROOT / name).is_file():
                place = self.root / folder.lstrip("/") / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place)
        _must("chroot", str(self.root), "chown", "-R", f"{owner}:{owner}", folder)


@contextmanager
def making(
    keep: Path | None = None, packages: Sequence[str] = PACKAGES, suite: str = SUITE
) -> Iterator[Machine]:
    """Make a machine; `keep` is where the files of a fresh one are, or are kept for the next.

    The suite is a release of Debian, by its code name; each has another Python.
    """
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        _give_up()
    with tempfile.TemporaryDirectory(prefix="machine-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # other users reach what is below
        fresh = folder / "fresh" if keep is None else keep
        if not (fresh / "etc/os-release").exists():
            _fetch(fresh, packages, suite)
        root = folder / "root"
        if keep is None:
            fresh.rename(root)
        else:
            _must("cp", "--archive", "--reflink=auto", str(fresh), str(root))
        yield Machine(root)


def _give_up() -> NoReturn:
    """End this program: it is not for this machine, which is no fault."""
    print(ADVICE, file=sys.stderr)
    raise SystemExit(NOT_HERE)


def _fetch(folder: Path, packages: Sequence[str], suite: str) -> None:
    if shutil.which("debootstrap") is None and shutil.which("apt-get") is not None:
        _must("apt-get", "update", "--quiet=2")
        _must("apt-get", "install", "--yes", "--quiet=2", "debootstrap")
    program = shutil.which("debootstrap")
    if program is None:
        _give_up()
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    wanted = ("--variant=minbase", f"--include={','.join(packages)}")
    _must(program, *wanted, suite, str(draft))
    _tell_index(draft)
    draft.rename(folder)


def _tell_index(root: Path) -> None:
    """Write down how this machine reaches its package index (law 3)."""
    for name in ("etc/resolv.conf", "etc/hosts"):
        (root / name).unlink(missing_ok=True)
        shutil.copy(Path("/", name), root / name)
    given = _must(sys.executable, "-m", "pip", "config", "list")
    lines = ["[global]"]
    for line in given.splitlines():
        name, _, value = line.partition("=")
        value = " ".join(each for each in value.strip("'").split() if "file:" not in each)
        if value and (key := name.rpartition(".")[2]) in OF_PIP:
            lines.append(f"{key} = {value}")
    if (found := Path("/", CERTIFICATES)).exists():
        (root / CERTIFICATES).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(found, root / CERTIFICATES)
        lines.append(f"cert = /{CERTIFICATES}")
    (root / "etc/pip.conf").write_text("\n".join([*lines, ""]))


def _must(*words: str) -> str:
    """Run a program of this machine; it must go well."""
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:3])} …: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
