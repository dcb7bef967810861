"""`duly init --template`: each is a project that works as it is, and does nothing twice."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

import pytest

from duly.api.build import build_host
from duly.api.project import find_project
from duly.env import Boot, Loop
from duly.faces.cli.template import TEMPLATES
from duly.rules.word import Status
from tests.faces import example_text
from tests.faces.post_stand import make_desk, posting, rows_of
from tests.faces.real import call

MINUTE_MS: Final = 60 * 1000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
DESK: Final = "mail-desk"  # needs an account: its test has a mail server
TYPED: Final = "mail-to-table-js"  # is tried with commands alone; the others cost less
DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
MAILS: Final = """\
mail,from,subject
001.eml,billing@shop.example,Invoice 4711 is due
002.eml,desk@hotel.example,Your room is ready
003.eml,no-reply@tickets.example,Ticket 12 is closed
"""
TICKETS: Final = """\
ticket,text
t1,The printer is out of paper
t2,The door does not close
t3,A lamp is broken
"""
FIRST_VAN: Final = """\
first,parcels
p01,"p01, p02, p03, p04, p05, p06, p07, p08, p09, p10"
"""
ALARMS: Final = "2 alarms: Door open, Oven too hot\n"
NOTES: Final = "- Order more paper\n- Water the plants\n"

# What is outside after so many hours more, in both languages, but for a name of the demo's.
OUTCOMES: Final[dict[str, dict[int, dict[str, str]]]] = {
    "mail-to-table": {0: {"table/mails.csv": MAILS}},
    "mail-to-table-js": {0: {"table/mails_js.csv": MAILS}},
    "fifo": {0: {"table/tickets.csv": TICKETS}},
    "correlation": {0: {"outbox/o2.txt": "Ship order o2: A chair\n"}},
    "time-window": {0: {}, 1: {"outbox/from Door open.txt": ALARMS}},
    "batch-or-timeout": {
        0: {"table/vans.csv": FIRST_VAN},
        1: {"table/vans.csv": f'{FIRST_VAN}p11,"p11, p12"\n'},
    },
    "daily-digest": {0: {}, 24: {"outbox/DAY.txt": NOTES}},
}


class Clock:
    """The machine's clock, from noon on, whenever the test is run; a test sets it forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now_ms, boot = Loop.now_ms, Loop.boot
        self.ahead_ms = 12 * HOUR_MS - time.time_ns() // 1_000_000 % DAY_MS + DAY_MS
        monkeypatch.setattr(Loop, "now_ms", lambda env: now_ms(env) + self.ahead_ms)
        monkeypatch.setattr(
            Loop, "boot", lambda env: Boot(boot(env).id, boot(env).ms + self.ahead_ms)
        )


def outside(folder: Path) -> dict[str, str]:
    """Read what was done, as a person would who looks into the folders."""
    paths = [*folder.glob("outbox/*.txt"), *folder.glob("table/*.csv")]
    return {DAY.sub("DAY", str(path.relative_to(folder))): path.read_text() for path in paths}


def say(folder: Path, *words: str) -> str:
    told = call(folder, *words)
    assert told.exit_code == 0, told.output
    return told.output


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name not in (TYPED, DESK)])
async def test_a_template_works_as_it_is_and_does_nothing_twice(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5, L3: nothing is found in it, a trial changes nothing, and each change is made once."""
    clock, folder = Clock(monkeypatch), tmp_path / name
    told = call(None, "init", "--template", name, str(folder))
    assert told.exit_code == 0, told.output
    assert f"find what it did in {TEMPLATES[name].example.seen}" in told.output
    (source,) = (folder / "workflows").iterdir()
    # One host for all of it: one for each command would cost four times as much.
    async with build_host(find_project(str(folder), {}, tmp_path)) as host:
        assert await host.check(source) == ()
        tried = await host.try_(source, grant=True)
        assert tried.problems == ()
        assert tried.published != ()
        deployed = await host.deploy(source, by="me", grant=True, strict=True)
        assert (deployed.findings, deployed.missing, outside(folder)) == ((), (), {})
        outcomes = OUTCOMES.get(name) or OUTCOMES[name.removesuffix("-js")]
        for hours, expected in outcomes.items():
            clock.ahead_ms += hours * HOUR_MS
            await host.drain()
            assert outside(folder) == expected
            made = await host.mutations(deployed.workflow, limit=1000)
            runs = await host.runs(deployed.workflow, limit=1000)
            assert {each.status for each in runs} == {Status.COMMITTED}
            # Every sample seems new, and the workflow looks again.
            for sample in TEMPLATES[name].example.samples:
                (folder / sample).touch()
            clock.ahead_ms += 2 * MINUTE_MS
            await host.drain()
            assert len(await host.runs(deployed.workflow, limit=1000)) > len(runs)
            assert await host.mutations(deployed.workflow, limit=1000) == made
            assert outside(folder) == expected


def test_a_template_works_from_the_command_line(tmp_path: Path) -> None:
    """W5, L3: as a new user types it, each command with a host of its own."""
    folder = tmp_path / "my mails"
    assert call(None, "init", str(folder), "--template", TYPED).exit_code == 0
    source = str(folder / "workflows" / "mail_to_table_js.js")
    assert "nothing to say against it" in say(folder, "check", source)
    assert "Would insert 3 rows" in say(folder, "try", source, "--grant")
    say(folder, "deploy", "--grant")
    assert "3 with a change outside; nothing waits for you" in say(folder, "drain")
    assert outside(folder) == OUTCOMES[TYPED][0]
    assert say(folder, "drain").startswith("No runs were committed")


def test_the_desk_works_with_an_account(tmp_path: Path) -> None:
    """W5, L3: with the lines of an account filled in, each mail is a row, an answer, a message."""
    folder = tmp_path / "desk"
    with posting() as post:
        make_desk(folder, post)
        assert "nothing to say against it" in say(
            folder, "check", str(folder / "workflows" / "mail_desk.py")
        )
        say(folder, "deploy", "--grant")
        say(folder, "drain")
        assert "mail.send" in say(folder, "approvals")  # no mail leaves unseen
        assert post.sent == []
        settings = folder / "duly.toml"
        settings.write_text(settings.read_text().replace('"mail.send" = "always", ', ""))
        say(folder, "approve-all", "--yes")
        say(folder, "drain")
        found = (len(rows_of(folder)), len(post.sent), len(post.messages))
        assert found == (3, 3, 3)


def test_the_templates_are_listed_with_what_they_do() -> None:
    """U6: one line each, and nothing is made."""
    lines = say(Path(), "init", "--templates").splitlines()
    assert [line.split()[0] for line in lines] == list(TEMPLATES)
    assert [line.endswith(TEMPLATES[line.split()[0]].example.says) for line in lines] == [True] * 13
    refused = call(None, "init", "--template", "nope")
    assert refused.exit_code == 2
    assert "'mail-to-table'" in refused.output


def test_the_templates_are_the_examples() -> None:
    """W5: `python -m tests.faces.example_text --write` brings them up to date."""
    assert example_text.kept() == example_text.derive()


def test_nothing_of_a_template_is_written_where_a_sample_is_in_the_way(tmp_path: Path) -> None:
    """W5: the same law as without a template."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "t2.txt").write_text("mine")
    refused = call(None, "init", "--template", "fifo", str(tmp_path))
    assert refused.exit_code == 1
    assert f"{tmp_path / 'inbox' / 't2.txt'} exists already" in refused.output
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["inbox", "t2.txt"]
