"""Every verb over HTTP: the answers of the command line, pages, tags and problems (U6, G15)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

import duly.web
from duly.api.codec import perform
from duly.api.registry import VERBS, Scope
from duly.errors import ConfigError, RequestRefused, Stale, StoreUnavailable
from duly.faces.web import guard
from duly.faces.web.health import Health
from duly.faces.web.problem import status_of
from duly.testing import Stage
from tests.desk.test_allowance import posting
from tests.web.stand import FORM, OWN, PORT, FakeSession, ask, bearer, fake, form, serving


@pytest.mark.parametrize("name", VERBS)
async def test_every_verb_reaches_the_host_as_it_was_asked_and_answers_what_the_host_says(
    name: str,
) -> None:
    """U6: nothing is lost, added or changed on the way; `--json` prints the same answer."""
    verb = VERBS[name]
    app, door = fake()
    answer: Any = [{"id": 1, "text": "a \u202e b", "seq": 3, "after": None, "key": "k"}]
    if verb.declared.cursor == ("after",):
        answer = answer[0]
    door.answers[name] = answer
    reply = await ask(app, f"/api/v1/{name}", "POST", headers=bearer(), body={**verb.example})
    assert (reply.status, reply.json) == (200, answer)
    (asked,) = door.asked
    assert (asked.verb, asked.args) == (name, json.loads(json.dumps({**verb.example})))
    assert asked.by == "token:admin"


async def test_questions_of_a_real_host_are_answered_as_by_a_session(tmp_path: Path) -> None:
    """U6: by GET, by POST and by a session in the process: one answer."""
    asked: dict[str, dict[str, Any]] = {
        "workflows": {},
        "workflow": {"name": "invoices"},
        "events": {"workflow": "invoices", "limit": 1},
        "inputs": {"workflow": "invoices"},
        "outputs": {"workflow": "invoices"},
        "versions": {"workflow": "invoices"},
        "actions": {},
        "attention": {},
        "attention_count": {},
        "why": {"id": "invoices"},
        "find": {"text": "Mail"},
        "tools": {},
        "bus.journal": {},
        "tokens": {},
    }
    async with serving(tmp_path) as web:
        await web.deploy()
        for number in range(3):
            await web.host.publish(
                "invoices", "mail.received", title=f"Mail {number}", message_id=number
            )
        for name, args in asked.items():
            there = await perform(web.host, name, args, by="ada", scope=Scope.ADMIN)
            query = "&".join(f"{key}={each}" for key, each in args.items())
            got = await web.ask(f"/api/v1/{name}?{query}")
            posted = await web.ask(f"/api/v1/{name}", "POST", body=args)
            wanted = _timeless(json.loads(json.dumps(there)))
            assert _timeless(got.json) == wanted, name
            assert _timeless(posted.json) == wanted, name


def _timeless(value: Any) -> Any:
    """Leave out the sentences: they say how long it is until something."""
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key != "text"}
    return [*map(_timeless, value)] if isinstance(value, list) else value


async def test_acts_of_a_real_host_are_done_in_the_name_of_the_token(tmp_path: Path) -> None:
    """G5, A6: the account says which token did it."""
    async with serving(tmp_path) as web:
        await web.deploy()
        body = {"workflow": "invoices"}
        assert (await web.ask("/api/v1/pause", "POST", scope=Scope.AGENT, body=body)).status == 200
        refused = await web.ask("/api/v1/resume", "POST", body={**body, "by": "ada"})
        assert (refused.status, refused.json["code"]) == (400, "by_is_known")
        (done,) = [each for each in await web.host.actions() if each.verb == "pause"]
        assert done.by == "token:agent token"
        assert (await web.host.workflow("invoices")).standing == "stopped"


async def test_a_full_page_names_the_next_one_until_there_is_none(tmp_path: Path) -> None:
    """U6: a cursor in `Link`; every entry is met once."""
    async with serving(tmp_path) as web:
        await web.deploy()
        for number in range(7):
            await web.host.publish(
                "invoices", "mail.received", title=f"Mail {number}", message_id=f"m {number}&"
            )
        for start in ("events?workflow=invoices&limit=3", "inputs?workflow=invoices&limit=3"):
            met: list[str] = []
            path: str | None = f"/api/v1/{start}"
            while path is not None:
                reply = await web.ask(path)
                met += [each["title"] for each in reply.json]
                path = None
                if reply.has("link"):
                    link = reply["link"]
                    assert link.endswith('>; rel="next"')
                    path = link[1:].partition(">")[0]
            assert sorted(met) == [f"Mail {number}" for number in range(7)]


def test_every_question_with_pages_says_where_the_next_one_goes_on() -> None:
    """U6: what has `before` or `after` has a cursor; one page has an entry as its cursor."""
    paged = {
        name
        for name, verb in VERBS.items()
        if any(each.name in ("before", "after") for each in verb.parameters)
    }
    with_cursor = {name for name, verb in VERBS.items() if verb.declared.cursor}
    # `after` of deferred events is the whole last entry.
    assert paged - with_cursor == {"bus.deferred"}
    assert with_cursor <= paged


async def test_a_cursor_cannot_break_out_of_its_header() -> None:
    """G2: a name with an end of line in it stays in the address."""
    app, door = fake()
    door.answers["workflows"] = [{"name": 'x>; rel="next"\r\nSet-Cookie: a=b'}]
    reply = await ask(app, "/api/v1/workflows?limit=1", headers=bearer())
    assert not reply.has("set-cookie")
    assert "\r" not in reply["link"]
    assert "\n" not in reply["link"]
    query = reply["link"][1:].partition(">")[0].partition("?")[2]
    pair = parse_qsl(query)[1]
    assert pair == ("after", 'x>; rel="next"\r\nSet-Cookie: a=b')


async def test_an_answer_that_did_not_change_is_not_sent_again() -> None:
    """U6: by its tag, which is a digest of the answer."""
    app, door = fake()
    door.answers["tools"] = [{"name": "a"}]
    first = await ask(app, "/api/v1/tools", headers=bearer())
    again = await ask(app, "/api/v1/tools", headers={**bearer(), "if-none-match": first["etag"]})
    assert (again.status, again.body, again["etag"]) == (304, b"", first["etag"])
    door.answers["tools"] = [{"name": "b"}]
    other = await ask(app, "/api/v1/tools", headers={**bearer(), "if-none-match": first["etag"]})
    assert (other.status, other.json) == (200, [{"name": "b"}])


async def test_a_repeated_request_is_one_event(tmp_path: Path) -> None:
    """T5: `Idempotency-Key` is the message id, unless the body has one."""
    async with serving(tmp_path) as web:
        await web.deploy()
        body = {"workflow": "invoices", "topic": "mail.received", "title": "Mail"}
        headers = {"idempotency-key": "k-1"}
        told = [
            (await web.ask("/api/v1/publish", "POST", headers=headers, body=body)).json
            for _ in range(2)
        ]
        assert told == ["new", "same"]
        (event,) = await web.host.events("invoices")
        assert event.message_id == "k-1"


# -- Problems ---------------------------------------------------------------------------------


async def test_an_error_is_a_problem_with_the_code_of_the_command_line(tmp_path: Path) -> None:
    """G15: type, title, status, detail, and the code, the subject and what to do."""
    async with serving(tmp_path) as web:
        reply = await web.ask("/api/v1/workflow?name=invoises")
        assert (reply.status, reply["content-type"]) == (404, "application/problem+json")
        told = reply.json
        assert told["type"] == "urn:duly:error:no_workflow"
        assert (told["title"], told["status"]) == ("Not Found", 404)
        assert (told["code"], told["subject"]) == ("no_workflow", "invoises")
        assert told["detail"].startswith('There is no workflow "invoises".')
        assert told["next"]["verb"] == "workflows"


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("workflow", 400, "missing"),
        ("workflow?name=a&colour=red", 400, "unknown_field"),
        ("workflows?limit=0", 400, "out_of_range"),
        ("workflows?limit=x", 400, "wrong_type"),
        ("runs?status=x", 400, "not_one_of"),
        ("run?id=run_1234", 404, "no_run"),
        ("sql?query=drop", 400, ""),
    ],
)
async def test_a_wrong_argument_is_named(path: str, status: int, code: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        reply = await web.ask(f"/api/v1/{path}")
        assert reply.status == status, reply.text
        assert not code or reply.json["code"] == code


def test_a_status_is_made_from_the_class_and_from_some_codes() -> None:
    """G15: what a program does next depends on it: change the request, wait, or look first."""
    assert status_of(RequestRefused(code="paused")) == 409
    assert status_of(Stale(code="stale")) == 409
    assert status_of(StoreUnavailable(code="host_gone")) == 503
    assert status_of(StoreUnavailable(code="act_unheard")) == 504
    assert status_of(RequestRefused(code="beyond_scope")) == 403
    assert status_of(ConfigError(code="distrusted")) == 403


# -- What watches ------------------------------------------------------------------------------


async def test_the_figures_are_text_of_prometheus(tmp_path: Path) -> None:
    async with serving(tmp_path) as web:
        await web.deploy()
        reply = await web.ask("/metrics", scope=Scope.READ)
        assert reply["content-type"].startswith("text/plain; version=0.0.4")
        assert 'duly_workflows{standing="idle"} 1' in reply.text.splitlines()
        assert "duly_attention 0" in reply.text.splitlines()
        assert (await web.ask("/metrics", scope=None)).status == 401
        health = await web.ask("/healthz", scope=None)
        assert (health.status, health.text) == (200, "ok\n")


@pytest.mark.parametrize("path", ["/api/v1/pause", "/api/v1/workflows", "/act/pause"])
async def test_arguments_in_the_query_of_a_post_are_refused_and_not_dropped(path: str) -> None:
    """G10: a request with two sets of arguments is not half obeyed."""
    app, door = fake()
    is_form = path.startswith("/act")
    more: Any = {"body": {"workflow": "one"}}
    if is_form:
        more = {"body": form(workflow="one")}
    headers = {**bearer(), **(FORM if is_form else {})}
    reply = await ask(app, f"{path}?workflow=other", "POST", headers=headers, **more)
    assert (reply.status, reply.json["code"]) == (400, "query_of_act")
    assert door.asked == []


async def test_who_emits_over_http_is_who_signed_in(tmp_path: Path) -> None:
    """G5, A6: `source` is what a caller says of itself; who it was is written with the event."""
    async with serving(tmp_path) as web:
        body: dict[str, Any] = {"topic": "pay.now", "payload": {"amount": 9}, "source": "ada"}
        emitted = await web.ask("/api/v1/bus.emit", "POST", scope=Scope.AGENT, body=body)
        later = {**body, "delay": 60}
        planned = await web.ask("/api/v1/bus.schedule_at", "POST", scope=Scope.AGENT, body=later)
        done = {each.verb: each for each in await web.host.actions()}
        for verb, target in (("emit", f"bus:{emitted.json}"), ("schedule_at", f"{planned.json}")):
            act = done[verb]
            assert (act.by, act.target, act.detail) == ("token:agent token", target, "ada")
        before = len(await web.host.actions())
        await web.host.bus.emit("tea.ready", {}, source="kettle")  # a program's own affair
        assert len(await web.host.actions()) == before


async def test_a_host_that_does_not_answer_is_said_to_be_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G10: a program that watches learns it within seconds, and so does a caller who signs in."""
    monkeypatch.setattr(Health, "silent_s", 0.01)
    monkeypatch.setattr(guard, "ANSWER_S_MAX", 0.01)
    app, door = fake()
    door.gate = asyncio.Event()
    told = [await ask(app, "/healthz") for _ in range(3)]
    assert [(each.status, each.json["code"]) for each in told] == [(503, "host_silent")] * 3
    assert len(door.asked) == 1  # they share one question
    door.gate.set()
    await asyncio.sleep(0)
    assert (await ask(app, "/healthz")).status == 200
    monkeypatch.setattr(FakeSession, "call", lambda *_, **__: asyncio.Event().wait())
    silent = await ask(app, "/api/v1/workflows", headers=bearer())
    assert (silent.status, silent.json["code"]) == (503, "host_silent")


async def test_what_a_conflict_calls_old_is_what_was_shown(duly_world: Stage) -> None:
    """G11: a changed call is 409 with both; a hash never stands beside arguments of another."""
    play, _, call = await posting(duly_world)
    script: Any = (await play.host.mutation(call.mutation)).args
    first = await play.host.amend(call.mutation, call.hash, {"body": "Pay 10"}, by="bob")
    await play.host.amend(call.mutation, first, {"body": "Pay 1000"}, by="eve")
    made = await play.host.new_token("ada", scope=Scope.DECIDE)
    for seen, args in ((call.hash, script), (first, None), ("0" * 64, None)):
        told = await ask(
            duly.web.app(play.host),
            "/api/v1/approve",
            "POST",
            headers={"authorization": f"Bearer {made.token}"},
            body={"mutation": call.mutation, "seen": seen},
        )
        assert (told.status, told.json["code"]) == (409, "not_as_shown")
        old = told.json["old"]
        assert {name: old[name] for name in ("hash", "args")} == {"hash": seen, "args": args}
        assert (["Body", script["body"]] in old["form"]) == (args is not None)
        assert told.json["new"]["args"]["body"] == "Pay 1000"
    headers = {"cookie": f"duly-{PORT}={made.token}", "accept": "text/html"}
    app, form_of = duly.web.app(play.host), form(mutation=call.mutation, seen=call.hash)
    both = await ask(app, "/act/approve", "POST", headers={**headers, **OWN, **FORM}, body=form_of)
    home = await ask(app, "/", headers=headers)
    sides = both.text.partition("<h2>")[2]
    assert sides.count('<dl class="form">') == 2  # each in the form of its tool
    assert sides.count("<summary>The raw call</summary>") == 2
    for page in (both, home):  # a person sees what the script wanted, and whose the call is now
        for text in (script["body"], "Pay 1000", "Amended by eve"):
            assert text in page.text


async def test_a_person_amends_a_call_on_its_page(duly_world: Stage) -> None:
    """A3, G11: a field for each argument that may be amended; nothing is sent by it."""
    play, _, call = await posting(duly_world)
    made = await play.host.new_token("ada", scope=Scope.DECIDE)
    app, headers = duly.web.app(play.host), {"cookie": f"duly-{PORT}={made.token}"}
    before: Any = (await play.host.mutation(call.mutation)).args
    page = await ask(app, f"/m/{call.mutation}", headers={**headers, "accept": "text/html"})
    assert f'name="args.body" rows="6">\n{before["body"]}</textarea>' in page.text
    assert 'name="args.to"' not in page.text
    fields = {"mutation": call.mutation, "seen": call.hash, "args.body": "Dear <b>\r\nAda"}
    sent = {**headers, **OWN, **FORM}
    done = await ask(app, "/act/amend", "POST", headers=sent, body=form(**fields))
    other = form(**{**fields, "args.body": "Dear Bob"})
    again = await ask(app, "/act/amend", "POST", headers=sent, body=other)
    assert (done.status, again.status) == (303, 409)
    each = await play.host.mutation(call.mutation)
    assert each.args == {**before, "body": "Dear <b>\nAda"}
    assert (each.amended_by, each.status) == ("token:ada", "proposed")
    made = await play.host.new_token("eve", scope=Scope.AGENT)
    headers = {"cookie": f"duly-{PORT}={made.token}", "accept": "text/html"}
    assert "args.body" not in (await ask(app, f"/m/{call.mutation}", headers=headers)).text


async def test_how_much_waits_is_told_without_what_waits(duly_world: Stage) -> None:
    """G9: a list that is cut says how much there is, and a figure costs no long answer."""
    play, _, call = await posting(duly_world)
    assert await play.host.attention_count() == len(await play.host.attention()) == 1
    await play.host.reject(call.mutation)
    await play.drain()
    assert await play.host.attention_count() == len(await play.host.attention())
    app, door = fake()
    door.answers["figures"] = [
        {"name": "duly_attention", "value": 7, "labels": {}},
        {"name": "duly_pending_events", "value": 2.0, "labels": {"workflow": 'a "b"\\\nc'}},
    ]
    reply = await ask(app, "/metrics", headers=bearer(Scope.READ))
    assert "duly_attention 7" in reply.text.splitlines()
    assert r'duly_pending_events{workflow="a \"b\"\\\nc"} 2' in reply.text.splitlines()
    assert [each.verb for each in door.asked] == ["figures"]
