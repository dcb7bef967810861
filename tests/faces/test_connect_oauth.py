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
from duly.testing.doubles.declared import DeclaredDesk
from duly.testing.doubles.google import CLIENT, CLIENT_SECRET, GoogleDouble
from duly.testing.doubles.microsoft import CLIENT as OUTLOOK_CLIENT
from duly.testing.doubles.microsoft import DEVICE_PAGE

SETTINGS = """
url = "sqlite:///duly.db"

[connectors.gmail]
use = "gmail"
client_id = "{client}"
address = "ada@example.com"
url = "{url}"
allow = ["{host}"]
"""


DRAFTS = """
from duly import workflow

flow = workflow("drafts", topics={"mail.wanted": {"ingress": True}})


@flow.consumer("mail.wanted")
class write:
    async def prepare(self, ctx, state):
        found = await ctx.peek("mail.wanted", limit=1)
        mine = [{"topic": "mail.wanted", "ids": [each["message_id"] for each in found]}]
        return {"reservations": mine, "ui": {"title": "Write a draft"}}

    async def mutate(self, ctx, prepared):
        await ctx.outlook.create_draft(to="ada@example.com", subject="Tea", text="At five.")
"""
# What any page or program of the machine can send to the port while the browser is waited for.
STRAY = (
    *("/favicon.ico", "/duly", "/duly?", "/elsewhere?code=x&state=y", "/duly?code=x"),
    *("/duly?code=x&state=y", "/duly?code=x&state=", "/duly?error=access_denied&state=y"),
    "/duly/?code=x&state=y",
)
OUTLOOK = """
url = "sqlite:///duly.db"

[connectors.outlook]
use = "outlook"
client_id = "{client}"
url = "{url}/outlook"
login = "{url}/login/common"
allow = ["{host}"]
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeclaredDesk]:
    with DeclaredDesk() as found:
        text = OUTLOOK.format(client=OUTLOOK_CLIENT, url=found.url, host=HOST)
        (tmp_path / "duly.toml").write_text(text)
        monkeypatch.chdir(tmp_path)
        yield found


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
            for stray in STRAY:
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
    assert "gmail is signed in as ada@example.com." in told.output
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
    words = ["connect", "gmail", "--no-proof", "--sign-in", "paste"]
    with os.fdopen(reading, "rb") as hand:
        told = CliRunner().invoke(duly, words, input=hand, catch_exceptions=False)
        google.person = "bob"
        words.append("--other-account")
        other = CliRunner().invoke(duly, words, input=hand, catch_exceptions=False)
    os.close(writing)
    assert told.exit_code == 0, told.output
    assert "copy its whole address" in " ".join(told.output.split())
    assert "gmail is signed in as ada@example.com." in told.output
    assert "gmail is signed in as bob@example.com." in other.output


def test_a_service_without_another_device_says_so(folder: Path) -> None:
    """K9: the device flow is for services that declare it."""
    told = run("connect", "gmail", "--no-proof", "--sign-in", "device")
    assert told.exit_code == 1
    assert "no sign-in on another device" in told.output


def test_a_code_is_typed_on_another_device(
    desk: DeclaredDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K9: the terminal asks as slowly as the provider wants, until the person has agreed.

    Then the trial writes a draft, so the sign-in is the one that the tools use.
    """
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        desk.device_says = "slow_down" if len(waited) == 1 else "authorization_pending"
        if len(waited) == 4:
            (found,) = desk.devices.values()
            desk.agree_on_device(found["user_code"])

    monkeypatch.setattr(oauth, "pause", pause)
    told = run("connect", "outlook", "--no-proof", "--sign-in", "device", given="")
    assert told.exit_code == 0, told.output
    shown = " ".join(told.output.split())
    assert f"Open {DEVICE_PAGE} on any device and type FJC3LWBZ1." in shown
    assert "offline_access, openid, profile, Mail.Read" in shown
    assert "outlook is signed in as ada@example.com." in shown
    assert waited == [5, 10, 10, 10]
    assert run("connect", "outlook", "--no-proof").exit_code == 0
    assert len(desk.asked("/token")) == 4


def test_outlook_is_signed_in_by_the_browser_and_a_draft_is_written(
    desk: DeclaredDesk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """K9, K10: connect, agree, and the trial of the draft finds its own draft again."""

    def browse(address: str) -> bool:
        threading.Thread(target=lambda: urlopen(address).read(), daemon=True).start()
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    (tmp_path / "drafts.py").write_text(DRAFTS)
    for words in (("deploy", "drafts.py"), ("grant", "drafts", "outlook.create_draft")):
        told = run(*words)
        assert told.exit_code == 0, told.output
    told = run("connect", "outlook", "--yes")
    assert "outlook is signed in as ada@example.com." in told.output, told.output
    (made,) = desk.account("ada")["made"]
    assert made["subject"] == "A trial of Duly"
    wanted = "nothing else: offline_access, openid, profile, Mail.ReadWrite."
    assert wanted in " ".join(told.output.split())


@pytest.mark.parametrize("words", [("google",), ("books", "--use", "google")])
def test_google_is_four_connectors(words: tuple[str, ...], desk: DeclaredDesk) -> None:
    """K9: the word that people type first leads to the four, and to the way without any of them."""
    told = run("connect", *words)
    said = " ".join(told.output.split())
    assert told.exit_code == 2
    for each in ("gmail", "sheets", "google_calendar", "drive", "app password"):
        assert each in said
    assert "google" not in Path("duly.toml").read_text()
    named = run("connect", "google", "--use", "clock", "--no-proof")
    assert named.exit_code == 0, named.output
