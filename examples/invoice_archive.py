"""Invoice archive: a PDF that comes by mail is put into a bucket, and its total into a table."""

from duly import workflow

flow = workflow("invoice-archive", topics=["invoice.received", "invoice.archived"])


def find_total(text):
    for line in text.split("\n"):
        if "Total" in line:
            return line.split("Total")[1].strip(" :")
    return "?"


@flow.producer(every="5m", publishes=["invoice.received"])
async def poll(ctx, state):
    cursor = (state or {}).get("cursor")
    mails = await ctx.mail.search(query="subject:invoice", after=cursor)
    for mail in mails["items"]:
        # The bytes stay in the host: `file` is a handle, with name, type, size and digest.
        file = await ctx.mail.attachment(id=mail["id"])
        if file and file["type"] == "application/pdf":
            await ctx.publish(
                "invoice.received",
                message_id=mail["id"],
                title=f"Invoice {file['name']} from {mail['from']}",
                payload={"id": mail["id"], "from": mail["from"], "file": file},
            )
    return {"cursor": mails["last_cursor"]}


@flow.consumer("invoice.received", publishes=["invoice.archived"])
class archive:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("invoice.received", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        invoice = pending[0]
        return {
            "reservations": [{"topic": "invoice.received", "ids": [invoice["message_id"]]}],
            "data": invoice["payload"],
            "ui": {"title": f"Archive {invoice['payload']['file']['name']}"},
        }

    async def mutate(self, ctx, prepared):
        file = prepared["data"]["file"]
        await ctx.archive.put(key=f"{file['blob'][:12]}-{file['name']}", file=file)

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        invoice = prepared["data"]
        await ctx.publish(
            "invoice.archived",
            message_id=invoice["id"],
            title=f"Archived {invoice['file']['name']}",
            payload={**invoice, "key": result["result"]["key"]},
        )


@flow.consumer("invoice.archived")
class book:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("invoice.archived", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        invoice = pending[0]["payload"]
        words = await ctx.documents.pdf_text(file=invoice["file"])
        row = {"from": invoice["from"], "key": invoice["key"], "total": find_total(words["text"])}
        return {
            "reservations": [{"topic": "invoice.archived", "ids": [pending[0]["message_id"]]}],
            "data": {"row": row},
            "ui": {"title": f"Book {row['total']} of {row['from']}"},
        }

    async def mutate(self, ctx, prepared):
        await ctx.books.insert(table="invoices", row=prepared["data"]["row"])
