"""The stand of what is asked on a phone: a real host, a real script, and a Bot API on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import duly
from duly.bus.telegram import TelegramChannel
from duly.config import Policy
from duly.host import Host
from duly.rules.slip import SlipStatus
from duly.store.slip import list_open_slips
from tests.connectors.chat_server import TOKEN, ChatServer

ADA: Final = 7001
EVE: Final = 6666
PHONE: Final = "phone"
ASKED: Final = Policy(approvals={"*": "always"})
WAIT_S: Final = 300.0  # only ends what hangs
LETTER: Final[Any] = {"to": "ada@example.com", "subject": "Hello", "body": "Dear Ada"}
SOURCE: Final = """
from duly import workflow

flow = workflow("letters", topics={"letter": {"ingress": True}})


@flow.consumer("letter")
class reply:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("letter", limit=1)
        if not pending:
            return {"reservations": []}
        return {
            "reservations": [{"topic": "letter", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": "Answer the letter"},
        }

    async def mutate(self, ctx, prepared):
        data = prepared["data"]
        await ctx.post.send(to=data["to"], subject=data["subject"], body=data["body"])
"""


class Post(duly.Connector):
    """Letters; what was sent is remembered outside of the host."""

    name = "post"

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        self._sent = sent

    @duly.mutation(
        labels={"to": "To", "subject": "Subject", "body": "Body"}, editable=("body",), noun="letter"
    )
    async def send(self, call: duly.Call, to: str, subject: str, body: str) -> str:
        """Send a letter."""
        self._sent.append(dict(call.args))
        return "sent"


@dataclass
class Phone:
    """A host with a bot, and what is seen outside of it."""

    folder: Path
    chat: ChatServer
    url: str
    sent: list[dict[str, Any]] = field(default_factory=list)
    kind: type[Host] = Host
    host: Host = None  # type: ignore[assignment]  # while none is open

    def make(self, **more: Any) -> Host:
        """Make a host on the same store, not opened."""
        channel = TelegramChannel(
            url=f"{self.chat.url}/a", allow=["127.0.0.1"], name=PHONE, page=more.pop("page", None)
        )
        given = {"connectors": [Post(self.sent)], "channels": [channel], "policy": ASKED, **more}
        return self.kind(self.url, **given)

    @asynccontextmanager
    async def serving(self, **more: Any) -> AsyncIterator[Host]:
        """Let a host serve."""
        async with self.make(**more) as self.host, self.host.running():
            yield self.host

    async def prepare(self) -> None:
        """Set the token and deploy the workflow."""
        async with self.make() as host:
            await host.set_secret("channels", f"{PHONE}.token", TOKEN)
            await host.deploy(duly.Source("python", SOURCE), grant=True)

    async def pair(self, account: int = ADA, name: str = "Ada") -> None:
        """Pair an account, as a person does."""
        made = await self.host.pair(PHONE, name)
        before = len(self.chat.shown_to(account))
        self.chat.write(account, f"/start {made.code}")
        await self.until(lambda: len(self.chat.shown_to(account)) > before)

    async def publish(self, number: int = 1, **payload: Any) -> None:
        """Let a letter come in."""
        letter = {**LETTER, **payload}
        message = {"message_id": f"letter {number}", "title": f"Letter {number}"}
        await self.host.publish("letters", "letter", **message, payload=letter)

    async def asked(self) -> dict[str, str]:
        """Pair an account, let a letter come, and return the buttons of the question."""
        await self.pair()
        await self.publish()
        buttons = self.chat.buttons(await self.question())
        # A host that is closed before it has heard that the message arrived asks again (law 2).
        look = partial(list_open_slips, channel=PHONE, limit=1)
        while (await self.host._desk().look(look))[0].status is not SlipStatus.ASKED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return buttons

    async def question(self, account: int = ADA, count: int = 1) -> dict[str, Any]:
        """Wait for so many questions; return that one."""
        await self.until(lambda: len(self.questions(account)) >= count)
        return self.questions(account)[count - 1]

    async def press(self, data: Any, account: int = ADA) -> str:
        """Press a button; return what is said to that."""
        press = f"press of {account} {len(self.chat.answers)} {id(data)}"
        self.chat.press(account, data, press=press)
        await self.until(lambda: press in dict(self.chat.answers))
        return dict(self.chat.answers)[press]

    def questions(self, account: int = ADA) -> list[dict[str, Any]]:
        """Return what an account was asked, also what was decided since."""
        found = self.chat.shown_to(account)
        return [each for each in found if "may this be sent?" in each["first_text"]]

    async def edited(self, count: int) -> None:
        """Wait until so many messages were edited."""
        await self.until(lambda: len(self.chat.edits) >= count)

    async def until(self, is_so: Callable[[], Any]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(WAIT_S):
            while not is_so():  # noqa: ASYNC110  # what a server saw is no event of ours
                await asyncio.sleep(0.01)


@asynccontextmanager
async def phone(folder: Path, url: str) -> AsyncIterator[Phone]:
    """Open the stand, with a host that is prepared and not open."""
    (folder / "chat").mkdir()
    with ChatServer(folder / "chat") as chat:
        stand = Phone(folder, chat, url)
        await stand.prepare()
        yield stand
