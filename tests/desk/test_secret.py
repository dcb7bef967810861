"""Secrets: sealed at rest, given to connectors alone, and found nowhere else (A5)."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import duly
from duly.config import Policy
from duly.desk.secret import KEY_BYTES, SECRET_BYTES_MAX, SECRET_CHARS_MIN, VARIABLE, _key_of
from duly.errors import ConfigError, Invalid, NotFound, RequestRefused
from duly.fact import Offer
from duly.rules.word import Status
from duly.testing import Stage
from tests.desk import stores
from tests.desk.stores import folder_of
from tests.engine.stand import (
    CONSUMER,
    NAME,
    NOTHING,
    PEEK_ONE,
    RESERVE,
    Play,
    consumer,
    flow,
    opened,
)
from tests.spoken import given, long, short
from verification.moves import Call, Return, When

CANARY = 'canary-Zx81!-Ä"quoted\\'
OTHER = "another-secret"


class Leaky(duly.Connector):
    """A connector that lets its secret slip wherever it can."""

    name = "leaky"

    def __init__(self, slip: str = "") -> None:
        self.slip = slip
        self.seen: list[str] = []

    @duly.read
    async def look(self) -> dict[str, Any]:
        token = self.secret("token")
        self.seen.append(token)
        if self.slip == "read":
            raise ValueError(f"could not read with {token}")
        if self.slip == "sign in":
            raise duly.AuthNeeded(f"{token} is no good", connect="leaky")
        return {"as": token, token: [f"Bearer {token}"]}

    @duly.mutation(lag_s=0)
    async def change(self, call: duly.Call, text: str) -> dict[str, Any]:
        token = self.secret("token")
        if self.slip == "refused":
            raise duly.Refused(f"{token} may not do {text}")
        if self.slip == "unknown":
            raise duly.UnknownOutcome(f"lost after {token}")
        return {"with": token}

    @change.reconcile
    async def change_happened(self, call: duly.Call) -> duly.Unsure | duly.Applied:
        token = self.secret("token")
        return duly.Unsure(f"asked with {token}") if self.slip == "unknown" else duly.Applied(token)


TELLING = consumer(
    prepare=(
        PEEK_ONE,
        When(
            "pending",
            (Call("leaky.look", into="page"), Return(RESERVE)),
            (Return(NOTHING),),
        ),
    ),
    mutate=(Call("leaky.change", (), {"text": "x"}),),
)
SLIPS = ("", "read", "sign in", "refused", "unknown", "proposed")


async def leaking(stage: Stage, slip: str) -> tuple[Play, Leaky]:
    leaky = Leaky(slip)
    policy = Policy(approvals={"*": "always"}) if slip == "proposed" else Policy()
    play = await opened(stage, connectors=(leaky,), policy=policy)
    await play.deploy(flow({CONSUMER: TELLING}))
    return play, leaky


def find_canary(stage: Stage, secret: str = CANARY) -> list[str]:
    """Name the files and tables in which a secret can be read, as it is or as JSON writes it."""
    forms = [secret.encode(), secret.encode("unicode_escape"), base64.b64encode(secret.encode())]
    forms += [form.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for form in forms[:1]]
    files = [each for each in folder_of(stage).rglob("*") if each.is_file()]
    kept = {each.name: each.read_bytes() for each in files}
    kept |= {table: repr(rows).encode() for table, rows in stores.dump(stage.url).items()}
    return [name for name, text in kept.items() if any(form in text for form in forms)]


# -- Found nowhere --------------------------------------------------------------------------------


@pytest.mark.parametrize("slip", SLIPS)
async def test_a_canary_is_found_nowhere(
    duly_world: Stage, slip: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: not in the database, the logs, an error, a view, nor what a script was told."""
    caplog.set_level(logging.DEBUG)
    play, leaky = await leaking(duly_world, slip)
    await play.host.set_secret("leaky", "token", CANARY, by="anna")
    await play.publish("a")
    await play.drain()
    await play.pass_by(60)
    assert leaky.seen[0] == CANARY
    host = play.host
    shown = (
        await host.runs(),
        await host.mutations(),
        await host.events(NAME),
        await host.approvals(),
        await host.actions(),
        await host.workflows(),
        await host.versions(NAME),
        await host.tools(),
        [await host.logs(each.id) for each in await host.runs()],
        await play.runs(),
        await play.rows(),
        [each.getMessage() for each in caplog.records],
        caplog.text,
    )
    assert "canary" not in repr(shown)
    await host.close()
    assert find_canary(duly_world) == []
    assert find_canary(duly_world, "canary") == []


async def test_what_a_connector_answers_has_no_secret_in_it(duly_world: Stage) -> None:
    """A5, L11: neither the script nor the ledger gets it; the rest of the answer stays."""
    play, _ = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    await play.publish("a")
    await play.drain()
    assert (await play.row()).result == '{"with":"[redacted]"}'
    assert await play.payloads() == {"a": {"status": "applied", "result": {"with": "[redacted]"}}}


async def test_the_bus_and_the_actions_show_no_secret(duly_world: Stage) -> None:
    """A5: also what was kept before the secret was set."""
    play, _ = await leaking(duly_world, "")
    bus = play.host.bus

    async def fail(event: object) -> None:
        raise ValueError(CANARY)

    bus.subscribe("a.b", fail, subscriber_id="me", retry=duly.Retry(1))
    await bus.emit("a.b", {"said": [CANARY]}, source="test", correlation_id=CANARY)
    await bus.schedule_at(60, "a.b", {CANARY: 1}, source="test", correlation_id=CANARY)
    await play.drain()
    await play.host.pause(NAME, by=CANARY)
    await play.publish(CANARY)
    await play.host.set_secret("leaky", "token", CANARY, by="anna")
    journal, deferred = await bus.journal(), await bus.deferred()
    assert [each.payload for each in journal if each.topic == "a.b"] == [{"said": ["[redacted]"]}]
    assert [each.payload for each in deferred] == [{"[redacted]": 1}]
    shown = (journal, deferred, await bus.deliveries(), await play.host.actions())
    assert "canary" not in repr(shown)


async def test_the_refusal_of_a_secret_does_not_repeat_it(duly_world: Stage) -> None:
    """A5: nor does the record of the act."""
    play, _ = await leaking(duly_world, "")
    with pytest.raises(Invalid) as refused:
        await play.host.set_secret("leakey", "token", CANARY)
    assert "canary" not in str(refused.value)
    await play.host.set_secret("leaky", "token", CANARY, by="anna")
    done = (await play.host.actions(limit=1))[0]
    assert (done.by, done.verb, done.target, done.detail) == (
        "anna",
        "set_secret",
        "leaky.token",
        None,
    )


# -- Given to connectors --------------------------------------------------------------------------


async def test_a_run_that_lacked_a_secret_goes_on_after_it_was_given(duly_world: Stage) -> None:
    """A5, F4: without one the person is asked to connect; with it the same run goes on."""
    play, _ = await leaking(duly_world, "")
    await play.publish("a")
    await play.drain()
    run = await play.run()
    assert (run.status, run.waits_on) == (Status.PAUSED_APPROVAL, "leaky.token")
    assert await play.host.reconnect("leaky") == 1
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.PAUSED_APPROVAL
    await play.host.set_secret("leaky", "token", CANARY)
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED


async def test_a_missing_secret_is_named_and_setting_it_is_enough(duly_world: Stage) -> None:
    """F4, A5: what is missing, the command that sets it, and the same run goes on by itself."""
    play, _ = await leaking(duly_world, "")
    await play.publish("a")
    await play.drain()
    run = await play.run()
    seen = await play.host.workflow(NAME)
    assert short(play.host, seen) == "Waiting for the secret “token” of leaky"
    why = await play.host.why(run.id)
    assert "leaky has no secret “token”" in long(play.host, why)
    args = {"connector": "leaky", "name": "token"}
    assert Offer("set_secret", args, "set_secret", ("value",)) in why.offers
    assert [each.verb for each in why.offers][:2] == ["set_secret", "reconnect"]
    await play.host.set_secret("leaky", "token", CANARY, by="me")
    await play.drain()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED


async def test_secrets_outlive_a_restart_and_the_newest_one_holds(duly_world: Stage) -> None:
    """A5: opened when the host opens; another value replaces it at once and for good."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", OTHER)
    await play.host.set_secret("leaky", "token", CANARY)
    assert leaky.secret("token") == CANARY
    await play.restart()
    assert leaky.secret("token") == CANARY
    with pytest.raises(duly.AuthNeeded, match="duly secret set leaky"):
        leaky.secret("password")


# -- The key --------------------------------------------------------------------------------------


async def test_the_key_is_made_on_first_use_for_its_owner_alone(duly_world: Stage) -> None:
    """A5: beside the database, 32 bytes, mode 0600; before that there is none."""
    play, _ = await leaking(duly_world, "")
    path = folder_of(duly_world) / "duly.db.key"
    assert not path.exists()
    await asyncio.gather(
        play.host.set_secret("leaky", "token", CANARY),
        play.host.set_secret("leaky", "password", OTHER),
    )
    assert (path.stat().st_mode & 0o777, len(base64.b64decode(path.read_bytes()))) == (0o600, 32)
    await play.restart()


async def test_the_same_secret_is_sealed_differently_each_time(duly_world: Stage) -> None:
    """A5: nobody can tell from the store that two secrets are one."""
    play, _ = await leaking(duly_world, "")
    for name in ("one", "two"):
        await play.host.set_secret("leaky", name, CANARY)
    one, two = await play.store.list_secrets()
    assert one.sealed[:30] != two.sealed[:30]


async def test_a_seal_does_not_open_in_another_place(duly_world: Stage) -> None:
    """A5: connector and name are part of it."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    (row,) = await play.store.list_secrets()
    action = play.desk.action("me", "move")
    await play.store.set_secret("leaky", "password", row.sealed, action=action, now=play.now)
    await play.restart()
    assert [each.problem is None for each in await play.host.secrets()] == [False, True]
    with pytest.raises(duly.AuthNeeded, match='"password" of leaky is damaged'):
        leaky.secret("password")


def _take_away(path: Path) -> None:
    path.unlink()


def _change(path: Path) -> None:
    path.write_bytes(base64.b64encode(b"x" * KEY_BYTES))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _open_to_all(path: Path) -> None:
    path.chmod(0o640)


@pytest.mark.parametrize(("spoil", "words"), [(_cut, "is not a key"), (_open_to_all, "chmod 600")])
async def test_a_key_that_cannot_be_right_is_a_clear_error(
    duly_world: Stage, spoil: Callable[[Path], None], words: str
) -> None:
    """A5: when the host opens, and nothing was changed; with the right key all is there again."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    path = folder_of(duly_world) / "duly.db.key"
    kept = path.read_bytes()
    spoil(path)
    with pytest.raises(ConfigError, match=words) as refused:
        await play.restart()
    assert "canary" not in str(refused.value)
    path.write_bytes(kept)
    path.chmod(0o600)
    play.host = await duly_world.host(**play.options)
    assert leaky.secret("token") == CANARY


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(_take_away, "its key is gone"), (_change, "sealed with another key than the one in")],
)
async def test_a_lost_key_closes_its_secrets_and_nothing_else(
    duly_world: Stage,
    spoil: Callable[[Path], None],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A5, F4: the host opens, names them; a call that needs one says what to do; then it works."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    await play.publish("a")
    spoil(folder_of(duly_world) / "duly.db.key")
    await play.restart()
    (secret,) = await play.host.secrets()
    assert secret.problem is not None
    assert words in secret.problem
    assert words in caplog.text
    (entry,) = await play.host.attention()
    assert (entry.workflow, entry.key) == ("", "/secret")
    assert long(play.host, entry).startswith("1 secret cannot be read, the first “token” of leaky.")
    assert [given(each) for each in entry.offers] == [
        ("set_secret", ("leaky", "token")),
        ("drop_secret", ("leaky", "token")),
    ]
    assert await play.host.attention(after=entry.key) == ()
    await play.drain()
    run = await play.run()
    assert (run.status, run.waits_on) == (Status.PAUSED_APPROVAL, "leaky")
    assert "set the secret again" in (await play.error())["message"]
    await play.host.set_secret("leaky", "token", OTHER)
    assert [each.problem for each in await play.host.secrets()] == [None]
    assert leaky.secret("token") == OTHER
    await play.host.reconnect("leaky")
    await play.drain()
    assert await play.host.attention() == ()
    assert (await play.store.get_run(run.id)).status == Status.COMMITTED
    await play.restart()
    assert leaky.secret("token") == OTHER


async def test_the_right_key_brought_back_opens_them_again(duly_world: Stage) -> None:
    """A5: a closed secret is left as it is."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    path = folder_of(duly_world) / "duly.db.key"
    kept = path.read_bytes()
    _change(path)
    await play.restart()
    with pytest.raises(duly.AuthNeeded, match="another key"):
        leaky.secret("token")
    path.write_bytes(kept)
    await play.restart()
    assert leaky.secret("token") == CANARY


async def test_a_damaged_secret_is_told_apart_from_another_key(duly_world: Stage) -> None:
    """A5: the seal names its key, so the person knows what to look for."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    (row,) = await play.store.list_secrets()
    middle = len(row.sealed) // 2
    flipped = "A" if row.sealed[middle] != "A" else "B"
    spoilt = row.sealed[:middle] + flipped + row.sealed[middle + 1 :]
    action = play.desk.action("me", "spoil")
    await play.store.set_secret("leaky", "token", spoilt, action=action, now=play.now)
    await play.restart()
    with pytest.raises(duly.AuthNeeded, match="damaged, though its key is right"):
        leaky.secret("token")


async def test_a_dropped_secret_is_gone_and_still_taken_out_of_what_is_shown(
    duly_world: Stage,
) -> None:
    """A5, A6: at once and for good; who did it is written down."""
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    with pytest.raises(NotFound, match=r'no secret "leaky\.tokn"'):
        await play.host.drop_secret("leaky", "tokn")
    await play.host.drop_secret("leaky", "token", by="anna")
    assert await play.host.secrets() == ()
    assert CANARY in play.desk.parts.outside.secrets().secrets
    with pytest.raises(duly.AuthNeeded, match="duly secret set leaky"):
        leaky.secret("token")
    done = (await play.host.actions(limit=1))[0]
    assert (done.by, done.verb, done.target) == ("anna", "drop_secret", "leaky.token")
    await play.restart()
    assert await play.host.secrets() == ()


async def test_a_key_in_the_environment_leaves_no_file(
    duly_world: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: another one there opens nothing, and what is no key is refused."""
    monkeypatch.setenv(VARIABLE, base64.b64encode(os.urandom(KEY_BYTES)).decode())
    play, leaky = await leaking(duly_world, "")
    await play.host.set_secret("leaky", "token", CANARY)
    assert not (folder_of(duly_world) / "duly.db.key").exists()
    await play.restart()
    assert leaky.secret("token") == CANARY
    monkeypatch.setenv(VARIABLE, base64.b64encode(b"y" * KEY_BYTES).decode())
    await play.restart()
    with pytest.raises(duly.AuthNeeded, match=f"the one in {VARIABLE}"):
        leaky.secret("token")
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(ConfigError, match=f"{VARIABLE} is not a key"):
        await play.restart()


# -- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("connector", "name", "value", "words"),
    [
        ("nobody", "token", OTHER, "Known: channels, clock, leaky, sheet"),
        ("leaky", "", OTHER, "1 to 100"),
        ("leaky", "x" * 101, OTHER, "1 to 100"),
        ("leaky", "a\nb", OTHER, "letters, digits"),
        ("leaky", "hunter2 hunter2", OTHER, "letters, digits"),
        ("leaky", "pässword", OTHER, "letters, digits"),
        ("leaky", "token\n", OTHER, "letters, digits"),
        ("leaky", "token", "x" * (SECRET_CHARS_MIN - 1), "at least 4"),
        ("leaky", "token", "", "at least 4"),
        ("leaky", "token", None, "at least 4"),
        ("leaky", "token", "half \ud800", "at least 4"),
        ("leaky", "token", "x" * (SECRET_BYTES_MAX + 1), "longer than"),
    ],
)
async def test_what_cannot_be_a_secret_is_refused(
    duly_world: Stage, connector: str, name: str, value: Any, words: str
) -> None:
    """A5: and nothing is stored, not even a key."""
    play, _ = await leaking(duly_world, "")
    with pytest.raises(Invalid, match=words):
        await play.host.set_secret(connector, name, value)
    assert await play.store.list_secrets() == ()
    assert not (folder_of(duly_world) / "duly.db.key").exists()


async def test_secrets_at_their_limits_are_taken(duly_world: Stage) -> None:
    """A5: one less than what is refused."""
    play, leaky = await leaking(duly_world, "")
    for name, value in (("x" * 100, "x" * SECRET_CHARS_MIN), ("b", "y" * SECRET_BYTES_MAX)):
        await play.host.set_secret("leaky", name, value)
        assert leaky.secret(name) == value


async def test_a_host_without_a_place_for_secrets_says_so(duly_world: Stage) -> None:
    """A5: rather than keep one open."""
    play, _ = await leaking(duly_world, "")
    object.__setattr__(play.desk, "vault", None)
    with pytest.raises(RequestRefused, match="keeps no secrets"):
        await play.host.set_secret("leaky", "token", CANARY)


def test_a_key_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A5, K14: its owner knows it, and could open all that is sealed with it."""
    path = tmp_path / "duly.db.key"
    path.write_bytes(base64.b64encode(b"x" * KEY_BYTES))
    path.chmod(0o600)
    seen = path.stat()
    parts = {name: getattr(seen, name) for name in dir(seen) if name.startswith("st_")}
    owned = SimpleNamespace(**{**parts, "st_uid": 4_000_000})
    monkeypatch.setattr("duly.desk.secret.os.fstat", lambda _: owned)
    with pytest.raises(ConfigError, match="belongs to another user"):
        _key_of(path, None)
    owned.st_uid = os.geteuid()
    assert _key_of(path, None) == b"x" * KEY_BYTES
