"""Mail to table: every mail in the mailbox becomes one row of the table `mails`, once."""

from duly import workflow

TABLE = "mails"

flow = workflow("mail-to-table", topics=["mail.received", "row.added"])


def describe(mail):
    return f'Mail from {mail["from"]}: "{mail["subject"] or "no subject"}"'


@flow.producer(every="1s", publishes=["mail.received"])
async def poll(ctx, state):
    mails = await ctx.mailbox.search(after=(state or {}).get("cursor"))
    for mail in mails["items"]:
        await ctx.publish(
            "mail.received",
            message_id=mail["id"],
            title=describe(mail),
            payload={key: mail[key] for key in ("id", "file", "from", "subject")},
        )
    return {"cursor": mails["last_cursor"]}


@flow.consumer("mail.received", publishes=["row.added"])
class file:
    async def prepare(self, ctx, state):
        pending = await ctx.peek("mail.received", limit=1)
        if not pending:
            return {"reservations": [], "data": {}}
        mail = pending[0]["payload"]
        return {
            "reservations": [{"topic": "mail.received", "ids": [pending[0]["message_id"]]}],
            "data": mail,
            "ui": {"title": f"Add a row for {mail['file']}"},
        }

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        row = {"mail": mail["file"], "from": mail["from"], "subject": mail["subject"]}
        await ctx.table.insert(table=TABLE, row=row)

    async def next(self, ctx, prepared, result, state):
        if result["status"] != "applied":
            return
        await ctx.publish(
            "row.added",
            message_id=prepared["data"]["id"],
            title=f"Row {result['result']['row']} of {TABLE}",
            payload=result["result"],
        )
