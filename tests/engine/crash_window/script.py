"""The workflow of these tests, in both languages: a mail becomes a row, and `next` says so."""

from __future__ import annotations

from typing import Final

import duly

INBOX: Final = "mail.received"
WRITTEN: Final = "row.written"

JAVASCRIPT: Final = """
export default Keep.workflow({
  name: "$NAME",
  topics: { "mail.received": { ingress: true }, "row.written": {} },
  consumers: {
    write: Keep.consumer({
      subscribe: ["mail.received"],
      prepare: async (ctx) => {
        const [mail] = await ctx.peek("mail.received", { limit: 1 });
        if (!mail) return { reservations: [], data: {} };
        return {
          reservations: [{ topic: "mail.received", ids: [mail.messageId] }],
          data: { id: mail.messageId },
          ui: { title: `Write a row for ${mail.title}` },
        };
      },
      mutate: async (ctx, prepared) => {
        await ctx.book.$TOOL({ row: prepared.data.id });
      },
      next: async (ctx, prepared, result) => {
        if (result.status === "none") return;
        await ctx.publish("row.written", {
          messageId: `row:${prepared.data.id}`,
          title: `Row for ${prepared.data.id}`,
          payload: { status: result.status },
        });
      },
    }),
  },
});
"""

PYTHON: Final = """
from duly import workflow

flow = workflow("$NAME", topics={"mail.received": {"ingress": True}, "row.written": {}})


@flow.consumer("mail.received")
class write:
    async def prepare(self, ctx, state):
        mails = await ctx.peek("mail.received", limit=1)
        if not mails:
            return {"reservations": [], "data": {}}
        mail = mails[0]
        return {
            "reservations": [{"topic": "mail.received", "ids": [mail["message_id"]]}],
            "data": {"id": mail["message_id"]},
            "ui": {"title": f'Write a row for {mail["title"]}'},
        }

    async def mutate(self, ctx, prepared):
        await ctx.book.$TOOL(row=prepared["data"]["id"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "none":
            return
        await ctx.publish(
            "row.written",
            message_id=f'row:{prepared["data"]["id"]}',
            title=f'Row for {prepared["data"]["id"]}',
            payload={"status": result["status"]},
        )
"""

TEXTS: Final = {"javascript": JAVASCRIPT, "python": PYTHON}


def source(language: str, *, name: str, tool: str) -> duly.Source:
    """Write the workflow in a language, for a tool of the book."""
    text = TEXTS[language].replace("$NAME", name).replace("$TOOL", tool)
    return duly.Source(language, text, name)  # type: ignore[arg-type]  # its word is enough
