"""A desk: every mail becomes one row of a database, one answer and one message, each once."""

from duly import workflow

flow = workflow("mail-desk", topics=["mail.received", "row.added", "mail.answered"])


@flow.producer(every="1s", publishes=["mail.received"])
async def look(ctx, state):
    cursor = (state or {}).get("cursor")
    # Only the first look asks for an age: later ones begin where the one before ended.
    mails = await ctx.mail.search(query="" if cursor else "newer_than:1d", after=cursor)
    for mail in mails["items"]:
        title = f'Mail from {mail["from"]}: "{mail["subject"]}"'
        await ctx.publish("mail.received", message_id=mail["id"], title=title, payload=mail)
    return {"cursor": mails["last_cursor"]}


def chosen(topic, events, verb):
    data = events[0]["payload"] if events else {}
    return {
        "reservations": [{"topic": topic, "ids": [each["message_id"] for each in events]}],
        "data": data,
        "ui": {"title": f"{verb} {data.get('from')}"},
    }


@flow.consumer("mail.received", publishes=["row.added"])
class file:
    async def prepare(self, ctx, state):
        events = await ctx.peek("mail.received", limit=1)
        return chosen("mail.received", events, "Add a row for")

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.books.add_mail(id=mail["id"], sender=mail["from"], subject=mail["subject"])

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            mail = prepared["data"]
            title = f"A row for {mail['from']}"
            await ctx.publish("row.added", message_id=mail["id"], title=title, payload=mail)


@flow.consumer("row.added", publishes=["mail.answered"])
class answer:
    async def prepare(self, ctx, state):
        return chosen("row.added", await ctx.peek("row.added", limit=1), "Answer")

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        await ctx.mail.send(
            to=[mail["from"]],
            subject=f"Re: {mail['subject']}",
            text="Thank you, it is filed.",
            reply_to=mail["message_id"],
        )

    async def next(self, ctx, prepared, result, state):
        if result["status"] == "applied":
            mail = prepared["data"]
            title = f"An answer to {mail['from']}"
            await ctx.publish("mail.answered", message_id=mail["id"], title=title, payload=mail)


@flow.consumer("mail.answered")
class tell:
    async def prepare(self, ctx, state):
        return chosen("mail.answered", await ctx.peek("mail.answered", limit=1), "Tell of")

    async def mutate(self, ctx, prepared):
        mail = prepared["data"]
        data = {"id": mail["id"], "subject": mail["subject"]}
        await ctx.chat.send(event="mail.answered", data=data)
