"""Mail, a table and an answer on real servers; the host is killed and the network cut at random.

    python -m tests.fire.mail --rounds 200 --seed 1

A `duly serve` reads mails over IMAP (Dovecot), writes each as a row with `sql` and answers it over
SMTP. Every round brings new mails and kills the host: after a time that the seed drew, or while the
SMTP server is at a chosen place of a mail. A network between them cuts a third of the connections.
In the end every mail must be one row and one answer, and no question may be open. Exits with 1 and
says what is wrong if not.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path
from typing import Any, Final

from tests.connectors.post_office import HOST, PASSWORD, USER, PostOffice
from tests.fire.mixed import Gone, Served
from tests.fire.stand import LIMIT_S, PAUSE_S, Nursery, open_nursery, until
from tests.fire.weather import Weather

INBOX: Final = "Fire"
MAILS_MAX: Final = 2
LIFE_S: Final = 1.5  # how long a host lives at most after its first call, if the clock kills it
CALL_S: Final = 20.0  # a host that has met nothing by then is killed all the same
MOMENTS: Final = ("receiver", "before taking", "after taking")
STORE_ROUNDS: Final = 50  # a store is given up after so many, as its history grows
LOG_CHARS: Final = 6000
PROJECT: Final = """
[connectors.mail]
use = "tests.fire.mail_host:QuickMail"
address = "desk@example.com"
user = "{user}"
imap = "{host}:{imap}"
smtp = "{host}:{smtp}"
tls = "starttls"
sent = "Sent-desk"
allow = ["{host}"]
ca = "{ca}"

[connectors.books]
use = "sql"
url = "sqlite:///books.db"

[connectors.books.operations.add_mail]
sql = "insert into mails (mail, subject) values (:mail, :subject) returning rowid as id"
arguments = {{ mail = "string", subject = "string" }}

[policy.retries]
first_s = 0.05
longest_s = 0.3

[policy.reconcile]
first_s = 0.05
longest_s = 0.4
"""
SCRIPT: Final = """
from duly import workflow

flow = workflow("desk", topics=["mail.received", "row.added"])


@flow.producer(every="1s", publishes=["mail.received"])
async def look(ctx, state):
    mails = await ctx.mail.search(after=(state or {}).get("cursor"), folder="Fire")
    for mail in mails["items"]:
        title = f"Mail {mail['subject']}"
        await ctx.publish("mail.received", message_id=mail["id"], title=title, payload=mail)
    return {"cursor": mails["last_cursor"]}


def chosen(topic, events, verb):
    ids = [each["message_id"] for each in events]
    data = events[0]["payload"] if events else {}
    title = f"{verb} {data.get('subject')}"
    return {"reservations": [{"topic": topic, "ids": ids}], "data": data, "ui": {"title": title}}


@flow.consumer("mail.received", publishes=["row.added"])
class file:
    async def prepare(self, ctx, state):
        return chosen("mail.received", await ctx.peek("mail.received", limit=1), "File")

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.books.add_mail(mail=mail["message_id"], subject=mail["subject"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            mail = prepared["data"]
            title = f"Row of {mail['subject']}"
            await ctx.publish("row.added", message_id=mail["id"], title=title, payload=mail)


@flow.consumer("row.added")
class answer:
    async def prepare(self, ctx, state):
        return chosen("row.added", await ctx.peek("row.added", limit=1), "Answer")

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.mail.send(
            to=[mail["from"]],
            subject=f"Re: {mail['subject']}",
            text="It is filed.",
            reply_to=mail["message_id"],
        )
"""


@dataclass(slots=True)
class Report:
    """What a fire did, and what was left to see of it."""

    rounds: int = 0
    mails: int = 0
    rows: int = 0
    answers: int = 0
    questions: int = 0
    asked: int = 0
    sent_again: int = 0
    failed: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    cuts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class MailFire:
    """Rounds over one store, one inbox and one table."""

    def __init__(self, nursery: Nursery, office: PostOffice, folder: Path, seed: int) -> None:
        self._nursery, self._office, self._folder = nursery, office, folder
        self._dice = random.Random(seed)
        self._living: list[Served] = []
        self._mails: set[str] = set()
        self.report = Report()
        self._seed = seed

    def blow(self, rounds: int, progress: Callable[[int], None] = lambda _: None) -> Report:
        """Kill so many hosts, let a last one live, and check everything."""
        begun, office = time.monotonic(), self._office
        office.delete(INBOX, "Sent-desk")
        for each in (INBOX, "Sent-desk"):
            office.make_folder(each)
        office.taken.clear()
        with (
            Weather(office.imap_port, f"imap {self._seed}") as imap,
            Weather(office.smtp_port, f"smtp {self._seed}") as smtp,
        ):
            self._ways = (imap, smtp)
            self._settle_in()
            try:
                host = self._start(is_first=True)
                for number in range(1, rounds + 1):
                    self._set_calm(is_calm=False)
                    self._harm(host)
                    self._check_once()
                    host = self._start()
                    self.report.rounds += 1
                    progress(number)
                self._calm(host)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self._last_words()}") from error
            finally:
                office.tell = lambda moment: None
                for left in self._living:
                    left.signal(signal.SIGKILL)
                    left.wait()
            self.report.cuts = imap.cuts + smtp.cuts
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _settle_in(self) -> None:
        with sqlite3.connect(self._folder / "books.db") as books:
            books.execute("create table mails (mail text, subject text)")
        imap, smtp = self._ways
        text = PROJECT.format(
            user=USER,
            host=HOST,
            imap=imap.port,
            smtp=smtp.port,
            ca=self._office.authority.ca,
        )
        (self._folder / "duly.toml").write_text(text)

    # -- One round ------------------------------------------------------------------------------

    def _start(self, *, is_first: bool = False) -> Served:
        end = time.monotonic() + LIMIT_S
        host = Served(self._nursery, self._folder)
        self._living.append(host)
        while True:
            assert time.monotonic() < end, "never came: an answer of a host that started"
            assert not host.is_over(), "a host ended by itself"
            try:
                if isinstance(host.ask("workflows"), list):
                    break
            except Gone:
                time.sleep(PAUSE_S)
        if is_first:
            host.ask("set_secret", connector="mail", name="password", value=PASSWORD)
            source = {"language": "python", "text": SCRIPT, "name": "desk.py"}
            answer = host.ask("deploy", source=source, grant=True)
            assert isinstance(answer, dict), answer
            proof = host.ask("prove", tool="mail.send")
            assert proof["last"]["status"] == "proven", proof
        return host

    def _harm(self, host: Served) -> None:
        """Bring new mails, and kill the host while it works on them."""
        dead = threading.Event()
        way = self._dice.choice((*MOMENTS, "the clock"))

        def tell(moment: str) -> None:
            if moment == way and not dead.is_set():
                host.signal(signal.SIGKILL)
                dead.set()

        self._office.tell = tell
        for _ in range(self._dice.randint(1, MAILS_MAX)):
            self._post()
        if way == "the clock":
            self._await_call()
        is_met = dead.wait(CALL_S if way != "the clock" else self._dice.uniform(0, LIFE_S))
        self._office.tell = lambda moment: None
        self.report.kills[way if is_met else "the clock"] += 1
        host.signal(signal.SIGKILL)
        host.wait()
        self._living.remove(host)
        # What had left has landed then, or never will.
        until(lambda: not self._office.busy and not any(e.open for e in self._ways), "a quiet line")

    def _await_call(self) -> None:
        """Wait for the first connection of a host."""
        calls, end = sum(each.calls for each in self._ways), time.monotonic() + CALL_S
        while sum(each.calls for each in self._ways) == calls and time.monotonic() < end:
            time.sleep(PAUSE_S)

    def _post(self) -> None:
        self.report.mails += 1
        name = f"<{self.report.mails}.{self._seed}@example.org>"
        self._mails.add(name)
        head = f"From: guest@example.org\r\nSubject: Mail {self.report.mails}\r\n"
        self._office.put(INBOX, f"{head}Message-ID: {name}\r\n\r\nHello\r\n".encode())

    def _set_calm(self, *, is_calm: bool) -> None:
        for each in self._ways:
            each.is_calm = is_calm

    # -- The end, and what is counted at the outside ---------------------------------------------

    def _calm(self, host: Served) -> None:
        self._set_calm(is_calm=True)
        end = time.monotonic() + LIMIT_S
        while self._left(host):
            rows, answers = self._rows(), self._answers()
            missing = [e for e in self._mails if not rows[e] or not answers[e]]
            assert time.monotonic() < end, f"stuck: {missing[:5]}; {self._open(host)}"
            self._check_once()
            for status in ("crashed", "paused:transient"):  # the outside is well again
                for run in host.ask("runs", status=status):
                    host.ask("retry", run=run["id"])
            time.sleep(PAUSE_S)
        ledger = self._ledger(host)
        host.signal(signal.SIGTERM)
        host.wait()
        self._living.remove(host)
        self._check_once()
        rows, answers = self._rows(), self._answers()
        assert set(rows) == set(answers) == self._mails, "a row or an answer of no mail"
        self.report.rows, self.report.answers = rows.total(), answers.total()
        known = Counter((each.get("known") or {}).get("how") for each in ledger)
        self.report.asked = known["asked"]
        self.report.sent_again = sum(each["attempt"] > 1 for each in ledger)
        self.report.failed = sum(each["status"] == "failed" for each in ledger)

    def _left(self, host: Served) -> bool:
        """Tell whether anything is open; a question to a person is counted and is wrong."""
        questions = host.ask("mutations", status="indeterminate")
        self.report.questions = max(self.report.questions, len(questions))
        assert not questions, f"a question to a person: {questions}"
        rows, answers = self._rows(), self._answers()
        if any(not rows[each] or not answers[each] for each in self._mails):
            return True
        return bool(self._open(host))

    def _open(self, host: Served) -> list[Any]:
        words = ("in_flight", "needs_reconcile", "proposed")
        return [each for word in words for each in host.ask("mutations", status=word)]

    def _ledger(self, host: Served) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        before: dict[str, str] = {}
        while page := host.ask("mutations", limit=100, **before):
            rows += page
            before = {"before": page[-1]["id"]}
        return rows

    def _rows(self) -> Counter[str]:
        with sqlite3.connect(self._folder / "books.db", timeout=LIMIT_S) as books:
            return Counter(mail for (mail,) in books.execute("select mail from mails"))

    def _answers(self) -> Counter[str]:
        mails = [message_from_bytes(data) for _, _, data in list(self._office.taken)]
        # The trial with the account answers no mail.
        return Counter(str(each["In-Reply-To"]) for each in mails if each["In-Reply-To"])

    def _check_once(self) -> None:
        for what, counted in (("row", self._rows()), ("answer", self._answers())):
            twice = [mail for mail, number in counted.items() if number > 1]
            assert not twice, f"made twice: a {what} for {twice}"

    def _last_words(self) -> str:
        return (self._folder / "serve.log").read_text(errors="replace")[-LOG_CHARS:]


def main() -> int:
    """Burn until the rounds are used up; answer the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fire.mail", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    total: Counter[str] = Counter()
    try:
        with (
            tempfile.TemporaryDirectory() as place,
            open_nursery() as nursery,
            closing(PostOffice(Path(place) / "office")) as office,
        ):
            for number in range(-(-wanted.rounds // STORE_ROUNDS)):
                rounds = min(STORE_ROUNDS, wanted.rounds - number * STORE_ROUNDS)
                folder = Path(place) / str(number)
                folder.mkdir()
                report = MailFire(nursery, office, folder, wanted.seed + number).blow(rounds, _show)
                total.update(flat(report))
    except AssertionError as error:
        print(f"\nwrong: {error}")
        return 1
    print("\n" + " · ".join(f"{word} {number:g}" for word, number in total.items()))
    return 0


def _show(number: int) -> None:
    print(f"\rround {number}", end="", flush=True)


def flat(report: Report) -> Counter[str]:
    """Put the counts within counts beside the others."""
    words = ("rounds", "mails", "rows", "answers", "questions", "asked", "sent_again", "failed")
    found = Counter({word: getattr(report, word) for word in words})
    found.update({f"killed at {word}": number for word, number in report.kills.items()})
    found.update({f"cut {word}": number for word, number in report.cuts.items()})
    found["seconds"] = round(report.seconds)
    return found


if __name__ == "__main__":
    sys.exit(main())
