"""From `duly init` and `duly serve` to the first real change, by a person who has the page alone.

Law: after the link was opened nothing is typed into a terminal, and no file is written by hand.
"""

from __future__ import annotations

import signal
import time
import tomllib
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.chromium import find
from tests.browser.judge import AXE, list_findings
from tests.browser.stand import NARROW, WIDE, call
from tests.faces.real import make_project, running

WAIT_MS: Final = 180_000  # a host begins again meanwhile, also on a slow machine
OPTIONS: Final = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
# A note that comes into a folder that is there already; letters and their list are not.
SCRIPT: Final = """\
from duly import workflow

flow = workflow("post", topics=["note.came", "letter.written"])


@flow.producer(every="1h")
async def look(ctx, state):
    page = await ctx.inbox.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for file in page["items"]:
        path = file["path"]
        await ctx.publish(
            "note.came", message_id=path, title=f"Note {path}", payload={"path": path}
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("note.came")
class write:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("note.came", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        one = pending[0]
        return {
            "reservations": [{"topic": "note.came", "ids": [one["message_id"]]}],
            "data": {"path": one["payload"]["path"]},
            "ui": {"title": f"Write a letter for {one['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.letters.write(path=prepared["data"]["path"], text="Dear reader")

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            path = prepared["data"]["path"]
            await ctx.publish("letter.written", message_id=path, title=f"Letter {path}")


@flow.consumer("letter.written")
class note:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("letter.written", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        one = pending[0]
        return {
            "reservations": [{"topic": "letter.written", "ids": [one["message_id"]]}],
            "data": {"path": one["message_id"]},
            "ui": {"title": f"List {one['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.lists.insert(table="letters", row={"path": prepared["data"]["path"]})
"""


def judge(page: Page, what: str) -> None:
    """See that axe finds nothing, wide and narrow."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        assert list(list_findings(page, what, None)) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], what
    page.set_viewport_size(WIDE)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).first.click()


def follow(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).first.click()


def until(page: Page, text: str) -> None:
    """Look at the first page again until it says so: without JavaScript it does not by itself."""
    ends_s = time.monotonic() + WAIT_MS / 1000
    while text not in page.locator("main").inner_text():
        assert time.monotonic() < ends_s, f"{text} never came"
        page.wait_for_timeout(200)
        page.goto(page.url)


def paste(page: Page) -> None:
    if page.locator("#paste:not([open])").count():
        page.get_by_text("Paste the text of a script").click()
    page.get_by_label("Source").first.fill(SCRIPT)
    press(page, "Check it")


@pytest.mark.parametrize("has_scripts", [True, False], ids=["JavaScript", "no JavaScript"])
def test_a_person_with_the_page_alone_comes_to_a_first_real_change(
    tmp_path: Path, has_scripts: bool
) -> None:
    """U6, G14: two connections are added, the host begins again, and the change is made."""
    expect.set_options(timeout=WAIT_MS)
    folder = make_project(tmp_path)
    with running(folder, "serve", "--page-port", "0") as host, sync_playwright() as play:
        host.until("Page http://")
        browser = play.chromium.launch(executable_path=str(find()), args=OPTIONS)
        try:
            page = browser.new_context(java_script_enabled=has_scripts).new_page()
            page.set_default_timeout(WAIT_MS)
            page.goto(call(folder, "open").stdout.strip())
            page.get_by_label("Name of this device").fill("My browser")
            press(page, "Sign in")
            walk(page, folder, is_judged=has_scripts)
        finally:
            browser.close()
        assert host.said.count("Page http://") == 2
        host.tell(signal.SIGTERM)
        assert host.end() == 0, host.said
    settings = tomllib.loads((folder / "duly.toml").read_text())["connectors"]
    assert settings["letters"] == {"use": "files", "path": "letters"}
    assert settings["tasks"]["operations"]["add"]["arguments"] == {"title": "string"}
    assert settings["lists"] == {"use": "table", "path": "lists"}
    assert (folder / "letters" / "ada.txt").read_text() == "Dear reader"
    assert "ada.txt" in (folder / "lists" / "letters.csv").read_text()


def describe_service(page: Page, *, is_judged: bool) -> None:
    """Describe a service of this machine: the page gives the command, and a public one is taken."""
    main = page.locator("main")
    follow(page, "Add a connection")
    follow(page, "http")
    if is_judged:
        judge(page, "the form of a service")
    page.get_by_label("Its name, by which scripts use").fill("tasks")
    page.get_by_label("The address of the service").first.fill("http://127.0.0.1:8765")
    page.get_by_label("How the service is told who asks").select_option("bearer")
    page.locator("input[type=password]").fill("hidden-1")
    page.get_by_label("Its name, which scripts call").first.fill("add")
    page.get_by_label("Its path below").first.fill("/tasks")
    page.get_by_label("Its arguments").first.fill("title string")
    press(page, "Add")
    command = "duly connect tasks --use http --set url=http://127.0.0.1:8765"
    expect(main).to_contain_text(command)
    expect(main).not_to_contain_text("hidden-1")
    if is_judged:
        judge(page, "a command in place of what a page does not set")
    page.get_by_label("The address of the service").first.fill("https://tasks.example/api")
    page.locator("input[type=password]").fill("hidden-1")
    press(page, "Add")
    expect(main).to_contain_text("Added: tasks.")


def walk(page: Page, folder: Path, *, is_judged: bool) -> None:
    main = page.locator("main")
    describe_service(page, is_judged=is_judged)
    follow(page, "Home")
    paste(page)
    expect(main).to_contain_text("Nothing was deployed.")
    expect(main).to_contain_text("letters")
    if is_judged:
        judge(page, "a connection is not here")
    follow(page, "Add a connection: letters")
    if is_judged:
        judge(page, "the kinds")
    follow(page, "files")
    if is_judged:
        judge(page, "the form of a kind")
    page.get_by_label("The folder").fill("/etc")
    press(page, "Add")
    expect(main).to_contain_text("path must be a folder below that of the project")
    expect(page.get_by_label("Its name")).to_have_value("letters")
    if is_judged:
        judge(page, "a form with a mistake")
    page.get_by_label("The folder").fill("letters")
    press(page, "Add")
    expect(main).to_contain_text("Added: letters, tasks.")
    follow(page, "Add a connection")
    follow(page, "table")
    page.get_by_label("Its name").fill("lists")
    page.get_by_label("The folder").fill("lists")
    press(page, "Add")
    expect(main).to_contain_text("Added: letters, lists, tasks.")
    if is_judged:
        judge(page, "Tools with what is new")
    press(page, "Start again")
    expect(page.get_by_role("link", name="lists", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="tasks", exact=True)).to_be_visible()
    expect(main).not_to_contain_text("Start the host again")
    assert page.get_by_role("button", name="Sign out").count() == 1
    follow(page, "Home")
    paste(page)
    if is_judged:
        judge(page, "a pasted script")
    press(page, "Deploy, and allow what it asks for")
    follow(page, "Home")
    until(page, "letters.write")
    press(page, "Approve")
    until(page, "1 row added")  # a row is of low risk, and is not asked about
    expect(main).to_contain_text("Nothing waits for you.")
    assert (folder / "lists" / "letters.csv").exists()
