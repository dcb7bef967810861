"""`duly guide`: one page that teaches what holds here, and names everything that is lacking."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from duly.connectors.clock import Clock
from duly.connectors.files import Files
from duly.connectors.http import Http
from duly.connectors.mail_account import MailAccount
from duly.connectors.mailbox import Mailbox
from duly.connectors.registry import Registry
from duly.connectors.table import Table
from duly.rules.source import Source
from duly.script import lacking
from duly.script.check import check
from duly.script.javascript import LACKING
from tests.faces.real import call, make_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("guide") / "project")


@pytest.fixture(scope="module")
def page(project: Path) -> str:
    made = call(project, "guide", "--for", "llm")
    assert made.exit_code == 0
    return made.stdout


@pytest.mark.parametrize(("fence", "language"), [("python", "python"), ("js", "javascript")])
def test_the_taught_pattern_has_nothing_said_against_it(
    page: str, fence: str, language: str, tmp_path: Path
) -> None:
    """W5: strict, with the ready-made connectors whose tools it uses."""
    (example,) = re.findall(rf"^```{fence}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    catalog = Registry([Mailbox(tmp_path), Table(tmp_path)]).catalog
    source = Source(language, example, "guide")  # type: ignore[arg-type]
    assert check(source, catalog) == ()
    # It is the check that praises, not its absence: without the title it has something to say.
    broken = Source(language, re.sub(r'"?ui"?: \{.*\},', "", example), "guide")  # type: ignore[arg-type]
    assert [each.rule for each in check(broken, catalog)] == ["mutate-without-title"]


def test_everything_the_interpreters_lack_is_named(page: str) -> None:
    """X1: every row of the tables that refuse it, with what to write instead."""
    for table in (lacking.INSTEAD_OF_MODULE, lacking.INSTEAD_OF_METHOD, lacking.INSTEAD_OF_NAME):
        for name, instead in table.items():
            assert name in page
            assert instead in page
    for module, members in lacking.INSTEAD_OF_MEMBER.items():
        assert all(f"`{module}.{name}`" in page for name in members)
    for name in (*lacking.INSTEAD_OF_USELESS, *LACKING):
        assert f"`{name}`" in page
    for what, instead in lacking.INSTEAD_OF_SYNTAX.values():
        assert f"`{what}`" in page
        assert instead in page
    assert all(f"`{module}`" in page for module in lacking.MODULES - {"__future__", "duly"})


def test_the_tools_of_the_project_stand_there_in_both_languages(page: str, project: Path) -> None:
    """A1: with their types, their capability and the words of their author."""
    assert "**change** `ctx.outbox.write(path: str, text: str)`" in page
    assert "`ctx.outbox.write({ path: string; text: string })` (outbox.write): Write a" in page
    assert "- read by id `ctx.inbox.read(path: str)`" in page
    assert not (project / "duly.db").exists()


def test_one_language_leaves_the_other_out(project: Path) -> None:
    """W1: half the page, and nothing of the other half."""
    python = call(project, "guide", "--for", "llm", "--language", "python").stdout
    javascript = call(project, "guide", "--for", "llm", "--language", "javascript").stdout
    assert "```js" not in python
    assert "`fetch`" not in python
    assert "```python" not in javascript
    assert "`zoneinfo`" not in javascript
    assert "<!--" not in python + javascript


def test_each_language_reads_its_own_spelling(project: Path, page: str) -> None:
    """W1: a model that reads `None` writes it; for both, one spelling goes in brackets."""
    python = call(project, "guide", "--for", "llm", "--language", "python").stdout
    javascript = call(project, "guide", "--for", "llm", "--language", "javascript").stdout
    ours = ("None", "wake_at", 'prepared["data"]', "get_by_ids", "message_id", "last_cursor")
    theirs = ("null`", "wakeAt", "prepared.data", "getByIds", "messageId", "lastCursor")
    for words in (*ours, "snake_case", "True", "Python"):
        assert words in python
        assert words not in javascript
    for words in (*theirs, "camelCase", "ingress: true", "`Duly` is an alias"):
        assert words in javascript
        assert words not in python
    assert "`wake_at` (`wakeAt`)" in page
    assert "{{" not in python + javascript + page


def web(_: Path) -> Http:
    return Http("https://shop.example", hosts=["shop.example"])


@pytest.mark.parametrize("make", [Clock, Files, web, Mailbox, Table])
def test_every_ready_made_tool_says_what_it_answers(make: Any, tmp_path: Path) -> None:
    """A1: its keys as they are, in words that are right in both languages."""
    registry = Registry([make(tmp_path)] if make is not Clock else [Clock()])
    for tool in registry.catalog.tools:
        told = registry.describe(tool.name)
        assert re.search(r"^Returns (a page of )?(\{[a-z_, ]+\}|a text)", told, re.MULTILINE), told
        assert not re.search(r"\b(None|null|undefined|dict|object)\b", told)


def test_the_rules_a_model_must_keep_are_on_the_page(page: str) -> None:
    """C8: one change, the last thing; how to check and to try it."""
    for words in ("at\n   most one thing", "The call is the last thing", "duly check", "duly try"):
        assert words in page


def test_people_are_told_where_to_begin() -> None:
    """U6: every command it names exists."""
    from duly.faces.cli import commands

    told = call(None, "guide").stdout
    named = set(re.findall(r"duly ([a-z-]+)", told))
    assert {"init", "dev", "status", "check", "try", "simulate"} <= named
    assert named <= {*commands()}


def test_the_zone_of_the_project_is_named(tmp_path: Path) -> None:
    """S2: what a cron pattern means that names none."""
    folder = make_project(tmp_path / "project")
    settings = folder / "duly.toml"
    text, found = re.subn(r'timezone = "[^"]*"', 'timezone = "Asia/Tokyo"', settings.read_text())
    assert found == 1
    settings.write_text(text)
    page = call(folder, "guide", "--for", "llm").stdout
    assert (
        "(a cron pattern that names no zone is in `Asia/Tokyo`, the zone of this project)" in page
    )


def test_what_comes_in_from_outside_is_taught(page: str) -> None:
    """G12, T10: how a topic is opened, what is in a payload, and when no mail is answered."""
    assert '`topics={"wish.came": {"ingress": True}, "wish.kept": {}}`' in page
    assert '`topics: { "wish.came": { ingress: true }, "wish.kept": {} }`' in page
    for words in ("The `payload` of the event is the body", "message id is", "Answer no mail from"):
        assert words in page
    mail = Registry([MailAccount("ada@example.com", imap="imap.example.com")])
    told = mail.describe("mail.search") + mail.describe("mail.send")
    for said in ("`Ada <ada@example.com>`", "`reply_to` is the `message_id`", "newer_than:1d"):
        assert said in " ".join(told.split())
