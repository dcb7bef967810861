"""`duly connect` signs in: by a browser that comes back, by hand, and not again without need."""

from __future__ import annotations

import os
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result

from duly.faces.cli import duly, oauth
from duly.testing.doubles.base import HOST
from duly.testing.doubles.google import CLIENT, CLIENT_SECRET, GoogleDouble

SETTINGS = """
url = "sqlite:///duly.db"

[connectors.gmail]
use = "gmail"
client_id = "{client}"
address = "ada@example.com"
url = "{url}"
allow = ["{host}"]
"""


@pytest.fixture
def google() -> Iterator[GoogleDouble]:
    with GoogleDouble() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path, google: GoogleDouble, monkeypatch: pytest.MonkeyPatch) -> Path:
    text = SETTINGS.format(client=CLIENT, url=google.url, host=HOST)
    (tmp_path / "duly.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert run("secret", "set", "gmail", "client_secret", given=CLIENT_SECRET).exit_code == 0
    return tmp_path


def run(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(duly, [*words], input=given, catch_exceptions=False)


def test_the_browser_comes_back_to_a_port_of_its_own(
    folder: Path, google: GoogleDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: the warning before, the scopes, then the sign-in; the second time nothing is asked."""
    opened: list[str] = []
    shown: list[bytes] = []

    def browse(address: str) -> bool:
        opened.append(address)
        redirect = google.agree(address).partition("?")[0]

        def go() -> None:
            for stray in ("/favicon.ico", "/duly", "/elsewhere?code=x&state=y"):
                with pytest.raises(OSError, match="404"):
                    urlopen(redirect.replace("/duly", stray))
            shown.append(urlopen(address).read())

        threading.Thread(target=go, daemon=True).start()
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    told = run("connect", "gmail", "--no-proof")
    assert told.exit_code == 0, told.output
    assert "ends each sign-in after 7 days" in " ".join(told.output.split())
    assert "gmail.readonly" in told.output
    assert "gmail is signed in." in told.output
    assert shown == [b"Duly has it. You may close this window."]
    assert "ya29" not in told.output
    again = run("connect", "gmail", "--no-proof")
    assert (again.exit_code, len(opened)) == (0, 1)


def test_without_a_browser_the_address_is_brought_by_hand(
    folder: Path, google: GoogleDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: the person opens it elsewhere, and copies the address back."""
    reading, writing = os.pipe()
    say = oauth._say_before

    def agree(begun: Mapping[str, Any]) -> None:
        say(begun)
        os.write(writing, f"{google.agree(begun['address'])}\n".encode())

    monkeypatch.setattr(oauth, "_say_before", agree)
    with os.fdopen(reading, "rb") as hand:
        words = ["connect", "gmail", "--no-proof", "--sign-in", "paste"]
        told = CliRunner().invoke(duly, words, input=hand, catch_exceptions=False)
    os.close(writing)
    assert told.exit_code == 0, told.output
    assert "copy its whole address" in " ".join(told.output.split())
    assert "gmail is signed in." in told.output


def test_a_service_without_another_device_says_so(folder: Path) -> None:
    """K9: the device flow is for services that declare it."""
    told = run("connect", "gmail", "--no-proof", "--sign-in", "device")
    assert told.exit_code == 1
    assert "no sign-in on another device" in told.output
