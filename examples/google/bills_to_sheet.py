"""Bills to sheet: each mail about an invoice becomes a row of a Google sheet, then is archived."""

from duly import workflow

flow = workflow("bills-to-sheet", topics=["bill.received", "bill.booked"])


@flow.producer(every="5m", publishes=["bill.received"])
async def poll(ctx, state):
    cursor = (state or {}).get("cursor")
    mails = await ctx.gmail.search(query="subject:invoice", after=cursor)
    for mail in mails["items"]:
        await ctx.publish(
            "bill.received",
            message_id=mail["id"],
            title=mail["subject"] or "(no subject)",
            payload={"id": mail["id"], "from": mail["from"], "subject": mail["subject"]},
        )
    return {"cursor": mails["last_cursor"]}


@flow.consumer("bill.received", publishes=["bill.booked"])
class book:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("bill.received", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "bill.received", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Book {pending[0]['title']}"},
        }

    async def mutate(self, ctx, prepared):
        bill = prepared["data"]
        await ctx.sheets.append(row={"customer": bill["from"], "subject": bill["subject"]})

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        bill = prepared["data"]
        await ctx.publish(
            "bill.booked", message_id=bill["id"], title=f"Booked {bill['subject']}", payload=bill
        )


@flow.consumer("bill.booked")
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("bill.booked", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        return {
            "reservations": [{"topic": "bill.booked", "ids": [pending[0]["message_id"]]}],
            "data": pending[0]["payload"],
            "ui": {"title": f"Archive {pending[0]['payload']['subject']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.gmail.archive(id=prepared["data"]["id"])
