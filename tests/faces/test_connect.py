"""`duly connect`, at a real terminal: asks, writes, keeps secrets, tries, and says the verdict."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.connectors.shop import Shop
from tests.faces.real import call, make_project, running

LIMIT_S = 60.0  # only ends what hangs
SECRET = "s3cret-Of-The-Shop"
MINE = """\
# My settings, with blanks   and Ünïcode
url = "sqlite:///duly.db"   # mine
"""
SHOP = """
[connectors.shop]   # the shop
use = "http"
url = "{url}/a"
auth = {{ type = "bearer" }}
allow = ["127.0.0.1"]

[connectors.shop.operations.order]
does = "Order something."
method = "POST"
path = "/orders"
arguments = {{ item = "string" }}
key = {{ header = "Idempotency-Key" }}
verify = {{ path = "/orders", query = {{ key = "{{key}}" }}, items = "orders", match = "key" }}
trial = {{ item = "one trial" }}
"""
FLOW = """
from duly import workflow

flow = workflow("orders", topics={"wish": {"ingress": True}})


@flow.consumer("wish")
class order:
    async def prepare(self, ctx, state):
        found = await ctx.peek("wish", limit=1)
        if not found:
            return {"reservations": []}
        ids = [found[0]["message_id"]]
        return {"reservations": [{"topic": "wish", "ids": ids}], "ui": {"title": "Order tea"}}

    async def mutate(self, ctx, prepared):
        await ctx.shop.order(item="tea")
"""
SPEC = """
openapi: 3.0.0
servers: [{{url: "{url}/a"}}]
components: {{securitySchemes: {{t: {{type: http, scheme: bearer}}}}}}
paths:
  /orders:
    get: {{operationId: listOrders, responses: {{}}}}
    post:
      operationId: createOrder
      parameters: [{{name: Idempotency-Key, in: header, schema: {{type: string}}}}]
      requestBody:
        content: {{application/json: {{schema: {{properties: {{item: {{type: string}}}}}}}}}}
  /photo:
    post: {{requestBody: {{content: {{image/png: {{}}}}}}}}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "orders").mkdir()
    with Shop(tmp_path / "orders") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "duly.toml").write_text(MINE)
    return made


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "duly", *words]


def piped(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run it without a terminal."""
    return subprocess.run(
        command(*words), cwd=folder, input=given, capture_output=True, text=True, timeout=LIMIT_S
    )


def typed(folder: Path, words: Sequence[str], talk: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run it at a terminal: wait for each text, then type its answer; return all that was seen."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*words),
        cwd=folder,
        preexec_fn=lambda: os.login_tty(theirs),
        env={**os.environ, "COLUMNS": "200"},
    )
    os.close(theirs)
    seen, at, end = "", 0, time.monotonic() + LIMIT_S
    left = [*talk]
    try:
        while time.monotonic() < end:
            if left and (found := seen.find(left[0][0], at)) >= 0:
                at = found + len(left[0][0])
                os.write(ours, f"{left.pop(0)[1]}\n".encode())
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    data = os.read(ours, 65536)
                except OSError:
                    break  # the other end is closed
                if not data:
                    break
                seen += data.decode(errors="replace")
        assert not left, f"never asked: {left[0][0]!r}; seen: {seen}"
        return process.wait(timeout=LIMIT_S), seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_service_is_connected_at_a_terminal(folder: Path, shop: Shop) -> None:
    """K10, A5: the trial is shown before it is made; the secret is nowhere but sealed."""
    settings = folder / "duly.toml"
    settings.write_text(MINE + SHOP.format(url=shop.url))
    before = settings.read_bytes()
    status, seen = typed(
        folder,
        ["connect", "shop"],
        [
            ("The secret token of shop: ", SECRET),
            ("Repeat for confirmation: ", SECRET),
            ("Make this call now?", "y"),
        ],
    )
    assert status == 0, seen
    assert seen.index("item: one trial") < seen.index("Make this call now?")
    told = r"shop.order: can answer by search after 60 s \(proven with your account on [^)]+\)"
    assert re.search(told, seen), seen
    assert len(shop.orders()) == 1
    assert settings.read_bytes() == before
    assert SECRET not in seen
    for file in folder.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
    # Again there is nothing to ask for, and nothing is sent.
    again = piped(folder, "connect", "shop")
    assert again.returncode == 0, again.stderr
    assert "proven with your account" in again.stdout
    assert len(shop.orders()) == 1
    shown = piped(folder, "connections", "--json").stdout
    assert SECRET not in shown
    assert "proven with your account on" in piped(folder, "tools", "shop.order").stdout


def test_what_waited_for_its_secret_goes_on(folder: Path, shop: Shop) -> None:
    """K10, F4: connecting is reconnecting, and the call that waited is made once."""
    (folder / "duly.toml").write_text(MINE + SHOP.format(url=shop.url))
    (folder / "flow.py").write_text(FLOW)
    publish = ["publish", "orders", "wish", "--title", "One", "--message-id", "1"]
    for words in (["deploy", str(folder / "flow.py"), "--grant"], publish, ["drain"]):
        done = call(folder, *words)
        assert done.exit_code == 0, done.output
    assert shop.orders() == []
    made = piped(folder, "connect", "shop", "--no-proof", given=f"{SECRET}\n")
    assert made.returncode == 0, made.stderr
    assert "1 that waited for shop goes on." in made.stdout
    for _ in range(2):
        assert call(folder, "drain").exit_code == 0
        assert len(shop.orders()) == 1


def test_a_trial_that_is_declined_is_not_made(folder: Path, shop: Shop) -> None:
    """K10: every face says that it is not proven."""
    (folder / "duly.toml").write_text(MINE + SHOP.format(url=shop.url))
    status, seen = typed(
        folder,
        ["connect", "shop"],
        [
            ("The secret token of shop: ", SECRET),
            ("Repeat for confirmation: ", SECRET),
            ("Make this call now?", "n"),
        ],
    )
    assert status == 0, seen
    assert "Not made." in seen
    assert "not yet proven with your account" in seen
    assert shop.orders() == []
    assert "not yet proven with your account" in piped(folder, "tools", "shop.order").stdout


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_settings_are_asked_for_and_written_below_what_is_there(folder: Path, end: str) -> None:
    """A5: every byte of the person's stays."""
    settings = folder / "duly.toml"
    before = MINE.replace("\n", end).encode()
    settings.write_bytes(before)
    (folder / "in box").mkdir()
    talk = [("Which kind of connector", "files"), ("path: the folder", "in box")]
    status, seen = typed(folder, ["connect", "inbox"], talk)
    assert status == 0, seen
    after = settings.read_bytes()
    assert after.startswith(before)
    assert tomllib.loads(after.decode())["connectors"]["inbox"] == {
        "use": "files",
        "path": "in box",
    }
    assert "inbox.write: can answer exactly (the change itself proves it)" in seen


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["connect", "a"], 2, "--use"),
        (["connect", "a", "--use", "files"], 2, "--set path="),
        (["connect"], 2, "duly connect NAME"),
        (["connect", "a", "--use", "database"], 1, 'Did you mean "sql"?'),
        (["connect", "a", "--use", "sql"], 2, "--set url=… --set operations=…"),
        (["connect", "a", "--use", "feed", "--set", "url=http://127.0.0.1/x"], 1, "own network"),
        (["connect", "a", "--use", "feed", "--set", "url=https://10.0.0.1/x"], 1, "allow = "),
        (["connect", "a", "--use", "feed", "--set", "url=https://[::1]/x"], 1, 'allow = ["::1"]'),
        (["connect", "a", "--use", "feed", "--set", "url=http://localhost/x"], 1, "localhost"),
        (
            ["connect", "a", "--use", "mail", "--set", "address=a@b.c", "--set", "imap=10.0.0.1"],
            1,
            'allow = ["10.0.0.1"]',
        ),
        (["connect", "a", "--use", "filez", "--set", "path=x"], 1, "files"),
        (["connect", "a", "--use", "files", "--set", "path=nowhere"], 1, "nowhere"),
        (["connect", "a", "--use", "files", "--set", "path"], 2, "KEY=VALUE"),
        (["connect", "A b", "--use", "telegram"], 1, "name"),
        (["connect", "a", "--use", "http", "--set", "url=https://x.example"], 1, "operations"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, said: str
) -> None:
    """A5: the connector is built before its settings are written."""
    monkeypatch.chdir(folder)
    before = (folder / "duly.toml").read_bytes()
    refused = call(None, *words)
    assert refused.exit_code == status, refused.output
    assert said in refused.stderr
    assert (folder / "duly.toml").read_bytes() == before


def test_all_settings_of_a_kind_are_named_with_a_command(folder: Path) -> None:
    """U6: by the list, and where one is missing; a command stands on one line."""
    listed = piped(folder, "connect", "--list", "sql")
    assert listed.returncode == 0, listed.stderr
    for each in ("url", "operations", "secret", "socket", "allow", "ca", "tls"):
        assert f"\n  {each} " in listed.stdout
    assert "\n  duly connect NAME --use sql --set url=sqlite:///rows.db --set '" in listed.stdout
    missing = piped(folder, "connect", "rows", "--use", "sql")
    assert "duly connect rows --use sql --set url=sqlite:///rows.db --set '" in missing.stderr
    # The project gives the file of what was agreed to; a person is not asked for it.
    assert " lock " not in piped(folder, "connect", "--list", "mcp").stdout


def test_a_host_with_the_former_settings_is_named_and_nothing_is_tried(
    tmp_path: Path, shop: Shop
) -> None:
    """K10: a trial of the former settings would prove nothing of the new ones."""
    folder = make_project(tmp_path)
    with (folder / "duly.toml").open("a") as file:
        file.write(SHOP.format(url=shop.url))
    with running(folder, "serve", "--no-page") as host:
        host.until("Sandbox")
        changed = piped(folder, "connect", "shop", "--set", 'headers={X-More="1"}', given="s3c\n")
        assert changed.returncode == 1, changed.stdout
        assert "does not use" in changed.stderr or "use the new settings" in changed.stderr
        assert "duly restart" in changed.stderr
        (folder / "box").mkdir()
        added = piped(folder, "connect", "box", "--use", "files", "--set", "path=box")
        assert added.returncode == 1
        assert "does not know box yet" in added.stderr
    assert shop.orders() == []


def test_a_description_becomes_operations_once(folder: Path, shop: Shop) -> None:
    """K1: read again it changes nothing; what a person edited is asked about."""
    (folder / "spec.yaml").write_text(SPEC.format(url=shop.url))
    settings = folder / "duly.toml"
    words = ["connect", "shop", "--openapi", "spec.yaml", "--no-proof"]
    more = ["--set", 'allow=["127.0.0.1"]']
    made = piped(folder, *words, *more, given=f"{SECRET}\n")
    assert made.returncode == 0, made.stderr
    assert "Left out: POST /photo: its body is image/png" in made.stderr
    table = tomllib.loads(settings.read_text())["connectors"]["shop"]
    assert table["operations"]["create_order"]["key"] == {"header": "Idempotency-Key"}
    assert table["operations"]["list_orders"]["method"] == "GET"
    assert SECRET not in settings.read_text() + made.stdout + made.stderr
    before = settings.read_bytes()
    assert before.startswith(MINE.encode())
    again = piped(folder, *words)
    assert again.returncode == 0, again.stderr
    assert settings.read_bytes() == before
    edited = settings.read_text().replace('does = "POST /orders"', 'does = "Order tea."')
    settings.write_text(edited)
    kept = piped(folder, *words, "--yes")
    assert kept.returncode == 0, kept.stderr
    assert settings.read_text() == edited
    status, seen = typed(folder, words, [("You have changed the operation create_order", "y")])
    assert status == 0, seen
    assert settings.read_bytes() == before
    # A description that has changed takes no comment of a person away unasked.
    noted = settings.read_text().replace('path = "/orders"', 'path = "/orders"  # ask Ada first', 1)
    settings.write_text(noted)
    spec = (folder / "spec.yaml").read_text()
    (folder / "spec.yaml").write_text(spec.replace("/orders", "/all-orders"))
    kept = piped(folder, *words, "--yes")
    assert kept.returncode == 0, kept.stderr
    assert "# ask Ada first" in settings.read_text()


def test_two_at_once_lose_nothing(folder: Path) -> None:
    """A5: one after the other, and both tables are there."""
    (folder / "box").mkdir()
    names = [f"box{number}" for number in range(4)]
    running = [
        subprocess.Popen(
            command("connect", each, "--use", "files", "--set", "path=box"),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for each in names
    ]
    for each in running:
        each.communicate(timeout=LIMIT_S)
    assert tomllib.loads((folder / "duly.toml").read_text())["connectors"].keys() == {*names}
    assert (folder / "duly.toml").read_text().startswith(MINE)
