"""Asked by mail: a link opens one question, and nothing is decided before a button is pressed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

import duly.web
from duly.api.codec import perform
from duly.api.registry import Scope
from duly.bus.letterbox import MailChannel
from duly.desk import asker
from duly.errors import RequestRefused
from duly.faces.web.guard import Guard
from duly.rules.slip import SLIP_MS
from tests.connectors.chat_server import ChatServer
from tests.connectors.post_office import HOST, PASSWORD, USER, PostOffice
from tests.desk.phone import ASKED, Phone, Post
from tests.web.stand import FORM, OWN, Reply, Shifted, ask, form

pytestmark = pytest.mark.anyio

TO = "ada@example.com"
LINK = re.compile(r"https://duly\.example\.com/ask\?code=([\w-]{22})")


@pytest.fixture(scope="module")
def one_office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostOffice]:
    made = PostOffice(tmp_path_factory.mktemp("office"), "pymap")
    yield made
    made.close()


@pytest.fixture
def office(one_office: PostOffice) -> PostOffice:
    one_office.taken.clear()
    one_office.keeps_sent = one_office.is_silent = False
    return one_office


class Mailed(Phone):
    """A host with a mail channel, and its page."""

    office: PostOffice
    app: Guard

    def channel(self) -> MailChannel:
        return MailChannel(
            TO,
            address="duly@example.com",
            smtp=f"{HOST}:{self.office.smtp_port}",
            user=USER,
            page="https://duly.example.com",
            tls="starttls",
            allow=[HOST],
            ca=self.office.authority.ca,
            name="post",
        )

    @property
    def mails(self) -> list[str]:
        """The texts of the mails that were taken."""
        found = (
            message_from_bytes(data, policy=policy.default) for _, _, data in self.office.taken
        )
        return [each.get_content().replace("\r\n", "\n") for each in found]

    async def code(self, count: int = 1) -> str:
        """Wait for so many mails with a link; return the code of that one."""
        await self.until(lambda: len([each for each in self.mails if LINK.search(each)]) >= count)
        links = [LINK.search(each) for each in self.mails]
        return [each[1] for each in links if each][count - 1]

    async def look(self, code: str) -> Reply:
        return await ask(self.app, f"/ask?code={code}")

    async def answer(self, code: str, choice: str, seen: str, **headers: str) -> Reply:
        body = form(code=code, choice=choice, seen=seen)
        return await ask(self.app, "/ask", "POST", headers={**FORM, **OWN, **headers}, body=body)


@asynccontextmanager
async def mailed(folder: Path, office: PostOffice, **more: Any) -> AsyncIterator[Mailed]:
    (folder / "chat").mkdir()
    with ChatServer(folder / "chat") as chat:
        stand = Mailed(folder, chat, f"sqlite:///{folder / 'duly.db'}")
        stand.office = office
        await stand.prepare()
        stand.sent = []
        given: dict[str, Any] = {
            "connectors": [Post(stand.sent)],
            "channels": [stand.channel()],
            "policy": ASKED,
        }
        given |= more
        async with stand.serving(**given) as host:
            await host.set_secret("channels", "post.password", PASSWORD)
            stand.app = duly.web.app(host)
            yield stand


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker, "LOOK_S", 0.02)
    monkeypatch.setattr(asker, "PAUSE_S", 0.02)


async def test_a_mail_that_informs_names_the_page(tmp_path: Path, office: PostOffice) -> None:
    """B9, F8: a person who reads it knows where to go."""
    async with mailed(tmp_path, office) as stand:
        (channel,) = stand.host._channels.all
        await channel.send("flow: Nothing came in for more than 2 days")
        assert stand.mails == [
            "flow: Nothing came in for more than 2 days\n\nhttps://duly.example.com\n"
        ]


async def test_a_mail_asks_with_a_link_that_decides_nothing_by_itself(
    tmp_path: Path, office: PostOffice
) -> None:
    """G2, G6, G11: GET shows the question, a button decides it, once, as the receiver."""
    async with mailed(tmp_path, office) as stand:
        await stand.publish(body="<b>Dear\u202e</b>\nAda")
        code = await stand.code()
        (text,) = stand.mails
        assert "To: ada@example.com\nSubject: Hello\nBody:\n  | <b>Dear\\u202e</b>\n  | Ada" in text
        assert message_from_bytes(office.taken[0][2]).get_content_type() == "text/plain"
        for _ in range(3):  # a program that looks at links
            shown = await stand.look(code)
            assert (shown.status, shown.has("set-cookie")) == (200, False)
            assert "&lt;b&gt;Dear\\u202e&lt;/b&gt;" in shown.text
        (call,) = await stand.host.approvals()
        assert (await stand.answer(code, "yes", "0" * 64)).text.count("was changed since") == 1
        cross = await stand.answer(code, "yes", call.hash, **{"sec-fetch-site": "cross-site"})
        assert cross.status == 403
        assert len(await stand.host.approvals()) == 1
        done = await stand.answer(code, "yes", call.hash)
        assert "Exactly this call is sent, once." in done.text
        await stand.until(lambda: stand.sent)
        for choice in ("yes", "no"):
            assert (
                "Approved by mail:ada@example.com."
                in (await stand.answer(code, choice, call.hash)).text
            )
        last = (await stand.host.actions())[0]
        assert (last.by, last.verb) == ("mail:ada@example.com", "approve")
        assert 'name="choice"' not in (await stand.look(code)).text
    assert len(stand.sent) == 1


async def test_a_code_opens_its_question_and_nothing_else(
    tmp_path: Path, office: PostOffice
) -> None:
    """G3, G6: another code opens nothing; the right one signs in nowhere."""
    async with mailed(tmp_path, office) as stand:
        await stand.publish()
        code = await stand.code()
        for wrong in ("", "x", code[:-1], code[::-1], f"{code}x", "%00", "' or 1=1 --"):
            assert (await stand.look(wrong)).status in (400, 409)
        for path in ("/", "/api/v1/approvals", "/settings"):
            for headers in ({"authorization": f"Bearer {code}"}, {"cookie": f"duly-7337={code}"}):
                assert (await ask(stand.app, path, headers=headers)).status in (401, 403)
        with pytest.raises(RequestRefused, match="no open question"):
            await stand.host.asked("a" * 22)
        assert len(await stand.host.approvals()) == 1


async def test_a_lost_reply_of_the_mail_server_asks_twice_and_decides_once(
    tmp_path: Path, office: PostOffice
) -> None:
    """G11: the link of the first mail is worth nothing then."""
    office.is_silent = True
    async with mailed(tmp_path, office) as stand:
        await stand.publish()
        first = await stand.code()
        await stand.code(2)
        office.is_silent = False
        count = len(stand.mails) + 1
        last = await stand.code(count)
        assert first != last
        assert (await stand.look(first)).status in (400, 409)
        (call,) = await stand.host.approvals()
        assert (await stand.answer(last, "no", call.hash)).status == 200
        await stand.until(lambda: not stand.sent)
        rows = [each.by for each in await stand.host.actions() if each.verb == "reject"]
        assert rows == ["mail:ada@example.com"]


async def test_a_link_shows_what_its_mail_showed_and_no_longer_than_its_days(
    tmp_path: Path, office: PostOffice
) -> None:
    """G6, G11: a call that was changed since, or a mail that is old, shows no content."""
    clock = Shifted()
    async with mailed(tmp_path, office, env=clock) as stand:
        await stand.publish()
        first = await stand.code()
        (call,) = await stand.host.approvals()
        await stand.host.amend(call.mutation, call.hash, {"body": "for other eyes"})
        second = await stand.code(2)
        old = await stand.look(first)
        assert "Another message shows it." in old.text
        assert "for other eyes" not in old.text
        assert "for other eyes" in (await stand.look(second)).text
        clock.shift_ms = SLIP_MS + 1000
        late = await stand.look(second)
        assert (late.status, "for other eyes" in late.text) == (200, False)
    clock.close()


async def test_a_token_of_an_agent_answers_no_mail(tmp_path: Path, office: PostOffice) -> None:
    """G4, M5: an agent that reads a person's mailbox has the code, and decides nothing by it."""
    async with mailed(tmp_path, office) as stand:
        await stand.publish()
        args = {"code": await stand.code(), "choice": "yes"}
        args["seen"] = (await stand.host.asked(args["code"])).hash
        for scope in (Scope.READ, Scope.AGENT):
            with pytest.raises(RequestRefused) as raised:
                await perform(stand.host, "answer", args, by="token:agent", scope=scope)
            assert raised.value.code == "beyond_scope"
        assert (len(await stand.host.approvals()), stand.sent) == (1, [])
