"""First in, first out: tickets are filed one by one, in the order in which they came."""

from duly import workflow

flow = workflow("fifo", topics={"ticket.opened": {"ingress": True}, "ticket.filed": {}})


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
        await ctx.sheets.append_row(spreadsheet_id="tickets", values=[ticket["id"], ticket["text"]])

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "ticket.filed",
            message_id=f"filed:{prepared['data']['id']}",
            title=f"Ticket {prepared['data']['id']} is filed",
            payload={"row": result["result"]},
        )
