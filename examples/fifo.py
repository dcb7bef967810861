"""First in, first out: tickets are filed one by one, in the order in which they came.

Every file in inbox/ is a ticket; every ticket becomes a row of the table `tickets`.
"""

from duly import workflow

flow = workflow("fifo", topics={"ticket.opened": {"ingress": True}, "ticket.filed": {}})


@flow.producer(every="1m", publishes=["ticket.opened"])
async def look(ctx, state):
    page = await ctx.inbox.search(pattern="*.txt", after=(state or {}).get("cursor"))
    for found in page["items"]:
        name = found["path"].removesuffix(".txt")
        ticket = await ctx.inbox.read(path=found["path"])
        text = ticket["text"].strip() if ticket and ticket["text"] else "no text"
        await ctx.publish(
            "ticket.opened", message_id=name, title=f"Ticket {name}", payload={"text": text}
        )
    return {"cursor": page["last_cursor"]}


@flow.consumer("ticket.opened", publishes=["ticket.filed"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("ticket.opened", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        ticket = pending[0]
        return {
            "reservations": [{"topic": "ticket.opened", "ids": [ticket["message_id"]]}],
            "data": {"id": ticket["message_id"], "text": ticket["payload"]["text"]},
            "ui": {"title": f"File ticket {ticket['message_id']}"},
        }

    async def mutate(self, ctx, prepared):
        ticket = prepared["data"]
        row = {"ticket": ticket["id"], "text": ticket["text"]}
        await ctx.table.insert(table="tickets", row=row)

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "ticket.filed",
            message_id=f"filed:{prepared['data']['id']}",
            title=f"Ticket {prepared['data']['id']} is filed",
            payload={"row": result["result"]},
        )
