"""The page of the demo: what it counts, what its buttons do, and who may press them (G2, L3)."""

from __future__ import annotations

import asyncio
import io
import json
import re
import smtplib
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from pathlib import Path

import pypdf
import pytest

from duly.env import Loop
from duly.errors import RequestRefused
from duly.faces.demo.invoice import place_of, say_total, write_invoice
from duly.faces.demo.live import Live, say_result
from duly.faces.demo.live_page import PRESSES_MAX, VIEWERS_MAX, Press, PressKind, showing
from duly.faces.demo.network import HOST, Network
from duly.faces.demo.post_server import Post
from duly.faces.demo.program import DBOS, ScriptProgram, find_dbos
from duly.faces.demo.tell import Mismatch
from duly.faces.demo.trial import QUIET_MS, Tally, Trial, count

RIGHT = Tally(arrived=2, rows=2, replies=2, twice=0, lost=0, questions=0, missing=0)


# -- The invoices ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [1, 7, 100])
def test_an_invoice_is_a_mail_with_a_pdf_that_a_program_and_a_short_script_can_read(
    place: int,
) -> None:
    """K15: the PDF is a real one, and its words stand in it as they are."""
    mail = message_from_bytes(write_invoice(place))
    assert place_of(mail["Message-ID"]) == place
    (pdf,) = [each for each in mail.walk() if each.get_content_type() == "application/pdf"]
    data = pdf.get_payload(decode=True)
    assert isinstance(data, bytes)
    read = pypdf.PdfReader(io.BytesIO(data), strict=True).pages[0].extract_text()
    assert f"Total {say_total(place)}" in read
    found = re.search(rb"Total ([^)]+)", data)
    assert found is not None
    assert found[1].decode() == say_total(place)


def test_a_mail_that_is_no_invoice_has_no_place() -> None:
    assert [place_of(each) for each in ("", "<1@else.example>", "<x@invoice.example>")] == [
        None
    ] * 3


# -- What is counted ------------------------------------------------------------------------------

ONE = Counter({1: 1, 2: 1})


@pytest.mark.parametrize(
    ("rows", "replies", "asked", "is_quiet", "wanted"),
    [
        (ONE, ONE, 0, True, RIGHT),
        (ONE + Counter({1: 1}), ONE, 0, False, replace(RIGHT, rows=3, twice=1)),
        (ONE, ONE + Counter({2: 2}), 0, False, replace(RIGHT, replies=4, twice=2)),
        # A row for a mail that there is not is one too many.
        (ONE + Counter({9: 1}), ONE, 0, True, replace(RIGHT, rows=3, twice=1)),
        # What is missing is under way, and lost when nothing has happened for long.
        (ONE, Counter({1: 1}), 0, False, replace(RIGHT, replies=1, missing=1)),
        (ONE, Counter({1: 1}), 0, True, replace(RIGHT, replies=1, missing=1, lost=1)),
        # What a person was asked about is not lost.
        (ONE, Counter({1: 1}), 1, True, replace(RIGHT, replies=1, missing=1, questions=1)),
    ],
)
def test_what_is_there_twice_or_not_at_all_is_counted(
    rows: Counter[int], replies: Counter[int], asked: int, is_quiet: bool, wanted: Tally
) -> None:
    """L3: by what is outside alone."""
    found = count(range(1, 3), rows, replies, asked, is_quiet=is_quiet)
    assert found == wanted
    assert found.is_right == (wanted.twice == wanted.lost == 0)
    assert found.is_whole == (wanted.missing <= wanted.questions)


class Idle:
    """A program that does nothing, and notes what is done to it."""

    kills = 0

    async def begin(self, imap: int, smtp: int) -> None:
        self.ports = (imap, smtp)

    def kill(self) -> int:
        self.kills += 1
        return 4711

    def look_after(self) -> None:
        pass

    def end(self) -> None:
        self.is_ended = True


class Hours(Loop):
    """A clock that a test moves on."""

    ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class Still(Loop):
    """A clock that a test sets."""

    at_ms = 0

    def monotonic_ms(self) -> int:
        return self.at_ms


class Hasty(Loop):
    """A clock on which three seconds pass between two looks."""

    looks = 0

    def monotonic_ms(self) -> int:
        self.looks += 1
        return self.looks * 3000


def say(port: int, reply_to: str, to: str) -> None:
    with smtplib.SMTP(HOST, port) as server:
        text = f"From: a@b.example\r\nTo: {to}\r\nIn-Reply-To: {reply_to}\r\n\r\nFiled.\r\n"
        server.sendmail("a@b.example", [to], text)


async def test_a_program_that_rests_has_lost_what_is_missing(tmp_path: Path) -> None:
    """L3: counted at the mail server and in the table; presses begin the waiting anew."""
    env, program = Hours(), Idle()
    async with Trial("Idle", "", tmp_path / "idle", env, program) as trial:
        trial.deliver(write_invoice(1))
        assert trial.tally() == Tally(1, 0, 0, 0, 0, 0, missing=1)
        env.ahead_ms = QUIET_MS
        assert (trial.tally().lost, trial.is_quiet) == (1, True)
        with pytest.raises(Mismatch, match="0 changes were made twice and 1 mails were lost"):
            Live(env, [trial], 1).account()
        trial.stir()
        assert (trial.tally().lost, trial.is_quiet) == (0, False)
        await asyncio.to_thread(say, program.ports[1], "<1@invoice.example>", "x@shop.example")
        await asyncio.to_thread(say, program.ports[1], "", "person@demo.example")
        assert trial.tally() == Tally(1, 0, 1, 0, 0, 1, missing=1)
    assert program.is_ended
    env.close()


async def test_a_press_reaches_every_program_and_its_network_comes_back(tmp_path: Path) -> None:
    env = Loop()
    programs = [Idle(), Idle()]
    trials = [Trial(str(at), "", tmp_path / str(at), env, each) for at, each in enumerate(programs)]
    async with trials[0], trials[1]:
        live = Live(env, trials, 1)
        live.kill()
        live.cut()
        live.cut()
        assert [each.kills for each in programs] == [1, 1]
        for each in programs:
            with pytest.raises(OSError, match=r"closed|reset"):
                await asyncio.to_thread(say, each.ports[1], "", "x@y.example")
        assert [(each.kind, each.what) for each in live.presses] == [
            (PressKind.KILL, ("0 4711", "1 4711")),
            (PressKind.CUT, ("0", "1")),
            (PressKind.CUT, ("0", "1")),
        ]
        for trial in trials:
            trial.mend()
        for each in programs:
            await asyncio.to_thread(say, each.ports[1], "", "x@y.example")
    env.close()


async def test_a_cut_loses_the_reply_and_not_what_the_server_was_told() -> None:
    """L4: the worst moment there is: taken, and the program does not know."""
    env = Loop()
    async with Post(hold_at=1) as post, Network(env, post.ports[1]) as network:
        sending = asyncio.create_task(
            asyncio.to_thread(say, network.port, "<1@invoice.example>", "x@y.example")
        )
        await post.held.wait()
        network.cut()
        with pytest.raises(smtplib.SMTPServerDisconnected):
            await sending
        assert len(post.sent) == 1
    env.close()


async def test_without_a_terminal_it_is_told_how_far_it_is_every_ten_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U2: a person who reads the output of `make demo` in a log sees that it goes on."""
    env = Still()
    async with Trial("Idle", "", tmp_path / "idle", env, Idle()) as trial:
        trial.deliver(write_invoice(1))
        live = Live(env, [trial], 1)
        told = []
        for env.at_ms in (0, 9_000, 10_500, 19_000, 21_000):
            live.tell_progress()
            told.append(capsys.readouterr().out)
    assert told == ["", "", "   Idle: in 1, rows 0, replies 0\n", "", told[2]]
    env.close()


async def test_a_page_without_a_viewer_tells_its_progress_until_it_is_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U2: it was silent from its address to its account."""
    env = Hasty()
    async with Trial("Idle", "", tmp_path / "idle", env, Idle()) as trial:
        await Live(env, [trial], 1).run(is_watched=False)
    assert "   Idle: in 1, rows 0, replies 0\n" in capsys.readouterr().out
    env.close()


@pytest.mark.parametrize(
    ("pressed", "said"),
    [
        ("", "Duly: nothing twice, nothing lost."),
        ("kc k", "Duly: nothing twice, nothing lost, after 2 × kill -9 and 1 × network cut."),
        ("c", "Duly: nothing twice, nothing lost, after 1 × network cut."),
    ],
)
def test_the_account_says_what_was_done_and_nothing_that_was_not(pressed: str, said: str) -> None:
    """U2: "after 0 × kill -9" reads like a trial that took place."""
    kinds = {"k": PressKind.KILL, "c": PressKind.CUT}
    found = say_result([Press(kinds[each], 0, ()) for each in pressed.replace(" ", "")])
    assert found[0] == said
    assert [each for each in found if "0 ×" in each] == []
    assert (found[-1] == said) == bool(pressed)


async def test_what_the_demo_asks_of_dbos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L3: a workflow for each mail, by its id, of two steps with retries; all else by default.

    A stand-in runs it, so this says what the program asks, not what DBOS does about it.
    """
    (tmp_path / "dbos.py").write_text(STAND_IN, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("STAND_IN", str(tmp_path / "asked.jsonl"))
    env = Loop()
    program = ScriptProgram(tmp_path / "dbos", env, DBOS, Path(sys.executable))
    ids = [str(message_from_bytes(write_invoice(each))["Message-ID"]) for each in (1, 2)]
    wanted = [
        ["config", {"name": "invoices"}],
        ["step", "insert", {"retries_allowed": True}],
        ["step", "reply", {"retries_allowed": True}],
        ["workflow", "invoice", {}],
        ["launch"],
    ]
    for each in ids:
        wanted += [["start", "invoice", each], ["run", "insert", each], ["run", "reply", each]]
        wanted += [["result", each]]
    async with Trial("DBOS", "", tmp_path / "dbos", env, program) as trial:
        trial.deliver(write_invoice(1))
        trial.deliver(write_invoice(2))
        asked: list[str] = []
        while len(asked) < len(wanted):
            program.look_after()
            assert program.ends == 0, (tmp_path / "dbos/program.log").read_text(encoding="utf-8")
            await env.sleep(0.1)
            if (tmp_path / "asked.jsonl").exists():
                asked = (tmp_path / "asked.jsonl").read_text(encoding="utf-8").splitlines()
        assert trial.tally() == RIGHT
    assert [json.loads(each) for each in asked] == wanted
    env.close()


async def test_a_script_that_ends_by_itself_is_started_again_after_a_second(tmp_path: Path) -> None:
    env = Hours()
    program = ScriptProgram(tmp_path, env, "invoices_plain.py", Path("/bin/false"))
    await program.begin(1, 2)
    assert program._child is not None
    first = program._child
    first.wait()
    program.look_after()
    assert program._child is first
    env.ahead_ms = 1000
    program.look_after()
    assert program._child is not first
    program.end()
    env.close()


def test_a_python_without_dbos_is_refused() -> None:
    with pytest.raises(RequestRefused, match="is not a Python that can import dbos"):
        find_dbos(Path("/bin/false"))


# What `invoices_dbos.py` imports of DBOS; it writes down what it is asked, and runs it at once.
STAND_IN = """
import functools, json, os

_ids = []


def _note(*what):
    with open(os.environ["STAND_IN"], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\\n")


def DBOSConfig(**given):
    return given


class SetWorkflowID:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        _ids.append(self.name)

    def __exit__(self, *_):
        _ids.pop()


class _Handle:
    def __init__(self, name):
        self.name = name

    def get_result(self):
        _note("result", self.name)


class DBOS:
    def __init__(self, *, config):
        _note("config", config)

    @staticmethod
    def step(**given):
        def wrap(function):
            _note("step", function.__name__, given)

            @functools.wraps(function)
            def run(*words):
                _note("run", function.__name__, _ids[-1])
                return function(*words)

            return run

        return wrap

    @staticmethod
    def workflow(**given):
        def wrap(function):
            _note("workflow", function.__name__, given)
            return function

        return wrap

    @staticmethod
    def launch():
        _note("launch")

    @staticmethod
    def start_workflow(function, *words):
        _note("start", function.__name__, _ids[-1])
        function(*words)
        return _Handle(_ids[-1])
"""


# -- The page -------------------------------------------------------------------------------------


@dataclass
class Shown:
    """A desk whose presses are only noted."""

    trials: Sequence[Trial]
    invoices: int = 2
    presses: list[Press] = field(default_factory=list)
    looks: int = 0

    def see(self) -> None:
        self.looks += 1

    def tallies(self) -> list[tuple[Trial, Tally]]:
        return [(each, RIGHT) for each in self.trials]

    def kill(self) -> None:
        self.presses.append(Press(PressKind.KILL, 0, ("Duly 1",)))

    def cut(self) -> None:
        self.presses.append(Press(PressKind.CUT, 0, ("Duly",)))


def ask(url: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Ask as a program does; a redirect is not followed."""
    spelled = {name.replace("_", "-"): each for name, each in headers.items()}
    request = urllib.request.Request(url, body, spelled)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_a_button_needs_the_page_its_token_and_its_origin(tmp_path: Path) -> None:
    """G2, G7: another page, another name and a request without the token change nothing."""
    env = Loop()
    desk = Shown([Trial("Duly", "", tmp_path, env, Idle(), "invoices.py")])
    async with showing(desk, env) as url:
        origin = url.rstrip("/")

        async def press(token: str, name: str = "kill", **headers: str) -> int:
            body = urllib.parse.urlencode({"token": token}).encode()
            return (await asyncio.to_thread(ask, url + name, body, **headers))[0]

        status, facts = await asyncio.to_thread(ask, url, Accept="application/json")
        token = json.loads(facts)["token"]
        assert (status, len(token), url.startswith("http://127.0.0.1:")) == (200, 32, True)
        assert await press(token, Origin="http://else.example") == 403
        assert await press(token) == 403
        assert await press("0" * 32, Origin=origin) == 403
        assert await press("ü", Origin=origin) == 403
        assert await press(token, Origin=origin, Host="else.example") == 421
        assert (await asyncio.to_thread(ask, f"{url}kill?token={token}"))[0] == 405
        assert desk.presses == []
        assert await press(token, Origin=origin) == 200
        assert await press(token, "cut", Origin=origin) == 200
        assert [each.kind for each in desk.presses] == [PressKind.KILL, PressKind.CUT]
        status, page = await asyncio.to_thread(ask, url, Accept="text/html")
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in page
        assert ("<style" in page, " style=" in page, "<script>" in page) == (False,) * 3
        assert (await asyncio.to_thread(ask, f"{url}script/invoices.py"))[1].startswith('"""Inv')
        assert (await asyncio.to_thread(ask, f"{url}script/invoices.toml"))[0] == 404
        desk.presses *= PRESSES_MAX
        assert await press(token, Origin=origin) == 429
    env.close()


async def test_a_page_has_so_many_viewers_and_no_more(tmp_path: Path) -> None:
    """G10: one past is refused; the streams end with the page."""
    env = Loop()
    desk = Shown([Trial("Duly", "", tmp_path, env, Idle())])
    opened = []
    async with showing(desk, env) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        for _ in range(VIEWERS_MAX + 1):
            reader, writer = await asyncio.open_connection(HOST, port)
            head = f"GET / HTTP/1.1\r\nHost: {HOST}:{port}\r\nAccept: text/event-stream\r\n\r\n"
            writer.write(head.encode())
            opened.append((await reader.readline(), reader, writer))
        assert [each[0].split()[1] for each in opened] == [b"200"] * VIEWERS_MAX + [b"429"]
        assert b"event: page" in await opened[0][1].readuntil(b"event: page")
    for _, _, writer in opened:
        writer.close()
    env.close()
