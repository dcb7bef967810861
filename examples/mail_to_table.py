"""Mail to table: every new mail becomes one row of a table, once."""

from duly import workflow

TABLE = "S1"

flow = workflow("mail-to-table", topics=["mail.received", "row.added"])


def describe(mail):
    return f'Mail from {mail["from"]}: "{mail["subject"]}"'


@flow.producer(every="5m", publishes=["mail.received"])
async def poll(ctx, state):
    cursor = (state or {}).get("cursor")
    # Only the first look asks for an age: later ones begin where the one before ended.
    mails = await ctx.gmail.search(query="" if cursor else "newer_than:1d", after=cursor)
    for mail in mails["items"]:
        await ctx.publish(
            "mail.received",
            message_id=mail["id"],
            title=describe(mail),
            payload={"id": mail["id"], "from": mail["from"], "subject": mail["subject"]},
        )
    return {"cursor": mails["last_cursor"]}


@flow.consumer("mail.received", publishes=["row.added"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail.received", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]
        return {
            "reservations": [{"topic": "mail.received", "ids": [mail["message_id"]]}],
            "data": mail["payload"],
            "ui": {"title": f"Add a row for {mail['payload']['from']}"},
        }

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.sheets.append_row(spreadsheet_id=TABLE, values=[mail["from"], mail["subject"]])

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "row.added",
            message_id=f"row:{prepared['data']['id']}",
            title=f"Row for {describe(prepared['data'])}",
            payload={"row": result["result"]},
        )
