"""Each page on a host where something of everything is: facts for a program, text for a person."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from duly.api.registry import VERBS
from duly.faces.cli.spelling import spell
from duly.faces.socket import Control
from tests.browser import audit
from tests.faces import cli_stand
from tests.faces.cli_stand import Facts
from tests.web import every
from tests.web.stand import FORM, OWN, ask, fake, form
from tests.web.test_page import KNOWN, judge

HTML: Final = {"accept": "text/html"}
PROGRAM: Final = {"accept": "application/json"}


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Facts]:
    folder = tmp_path_factory.mktemp("past") / "project"
    return folder, cli_stand.prepare(folder)


@pytest.mark.parametrize(
    "paths", [every.PATHS, (*audit.PAGES, *audit.JUDGED)], ids=["by its host", "by a browser"]
)
def test_every_page_of_the_routes_is_looked_at(paths: tuple[str, ...]) -> None:
    """G9, G13: a page that is added is in both lists, or fails here."""
    routes = every.list_pages(fake()[0].entries)
    assert len(routes) > 15
    unseen = [route for route in routes if not any(every.covers(route, path) for path in paths)]
    assert unseen == []


async def test_every_page_is_also_facts(past: tuple[Path, Facts], subtests: Any) -> None:
    """U6: by what it is asked for, at the same address; a browser gets the page.

    U3: the page of a failed run leads to where a corrected version is deployed.
    """
    async with every.opened(past[0], past[1].words) as all_:
        signed = {"authorization": f"Bearer {all_.token}"}
        for path in all_.paths:
            with subtests.test(path):
                told = await ask(all_.app, path, headers={**signed, **PROGRAM})
                assert (told.status, told["content-type"]) == (200, "application/json")
                assert isinstance(told.json, dict)
                assert told.json
                page = await ask(all_.app, path, headers={**signed, **HTML})
                assert (page.status, page["content-type"]) == (200, "text/html; charset=utf-8")
                if path.endswith(past[1].words["failed_run"]) and path.startswith("/runs/"):
                    assert 'href="/w/fails/versions"' in page.text


# Of the frame of every page, and of drawings; no text of others makes one.
ELEMENTS: Final = KNOWN | {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "p", "main"),
    *("dialog", "kbd", "path", "br"),
}
# What may stand in a text of others: markup, templates; and what hides or moves characters.
MARKUP: Final = (
    "\"'><img src=x onerror=alert(1)><script>alert(1)</script>{{ 7 * 7 }}javascript:&lt;b&gt;"
)
UNSEEN: Final = "\x1b[31m\u202etxt.exe\u200b\u2066z\u2069\x00"
# Words and ids of Duly's own; and names, which Duly takes only if each character is seen (T3).
OWN_WORDS: Final = frozenset(
    {
        *("id", "hash", "seq", "version", "parent", "replaces", "workflow", "mutation", "run", "a"),
        *("verb", "code", "status", "standing", "outcome", "language", "origin", "failure", "how"),
        *("scope", "asked", "proof", "answer", "waits", "proposal", "pid", "b", "key"),
        *("kind", "use", "mover", "moved_by", "step", "moves_on", "who", "topic"),
        *("phase", "in_step", "risk", "reached", "event_status", "level", "chosen"),
    }
)
NAMES: Final = frozenset(
    {
        *("message_id", "name", "title", "titles", "connector", "tool", "handler"),
        *("subscriber_id", "event_id", "connection", "capability", "subject", "seen"),
    }
)


def poison(value: Any, key: str = "") -> Any:
    """Put something hostile behind every text that another could have written."""
    if isinstance(value, dict):
        return {name: poison(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [poison(each, key) for each in value]
    if not isinstance(value, str) or key in OWN_WORDS or is_moment(value):
        return value
    return f"{value} {MARKUP}" if key in NAMES else f"{value} {MARKUP}{UNSEEN}"


def poison_answer(answer: Any, verb: str) -> Any:
    """Leave alone what a page asks further with."""
    if verb == "logs":  # which step a line is of is a word of Duly's own
        return [{**poison(each), "source": each["source"]} for each in answer]
    return answer if verb in ("source", "events") else poison(answer)


def is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


async def test_what_any_answer_says_is_text_on_every_page(
    past: tuple[Path, Facts], subtests: Any
) -> None:
    """G9: reasons, notes, authors, devices, errors, logs, secrets: whatever field it is."""
    async with every.opened(past[0], past[1].words, poison_answer) as all_:
        headers = {"cookie": f"duly-7337={all_.token}", **HTML}
        for path in all_.paths:
            with subtests.test(path):
                reply = await ask(all_.app, path, headers=headers)
                judge(reply, ELEMENTS)
                # The list of kinds has words of Duly alone.
                is_own = path.startswith(("/scripts", "/doctor", "/models")) or path == "/add"
                assert "onerror" in reply.text or is_own


async def test_what_answers_a_form_is_text(past: tuple[Path, Facts], subtests: Any) -> None:
    """G9, G11: a conflict with both calls, what is shown once, what became of several."""
    async with every.opened(past[0], past[1].words, poison_answer) as all_:
        headers = {"cookie": f"duly-7337={all_.token}", **HTML, **OWN, **FORM}
        change = all_.facts["proposed"]
        for path, fields, status in (
            ("/act/approve", {"mutation": change, "seen": "0" * 64}, 409),
            ("/approve", {f"call.{change}": "0" * 64}, 200),
            ("/skip", {"input.1": json.dumps(["asks", "in", MARKUP])}, 200),
            ("/act/new_token", {"name": "ci", "scope": "read"}, 200),
            ("/act/reject", {"mutation": "run_" + MARKUP + UNSEEN, "seen": "0" * 64}, 404),
        ):
            with subtests.test(path):
                reply = await ask(all_.app, path, "POST", headers=headers, body=form(**fields))
                assert reply.status == status
                judge(reply, ELEMENTS, status)
                assert "onerror" in reply.text


# Questions with what they are asked on this store. The others need a service, a caller or a model,
# run a script, or say something else each moment.
ASKED: Final[dict[str, dict[str, Any]]] = {
    "actions": {"workflow": "asks", "limit": 5},
    "allowances": {"workflow": "asks"},
    "approvals": {},
    "attention": {"limit": 10},
    "attention_count": {},
    "bus.deferred": {},
    "bus.deliveries": {"status": "dead"},
    "bus.journal": {"topic": "task"},
    "bus.subscribers": {},
    "certificate": {"id": "{unknown}"},
    "channels": {},
    "connection": {"connector": "sheet"},
    "check_connection": {"connector": "sheet"},
    "connections": {},
    "diff": {"workflow": "rests", "a": "1.0", "b": "2.0"},
    "events": {"workflow": "asks", "status": "reserved"},
    "extensions": {},
    "find": {"text": "Note"},
    "grants": {"workflow": "asks"},
    "right": {"workflow": "asks", "capability": "sheet.append"},
    "history": {"id": "{failed_run}"},
    "hooks": {"workflow": "asks"},
    "ids": {"begins": "{unknown}"},
    "inputs": {"workflow": "asks"},
    "kinds": {},
    "logs": {"run": "{failed_run}"},
    "models": {},
    "mutation": {"id": "{unknown}"},
    "mutations": {"status": "proposed"},
    "outputs": {"workflow": "lost"},
    "proposal": {"proposal": "{proposal}"},
    "proposals": {},
    "questions": {"workflow": "asks"},
    "run": {"id": "{failed_run}"},
    "runs": {"workflow": "asks", "handler": "file"},
    "secrets": {},
    "settings": {},
    "source": {"workflow": "rests", "version": "1.0"},
    "tokens": {},
    "upcoming": {"workflow": "checks", "times": 3},
    "uses": {"workflow": "rests", "version": "1.0"},
    "verify": {},
    "versions": {"workflow": "rests"},
    "why": {"id": "{unknown}"},
    "workflow": {"name": "asks"},
    "workflows": {"limit": 20},
}
NOT_ASKED: Final = frozenset(
    {
        *("admitted", "who", "asked", "begin_oauth", "offered"),  # a token, a code, a service
        *("check", "preview", "simulate", "try_", "what_if"),  # a file here, its text there
        *("figures", "hosts", "next_due", "writes", "wait"),  # another answer each moment
        "forgettable",  # nothing is over on this store
        *("guide", "short_ids", "sql", "tools"),  # the command prints more, or a text
    }
)
UNTIL: Final = re.compile(r"\bin \d+ (s|min|h)\b")


async def test_the_answer_over_http_is_what_a_command_prints(
    past: tuple[Path, Facts], subtests: Any, tmp_path: Path
) -> None:
    """U6: one host, asked by both ways: `--json` and HTTP say the same."""
    assert {name for name, verb in VERBS.items() if verb.is_question} == ASKED.keys() | NOT_ASKED
    folder = cli_stand.copy(past[0], tmp_path / "own")
    made = cli_stand.project(folder)
    async with every.opened(folder, past[1].words) as all_:
        headers = {"authorization": f"Bearer {all_.token}"}
        async with Control(all_.host, made.socket, settings=made.settings):
            for name, wanted in ASKED.items():
                args = {
                    k: v.format(**all_.facts) if isinstance(v, str) else v
                    for k, v in wanted.items()
                }
                words = shlex.split(spell(VERBS[name], args))[1:]
                with subtests.test(name):
                    printed = await asyncio.to_thread(cli_stand.call, folder, *words, "--json")
                    assert printed.exit_code == 0, printed.output
                    told = await ask(
                        all_.app, f"/api/v1/{name}", "POST", headers=headers, body=args
                    )
                    assert told.status == 200
                    assert plain(told.json) == plain(json.loads(printed.stdout))


def plain(answer: Any) -> str:
    """Write an answer, without how long it is until something."""
    return UNTIL.sub("in a while", json.dumps(answer, sort_keys=True))
