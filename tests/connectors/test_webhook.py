"""Webhooks that go out: signed, with the key as their id, and honest about what can be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import duly
from duly.connectors import Webhook
from duly.connectors.registry import Registry
from duly.env import Loop
from duly.errors import AuthNeeded, ConfigError, Refused, Transient, UnknownOutcome
from duly.rules.webhook import HookSender, is_signed, write_secret
from duly.testing import WEB_REPLIES, ExamFailed, examine, examine_network, look_at_disk
from tests.connectors import shop as double
from tests.connectors.shop import Ask, Shop, raw, status
from tests.connectors.test_rest import call as make_call

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"
SECRET = write_secret(bytes(range(32)))
ARGS: dict[str, Any] = {"event": "order.made", "data": {"item": "tea", "for": "Zoë"}}
VERIFY = {"path": "/taken/{key}", "match": "id"}


WAYS: dict[str, dict[str, Any]] = {
    "no word": {},
    "takes an id once": {"key_lifetime_s": 60},
    "keeps a list": {"verify": True},
}


class Receiver(Shop):
    """Takes webhooks that are signed, each id once unless it forgets; tells which it took."""

    def do(self, ask: Ask) -> tuple[int, Any, str]:
        _, space, *_ = ask.path.split("/")
        taken = self.orders(space)
        if ask.method == "GET":
            found = [each for each in taken if each["id"] == ask.path.rpartition("/")[2]]
            return (200, found[0], "") if found else (404, {}, "")
        body = ask.body.decode()
        if not is_signed(HookSender.STANDARD, SECRET, ask.headers, body, Loop().now_ms()):
            return 401, {"error": "not signed"}, ""
        key = ask.headers["webhook-id"]
        if self.forgets_keys or key not in [each["id"] for each in taken]:
            self._keep(space, len(taken), {"id": key, "body": json.loads(body)})
        return 202, "taken", ""


def with_secret(made: Webhook, secret: str = SECRET) -> Any:
    made._vault = lambda connector, name: secret if name == "signing" else ""
    return made


def connect(receiver: Shop, space: str = "a", port: int | None = None, **more: Any) -> Any:
    url = f"http://{HOST}:{port or receiver.port}/{space}/hooks/"
    if "verify" in more:
        more["verify"] = {**VERIFY, "path": f"/{space}/taken/{{key}}"}
    return with_secret(Webhook(url, allow=[HOST], **more))


def call(key: str = "k1", attempt: int = 1) -> duly.Call:
    return make_call(key, attempt=attempt, **ARGS)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    with Receiver(tmp_path) as made:
        yield made


async def test_a_message_is_signed_and_its_key_is_its_id(receiver: Receiver) -> None:
    """L7: the same key has the same id and the same body when it is sent again."""
    hook = connect(receiver)
    assert await hook.send(call(), **ARGS) == {"id": "k1"}
    await hook.send(call(attempt=2), **ARGS)
    first, second = receiver.asks
    assert (first.path, first.body) == ("/a/hooks/", second.body)
    assert [each["id"] for each in receiver.orders()] == ["k1"]
    assert receiver.orders()[0]["body"] == {
        "type": "order.made",
        "timestamp": "2026-01-01T00:00:00.000Z",
        "data": ARGS["data"],
    }


async def test_a_receiver_that_was_not_given_the_secret_refuses(receiver: Receiver) -> None:
    """L4: nothing was taken, and a person sets the secret."""
    with pytest.raises(AuthNeeded):
        await with_secret(connect(receiver), write_secret(bytes(32))).send(call(), **ARGS)
    with pytest.raises(AuthNeeded, match="cannot sign"):
        await with_secret(connect(receiver), "short").send(call(), **ARGS)
    with pytest.raises(Refused, match="one line"):
        await connect(receiver).send(call(), event="a\nb", data={})
    assert receiver.orders() == []


async def test_what_the_receiver_writes_decides_nothing(receiver: Receiver) -> None:
    """L4: a status does. What comes without one leaves the call unknown."""
    hook = connect(receiver)
    receiver.next(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"))
    assert await hook.send(call(), **ARGS) == {"id": "k1"}
    for manner in (double.lost, double.half, status(500), status(302, "Location: /x\r\n")):
        receiver.next(manner)
        with pytest.raises(UnknownOutcome):
            await hook.send(call(), **ARGS)
    receiver.next(status(429, "Retry-After: 7\r\n"))
    with pytest.raises(Transient) as busy:
        await hook.send(call(), **ARGS)
    assert (busy.value.outcome, busy.value.retry_after_s) == ("refused", 7)


async def test_the_receiver_decides_whether_it_can_be_asked(receiver: Receiver) -> None:
    """L5: by what the settings say of it; without a word a person is asked."""
    tools = [
        Registry([connect(receiver, **more)]).catalog.find("webhook.send") for more in WAYS.values()
    ]
    assert [each.idempotent for each in tools] == [False, True, False]
    assert [each.reconciles for each in tools] == [False, False, True]
    asked = connect(receiver, verify=True)
    assert await asked.send_happened(call()) == duly.NotApplied()
    await asked.send(call(), **ARGS)
    assert await asked.send_happened(call()) == duly.Applied({"id": "k1"})


def test_settings_that_cannot_be_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"url": "ftp://x.example"}, "url"),
        ({"key_lifetime_s": 0}, "key_lifetime_s"),
        ({"verify": {"path": "/taken", "match": "id"}}, "names the key nowhere"),
    ]
    for more, said in wrong:
        with pytest.raises(ConfigError, match=said):
            Webhook(**({"url": "https://x.example/hooks?code=1"} | more))


# -- The exams ------------------------------------------------------------------------------------


def count_taken(receiver: Receiver) -> Any:
    """Make a function that counts what was taken, once all that was sent was dealt with."""

    def taken(folder: Path) -> int:
        way = HTTPConnection(HOST, receiver.port, timeout=10)
        way.request("GET", f"/{folder.name}/taken/none")
        way.getresponse().read()
        way.close()
        return len(receiver.orders(folder.name))

    return taken


def take_exam(folder: Path, way: str, *, forgets_keys: bool, **more: Any) -> str:
    with Receiver(folder / "exam") as receiver:
        receiver.forgets_keys = forgets_keys
        report = examine_network(
            lambda folder, port: connect(receiver, folder.name, port, **WAYS[way]),
            "send",
            ARGS,
            server=(HOST, receiver.port),
            effects=count_taken(receiver),
            folder=folder / "exam",
            **more,
        )
    return str(report)


@pytest.mark.parametrize("way", WAYS)
def test_a_webhook_passes_the_exam_for_the_network(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4, L5, K2: whatever breaks, it says no more than it knows."""
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.3)
    said = take_exam(tmp_path, way, forgets_keys=way != "takes an id once", replies=WEB_REPLIES)
    assert ("it was done, reconcile said Applied" in said) is (way == "keeps a list")


def test_a_lifetime_that_the_receiver_does_not_keep_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L7: the exam sends again, as a host would, and the receiver takes it twice."""
    monkeypatch.setattr("duly.testing.network.CUTS", 1)
    monkeypatch.setattr("duly.testing.network.PATIENCE_S", 0.2)
    with pytest.raises(ExamFailed, match="there were 2 changes"):
        take_exam(tmp_path, "takes an id once", forgets_keys=True)


def test_a_webhook_passes_the_exam_of_deaths(tmp_path: Path) -> None:
    """L4, L5, L13: killed, failed and stopped at every line of its own."""
    with Receiver(tmp_path / "exam") as receiver:
        receiver.forgets_keys = True
        report = examine(
            lambda here: connect(receiver, here.name, verify=True),
            "send",
            ARGS,
            effects=count_taken(receiver),
            folder=tmp_path / "exam",
            look=look_at_disk,
        )
    assert (report.unsure, report.applied > 0) == (0, True)
