"""Webhooks: signed, or sent to a secret address; a repeat is the same event (G8, G12)."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

import duly.web
from duly.api.door import Within
from duly.api.registry import Scope
from duly.desk.hook import Hook
from duly.errors import Invalid, NotFound, RequestRefused
from duly.faces.web.app import make_app, make_hooks_app
from duly.faces.web.guard import Place
from duly.host import Host
from duly.rules import webhook
from duly.rules.source import EXAMPLE, Source
from duly.words import hook as hooked
from tests.web.stand import HOME, Fake, Reply, Web, ask, serving
from tests.web.test_page import Page, post, signed

BODY: Final = b'{"type": "mail", "data": {"id": 7}}'
JSON: Final = {"content-type": "application/json"}


@dataclass
class Sender:
    """A sender that signs as Standard Webhooks say, by its own code."""

    web: Web
    hook: Hook

    def sign(self, body: bytes, message_id: str, at: int) -> dict[str, str]:
        key = base64.b64decode(str(self.hook.secret).removeprefix("whsec_"))
        signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, sha256).digest()
        return {
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }

    @property
    def now_s(self) -> int:
        return self.web.clock.now_ms() // 1000

    async def send(self, body: bytes = BODY, message_id: str = "msg_1", **headers: str) -> Reply:
        made = {**JSON, **self.sign(body, message_id, self.now_s)}
        made |= {name.replace("_", "-"): each for name, each in headers.items()}
        return await ask(self.web.app, self.hook.path, "POST", headers=made, body=body)


def read_store(folder: Path) -> bytes:
    """Read all that lies in the store, without the key beside it."""
    files = (each for each in folder.glob("duly.db*") if "key" not in each.name)
    return b"".join(each.read_bytes() for each in files)


@asynccontextmanager
async def sender(folder: Path) -> AsyncIterator[Sender]:
    async with serving(folder) as web:
        await web.deploy()
        yield Sender(web, await web.host.new_hook("invoices", "mail.received", by="ada"))


async def test_a_signed_message_is_an_event_when_it_is_answered(tmp_path: Path) -> None:
    """G12, T10: its id is the message id, its body the payload."""
    async with sender(tmp_path) as each:
        reply = await each.send()
        assert (reply.status, reply.json) == (202, {"event": "new", "told": "Taken."})
        (event,) = await each.web.host.events("invoices")
        assert (event.message_id, event.title) == ("msg_1", "mail")
        assert event.payload == {"type": "mail", "data": {"id": 7}}
        (act,) = [one for one in await each.web.host.actions() if one.verb == "receive"]
        assert act.by == event.created_by == "webhook"


async def test_a_repeated_delivery_is_no_second_event(tmp_path: Path) -> None:
    """G12, T5: a sender that heard no answer sends again."""
    async with sender(tmp_path) as each:
        told = [(await each.send()).json["event"] for _ in range(3)]
        assert told == ["new", "same", "same"]
        assert len(await each.web.host.events("invoices")) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"webhook_signature": "v1,AAAA"},
        {"webhook_signature": ""},
        {"webhook_signature": "v2,x"},
        {"webhook_id": "msg_2"},
        {"webhook_id": ""},
        {"webhook_timestamp": "0"},
        {"webhook_timestamp": "x"},
        {"webhook_timestamp": "-1"},
        {"webhook_timestamp": "1e9"},
        {"webhook_timestamp": "٣"},
    ],
)
async def test_what_is_not_signed_exactly_so_is_refused(
    headers: dict[str, Any], tmp_path: Path
) -> None:
    """G12: id, time and body are what is signed."""
    async with sender(tmp_path) as each:
        if "٣" in headers.values():
            headers = {"webhook_timestamp": "\xb2"}  # a digit to Python that is no number
        reply = await each.send(**headers)
        assert (reply.status, reply.json["code"]) == (401, "hook_refused")
        assert await each.web.host.events("invoices") == ()


async def test_a_body_that_was_changed_on_the_way_is_refused(tmp_path: Path) -> None:
    async with sender(tmp_path) as each:
        headers = {**JSON, **each.sign(BODY, "msg_1", each.now_s)}
        reply = await ask(each.web.app, each.hook.path, "POST", headers=headers, body=BODY + b" ")
        assert reply.status == 401


@pytest.mark.parametrize(("away_s", "status"), [(-301, 401), (-299, 202), (299, 202), (302, 401)])
async def test_a_message_that_was_signed_long_ago_is_refused(
    away_s: int, status: int, tmp_path: Path
) -> None:
    """G12: five minutes either way; what was recorded is not played again."""
    async with sender(tmp_path) as each:
        headers = {**JSON, **each.sign(BODY, "msg_1", each.now_s + away_s)}
        reply = await ask(each.web.app, each.hook.path, "POST", headers=headers, body=BODY)
        assert reply.status == status


async def test_a_sender_that_changes_its_secret_sends_two_signatures(tmp_path: Path) -> None:
    async with sender(tmp_path) as each:
        right = each.sign(BODY, "msg_1", each.now_s)["webhook-signature"]
        assert (await each.send(webhook_signature=f"v1,AAAA {right}")).status == 202


async def test_a_secret_address_lets_a_sender_in_that_cannot_sign(tmp_path: Path) -> None:
    """G12: its id comes from a header, or is made from the body."""
    async with sender(tmp_path) as each:
        path = f"{each.hook.path}/{each.hook.key}"
        for headers, told in (
            ({"x-github-delivery": "d1"}, "new"),
            ({"x-github-delivery": "d1"}, "same"),
            ({}, "new"),
            ({}, "same"),
        ):
            reply = await ask(each.web.app, path, "POST", headers={**JSON, **headers}, body=BODY)
            assert (reply.status, reply.json["event"]) == (202, told)
        ids = [one.message_id for one in await each.web.host.events("invoices")]
        assert ids == ["d1", f"sha256-{sha256(BODY).hexdigest()}"]


@pytest.mark.parametrize("key", ["x", "0" * 40, "%00", "whsec_", "é"])
async def test_a_wrong_key_is_refused_like_a_wrong_signature(key: str, tmp_path: Path) -> None:
    """G12: an address that was guessed lets no message in."""
    async with sender(tmp_path) as each:
        reply = await ask(each.web.app, f"{each.hook.path}/{key}", "POST", headers=JSON, body=BODY)
        assert (reply.status, reply.json["code"]) == (401, "hook_key_refused")
        assert "signed" not in reply.json["detail"]
        other = f"/hooks/nothing/mail.received/{key}"
        there = await ask(each.web.app, other, "POST", headers=JSON, body=BODY)
        assert (there.status, there.body) == (401, reply.body)


async def test_a_stranger_learns_nothing_from_a_refusal(tmp_path: Path) -> None:
    """G12: no workflow, no topic, no webhook there, or a wrong signature: one answer."""
    async with sender(tmp_path) as each:
        paths = [each.hook.path, "/hooks/invoices/nothing", "/hooks/nothing/mail.received"]
        told = [await ask(each.web.app, path, "POST", headers=JSON, body=BODY) for path in paths]
        assert {(one.status, one.body) for one in told} == {(401, told[0].body)}


async def test_a_secret_is_replaced_and_dropped_like_any_other(tmp_path: Path) -> None:
    """A5: the old one lets nobody in; dropped, the webhook is closed."""
    async with sender(tmp_path) as each:
        host = each.web.host
        with pytest.raises(RequestRefused) as raised:
            await host.new_hook("invoices", "mail.received")
        assert raised.value.code == "hook_open"
        assert (await each.send()).status == 202
        newer = Sender(each.web, await host.new_hook("invoices", "mail.received", replace=True))
        assert (await each.send()).status == 401
        assert (await newer.send()).status == 202
        listed = [(one.connector, one.name) for one in await each.web.host.secrets()]
        assert listed == [("hooks", "invoices/mail.received")]
        await each.web.host.drop_secret("hooks", "invoices/mail.received")
        assert (await newer.send(message_id="msg_2")).status == 401


async def test_a_secret_outlives_the_host_sealed(tmp_path: Path) -> None:
    """A5: it opens at the next start, and stands nowhere in the file."""
    async with sender(tmp_path) as each:
        hook = each.hook
    kept = read_store(tmp_path)
    raw = str(hook.secret).removeprefix("whsec_")
    assert raw.encode() not in kept
    assert base64.b64decode(raw) not in kept
    async with Host(f"sqlite:///{tmp_path / 'duly.db'}") as host:
        app = duly.web.app(host)
        path = f"{hook.path}/{hook.key}"
        assert (await ask(app, path, "POST", headers=JSON, body=BODY)).status == 202


async def test_only_a_topic_with_ingress_takes_a_webhook(tmp_path: Path) -> None:
    """T10: what a script alone publishes into is closed to requests."""
    async with serving(tmp_path) as web:
        await web.deploy()
        with pytest.raises(NotFound, match=r"mail\.received"):
            await web.host.new_hook("invoices", "mail.recieved")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b'"' + b"x" * 600_000 + b'"', "application/json", 413),
        (b'"' + b"x" * 300_000 + b'"', "application/json", 400),
    ],
)
async def test_a_body_that_cannot_be_an_event_is_refused(
    body: bytes, kind: str, status: int, tmp_path: Path
) -> None:
    """G10: also of a sender that is known."""
    async with sender(tmp_path) as each:
        path = f"{each.hook.path}/{each.hook.key}"
        reply = await ask(each.web.app, path, "POST", headers={"content-type": kind}, body=body)
        assert reply.status == status, reply.text
        assert await each.web.host.events("invoices") == ()


async def test_an_address_of_webhooks_has_nothing_else(tmp_path: Path) -> None:
    """G8: what is open to the internet shows neither page nor verbs."""
    app = make_hooks_app(Fake(), Place(("hooks.example.org",), is_proxied=True))
    assert {entry.path.split("/")[1] for entry in app.entries} == {"hooks"}
    headers = {"authorization": f"Bearer token of {Scope.ADMIN}"}
    for path in ("/", "/api/v1/workflows", "/metrics", "/healthz", "/sign-in"):
        reply = await ask(app, path, headers=headers, host="hooks.example.org")
        assert reply.status == 404


async def test_an_address_of_webhooks_does_not_say_which_tokens_are_good(tmp_path: Path) -> None:
    """G8: no token is looked at there, so that a stolen one cannot be tried out."""
    door = Fake()
    app = make_hooks_app(door, Place())
    for token in (f"token of {Scope.ADMIN}", "token of a stranger", ""):
        headers = {"authorization": f"Bearer {token}"}
        for path, status in (("/api/v1/workflows", 404), ("/hooks/a/b", 405)):
            assert (await ask(app, path, headers=headers)).status == status


async def test_a_hook_ends_with_its_workflow(tmp_path: Path) -> None:
    """G12, W10: a name that is free again comes without the senders of the old workflow."""
    async with sender(tmp_path) as each:
        host = each.web.host
        await host.new_hook("invoices", "mail.received", sender="github", secret="s" * 20)
        await host.remove("invoices", by="ada")
        assert await host.secrets() == ()
        other = EXAMPLE["text"].replace("class note", "class pay")
        await host.deploy(Source("python", other), grant=True, replay=True)
        path = f"{each.hook.path}/{each.hook.key}"
        reply = await ask(each.web.app, path, "POST", headers=JSON, body=b'{"pay": 1000}')
        assert (reply.status, (await each.send()).status) == (401, 401)
        assert await host.events("invoices") == ()


async def test_a_refused_webhook_takes_the_same_work_whether_there_is_a_hook_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G12: 512 KiB are digested either way; a clock sees no difference."""
    signed: list[int] = []
    sign = webhook.sign

    def counted(*args: Any, body: str, **more: Any) -> str:
        signed.append(len(body))
        return sign(*args, body=body, **more)

    monkeypatch.setattr(webhook, "sign", counted)
    async with sender(tmp_path) as each:
        for path in (each.hook.path, "/hooks/invoicez/mail.received"):
            headers = {**JSON, **each.sign(b"[]", "msg_1", each.now_s)}
            reply = await ask(each.web.app, path, "POST", headers=headers, body=b"{}")
            assert reply.status == 401
    assert signed == [2, 2]


async def test_a_refused_webhook_writes_one_plain_line_into_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: a caller forges no line in the log of a host."""
    async with serving(tmp_path) as web:
        forged = "x\nERROR The store is lost.\x1b[2J" + "y" * 9000
        body = {"workflow": forged, "topic": "t", "body": "{}"}
        await web.ask("/api/v1/receive", "POST", scope=Scope.AGENT, body=body)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "duly.hook"]
    assert said.isprintable()
    assert len(said) < 400


OPENED: Final = b'{"action": "opened"}'
SIGNED_BY: Final[dict[str, tuple[str, Callable[[bytes, int, bytes], str]]]] = {
    "github": (
        "x-hub-signature-256",
        lambda key, at, body: "sha256=" + hmac.new(key, body, sha256).hexdigest(),
    ),
    "slack": (
        "x-slack-signature",
        lambda key, at, body: "v0=" + hmac.new(key, b"v0:%d:%b" % (at, body), sha256).hexdigest(),
    ),
    "stripe": (
        "stripe-signature",
        lambda key, at, body: (
            f"t={at},v1={hmac.new(key, b'%d.%b' % (at, body), sha256).hexdigest()},v0=00"
        ),
    ),
}


@dataclass
class Known:
    """A service that signs in its own way, by its own code."""

    web: Web
    name: str
    secret: str = "a secret that it gave"

    def sign(self, body: bytes, at: int) -> dict[str, str]:
        header, made = SIGNED_BY[self.name]
        stamp = {"x-slack-request-timestamp": str(at)} if self.name == "slack" else {}
        return {**JSON, header: made(self.secret.encode(), at, body), **stamp}

    async def send(self, body: bytes, away_s: int = 0, **headers: str) -> Reply:
        made = self.sign(body, self.web.clock.now_ms() // 1000 + away_s)
        made |= {name.replace("_", "-"): each for name, each in headers.items()}
        path = "/hooks/invoices/mail.received"
        return await ask(self.web.app, path, "POST", headers=made, body=body)


@pytest.mark.parametrize(
    ("name", "body", "message_id"),
    [
        (
            "github",
            OPENED,
            f"sha256-{sha256(OPENED).hexdigest()}",
        ),
        ("slack", b'{"event_id": "Ev1", "type": "event_callback"}', "Ev1"),
        ("stripe", b'{"id": "evt_1", "type": "invoice.paid"}', "evt_1"),
    ],
)
async def test_a_known_sender_signs_in_its_own_way(
    name: str, body: bytes, message_id: str, tmp_path: Path
) -> None:
    """G12: the id is made from what is signed, so that a replay under another id is the same."""
    async with serving(tmp_path) as web:
        await web.deploy()
        known = Known(web, name)
        assert (await known.send(body)).status == 401
        hook = await web.host.new_hook(
            "invoices", "mail.received", sender=name, secret=known.secret
        )
        assert (hook.secret, hook.key) == (None, None)
        told = [await known.send(body, x_github_delivery=each, webhook_id=each) for each in "ab"]
        assert [each.json["event"] for each in told] == ["new", "same"]
        (event,) = await web.host.events("invoices")
        assert event.message_id == message_id
        wrong: dict[str, Any] = {SIGNED_BY[name][0]: "v1=00"}
        assert (await known.send(body[:-1] + b" }", **wrong)).status == 401
        late = await known.send(body, away_s=-301)
        assert late.status == (202 if name == "github" else 401)  # GitHub signs no time
        assert known.secret.encode() not in read_store(tmp_path)
        await web.host.drop_secret("hooks", f"invoices/mail.received@{name}")
        assert (await known.send(body)).status == 401


async def test_a_secret_of_one_sender_is_none_of_another(tmp_path: Path) -> None:
    """G12: what is signed differs, so that each sender has a secret of its own."""
    async with serving(tmp_path) as web:
        await web.deploy()
        await web.host.new_hook("invoices", "mail.received", sender="github", secret="a" * 20)
        for name in ("slack", "stripe"):
            assert (await Known(web, name, "a" * 20).send(b"{}")).status == 401
        assert (await Known(web, "github", "a" * 20).send(b"{}")).status == 202


async def test_a_question_of_slack_is_answered_and_publishes_nothing(tmp_path: Path) -> None:
    """G12: Slack sends events only to an address that returned its words, signed like any other."""
    async with serving(tmp_path) as web:
        await web.deploy()
        slack = Known(web, "slack")
        body = b'{"type": "url_verification", "challenge": "3eZb"}'
        assert (await slack.send(body)).status == 401
        await web.host.new_hook("invoices", "mail.received", sender="slack", secret=slack.secret)
        reply = await slack.send(body)
        assert (reply.status, reply.json) == (200, {"challenge": "3eZb"})
        assert await web.host.events("invoices") == ()


async def test_a_hook_that_could_prove_nothing_is_not_opened(tmp_path: Path) -> None:
    """G12: a sender that is known, and a secret that is long enough to be one."""
    async with serving(tmp_path) as web:
        await web.deploy()
        wrong: dict[str, dict[str, Any]] = {
            "slack without one": {"sender": "slack"},
            "short": {"sender": "stripe", "secret": "short"},
            "long": {"sender": "github", "secret": "x" * 501},
            "unknown": {"sender": "gitlab"},
        }
        for name, given in wrong.items():
            with pytest.raises(Invalid) as raised:
                await web.host.new_hook("invoices", "mail.received", **given)
            assert raised.value.path == ("sender" if name == "unknown" else "secret")
        assert await web.host.secrets() == ()


# -- Where a sender reaches it -------------------------------------------------------------------

PATH: Final = "/hooks/invoices/mail.received"


@pytest.mark.parametrize(
    ("place", "bases", "is_named"),
    [
        (Place(), [f"http://{HOME}"], False),
        (Place(hooks_at="127.0.0.1:8443"), ["http://127.0.0.1:8443"], False),
        (Place(("duly.example.org",), is_proxied=True), ["https://duly.example.org"], True),
        (
            Place(("a.example.org", "b.example.org:1"), is_proxied=True),
            ["https://a.example.org", "https://b.example.org:1"],
            True,
        ),
        (
            Place(("duly.example.org:7337", "duly.example.org:8443"), True, hooks_at="[::]:8443"),
            ["https://duly.example.org:8443"],
            True,
        ),
    ],
)
async def test_the_page_shows_the_whole_address_of_a_webhook(
    place: Place, bases: list[str], is_named: bool, tmp_path: Path
) -> None:
    """G8, G12: what stands before its path, or which setting says it; before and after it opens."""
    async with serving(tmp_path) as web:
        await web.deploy()
        web = replace(web, app=make_app(Within(web.host), place))
        headers = {"authorization": f"Bearer {web.tokens[Scope.ADMIN]}", "accept": "text/html"}
        shown = unescape((await ask(web.app, "/w/invoices/setup", headers=headers)).text)
        sent = {"workflow": "invoices", "topic": "mail.received", "sender": "standard"}
        opened = (await post(web.app, headers, "/act/new_hook", sent)).text
        made = unescape(opened)
        for text in (shown, made):
            assert [f"{base}{PATH}" in text for base in bases] == [True] * len(bases)
            assert (hooked.ONLY_HERE in text) is not is_named
        fields = {each.get("id"): each.get("value") for _, each in Page(opened).elements}
        whole = str(fields["address"])
        assert re.fullmatch(re.escape(f"{bases[0]}{PATH}/") + "[0-9a-f]{40}", whole)  # alone
        assert (fields["path"], "whsec_" in str(fields["secret"])) == (f"{bases[0]}{PATH}", True)
        assert str(fields["try"]).endswith(f"'{whole}'")
        assert (hooked.ELSEWHERE in made) is (len(bases) > 1)
        assert set(re.findall(r"https?://[^/]+/hooks", made)) == {f"{each}/hooks" for each in bases}


async def test_a_mounted_page_has_its_place_in_the_address_of_a_webhook(tmp_path: Path) -> None:
    """G8: what a program puts before the application stands before the path too."""
    async with serving(tmp_path) as web:
        await web.deploy()
        headers = await signed(web)
        shown = await ask(web.app, "/w/invoices/setup", headers=headers, root="/tasks")
        assert f"http://{HOME}/tasks{PATH}<" in shown.text
