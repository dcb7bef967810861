"""One way to call a verb, with a running host and without, and every way a host can fail us."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from duly.api import session
from duly.api.project import Project
from duly.api.registry import VERBS
from duly.api.session import connect
from duly.api.wire import (
    REQUEST_BYTES_MAX,
    listen,
    read_error,
    read_line,
    write_error,
    write_line,
)
from duly.config import Config
from duly.errors import (
    DulyError,
    Invalid,
    NotDeployed,
    NotFound,
    RequestRefused,
    ScriptError,
    StoreInUse,
    StoreUnavailable,
    see,
)
from duly.faces.socket import Control
from duly.host import Host
from duly.rules.declaration import Problem
from duly.rules.value import Json
from duly.script.finding import Finding, Severity
from tests.faces.stand import EVENT, listening, project

GREETING: dict[str, Json] = {
    "duly": "1",
    "pid": 4711,
    "store": "/x",
    "since": "2026-01-02T12:00:00.000Z",
    "serving": True,
}
HOST = """
import asyncio, sys
from pathlib import Path
from duly.host import Host
from duly.faces.socket import Control

async def main(database):
    async with Host(f"sqlite:///{database}") as host, Control(host, Path(database + ".socket")):
        print("ready", flush=True)
        await host.serve()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(session, "PAUSE_S", 0.001)
    return project(tmp_path)


@asynccontextmanager
async def pretender(place: Project, *lines: bytes) -> AsyncIterator[None]:
    """Listen like a host: say the first line at once, the others for each request, then hang up.

    Without a line to say it says nothing and stays.
    """
    talks: set[asyncio.Task[None]] = set()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
            await reader.readline()
        if not lines:
            await reader.read()
        writer.transport.abort()

    def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.ensure_future(speak(reader, writer)))

    server = await asyncio.start_unix_server(welcome, sock=listen(place.socket))
    try:
        yield
    finally:
        server.close()
        place.socket.unlink()
        if talks:
            await asyncio.wait(talks)


# -- Either way ---------------------------------------------------------------------------------


async def test_a_verb_is_carried_out_on_the_store_where_no_host_runs(place: Project) -> None:
    """Nothing runs but the verb, and the store is free again at once."""
    async with connect(place) as each:
        assert each.host is None
        assert await each.call("bus.emit", **EVENT) == 1
        async with Host(place.url) as host:
            (event,) = await host.bus.journal()
    assert (event.topic, event.status) == ("tea.ready", "pending")
    assert not place.socket.exists()


async def test_a_verb_is_carried_out_by_the_host_that_runs(place: Project, tmp_path: Path) -> None:
    async with listening(tmp_path) as (host, _), host.running(), connect(place) as each:
        assert each.host is not None
        assert (each.host.pid, each.host.serving) == (os.getpid(), True)
        assert each.host.since == host.opened_at.replace(
            microsecond=host.opened_at.microsecond // 1000 * 1000
        )
        assert await each.call("bus.emit", **EVENT) == 1
        (event,) = await host.bus.journal()
        assert event.topic == "tea.ready"


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize(
    ("verb", "args", "kind", "message"),
    [
        ("why", {"id": "Tea"}, NotFound, 'There is no workflow "Tea". There are none.'),
        ("whi", {}, NotFound, 'There is no verb "whi". Did you mean "why"?'),
        ("why", {"idd": "Tea"}, Invalid, 'why.idd is not known. Did you mean "id"?'),
        ("workflows", {"limit": 1001}, Invalid, "limit"),
        ("bus.emit", {**EVENT, "source": "duly"}, RequestRefused, "Only duly itself can emit"),
        (
            "deploy",
            {"source": {"language": "python", "text": "x = (", "name": "tea.py"}},
            NotDeployed,
            "tea.py was refused, so nothing was stored.",
        ),
    ],
)
async def test_errors_are_the_same_either_way(
    place: Project,
    tmp_path: Path,
    is_running: bool,
    verb: str,
    args: dict[str, Any],
    kind: type[DulyError],
    message: str,
) -> None:
    async def refusal() -> DulyError:
        async with connect(place) as each:
            assert (each.host is not None) is is_running
            with pytest.raises(kind) as caught:
                await each.call(verb, **args)
            assert type(caught.value) is kind
            return caught.value

    if is_running:
        async with listening(tmp_path):
            error = await refusal()
    else:
        error = await refusal()
    assert message in str(error)
    if isinstance(error, NotDeployed):
        (finding,) = error.findings
        assert isinstance(finding, Finding)
        assert (finding.rule, finding.severity) == ("syntax", Severity.REFUSES)


def test_every_error_crosses_with_all_it_says() -> None:
    findings = (
        Finding("syntax", Severity.REFUSES, 1, 2, "No.", "Yes."),
        Problem("W4", "topics[0]", "consumed_twice", {"topic": "x", "consumer": "y"}, 3, 7),
    )
    for error in (
        NotDeployed("no", findings=findings),
        ScriptError("it threw", line=3, column=4, is_lost=True),
        Invalid("no", path="a.b"),
        StoreInUse("held"),
        DulyError("what"),
    ):
        crossed = read_error(read_line(write_line(write_error(error))))
        assert (type(crossed), str(crossed)) == (type(error), str(error))
        assert vars(crossed) == vars(error)


@pytest.mark.parametrize(
    "raw", [None, 3, {}, {"kind": "Path", "message": "m"}, {"kind": "exit"}, {"kind": ["x"]}]
)
def test_an_error_of_an_unknown_kind_is_still_an_error(raw: Json) -> None:
    assert type(read_error(raw)) is DulyError


async def test_an_extension_is_brought_to_life_only_to_be_asked_how_it_is(tmp_path: Path) -> None:
    (tmp_path / "more" / "tea").mkdir(parents=True)
    (tmp_path / "more" / "tea" / "manifest.yaml").write_text("id: [")
    place = project(tmp_path, Config(extensions="more"))
    async with connect(place) as each:
        answer = await each.call("extensions")
        assert isinstance(answer, list)
        (report,) = answer
        assert isinstance(report, dict)
        assert (report["id"], report["stage"]) == ("tea", "manifest")


async def test_what_belongs_to_an_extension_stays_its_own_where_no_host_runs(
    tmp_path: Path,
) -> None:
    """B1, B13: nobody speaks in its name or ends what it listens to, though it is not awake."""
    (tmp_path / "more" / "tea").mkdir(parents=True)
    manifest = "id: tea\nname: Tea\nversion: 1.0.0\nentrypoint: main:Tea\n"
    (tmp_path / "more" / "tea" / "manifest.yaml").write_text(manifest)
    place = project(tmp_path, Config(extensions="more"))
    async with connect(place) as each:
        with pytest.raises(RequestRefused, match="Only tea itself can emit as tea"):
            await each.call("bus.emit", **{**EVENT, "source": "tea"})
        with pytest.raises(RequestRefused, match=r"tea:tea\.ready:pour belongs to tea\. Start one"):
            await each.call("bus.unsubscribe", subscriber_id="tea:tea.ready:pour")
        assert await each.call("bus.emit", **EVENT) == 1


# -- Between a host and none --------------------------------------------------------------------


async def test_a_host_that_started_meanwhile_is_spoken_to(place: Project, tmp_path: Path) -> None:
    """H1: the store is the host's, so the session goes over to it."""
    async with connect(place) as each:
        hosts = [each.host]
        async with listening(tmp_path) as (host, _):
            assert await each.call("bus.emit", **EVENT) == 1
            hosts.append(each.host)
            assert len(await host.bus.journal()) == 1
    assert [found and found.pid for found in hosts] == [None, os.getpid()]


async def test_a_host_without_a_socket_is_named_with_what_to_do(place: Project) -> None:
    """H1: an embedded host has the store for itself."""
    async with Host(place.url), connect(place) as each:
        with pytest.raises(StoreInUse) as caught:
            await each.call("workflows")
    told = str(caught.value)
    assert f"another host holds this store (process {os.getpid()})" in told
    assert "does not listen at duly.db.socket" in told
    assert "If a program embeds it, ask in that program" in told


async def test_two_who_ask_the_store_at_once_are_both_answered(
    place: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "TRIES_MAX", 100_000)

    async def emit() -> Json:
        async with connect(place) as each:
            return await each.call("bus.emit", **EVENT)

    numbers = await asyncio.gather(*(emit() for _ in range(4)))
    assert {*numbers} == {1, 2, 3, 4}


async def test_a_killed_host_leaves_a_socket_that_stops_nobody(
    place: Project, tmp_path: Path
) -> None:
    """H1: the lock went with the process; what it left on the disk is looked past and replaced."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(place.database), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    async with connect(place) as each:
        assert each.host is not None
        assert each.host.pid == process.pid
        assert await each.call("bus.emit", **EVENT) == 1
        process.send_signal(signal.SIGKILL)
        await process.wait()
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            await each.call("workflows")
    assert place.socket.exists()
    async with connect(place) as each:
        assert each.host is None
        assert await each.call("bus.emit", **EVENT) == 2
    async with listening(tmp_path), connect(place) as each:
        assert each.host is not None


# -- Hosts that fail us -------------------------------------------------------------------------


async def test_a_host_that_went_away_is_not_answered_for(place: Project) -> None:
    """What is not known is said: whether an act was done is for a person to see."""
    async with pretender(place, write_line(GREETING)), connect(place) as each:
        with pytest.raises(StoreUnavailable) as caught:
            await each.call("pause", workflow="Tea")
        assert str(caught.value) == (
            "The host (process 4711) stopped listening before it returned a result; whether pause "
            "was done is not known. Look whether it was done before you try again."
        )
        assert caught.value.next == see("actions")
        with pytest.raises(StoreUnavailable, match=r"nothing was changed\. Try again"):
            await each.call("pause", workflow="Tea")
    async with pretender(place, write_line(GREETING)), connect(place) as each:
        with pytest.raises(StoreUnavailable, match=r"nothing was changed\. Try again"):
            await each.call("workflows")


async def test_whoever_lost_an_answer_is_sent_to_where_the_act_can_be_seen(place: Project) -> None:
    """U6: every act has a name, and is in the list of acts; an event is seen best on the bus."""
    assert all(each.is_question or each.has_actor for each in VERBS.values())
    elsewhere = {each.name for each in VERBS.values() if each.recorded_in not in ("", "actions")}
    assert elsewhere == {"bus.emit", "bus.schedule_at"}
    for each in VERBS.values():
        assert bool(each.recorded_in) is not each.is_question
        assert each.is_question or VERBS[each.recorded_in].is_question
    async with pretender(place, write_line(GREETING)), connect(place) as to:
        with pytest.raises(
            StoreUnavailable, match="Look whether it was done before you try again"
        ) as caught:
            await to.call("bus.emit", **EVENT)
    assert caught.value.next == see("bus.journal")


async def test_a_verb_this_version_does_not_know_is_lost_and_not_waited_for(
    place: Project,
) -> None:
    """Law 3 of a session: a newer host may know it, and have done it."""
    async with pretender(place, write_line(GREETING)), connect(place) as each:
        with pytest.raises(StoreUnavailable) as caught:
            async with asyncio.timeout(20):
                await each.call("from_a_newer_host")
    assert (caught.value.code, caught.value.next) == ("act_unheard", see("actions"))


async def test_why_a_host_hung_up_is_told(place: Project) -> None:
    """U6: what a host says without the id of a request is why it hangs up."""
    refusal = RequestRefused("64 MiB wait for their result.", code="unanswered")
    said = write_line({"id": None, "error": write_error(refusal)})
    async with pretender(place, write_line(GREETING), said), connect(place) as each:
        asked = (each.call("pause", workflow="x"), each.call("why", id="x"))
        async with asyncio.timeout(20):
            told = await asyncio.gather(*asked, return_exceptions=True)
    assert [each.code for each in told if isinstance(each, DulyError)] == [
        "act_unheard",
        "host_gone",
    ]
    for error in told:
        assert "stopped listening (64 MiB wait for their result)" in str(error)


async def test_a_host_that_says_nothing_is_named(
    place: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GREETING_S", 0.01)
    async with pretender(place):
        with pytest.raises(StoreUnavailable, match=rf"process {os.getpid()}\) .* does not answer"):
            async with connect(place):
                pass


@pytest.mark.parametrize("line", [b"220 mail.example.com\n", b"{}\n", b'{"duly": "1"}\n'])
async def test_what_is_no_host_is_not_spoken_to(place: Project, line: bytes) -> None:
    async with pretender(place, line):
        with pytest.raises(StoreUnavailable, match=r"duly.db.socket is not a host of Duly"):
            async with connect(place):
                pass


async def test_why_a_host_does_not_speak_to_us_is_told(place: Project) -> None:
    refusal = write_line({"error": write_error(RequestRefused("64 clients speak."))})
    async with pretender(place, refusal):
        with pytest.raises(RequestRefused, match=r"^64 clients speak\.$"):
            async with connect(place):
                pass


async def test_a_host_that_is_closing_says_nothing_and_its_store_is_asked(place: Project) -> None:
    left = listen(place.socket)
    server = await asyncio.start_unix_server(lambda _, writer: writer.close(), sock=left)
    async with connect(place) as each:
        assert each.host is None
        assert await each.call("workflows") == []
    server.close()


async def test_an_answer_nobody_asked_for_is_passed_over(place: Project) -> None:
    stray = write_line({"id": 99, "answer": 1}) + write_line({"id": "x", "answer": 2})
    answer = write_line({"id": 1, "answer": ["tea"]})
    async with pretender(place, write_line(GREETING), stray + answer), connect(place) as each:
        assert await each.call("workflows") == ["tea"]


async def test_a_request_that_is_too_long_is_not_sent(place: Project, tmp_path: Path) -> None:
    async with listening(tmp_path), connect(place) as each:
        with pytest.raises(Invalid, match="request is longer than 8388608 bytes"):
            await each.call("why", id="x" * REQUEST_BYTES_MAX)
        assert await each.call("workflows") == []


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize(
    ("value", "words"),
    [(float("inf"), "payload.x is inf"), ("\ud800", "payload.x has a NUL or half a character")],
)
async def test_what_json_cannot_say_is_refused_and_never_arrives_as_something_else(
    place: Project, tmp_path: Path, value: Json, words: str, is_running: bool
) -> None:
    """T8: a number too big for JSON became null on its way to a running host."""
    async with listening(tmp_path) if is_running else nullcontext(), connect(place) as each:
        with pytest.raises(Invalid, match=words):
            await each.call("bus.emit", **{**EVENT, "payload": {"x": value}})
        assert await each.call("bus.journal") == []


# -- Following ----------------------------------------------------------------------------------


async def test_an_answer_is_followed_until_nobody_wants_it_any_more(
    place: Project, tmp_path: Path
) -> None:
    async with listening(tmp_path) as (host, _), connect(place) as each:
        counts = []
        answers = each.follow("bus.journal")
        async for answer in answers:
            assert isinstance(answer, list)
            counts.append(len(answer))
            if len(answer) == 2:
                break
            await host.bus.emit("tea", {}, source="kettle")
        await answers.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert counts == [0, 1, 2]
        # The host has heard of it before it answers the next request of the same line.
        assert await each.call("workflows") == []
        assert host._watchers == set()


async def test_whoever_follows_slowly_gets_the_newest_answer_only(place: Project) -> None:
    answers = b"".join(write_line({"id": 1, "answer": number}) for number in range(5))
    async with pretender(place, write_line(GREETING), answers), connect(place) as each:
        followed = each.follow("workflows")
        assert await anext(followed) == 4
        await followed.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_following_needs_a_running_host(place: Project) -> None:
    async with connect(place) as each:
        with pytest.raises(RequestRefused, match=r"No host runs on .*Start one"):
            await anext(each.follow("workflows"))
        with pytest.raises(NotFound, match="no verb"):
            await anext(each.follow("workflow_s"))


async def test_following_ends_with_the_host(place: Project) -> None:
    host = Host(place.url)
    async with host:
        control = Control(host, place.socket)
        await control.__aenter__()
        async with connect(place) as each:
            answers = each.follow("workflows")
            assert await anext(answers) == []
            await control.__aexit__(None, None, None)
            with pytest.raises(StoreUnavailable, match=r"nothing was changed\. Try again"):
                await anext(answers)
