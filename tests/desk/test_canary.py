"""A secret that the outside echoes wherever it can, in every spelling, is found nowhere (A5).

Law: what is searched is all that a host leaves behind or shows: every byte of every file (database,
log, backup), its own logging, every view as JSON, every error it raised, what a repairer was told.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

import duly
from duly.config import Policy
from duly.rules.repair import RepairCase
from duly.testing import Stage
from tests.desk.stores import folder_of
from tests.desk.test_upkeep import plain
from tests.engine.stand import (
    CONSUMER,
    IN,
    NAME,
    NOTHING,
    OUT,
    PEEK_ONE,
    Play,
    consumer,
    flow,
    opened,
    producer,
    publish,
)
from verification.moves import Call, Return, Say, When, ref

CANARY = 'tsivtsiv+Zx81/ä"quoted\\~?end'
SLIPS = (
    "none",
    "read",
    "sign in",
    "denied",
    "refused",
    "transient",
    "unknown",
    "proposed",
    "large",
)


def told(secret: str) -> str:
    """Spell a secret in one text as others would: in a URL, in a header, in JSON, in a dump."""
    raw = secret.encode()
    return " ".join(
        [
            f"https://api.example/v1?token={quote_plus(secret)}&again={quote(secret, safe='')}",
            f"Authorization: Bearer {secret}",
            f"Basic {base64.b64encode(raw).decode()}",
            base64.urlsafe_b64encode(raw).decode(),
            raw.hex(),
            raw.hex().upper(),
            json.dumps({"token": secret}),
            json.dumps({"token": secret}, ensure_ascii=False),
            f"Basic {base64.b64encode(b'ab:' + raw).decode()}",
            f"Basic {base64.b64encode(b'user:' + raw + b'!').decode()}",
            base64.b32encode(b"key" + raw).decode(),
            secret[::-1],
            f"/next?to={quote(quote(secret, safe=''), safe='')}",
            f"<b>{escape(secret)}</b>",
        ]
    )


def needles(secret: str) -> dict[str, bytes]:
    """Everything that would give the secret away; written here anew, not asked of the product."""
    raw = secret.encode()
    return {
        "raw": raw,
        "base64": base64.b64encode(raw).rstrip(b"="),
        "base64 for URLs": base64.urlsafe_b64encode(raw).rstrip(b"="),
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "URL": quote(secret, safe="").encode(),
        "form": quote_plus(secret).encode(),
        "JSON": json.dumps(secret)[1:-1].encode(),
        "JSON as it is": json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
        "JSON in JSON": json.dumps(json.dumps(secret))[3:-3].encode(),
        "escaped": secret.encode("unicode_escape"),
        "UTF-16": secret.encode("utf-16-le"),
        "base64 behind one byte": base64.b64encode(b"-" + raw)[2:-4],
        "base64 behind two bytes": base64.b64encode(b"--" + raw)[3:-4],
        "base32 behind three bytes": base64.b32encode(b"---" + raw)[5:-8],
        "reversed": secret[::-1].encode(),
        "URL twice": quote(quote(secret, safe=""), safe="").encode(),
        "HTML": escape(secret).encode(),
        "its first word": b"tsivtsiv",
    }


def found_in(haystack: bytes) -> list[str]:
    return [name for name, needle in needles(CANARY).items() if needle in haystack]


class Echo(duly.Connector):
    """An outside that repeats its secret in whatever it says."""

    name = "echo"

    def __init__(self, slip: str) -> None:
        self.slip = slip
        self.used = 0

    def _say(self) -> str:
        self.used += 1
        return told(self.secret("token"))

    @duly.read
    async def look(self) -> dict[str, Any]:
        said = self._say()
        raises: dict[str, Exception] = {
            "read": ValueError(said),
            "sign in": duly.AuthNeeded(said, connect="echo"),
            "denied": duly.PermissionDenied(said),
            "transient": duly.Transient(said),
        }
        if self.slip in raises:
            raise raises[self.slip] from RuntimeError(said)
        more = [said] * 1500 if self.slip == "large" else []
        return {"text": said, said: [said, {"deep": said}], "more": more}

    @duly.mutation(lag_s=0)
    async def change(self, call: duly.Call, text: str) -> dict[str, Any]:
        said = self._say()
        if self.slip == "refused":
            raise duly.Refused(said)
        if self.slip == "unknown":
            raise duly.UnknownOutcome(said)
        return {"with": said, said: said}

    @change.reconcile
    async def change_happened(self, call: duly.Call) -> duly.Unsure:
        return duly.Unsure(self._say())


LOOK = Call("echo.look", into="page")
TELL_ALL = flow(
    {
        CONSUMER: consumer(
            prepare=(
                PEEK_ONE,
                When("pending", (), (Return(NOTHING),)),
                LOOK,
                Say(ref("page")),
                Return(
                    {
                        "reservations": [{"topic": IN, "ids": ref("pending.*.id")}],
                        "data": {"page": ref("page")},
                        "ui": {"title": ref("page.text")},
                    }
                ),
            ),
            mutate=(Call("echo.change", (), {"text": ref("prepared.data.page.text")}),),
            then=(
                Say(ref("result")),
                When(
                    "prepared.reservations",
                    (
                        Call(
                            "publish",
                            (OUT,),
                            {
                                "message_id": ref("prepared.data.page.text"),
                                "title": ref("prepared.data.page.text"),
                                "payload": ref("result"),
                            },
                        ),
                    ),
                ),
                Return({"kept": ref("result")}),
            ),
        )
    },
    {
        "poll": producer(
            publish("first"),
            LOOK,
            Say(ref("page.text")),
            publish(ref("page.text"), title=ref("page.text"), payload=ref("page")),
            Return(ref("page.text")),
        )
    },
)


class Taker:
    """A repairer that remembers what it was told, and mends nothing."""

    def __init__(self) -> None:
        self.cases: list[RepairCase] = []

    async def repair(self, case: RepairCase) -> None:
        self.cases.append(case)


async def shown(host: duly.Host) -> str:
    """Ask everything there is to ask, and spell it as JSON."""
    runs = await host.runs()
    mutations = await host.mutations()
    answers = [
        runs,
        mutations,
        await host.workflows(),
        await host.workflow(NAME),
        await host.events(NAME),
        await host.inputs(NAME),
        await host.outputs(NAME),
        await host.approvals(),
        await host.attention(),
        await host.actions(),
        await host.versions(NAME),
        await host.tools(),
        await host.secrets(),
        await host.verify(),
        *[await host.why(each.id) for each in runs],
        *[await host.why(each.id) for each in mutations],
        *[await host.logs(each.id) for each in runs],
    ]
    return json.dumps(plain(answers), ensure_ascii=False) + repr(answers)


def read_files(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


async def leak(stage: Stage, slip: str) -> tuple[Play, Echo, Taker]:
    """Let a host work with an outside that echoes its secret, until nothing is due."""
    echo, taker = Echo(slip), Taker()
    policy = Policy(approvals={"*": "always"}) if slip == "proposed" else Policy()
    play = await opened(stage, connectors=(echo,), policy=policy)
    play.options["repairer"] = taker
    await play.restart()
    await play.host.set_secret("echo", "token", CANARY, by="anna")
    await play.deploy(TELL_ALL)
    await play.publish("a")
    for _ in range(4):
        await play.drain()
        await stage.advance(600)
    return play, echo, taker


def leftovers(*texts: str, files: Iterable[bytes] = ()) -> list[list[str]]:
    return [found_in(each) for each in (*(text.encode() for text in texts), *files)]


@pytest.mark.parametrize("slip", SLIPS)
async def test_a_canary_is_found_nowhere(
    duly_world: Stage, slip: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A5: in no file, log line, view, error or repair case, in no spelling, before and after."""
    caplog.set_level(logging.DEBUG)
    play, echo, taker = await leak(duly_world, slip)
    assert echo.used
    assert bool(taker.cases) is (slip in ("refused", "large"))  # both are logic failures (F3)
    views = await shown(play.host)
    while_open = read_files(folder_of(duly_world))
    await play.host.backup(folder_of(duly_world) / "copy.db")
    await play.host.close()
    closed = read_files(folder_of(duly_world))
    assert "[redacted]" in views
    logged = caplog.text + repr([vars(each) for each in caplog.records])
    seen = leftovers(views, logged, repr(taker.cases), files=(while_open, closed))
    assert seen == [[], [], [], [], []]


async def test_a_backup_without_the_key_reveals_nothing(duly_world: Stage, tmp_path: Path) -> None:
    """A5, H5: the key is not in it nor beside it; a host that opens it says what is closed."""
    play, _, _ = await leak(duly_world, "none")
    away = tmp_path / "away"
    away.mkdir()
    await play.host.backup(away / "copy.db")
    key = (folder_of(duly_world) / "duly.db.key").read_bytes().strip()
    left = read_files(away)
    assert found_in(left) == []
    assert key not in left
    assert base64.b64decode(key) not in left
    async with duly.Host(f"sqlite:///{away / 'copy.db'}", connectors=[Echo("none")]) as other:
        (secret,) = await other.secrets()
    assert secret.problem is not None
    assert "its key is gone" in secret.problem


async def test_an_error_that_reaches_a_caller_has_no_secret_in_it(duly_world: Stage) -> None:
    """A5: whatever a host raises while it knows one."""
    play, _, _ = await leak(duly_world, "none")
    raised: list[str] = []
    for asked in (
        lambda: play.host.set_secret("echo", "x" * 101, CANARY),
        lambda: play.host.set_secret("nobody", "token", CANARY),
        lambda: play.host.drop_secret("echo", "tokn"),
        lambda: play.host.backup(folder_of(duly_world) / "duly.db"),
    ):
        with pytest.raises(duly.DulyError) as refused:
            await asked()
        raised.append(repr(refused.value) + str(refused.value))
    assert leftovers(*raised) == [[]] * len(raised)


SCRIPT = duly.Source(
    "python",
    """
from duly import workflow

flow = workflow("tried", topics=["seen"])


@flow.producer()
async def poll(ctx, state):
    page = await ctx.echo.look()
    print(page)
    await ctx.publish("seen", message_id=page["text"], title=page["text"], payload=page)
    return page


@flow.consumer("seen")
class tell:
    async def prepare(self, ctx, state):
        seen = await ctx.peek("seen", limit=1)
        ids = [each["message_id"] for each in seen]
        return {"reservations": [{"topic": "seen", "ids": ids}], "data": seen,
                "ui": {"title": seen[0]["title"] if seen else "nothing"}}

    async def mutate(self, ctx, prepared):
        await ctx.echo.change(text=prepared["data"][0]["title"])
""",
)


async def test_a_trial_shows_no_secret(duly_world: Stage) -> None:
    """A5: real reads, shown mutations, what a script printed and would have published."""
    host = await duly_world.host(connectors=[Echo("none")])
    await host.set_secret("echo", "token", CANARY)
    trial = await host.try_(SCRIPT, grant=True)
    assert trial.published
    assert leftovers(json.dumps(plain(trial)), repr(trial)) == [[], []]
    await host.deploy(SCRIPT, grant=True)
    await host.drain()
    replay = await host.what_if("tried", SCRIPT)
    assert leftovers(repr(replay)) == [[]]
