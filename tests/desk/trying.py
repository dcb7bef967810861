"""The stand of trials: one workflow in both languages, a mailbox, a table, and a host's store."""

from __future__ import annotations

from typing import Any

import duly
from duly.host import Host
from duly.rules.source import Language
from tests.desk import stores

PYTHON = """\
from duly import workflow

flow = workflow("mail-to-row", topics=["mail", "row"])


@flow.producer(every="5m")
async def poll(ctx, state):
    page = await ctx.gmail.search(after=(state or {}).get("cursor", 0))
    for mail in page["items"]:
        await ctx.publish(
            "mail", message_id=mail["id"], title=f"Mail {mail['id']}", payload=mail
        )
    return {"cursor": page["last"]}


@flow.consumer("mail", publishes=["row"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]
        print("looking at", mail["message_id"])
        return {
            "reservations": [{"topic": "mail", "ids": [mail["message_id"]]}],
            "data": mail["payload"],
            "ui": {"title": f"Add a row for {mail['title']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.sheets.append_row(values=[prepared["data"]["id"]])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            row = result["result"]["row"]
            await ctx.publish("row", message_id=f"row:{row}", title=f"Row {row}", payload=row)
"""

JAVASCRIPT = """\
export default Keep.workflow({
  name: "mail-to-row",
  topics: ["mail", "row"],
  producers: {
    poll: {
      schedule: { interval: "5m" },
      handler: async (ctx, state) => {
        const page = await ctx.gmail.search({ after: state ? state.cursor : 0 });
        for (const mail of page) {
          const title = `Mail ${mail.id}`;
          await ctx.publish("mail", { messageId: mail.id, title, payload: mail });
        }
        return { cursor: page.last };
      },
    },
  },
  consumers: {
    file: {
      subscribe: ["mail"],
      publishes: ["row"],
      prepare: async (ctx, state) => {
        const pending = await ctx.peek("mail", { limit: 1 });
        if (pending.length === 0) return { reservations: [], data: {} };
        const mail = pending[0];
        console.log("looking at", mail.messageId);
        return {
          reservations: [{ topic: "mail", ids: [mail.messageId] }],
          data: mail.payload,
          ui: { title: `Add a row for ${mail.title}` },
        };
      },
      mutate: async (ctx, prepared) => {
        await ctx.sheets.appendRow({ values: [prepared.data.id] });
      },
      next: async (ctx, prepared, result, state) => {
        if (result.status === "applied") {
          const row = result.result.row;
          await ctx.publish("row", { messageId: `row:${row}`, title: `Row ${row}`, payload: row });
        }
      },
    },
  },
});
"""
SOURCES = {
    "python": duly.Source(Language.PYTHON, PYTHON),
    "javascript": duly.Source(Language.JAVASCRIPT, JAVASCRIPT),
}
TEXT = SOURCES["python"]


class Gmail(duly.Connector):
    """A mailbox that counts how often it was looked into."""

    name = "gmail"

    def __init__(self, *mails: str) -> None:
        self.mails = mails
        self.asked: list[Any] = []

    @duly.read(capability="gmail.read")
    async def search(self, after: int = 0) -> duly.Page:
        self.asked.append(after)
        items = [{"id": each} for each in self.mails[after:]]
        return duly.Page(items, last=len(self.mails))


class Sheets(duly.Connector):
    """A table that counts every attempt to change it."""

    name = "sheets"

    def __init__(self) -> None:
        self.changes = 0

    @duly.mutation(capability="sheets.append", risk="low", noun="row", lag_s=0)
    async def append_row(self, call: duly.Call, values: list[Any]) -> dict[str, Any]:
        self.changes += 1
        return {"row": self.changes}

    @append_row.reconcile
    async def was_appended(self, call: duly.Call) -> duly.NotApplied:
        self.changes += 1
        return duly.NotApplied()

    @duly.mutation(capability="sheets.all", lag_s=0)
    async def wipe(self, call: duly.Call) -> None:
        self.changes += 1

    @duly.read(capability="sheets.all")
    async def find(self, text: str = "") -> list[str]:
        return [f"{text} {self.secret('token')}"]


class House:
    """A host with a mailbox and a table, and its store."""

    def __init__(self, url: str, *mails: str) -> None:
        self.url = url
        self.gmail = Gmail(*mails)
        self.sheets = Sheets()

    def host(self, **options: Any) -> Host:
        return Host(self.url, connectors=[self.gmail, self.sheets], **options)

    def dump(self) -> dict[str, list[Any]]:
        """Everything that is kept."""
        return stores.dump(self.url)


def edited(old: str, new: str) -> duly.Source:
    assert old in PYTHON, old
    return duly.Source(Language.PYTHON, PYTHON.replace(old, new))
