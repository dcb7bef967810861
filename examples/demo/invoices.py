"""Invoices that come by mail: each becomes one row of a table and one reply."""

from duly import workflow

flow = workflow("invoices", topics=["invoice.received", "invoice.filed"])


def find_total(text):
    for line in text.split("\n"):
        if "Total" in line:
            return line.split("Total")[1].strip()
    return "?"


@flow.producer(every="1s", publishes=["invoice.received"])
async def look(ctx, state):
    mails = await ctx.mail.search(after=(state or {}).get("cursor"))
    for mail in mails["items"]:
        title = f"{mail['subject']} from {mail['from']}"
        await ctx.publish("invoice.received", message_id=mail["id"], title=title, payload=mail)
    return {"cursor": mails["last_cursor"]}


@flow.consumer("invoice.received", publishes=["invoice.filed"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("invoice.received", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]["payload"]
        # The bytes stay in the host: `pdf` is a handle, with name, type, size and digest.
        pdf = await ctx.mail.attachment(id=mail["id"])
        words = await ctx.documents.pdf_text(file={**pdf})
        return {
            "reservations": [{"topic": "invoice.received", "ids": [pending[0]["message_id"]]}],
            "data": {**mail, "total": find_total(words["text"])},
            "ui": {"title": f"Add a row for {mail['subject']}"},
        }

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.books.add_invoice(
            mail=mail["message_id"], sender=mail["from"], total=mail["total"]
        )

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            mail = prepared["data"]
            title = f"A row for {mail['subject']}"
            await ctx.publish("invoice.filed", message_id=mail["id"], title=title, payload=mail)


@flow.consumer("invoice.filed")
class reply:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("invoice.filed", limit=1)
        mail = pending[0]["payload"] if pending else {}
        return {
            "reservations": [
                {"topic": "invoice.filed", "ids": [each["message_id"] for each in pending]}
            ],
            "data": mail,
            "ui": {"title": f"Reply to {mail.get('from')}"},
        }

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.mail.send(
            to=[mail["from"]],
            subject=f"Re: {mail['subject']}",
            text=f"Your invoice over {mail['total']} is filed.",
            reply_to=mail["message_id"],
        )
